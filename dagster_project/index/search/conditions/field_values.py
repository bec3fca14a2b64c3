"""Which chunks of a published index have the value of a field, and whom a value names: their
addresses or a domain's.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars as pl

from dagster_project.system.sql_files import SqlFile
from transforms.errors import QueryError, QuerySyntaxError, shortened
from transforms.retrieval.query_dates import age, time_span
from transforms.retrieval.query_fields import size
from transforms.retrieval.query_language import META, Leaf
from transforms.retrieval.understanding import keys
from transforms.text import phrases
from transforms.text.properties import documents_with

DATED = """
SELECT message_id AS doc_id, effective_at AS dated_at, effective_at AS ended_at FROM messages
UNION ALL SELECT doc_id, coalesce(modified_at, created_at), coalesce(modified_at, created_at) FROM documents
UNION ALL SELECT doc_id, first_at, last_at FROM conversation_windows
"""
"""The time of every mail, document and window, and that of the last turn of a window."""

_OF_ROWS = ("source", "kind", "l", "tag")
"""The fields by which a ranking elsewhere can restrict a search by itself."""

FIELDS_SQL = SqlFile(__file__, "field_values.sql", dated=DATED)
"""The numbers of the chunks whose field, or field and value, is that of the statement's name."""
_NAMES = {
    "l": (
        "mailing list",
        "SELECT DISTINCT list_id FROM memberships WHERE list_id IS NOT NULL ORDER BY ALL",
    ),
    "source": (
        "source",
        "SELECT source FROM chunks UNION SELECT source FROM memberships ORDER BY ALL",
    ),
    "tag": ("tag", "SELECT DISTINCT unnest(tags) FROM documents ORDER BY ALL"),
    "keyword": ("keyword", "SELECT DISTINCT keyword FROM chunk_keywords ORDER BY ALL"),
    "type": (
        "type",
        "SELECT unnest(string_split(doc_type, ', ')) FROM documents UNION SELECT format FROM documents ORDER BY ALL",
    ),
}


class FieldConditions(NamedTuple):
    """A mask in words: one of the values of each field (`source`, `kind`, `l`, `tag`), and a time
    within a span.
    """

    values: Mapping[str, Sequence[str]]
    since: datetime | None = None
    until: datetime | None = None


