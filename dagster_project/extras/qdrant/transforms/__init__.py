"""Vectors of a collection: numbers for terms, and weights that a product sums up."""
