"""The optional C extensions, each behind a module that says whether it is there."""
