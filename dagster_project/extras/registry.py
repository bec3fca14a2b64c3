"""The registry of extras: finds the folders that are there, and says what each adds to the core.

This is the one module through which the core meets an extra. It imports nothing of Weft, so that any module may ask it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules


@dataclass(frozen=True)
class Command:
    """A command of `weft`: where it is defined (`module:attribute`), its heading in the list, and one sentence of help."""

    where: str
    section: str
    help: str


@dataclass(frozen=True)
class Extra:
    """What a folder of extras adds; its `__init__.py` assigns one to `EXTRA` and imports nothing that is slow to load."""

    commands: Mapping[str, Command] = field(default_factory=dict)
    """By their names."""


@cache
def extras() -> tuple[Extra, ...]:
    """The extras that are there, by the names of their folders."""
    folders = sorted(module.name for module in iter_modules([str(Path(__file__).parent)]) if module.ispkg)
    return tuple(import_module(f"{__package__}.{folder}").EXTRA for folder in folders)
