"""Options of a conversion: their table, kinds and texts; config files."""
