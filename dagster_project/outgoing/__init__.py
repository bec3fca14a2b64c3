"""Bounds and receipts of texts that leave Weft: masks of secrets, limits of a lens. No answer is
made here.
"""
