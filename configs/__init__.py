"""Configs: presets of options, one YAML file each; read by `packer.settings.configfile`."""
