"""Texts around hits that the query did not find: one step away from each, and no longer than the
settings say.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dagster_project.index.search.opened_version import OpenedVersion
from dagster_project.outgoing.screen import Screen
from dagster_project.system.sql_files import SqlFile
from transforms.retrieval.citations import cited
from transforms.settings.search import SearchSettings

_SQL = SqlFile(__file__, "expansions.sql")
_LINKS = 3
"""Links of a hit that are followed, one step."""


def expansions(
    version: OpenedVersion, hits: Sequence[Mapping[str, Any]], settings: SearchSettings
) -> list[list[dict[str, Any]]]:
    """The expansions of each hit, kinds in the order of `settings.expand`; `text` holds the cited
    bytes.

    parent: the mail that is answered, from its first authored byte. previous, next: the chunks
    beside it. section: the section of a document or the mail around a hit that is a part of it.
    link: the targets of the mail, the section or the document.
    """
    by_hit: list[list[dict[str, Any]]] = [[] for _ in hits]
    keys: dict[str, object] = {
        "chunk_ids": [hit["chunk_id"] for hit in hits],
        "node_ids": [hit["node_id"] for hit in hits],
    }
    for kind in settings.expand:
        most: dict[str, object] = {"most": _LINKS} if kind == "links" else {}
        for row in version.ask(_SQL(kind), keys | most).to_pylist():
            by_hit[row.pop("hit")].append(_bounded(row, settings.expand_chars, version.screen))
    return by_hit


def _bounded(expansion: dict[str, Any], chars: int, screen: Screen) -> dict[str, Any]:
    """An expansion with at most `chars` characters of its stored text, and the bytes that these
    are.
    """
    data = expansion.pop("stored").encode()
    start, end = expansion.pop("first"), expansion.pop("last")
    text = data[start:end].decode(errors="replace")[:chars]
    end = start + len(text.encode())
    place = expansion.pop("place")
    return {
        **expansion,
        "citation": cited(place, start, end),
        "byte_start": start,
        "byte_end": end,
        "text": screen.text(text),
    }