class FieldValues:
    """Looks for the values that leaves of fields other than TEXT_FIELDS name."""

    def __init__(self, connection: duckdb.DuckDBPyConnection):
        self.connection, self.people = connection, People(connection)
        tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        self.has_keywords, self.has_classes = (
            (name,) in tables for name in ("chunk_keywords", "chunk_classes")
        )
        self._cache: dict[str, list[str]] = {}

    def chunks(self, leaf: Leaf) -> np.ndarray:
        """The numbers of the chunks whose mail, document or own row has the value of a leaf."""
        if leaf.field == "d":
            return self.dated(*(time_span(leaf.value) or (None, None)))
        if leaf.field in ("newer_than", "older_than"):
            edge = datetime.now(UTC) - (age(leaf.value) or timedelta())
            return self.dated(*((edge, None) if leaf.field == "newer_than" else (None, edge)))
        if not self.has_keywords and leaf.field == "keyword":
            raise refused(leaf, "keyword: the index has no table of keywords")
        if not self.has_classes and leaf.field == "is_code":
            return self._numbers(FIELDS_SQL("is_code_without_classes"), value=leaf.value)
        if leaf.field in _NAMES:
            return self._numbers(FIELDS_SQL(leaf.field), names=self._names(leaf))
        if leaf.field.startswith(META):
            statement = FIELDS_SQL("of_documents", ids="SELECT unnest($names)")
            return self._numbers(statement, names=self._with_metadata(leaf))
        if leaf.field in ("has", "is"):
            return self._numbers(FIELDS_SQL(f"{leaf.field} {leaf.value}"))
        if leaf.field in MAILS:
            statement = FIELDS_SQL("of_documents", ids=MAILS[leaf.field])
            mails = self._numbers(statement, **self.people.named(leaf.value)._asdict())
            speakers = self.people.speaking(leaf.value) if leaf.field == "f" else []
            if not speakers:
                return mails
            return np.append(mails, self._numbers(FIELDS_SQL("spoken_by"), persons=speakers))
        if leaf.field == "path":
            # As whole components, the last with or without its ending. A pattern, unlike GLOB,
            # takes no longer for more wildcards.
            path = _wildcards(leaf.value.strip("/"))
            return self._numbers(FIELDS_SQL("path"), path=rf"(?s)^(?:.*/)?{path}(?:[/.].*)?$")
        if leaf.field == "larger":
            return self._numbers(FIELDS_SQL("larger"), size=size(leaf.value))
        if leaf.field == "sensitivity":
            return self._sensitivity.filter(pl.col("sensitivity") == leaf.value)[
                "chunk_no"
            ].to_numpy()
        bare = (
            leaf.value if leaf.field == "kind" else leaf.value.removeprefix("<").removesuffix(">")
        )
        return self._numbers(FIELDS_SQL(leaf.field), value=bare)

    def lacks(self, leaf: Leaf) -> bool:
        """True if a leaf names a list, source, tag, type, keyword or key of frontmatter that the
        index does not hold.
        """
        is_listed = leaf.field in _NAMES or leaf.field.startswith(META)
        if not is_listed or (leaf.field == "keyword" and not self.has_keywords):
            return False
        try:
            self.chunks(leaf)
        except QueryError:
            return True
        return False

    def named(self, leaf: Leaf) -> list[str] | None:
        """The values of a field of FieldConditions that meet this leaf: a chunk has one of them;
        None for other leaves.
        """
        if leaf.field == "kind":
            return [leaf.value]
        return self._names(leaf) if leaf.field in _OF_ROWS else None

    def has_copies_in(self, sources: Sequence[str]) -> bool:
        """True if a mail is in one of these sources that is published with the copy of another one."""
        rows = self.connection.execute(FIELDS_SQL("copied"), {"names": list(sources)}).fetchall()
        return bool(rows)

    def dated(self, since: datetime | None, until: datetime | None) -> np.ndarray:
        """The chunks of texts from between two times."""
        return self._numbers(FIELDS_SQL("d"), since=since, until=until)

    def preferred(
        self, masked: Callable[[np.ndarray], np.ndarray], statement: str, **values: Any
    ) -> np.ndarray:
        """The mask of the chunks that a statement finds."""
        return masked(self._numbers(FIELDS_SQL(statement), **values))

    @cached_property
    def _sensitivity(self) -> pl.DataFrame:
        """Columns chunk_no and sensitivity of all chunks: public, personal or secret; secret if
        their text is not there.

        All stored texts are read, once for each version that is opened and asked for it.
        """
        from transforms.text.redaction import sensitivity

        schema = {"doc_id": pl.String, "attachment_id": pl.String, "sensitivity": pl.String}
        parts = [pl.DataFrame(schema=schema)]
        for batch in self.connection.execute(_TEXTS).to_arrow_reader(_BATCH):
            texts = pl.DataFrame(pl.from_arrow(batch))
            parts.append(
                texts.select("doc_id", "attachment_id", sensitivity=sensitivity(texts["text"]))
            )
        chunks = pl.DataFrame(self.connection.execute(_CHUNKS).to_arrow_table())
        joined = chunks.join(pl.concat(parts), on=["doc_id", "attachment_id"], how="left")
        return joined.select("chunk_no", pl.col("sensitivity").fill_null("secret"))

    def _numbers(self, statement: str, **values: Any) -> np.ndarray:
        numbers = self.connection.execute(statement, values).fetchnumpy()["chunk_no"]
        return np.asarray(numbers, dtype=np.int64)

    def _with_metadata(self, leaf: Leaf) -> list[str]:
        """The documents whose frontmatter has a value; a fault names the known keys if none has the
        key.
        """
        rows = self.connection.execute(
            "SELECT doc_id, frontmatter FROM documents WHERE frontmatter <> ''"
        ).fetchall()
        try:
            return documents_with(
                rows, leaf.field.removeprefix(META), f"(?is)^{_wildcards(leaf.value)}$"
            )
        except KeyError as fault:
            raise refused(leaf, fault.args[0]) from None

    def _names(self, leaf: Leaf) -> list[str]:
        """The known lists, sources or tags that a value names; a fault names the known ones if it
        names none.

        Case is ignored, * and ? are wildcards, a tag names those below it, too.
        """
        what, statement = _NAMES[leaf.field]
        if leaf.field not in self._cache:
            self._cache[leaf.field] = [
                str(row[0]) for row in self.connection.execute(statement).fetchall()
            ]
        values = self._cache[leaf.field]
        below = "(?:/.*)?" if leaf.field == "tag" else ""
        pattern = f"(?is)^{_wildcards(leaf.value.removeprefix('#'))}{below}$"
        names = pl.Series(values, dtype=pl.String)
        matching = names.filter(names.str.contains(pattern)).to_list()
        if not matching:
            from transforms.text.redaction import sensitivity

            first = names.filter(sensitivity(names) != "secret").head(20).to_list()
            reason = f"no {what} is called {shortened(leaf.value)!r}; the index holds {', '.join(first) or 'none'}"
            raise refused(leaf, reason)
        return matching


