"""Keeping a storage clean: caches, and texts to forget."""
