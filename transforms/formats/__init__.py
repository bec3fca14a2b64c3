"""Bytes of PDF, office, book, notebook and picture files to Markdown; they are read in a process of
their own.
"""
