"""The file of synonyms beside the settings file."""

from __future__ import annotations

from pathlib import Path

from transforms.errors import SettingsError
from transforms.text.synonyms import rules

_NAME = "synonyms.txt"


def synonyms_in(folder: Path) -> str:
    """What the file of synonyms in a folder holds, nothing without one; SettingsError for a line that is no rule."""
    path = folder / _NAME
    try:
        text = path.read_text(encoding="utf-8-sig") if path.is_file() else ""
        rules(text)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: {error}") from error
    return text
