"""The files beside the published file that search maps into memory: how each is written, checked
and opened. No ranking.
"""
