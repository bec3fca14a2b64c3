"""Sentences as tables of words: their parts, what a source says of each, and which answer a question."""
