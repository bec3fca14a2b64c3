"""Whom a value of a query names: all addresses of the people it fits, or those of a domain."""

import re
from functools import cached_property
from typing import NamedTuple

import duckdb
import polars as pl

from transforms.retrieval.circumstances import keys
from transforms.text import phrases

TRAILERS = {"reviewed", "acked", "tested", "reported"}
"""Fields of a query that look for people in the trailers of that name, as `reviewed:` in Reviewed-by."""
_DOMAIN = re.compile(r"@?((?:[\w-]+\.)+[^\W\d_]{2,})")
_NAMED_BY = "SELECT message_id FROM messages WHERE list_has_any({0}_addrs, $addresses) OR list_has_any({0}_names, $names)"
_OF_TRAILER = (
    "SELECT message_id FROM trailers WHERE contains(kind, '{0}') "
    "AND (addr IN (SELECT unnest($addresses)) OR name IN (SELECT unnest($names)))"
)
MAILS = {
    "f": "SELECT message_id FROM messages "
    "WHERE from_addr IN (SELECT unnest($addresses)) OR from_name IN (SELECT unnest($names))",
    "to": _NAMED_BY.format("to"),
    "cc": _NAMED_BY.format("cc"),
    **{word: _OF_TRAILER.format(word) for word in TRAILERS},
}
"""The mails that name some people, by the field that asks for it."""


class Named(NamedTuple):
    """Addresses of people, and names that stand without an address of theirs alone."""

    addresses: list[str]
    names: list[str]


class People:
    """The people of one published index."""

    def __init__(self, connection: duckdb.DuckDBPyConnection):
        self.connection = connection

    def named(self, value: str) -> Named:
        """All addresses of the people whose name or address holds the words of `value`.

        A domain, such as example.org, names the addresses in it and below it alone. An address that several people
        share is found by itself, and by a name only with that name.
        """
        addresses = self._addresses["addr"]
        if domain := _DOMAIN.fullmatch(value):
            inside = addresses.str.ends_with(f"@{domain[1].lower()}") | addresses.str.ends_with(
                f".{domain[1].lower()}"
            )
            if inside.any():
                return Named(addresses.filter(inside).to_list(), [])
        names = self._names.filter(phrases.holding(self._names["name"], value))
        by_address = self._addresses.filter(phrases.holding(addresses, value))
        of_one = pl.concat([by_address.select("person_id"), names.select("person_id")]).unique()
        rows = self._addresses.join(of_one.drop_nulls(), on="person_id", how="semi")
        return Named(sorted({*rows["addr"], *by_address["addr"]}), names["name"].unique().sort().to_list())

    @cached_property
    def by_words(self) -> dict[str, frozenset[str]]:
        """Names of authors of mails by the words that a question names them with."""
        result: dict[str, set[str]] = {}
        rows = self.connection.execute(
            "SELECT DISTINCT from_name FROM messages WHERE NOT contains(from_name, '@')"
        )
        for (name,) in rows.fetchall():
            for words in keys(name):
                result.setdefault(words, set()).add(name)
        return {words: frozenset(names) for words, names in result.items()}

    @cached_property
    def _addresses(self) -> pl.DataFrame:
        """Each address with its person, null for one that is shared."""
        statement = (
            "SELECT addr, CASE WHEN NOT is_shared THEN person_id END AS person_id FROM people ORDER BY addr"
        )
        return pl.DataFrame(self.connection.execute(statement).to_arrow_table())

    @cached_property
    def _names(self) -> pl.DataFrame:
        """Each name in use with the person, null for one without an address of their own."""
        statement = (
            "SELECT DISTINCT name, CASE WHEN NOT is_shared THEN person_id END AS person_id "
            "FROM (SELECT unnest(names) AS name, person_id, is_shared FROM people "
            "UNION ALL SELECT name, person_id, is_shared FROM people "
            "UNION ALL SELECT from_name, NULL, true FROM messages WHERE from_addr IS NULL "
            "UNION ALL SELECT name, NULL, true FROM trailers WHERE addr IS NULL) WHERE name IS NOT NULL ORDER BY ALL"
        )
        return pl.DataFrame(self.connection.execute(statement).to_arrow_table())
