"""Chunks of documents."""
