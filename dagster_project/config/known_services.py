"""Additions of extras to the settings file: their own sections, and names that `[index]` and
`[engine]` may have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import create_model

from dagster_project.extensions import offered, ranking_at, sections
from transforms.settings.base import StageSettings
from transforms.settings.operations import OWN_ENGINE, OWN_TARGET, EngineSettings, IndexSettings

_Section = TypeVar("_Section", bound=StageSettings)
if TYPE_CHECKING:

    class _Sections(StageSettings): ...
else:
    _Sections = create_model(
        "_Sections",
        __base__=StageSettings,
        **{name: (model, model()) for name, model in sections().items()},
    )


_FORMATS = ("auto", "whatsapp", "slack", "discord", "telegram", "mbox", "table", *offered("chats"))
FORMATS = ", ".join(f"`{name}`" for name in _FORMATS)
"""The formats of chats that are read, for people."""


class AddedSections(_Sections):
    """The sections that extras add, each with its default."""

    def section(self, model: type[_Section]) -> _Section:
        """The section of that model."""
        return next(value for _, value in self if isinstance(value, model))


def known_format(name: str) -> str:
    """`name`, if it is a format of chats that Weft or an extra reads; ValueError if not."""
    if name not in _FORMATS:
        raise ValueError(f"no format of chats is called {name!r}; known are {FORMATS}")
    return name


def known_target(index: IndexSettings) -> IndexSettings:
    """The section as it is; ValueError for a target that nobody offers."""
    if index.target != OWN_TARGET and not ranking_at(index.target):
        known = [
            f"{name} by its address, as {offer.example}"
            for name, offer in offered("rankings").items()
        ]
        raise ValueError(
            f"nothing ranks by the target {index.target!r}; known are {'; '.join([OWN_TARGET, *known])}"
        )
    return index


def known_engine(engine: EngineSettings) -> EngineSettings:
    """The section as it is; ValueError for an engine that nobody offers."""
    kinds = [OWN_ENGINE, *offered("engines")]
    if engine.kind not in kinds:
        raise ValueError(f"no engine is called {engine.kind!r}; known are {', '.join(kinds)}")
    return engine
