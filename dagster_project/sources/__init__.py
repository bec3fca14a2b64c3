"""Readers of the configured sources."""
