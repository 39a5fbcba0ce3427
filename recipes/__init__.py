"""Recipes: what is known of one data set, one YAML file each; read by `packer.recipe`."""
