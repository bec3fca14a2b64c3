"""What is known of a published file without opening it: its name, how the current one is found, its layout."""

from __future__ import annotations

from pathlib import Path

CURRENT = "CURRENT"
"""The link to the current version, in the folder of the published files."""
LAYOUT = "9"
"""Version of the published tables; rows of a file of another layout are not taken over."""


def version_of(file: Path) -> str:
    """The version that a published file holds, by its name."""
    return file.stem.removeprefix("weft-")
