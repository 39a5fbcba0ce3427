"""The pictures of the built-in sample, drawn by packer."""
