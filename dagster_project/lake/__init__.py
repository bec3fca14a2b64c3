"""The tables of the lake as Parquet files: written, read, and listed by their footers; not the
published index.
"""
