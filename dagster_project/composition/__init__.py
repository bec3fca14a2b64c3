"""Settings in; the wired lake, sources, models, index and resources of Dagster out. No decision
about data belongs here.
"""
