"""The conditions beside the query of a search: one list, from which commands, pages, /api, tools,
Python and scheduled searches take theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, NamedTuple

from transforms.errors import QueryError, shortened
from transforms.retrieval.query_dates import bound

KINDS = ("message", "attachment", "document", "conversation")
HAS = ("patch", "attachment")


class SearchFilter(NamedTuple):
    """One condition: its name in programs, the field of the query language that says the same
    (none for a day), the words of a help text behind "only", and its values if they are few.

    `option` is its name in commands and addresses. `is_end` is true for a day that is meant up to
    its end.
    """

    name: str
    field: str
    words: str
    option: str
    values: tuple[str, ...] = ()
    is_end: bool = False

    @property
    def is_day(self) -> bool:
        """True for a condition on time."""
        return not self.field


def _filter(words: str, **facts: Any) -> Any:
    """The declaration of a condition that is not set."""
    return field(default=None, metadata={"words": words, **facts})


@dataclass(frozen=True)
class Filters:
    """Filters that hits must meet, beside the conditions of their query; all that are set must
    hold.

    The time of a document is the one its frontmatter gives; one without is in no span of time.
    """

    list: str | None = _filter("mail of this mailing list; * matches any characters", field="l")
    author: str | None = _filter(
        "mail of this author: words of a name, or an address", field="f", option="from"
    )
    path: str | None = _filter(
        "documents and changes of files at this path; * matches any characters"
    )
    tag: str | None = _filter("documents with this tag, or one below it")
    has: str | None = _filter("mail that has one", values=HAS)
    source: str | None = _filter("texts from this source; * matches any characters")
    kind: str | None = _filter("hits of this kind", values=KINDS)
    series: str | None = _filter("patches of this series: its id, or the Message-ID of one")
    since: datetime | None = _filter("texts from this day, month or year on, as 2024-05", field="")
    until: datetime | None = _filter(
        "texts up to the end of this day, month or year", field="", is_end=True
    )


def _declared(name: str, facts: Mapping[str, Any]) -> SearchFilter:
    usual: dict[str, Any] = {"name": name, "field": name, "option": name}
    return SearchFilter(**{**usual, **facts})


SEARCH_FILTERS = tuple(_declared(f.name, f.metadata) for f in fields(Filters))
"""All conditions, in the order in which people meet them."""


def read_filters(
    texts: Mapping[str, str | None],
    name_of: Callable[[SearchFilter], str] = lambda filter_: filter_.name,
) -> Filters:
    """The filters of texts by their names, empty ones aside; QueryError for a name or a value that
    there is not.

    >>> read_filters({"list": "dev", "until": "2024-05"}).until.isoformat()
    '2024-06-01T00:00:00+00:00'
    """
    known = {name_of(filter_): filter_ for filter_ in SEARCH_FILTERS}
    if unknown := sorted({*texts} - {*known}):
        raise QueryError(
            f"a search has no condition {shortened(unknown[0])!r}; it takes {', '.join(known)}"
        )
    return Filters(
        **{known[n].name: _value(n, known[n], text) for n, text in texts.items() if text}
    )


def _value(name: str, filter_: SearchFilter, text: str) -> Any:
    if filter_.values and text not in filter_.values:
        raise QueryError(f"{name} takes {', '.join(filter_.values)}, not {shortened(text)!r}")
    return bound(name, text, is_end=filter_.is_end) if filter_.is_day else text
