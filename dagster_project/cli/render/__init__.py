"""Answers as text for people in a terminal; no command, and nothing that reads an index or a file."""
