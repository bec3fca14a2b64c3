"""Reads the published index: hits, texts, context."""
