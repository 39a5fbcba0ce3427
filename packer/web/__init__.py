"""Download files, and resume interrupted downloads."""
