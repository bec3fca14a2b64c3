"""Stages: the one way in which tables of the lake become Dagster assets."""
