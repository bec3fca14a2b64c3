"""Addresses of the pages, which say all that a page shows, and the query with its filters that one
asks for.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any
from urllib.parse import quote, urlencode

from transforms.retrieval.search_filters import SEARCH_FILTERS, Filters, read_filters
from transforms.text.storable import storable

PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""Ends of the names of pictures that pages show."""
_MEDIA = {
    "img": PICTURES,
    "audio": (".opus", ".ogg", ".oga", ".mp3", ".m4a", ".wav", ".flac"),
    "video": (".mp4", ".m4v", ".mov", ".webm", ".3gp"),
}
CITED = "cited"
"""Fragment of the first cited byte on a page."""
_PAGES = {
    "message": "/m/",
    "document": "/d/",
    "node": "/d/",
    "conversation": "/c/",
    "attachment": "/a/",
    "thread": "/t/",
    "person": "/p/",
    "chunk": "/open/",
    "contents": "/contents/",
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


def file_of(kind: str, id_: str, embeds: str = "", page: int | None = None) -> str:
    """Where the file of an attachment or document is, a picture that it embeds, or a page of a PDF
    as a picture.

    >>> file_of("document", "notes:a b.md", "x.png")
    '/document-file/notes%3Aa%20b.md?embeds=x.png'
    """
    address = ("/file/" if kind == "attachment" else "/document-file/") + quote(id_, safe="")
    return with_parameters(address, {"embeds": embeds, "page": page})


def medium_of(name: str | None) -> str | None:
    """The element that shows a file of that name, `img`, `audio` or `video`; None for other files.

    >>> medium_of("PTT-1.opus"), medium_of("a.svg")
    ('audio', None)
    """
    return next(
        (kind for kind, ends in _MEDIA.items() if (name or "").lower().endswith(ends)), None
    )


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


_KEY = re.compile(r"[a-z]+|meta\.[\w.-]+")


def condition(field: str, value: str) -> str | None:
    """A field of the query language with a value as it is; None where the language cannot say that.

    >>> condition("meta.status", "in progress"), condition("type", "a*")
    ('meta.status:"in progress"', None)
    """
    if not _KEY.fullmatch(field) or re.search(r'["*?\\\n\r]', value) or not value.strip():
        return None
    return f"{field}:{value}" if re.fullmatch(r"\w+", value) else f'{field}:"{value.strip()}"'


OPTION = attrgetter("option")
FILTERS = tuple(map(OPTION, SEARCH_FILTERS))
"""Parameters that filter; they are named as the options of `weft search`."""
MAX_START = 90
"""First hit of the last page: searches rank a hundred."""


@dataclass(frozen=True)
class Question:
    """A query, its filters by parameter, the number of the first hit that is shown.

    The query may be `plain` text without syntax; `weak` shows hits even if none is near, `by_date`
    the newest first.
    """

    query: str
    values: Mapping[str, str]
    start: int = 0
    plain: bool = False
    weak: bool = False
    by_date: bool = False

    @property
    def is_empty(self) -> bool:
        """True if there are neither words nor filters."""
        return not self.query and not self.values

    @property
    def filters(self) -> Filters:
        """The filters of a search; QueryError if one has a value that it cannot have."""
        return read_filters(self.values, OPTION)

    def address(self, path: str = "/", **changes: str | int | None) -> str:
        """The address that asks the same with some parameters changed; without them the first page."""
        values: dict[str, object] = {"q": self.query, **self.values}
        is_set = {"plain": self.plain, "weak": self.weak, "by_date": self.by_date}
        return with_parameters(
            path, values | {name: "1" for name in is_set if is_set[name]} | changes
        )

    def filtered(self, name: str, value: str | None) -> str:
        """The address that asks the same with a filter of that name and value; with None without
        one.
        """
        values = {n: v for n, v in self.values.items() if n != name} | (
            {name: value} if value else {}
        )
        return replace(self, values=values).address()


def question_of(parameters: Mapping[str, str]) -> Question:
    """The question that the parameters of an address put."""
    values = {name: storable(parameters[name]).strip() for name in FILTERS if name in parameters}
    start = parameters.get("start", "")
    return Question(
        storable(parameters.get("q", "")).strip(),
        {name: value for name, value in values.items() if value},
        min(int(start), MAX_START) if start.isascii() and start.isdigit() and len(start) < 4 else 0,
        *(parameters.get(name) == "1" for name in ("plain", "weak", "by_date")),
    )
