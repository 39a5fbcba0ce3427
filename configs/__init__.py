"""Configs: presets of options, one YAML file each; read by `packer.configfile`."""
