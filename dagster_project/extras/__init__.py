"""Extras: additions to the core, one folder each; only `registry.py` finds and names those that are there."""
