"""Measures search over a published index."""
