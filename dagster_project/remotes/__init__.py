"""Copies of remote git repositories and HTTP archives in the folder of a source; `sources` reads
them.
"""
