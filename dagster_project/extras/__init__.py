"""Extras: additions to the core, one folder each; only `extensions.py` finds those that
are there.
"""
