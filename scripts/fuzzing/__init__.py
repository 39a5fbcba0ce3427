"""Parts of fuzz.py."""
