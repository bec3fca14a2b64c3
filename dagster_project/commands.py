"""Declarations of the commands of `weft`, and how the objects that declarations name are loaded.

This module loads little: each command begins with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from transforms.errors import not_installed

_EXTRAS = f"{__package__}.extras."


@dataclass(frozen=True)
class Command:
    """A command of `weft`: where it is defined (`module:attribute`), its heading in the list, and
    one sentence of help.

    `next` describes it to somebody whose `weft init` added a source, if that is of the kind
    `next_for`. `former` are the names of commands that this one replaced, each with the text to
    type now.
    """

    where: str
    section: str
    help: str
    next: str = ""
    next_for: str = ""
    former: Mapping[str, str] = field(default_factory=dict)


def load(place: str) -> Any:
    """The object at a place of the form `module:attribute`; SettingsError if a package that its
    extra needs is missing.
    """
    module, _, name = place.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if not module.startswith(_EXTRAS):
            raise
        raise not_installed(error, module.split(".")[2]) from error
