"""Whether what `[index]` and `[engine]` name is there: Weft's own, or of an extra."""

from __future__ import annotations

import re

from dagster_project.extras.registry import engines, rankings
from transforms.settings.operations import OWN_ENGINE, OWN_TARGET, EngineSettings, IndexSettings


def known_target(index: IndexSettings) -> IndexSettings:
    """The section as it is; ValueError for a target that nobody offers, and for an address that is not one of its kind."""
    if index.target == OWN_TARGET:
        return index
    offers = rankings()
    if index.target not in offers:
        raise ValueError(
            f"nothing ranks by the target {index.target!r}; known are {', '.join([OWN_TARGET, *offers])}"
        )
    offer = offers[index.target]
    if not (index.url and re.fullmatch(offer.url, index.url)):
        raise ValueError(f"{index.target} needs `url`, as {offer.example}")
    return index


def known_engine(engine: EngineSettings) -> EngineSettings:
    """The section as it is; ValueError for an engine that nobody offers."""
    known = [OWN_ENGINE, *engines()]
    if engine.kind not in known:
        raise ValueError(f"no engine is called {engine.kind!r}; known are {', '.join(known)}")
    return engine
