"""Addresses of the pages: every one is permanent and says all that it shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

CITED = "cited"
"""Fragment of the first cited byte on a page."""
_PAGES = {
    "message": "/m/",
    "document": "/d/",
    "node": "/d/",
    "conversation": "/c/",
    "attachment": "/a/",
    "thread": "/t/",
    "chunk": "/open/",
}


def page_of(kind: str, id_: str, byte_start: int | None = None, byte_end: int | None = None) -> str:
    """The page that shows a thing of the index, at its bytes if these are given.

    >>> page_of("message", "a/b@c", 3, 9)
    '/m/a%2Fb%40c?bytes=3-9#cited'
    >>> page_of("node", "docs:faq.md#torn-records")
    '/d/docs%3Afaq.md#torn-records'
    """
    slug = ""
    if kind == "node":
        id_, _, slug = id_.partition("#")
    address = _PAGES[kind] + quote(id_, safe="")
    if byte_start is not None and byte_end is not None:
        return f"{address}?bytes={byte_start}-{byte_end}#{CITED}"
    return f"{address}#{quote(slug)}" if slug else address


def page_of_hit(hit: Mapping[str, Any]) -> str:
    """The page of a row of `schemas.SEARCH_HITS`, at its bytes."""
    kind, id_ = hit["source_kind"], hit["doc_id"]
    if hit["attachment_id"]:
        kind, id_ = "attachment", hit["attachment_id"]
    return page_of(kind, id_, hit["byte_start"], hit["byte_end"])


def with_parameters(path: str, values: Mapping[str, object]) -> str:
    """A path with those parameters that have a value."""
    present = {name: str(value) for name, value in values.items() if value not in (None, "", False)}
    return f"{path}?{urlencode(present)}" if present else path
