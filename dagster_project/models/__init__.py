"""Embedding and language models, and the caches of their answers."""
