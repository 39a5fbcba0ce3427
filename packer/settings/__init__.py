"""What a user can ask of a conversion: options, their texts, config files."""
