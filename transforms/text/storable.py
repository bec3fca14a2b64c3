"""Texts that tables and UTF-8 can hold."""


def storable(text: str) -> str:
    """The text with ? for lone surrogates, which no table can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