def _wildcards(value: str) -> str:
    """A pattern that takes * for any characters, ? for one, and all others as they are."""
    return re.sub(r"(?:\\\*)+", ".*", re.escape(value)).replace(r"\?", ".")


def refused(leaf: Leaf, reason: str) -> QueryError:
    """The fault at a leaf, which is in a query or is a filter beside it."""
    return QuerySyntaxError(leaf.query, leaf.position, reason) if leaf.query else QueryError(reason)


_TEXTS = """
SELECT message_id AS doc_id, '' AS attachment_id, concat_ws(chr(10), subject, body) AS text FROM messages
UNION ALL SELECT message_id, attachment_id, concat_ws(chr(10), filename, text) FROM attachments
UNION ALL SELECT doc_id, '', concat_ws(chr(10), title, text) FROM documents
UNION ALL SELECT doc_id, '', concat_ws(chr(10), title, markdown) FROM conversation_windows
"""
_CHUNKS = "SELECT chunk_no::BIGINT AS chunk_no, doc_id, coalesce(attachment_id, '') AS attachment_id FROM chunks"
_BATCH = 2_000


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
    **{word: _OF_TRAILER.format(word) for word in ("reviewed", "acked", "tested", "reported")},
}
"""The mails that name some people, by the field that asks for it; `reviewed:` and the like look in
trailers of that name.
"""


_WRITERS = """
SELECT DISTINCT person_id, name FROM (
  SELECT person_id, from_name AS name FROM messages
  UNION ALL SELECT person_id, unnest(names) FROM people WHERE mail_count > 0 AND NOT is_shared
) WHERE person_id IS NOT NULL AND name IS NOT NULL AND NOT contains(name, '@') ORDER BY ALL
"""
_SPEAKERS = r"""
SELECT DISTINCT name, name FROM (
  SELECT regexp_extract(text_display, '^(.+), [^,\n]*\n', 1) AS name FROM chunks WHERE chunk_kind = 'turn'
) WHERE name <> '' ORDER BY ALL
"""


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

        A domain, such as example.org, names the addresses in it and below it alone. An address that
        several people share is found by itself, and by a name only with that name.
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
        return Named(
            sorted({*rows["addr"], *by_address["addr"]}), names["name"].unique().sort().to_list()
        )

    def speaking(self, value: str) -> list[str]:
        """The speakers of chats whose name holds the words of `value`."""
        names = pl.Series(sorted(frozenset[str]().union(*self.speakers.values())), dtype=pl.String)
        return names.filter(phrases.holding(names, value)).to_list()

    @cached_property
    def by_words(self) -> dict[str, frozenset[str]]:
        """Writers of mails, as `messages.person_id`, by the words that a question names them with."""
        return self._by_words(_WRITERS)

    @cached_property
    def speakers(self) -> dict[str, frozenset[str]]:
        """Speakers of chats by the words that a question names them with."""
        return self._by_words(_SPEAKERS)

    def _by_words(self, statement: str) -> dict[str, frozenset[str]]:
        result: dict[str, set[str]] = {}
        for person, name in self.connection.execute(statement).fetchall():
            for words in keys(name):
                result.setdefault(words, set()).add(person)
        return {words: frozenset(persons) for words, persons in result.items()}

    @cached_property
    def person_of(self) -> dict[str, str]:
        """The person of each address that several people do not share."""
        return dict(self._addresses.drop_nulls().rows())

    @cached_property
    def _addresses(self) -> pl.DataFrame:
        """Each address with its person, null for one that is shared."""
        statement = "SELECT addr, CASE WHEN NOT is_shared THEN person_id END AS person_id FROM people ORDER BY addr"
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
