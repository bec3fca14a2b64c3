"""Whether what `[index]` names can rank: the published file, or a service of an extra that is there."""

from __future__ import annotations

import re

from dagster_project.extras.registry import rankings
from transforms.settings.operations import OWN_TARGET, IndexSettings


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
