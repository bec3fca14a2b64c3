"""From the files of a configured source to the bytes of its partitions; `transforms` reads the
bytes.
"""
