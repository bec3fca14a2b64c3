"""Writes the published index."""
