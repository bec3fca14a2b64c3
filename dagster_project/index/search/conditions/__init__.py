"""Conditions of a query on a published index: on text, and on values of fields."""
