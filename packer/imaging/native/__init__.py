"""Optional C extensions, each behind a module whose NATIVE states whether it was built."""
