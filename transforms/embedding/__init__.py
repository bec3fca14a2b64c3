"""Texts that are embedded, and the vectors made of them."""
