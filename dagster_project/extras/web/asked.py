"""What a request asks for: a query with its filters, as the parameters of its address say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from dagster_project.extras.web.addresses import with_parameters
from dagster_project.index.search.filters import Filters
from transforms.errors import QueryError, shortened
from transforms.retrieval.query_fields import HAS, KINDS
from transforms.retrieval.query_language import storable

FILTERS = ("source", "list", "from", "kind", "has", "path", "tag", "since", "until")
"""Parameters that filter; they are named as the options of `weft search`."""
MAX_START = 90
"""First hit of the last page: searches rank a hundred."""


@dataclass(frozen=True)
class Asked:
    """A query, its filters by parameter, the number of the first hit that is shown.

    The query may be `plain` text without syntax; `weak` also shows hits of which none is near.
    """

    query: str
    values: Mapping[str, str]
    start: int = 0
    plain: bool = False
    weak: bool = False

    @property
    def is_empty(self) -> bool:
        """True if nothing is asked for."""
        return not self.query and not self.values

    @property
    def filters(self) -> Filters:
        """The filters of a search; QueryError if one has a value that it cannot have."""
        values = self.values
        for name, known in (("kind", KINDS), ("has", HAS)):
            if name in values and values[name] not in known:
                raise QueryError(f"{name} takes {', '.join(known)}, not {shortened(values[name])!r}")
        return Filters(
            list_id=values.get("list"),
            source=values.get("source"),
            kind=values.get("kind"),
            since=_midnight("since", values.get("since")),
            until=_midnight("until", values.get("until")),
            author=values.get("from"),
            path=values.get("path"),
            tag=values.get("tag"),
            has=values.get("has"),
        )

    def address(self, path: str = "/", **changes: str | int | None) -> str:
        """The address that asks the same with some parameters changed; without them the first page."""
        values = {"q": self.query, **self.values, **changes}
        values |= {name: "1" for name, is_set in (("plain", self.plain), ("weak", self.weak)) if is_set}
        return with_parameters(path, values)

    def filtered(self, name: str, value: str | None) -> str:
        """The address that asks the same with a filter of that name and value; with None without one."""
        values = {n: v for n, v in self.values.items() if n != name} | ({name: value} if value else {})
        return replace(self, values=values).address()


def asked(parameters: Mapping[str, str]) -> Asked:
    """What the parameters of an address ask for."""
    values = {name: storable(parameters[name]).strip() for name in FILTERS if name in parameters}
    start = parameters.get("start", "")
    return Asked(
        storable(parameters.get("q", "")).strip(),
        {name: value for name, value in values.items() if value},
        min(int(start), MAX_START) if start.isascii() and start.isdigit() and len(start) < 4 else 0,
        parameters.get("plain") == "1",
        parameters.get("weak") == "1",
    )


def _midnight(name: str, day: str | None) -> datetime | None:
    if day is None:
        return None
    try:
        found = date.fromisoformat(day)
    except ValueError as error:
        raise QueryError(f"{name} takes a day such as 2024-05-17, not {shortened(day)!r}") from error
    return datetime(found.year, found.month, found.day, tzinfo=UTC)
