"""Parts of the bench scripts."""
