"""Keeping a storage clean: caches, and what is to be forgotten."""
