"""Kinds of chunks that need a rule of their own; this module loads nothing."""

UNAUTHORED = "unauthored_message"
"""The kind of the one chunk of a mail without a word of its author, such as one of quotes alone: it
has no words in the inverted index and no vector, so that no ranking knows of it, and conditions on
text look at its text.
"""
