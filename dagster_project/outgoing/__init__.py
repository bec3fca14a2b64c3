"""Bounds and receipts of what leaves Weft: masks of secrets, limits of a lens. No answer is made here."""
