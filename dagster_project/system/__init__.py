"""The machine: disk, locks, threads, processes, limits, optional packages. Nothing here knows mail,
lake or index.
"""
