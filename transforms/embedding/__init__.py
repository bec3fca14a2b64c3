"""Texts as they are embedded or sent to a model, and arithmetic on vectors; the models are
elsewhere.
"""
