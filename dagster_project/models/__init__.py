"""Models that the settings name or that run on this machine, and caches of vectors and answers; a
service is an extra.
"""
