"""What hits must satisfy, as a mask on the chunks of a published index that is applied before candidates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars as pl

from dagster_project.resources.arrays.arrays import SearchArrays, id_hash
from dagster_project.resources.search.condition_sql import CHUNKS_OF, DATED, HAS, NAMES, STATEMENTS
from dagster_project.resources.search.people import MAILS, People
from dagster_project.resources.search.text_conditions import TextConditions
from transforms.errors import QueryError, QuerySyntaxError, shortened
from transforms.retrieval import collapse
from transforms.retrieval.query_language import (
    MAX_CONDITION_WORDS,
    META,
    TEXT_FIELDS,
    Both,
    Condition,
    Either,
    Leaf,
    Negation,
    Query,
    bounded,
    leaves_of,
    parsed_query,
    time_span,
)
from transforms.settings.search import TermSettings
from transforms.text.properties import documents_with


@dataclass(frozen=True)
class Filters:
    """What hits must satisfy, beside the conditions of their query; all that are set must hold.

    `kind` is `message`, `attachment`, `document` or `conversation`, `has` is `patch` or `attachment`.
    The time of a document is the one its frontmatter gives; one without is in no span of time.
    `list_id`, `source`, `author`, `path`, `tag` and `series` are understood as the query language
    understands l:, source:, f:, path:, tag: and series:.
    """

    list_id: str | None = None
    source: str | None = None
    kind: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    author: str | None = None
    path: str | None = None
    tag: str | None = None
    has: str | None = None
    series: str | None = None

    @property
    def conditions(self) -> list[Leaf]:
        """The filters as conditions of the query language; those on time are not among them.

        QueryError if one is too long.
        """
        values = {
            "l": self.list_id,
            "source": self.source,
            "kind": self.kind,
            "f": self.author,
            "path": self.path,
            "tag": self.tag,
            "has": self.has,
            "series": self.series,
        }
        filters = {name: value for name, value in values.items() if value is not None}
        return [Leaf(name, bounded(value, f"the filter {name}:")) for name, value in filters.items()]


def where_conditions(where: str) -> tuple[Condition, ...]:
    """The conditions of a text that holds nothing else; QueryError if a part of it would rank."""
    if not where.strip():
        return ()
    query = parsed_query(where)
    if query.text or not query.conditions:
        raise QueryError(
            f"{shortened(where)!r} is to hold conditions alone, as `source:notes OR kind:message`, not words to look for"
        )
    return query.conditions


class Understood(NamedTuple):
    """How a query was understood: what ranks, and each condition with the chunks that meet it alone.

    `order` is score, newest (nothing ranks) or id (the query is one); `note` says what was tried in vain. Where the hits
    are not shown, as none is near, `nearest` is the title and id of the first, and `meant` are words of the index in place
    of those that no text holds.
    """

    text: str
    conditions: list[dict[str, Any]]
    order: str
    note: str | None
    nearest: str | None = None
    meant: Sequence[str] = ()


class Resolved(NamedTuple):
    """A query on one index: the text that ranks, the chunks that are allowed, how it was understood.

    Without a text the hits are the chunks of `listed`: none if that is null.
    """

    text: str
    mask: np.ndarray | None
    understood: Understood
    listed: np.ndarray | None = None


_MAX_VALUE = 1_000
"""Characters of a name, an id or a path that is looked for: no header line of a mail has more."""


class Conditions:
    """Conditions evaluated on the tables of one published index.

    A condition holds for a mail, document or window as a whole: a phrase may stand in any of its
    chunks, and `-word` leaves out all chunks of a mail that holds the word in one.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, term_settings: TermSettings, arrays: SearchArrays
    ):
        self.connection, self.ids, self.is_mail = connection, arrays.ids, arrays.places.is_mail
        self.document = arrays.places.document
        """Number of the document of each chunk."""
        self.texts = TextConditions(connection, term_settings, arrays.postings)
        self.people = People(connection)

    def mask(self, filters: Filters, conditions: Sequence[Condition] = ()) -> np.ndarray | None:
        """Which chunks meet all filters and conditions, by chunk number; None if there are none.

        Of a document that meets them, the chunks that hold what is looked for in text are allowed;
        all of them if nothing is, or if none of them does.
        """
        return self._mask(filters, [*filters.conditions, *conditions], {})

    def _mask(
        self, filters: Filters, conditions: Sequence[Condition], known: dict[Leaf, np.ndarray]
    ) -> np.ndarray | None:
        """As `mask`; `known` gets, and may have, what is found of each leaf by itself."""
        if not conditions and filters.since is None and filters.until is None:
            return None
        self._look_up(conditions, known)
        met = self._dated(filters.since, filters.until)
        holding = self._nothing
        for condition in conditions:
            met &= self._mask_of(condition, holding, known)
        matching = holding & met
        with_matching = np.zeros(int(self.document.max(initial=-1)) + 1, dtype=bool)
        with_matching[self.document[matching]] = True
        return np.asarray(met & (matching | ~with_matching[self.document]))

    def resolved(self, query: Query, filters: Filters) -> Resolved:
        """What a query asks of this index, beside the filters."""
        known: dict[Leaf, np.ndarray] = {}
        mask = self._mask(filters, [*filters.conditions, *query.conditions], known)
        identified = self._identified(query.identifier, mask)
        counts = [
            {"condition": str(condition), "chunks": int(self._mask_of(condition, self._nothing, known).sum())}
            for condition in query.conditions
        ]
        if len(identified):
            return Resolved("", mask, Understood("", counts, "id", None), identified)
        note = None
        if re.fullmatch(r"<[^\s<>@]+@[^\s<>]+>", query.original.strip()):
            note = f"no mail of the index has the Message-ID {query.original.strip()}; it was searched for as text"
        if mask is not None and not any(map(str.isalnum, query.text)):
            return Resolved(
                "", mask, Understood("", counts, "newest", note), self._by_time[mask[self._by_time]]
            )
        return Resolved(query.text, mask, Understood(query.text, counts, "score", note))

    def listed(self, queries: Sequence[Resolved], limit: int, per_document: int | None) -> pl.DataFrame:
        """The hits of queries that list chunks, `per_document` of a document as in a ranked search: scores are 0.

        Columns are query, rank, chunk_no and the scores of `pipeline.RANKED` that no hit goes without.
        """
        columns = {"query": pl.Int32, "rank": pl.Int32, "chunk_no": pl.Int64}
        scores = ("score", "fused_score", "thread_score", "lexical_score", "vector_score", "support")
        parts = [pl.DataFrame(schema=columns)]
        for number, query in enumerate(queries):
            if query.listed is None:
                continue
            chunks = query.listed
            facts = {"document": self.document[chunks], "is_mail": self.is_mail[chunks]}
            first = pl.DataFrame({"chunk_no": chunks, **facts}).filter(
                collapse.stays(per_document, "document")
            )
            placed = first.head(limit).with_columns(query=number, rank=pl.int_range(1, pl.len() + 1))
            parts.append(placed.select(pl.col(name).cast(kind) for name, kind in columns.items()))
        return pl.concat(parts).with_columns(pl.lit(0.0).alias(name) for name in scores)

    def _identified(self, identifier: str | None, mask: np.ndarray | None) -> np.ndarray:
        """The allowed chunks of what has this id, in the order of the document; none if nothing has."""
        if identifier is None:
            return np.empty(0, dtype=np.int64)
        # Most queries are not ids, which their hashes tell without a scan.
        hashed = np.uint64(id_hash(identifier))
        if np.searchsorted(self.ids, hashed) == np.searchsorted(self.ids, hashed, side="right"):
            return np.empty(0, dtype=np.int64)
        rows = self.connection.execute(
            "SELECT chunk_no FROM chunks WHERE doc_id = $id OR chunk_id = $id OR parent_id = $id "
            "AND source_kind = 'document' ORDER BY attachment_id IS NOT NULL, attachment_id, chunk_index, chunk_no",
            {"id": identifier},
        ).fetchall()
        chunks = np.array([number for (number,) in rows], dtype=np.int64)
        return chunks if mask is None else chunks[mask[chunks]]

    @cached_property
    def _by_time(self) -> np.ndarray:
        """All chunks, those of the newest document first; what has no time is last."""
        rows = self.connection.execute(
            f"SELECT chunk_no FROM chunks LEFT JOIN ({DATED}) USING (doc_id) ORDER BY dated_at DESC NULLS LAST, doc_id, "
            "attachment_id IS NOT NULL, attachment_id, chunk_index, chunk_no"
        ).fetchnumpy()
        return np.asarray(rows["chunk_no"], dtype=np.int64)

    @property
    def _nothing(self) -> np.ndarray:
        """No chunk."""
        return np.zeros(len(self.document), dtype=bool)

    def _look_up(self, conditions: Sequence[Condition], known: dict[Leaf, np.ndarray]) -> None:
        """Find each distinct leaf of some conditions once: of a text field what holds it, of others what meets it."""
        leaves = dict.fromkeys(leaf for condition in conditions for leaf in leaves_of(condition))
        _require_bounded(leaves)
        known |= self.texts.holding(leaf for leaf in leaves if leaf.field in TEXT_FIELDS)
        for leaf in leaves:
            if leaf.field == "d":
                known[leaf] = self._dated(*(time_span(leaf.value) or (None, None)))
            elif leaf.field not in TEXT_FIELDS:
                known[leaf] = self._with_value(leaf)

    def _mask_of(
        self, condition: Condition, holding: np.ndarray, known: Mapping[Leaf, np.ndarray]
    ) -> np.ndarray:
        """Which chunks meet a condition of `known` leaves; those that hold a text it looks for are added to `holding`."""
        if isinstance(condition, Negation):
            return ~self._mask_of(condition.part, self._nothing, known)
        if isinstance(condition, Both):
            return np.logical_and.reduce([self._mask_of(part, holding, known) for part in condition.parts])
        if isinstance(condition, Either):
            return np.logical_or.reduce([self._mask_of(part, holding, known) for part in condition.parts])
        chunks = known[condition]
        if condition.field not in TEXT_FIELDS:
            return chunks
        holding |= chunks
        documents = np.zeros(int(self.document.max(initial=-1)) + 1, dtype=bool)
        documents[self.document[chunks]] = True
        return documents[self.document]

    def _with_value(self, leaf: Leaf) -> np.ndarray:
        """The chunks whose mail, document or own row has the value of a leaf."""
        if leaf.field in NAMES:
            return self._numbered(STATEMENTS[leaf.field], names=self._names(leaf))
        if leaf.field.startswith(META):
            return self._numbered(CHUNKS_OF.format("SELECT unnest($names)"), names=self._with_metadata(leaf))
        if leaf.field == "has":
            return self._numbered(HAS[leaf.value])
        if leaf.field in MAILS:
            named = self.people.named(leaf.value)
            return self._numbered(CHUNKS_OF.format(MAILS[leaf.field]), **named._asdict())
        if leaf.field == "path":
            path = _wildcards(leaf.value.strip("/"))
            return self._numbered(STATEMENTS["path"], path=rf"(?s)^(?:.*/)?{path}(?:[/.].*)?$")
        bare = leaf.value if leaf.field == "kind" else leaf.value.removeprefix("<").removesuffix(">")
        return self._numbered(STATEMENTS[leaf.field], value=bare)

    def _with_metadata(self, leaf: Leaf) -> list[str]:
        """The documents whose frontmatter has a value; a fault names the known keys if none has the key."""
        rows = self.connection.execute(
            "SELECT doc_id, frontmatter FROM documents WHERE frontmatter <> ''"
        ).fetchall()
        try:
            return documents_with(rows, leaf.field.removeprefix(META), f"(?is)^{_wildcards(leaf.value)}$")
        except KeyError as fault:
            raise _refused(leaf, fault.args[0]) from None

    def _names(self, leaf: Leaf) -> list[str]:
        """The known lists, sources or tags that a value names; a fault names the known ones if it names none.

        Case is ignored, * and ? are wildcards, a tag names those below it, too.
        """
        what, statement = NAMES[leaf.field]
        known = [str(row[0]) for row in self.connection.execute(statement).fetchall()]
        below = "(?:/.*)?" if leaf.field == "tag" else ""
        pattern = f"(?is)^{_wildcards(leaf.value.removeprefix('#'))}{below}$"
        names = pl.Series(known, dtype=pl.String)
        matching = names.filter(names.str.contains(pattern)).to_list()
        if not matching:
            reason = f"no {what} is called {shortened(leaf.value)!r}; the index holds {', '.join(known[:20]) or 'none'}"
            raise _refused(leaf, reason)
        return matching

    def _dated(self, since: datetime | None, until: datetime | None) -> np.ndarray:
        """The chunks of what is from between two times; of everything if both are None."""
        if since is None and until is None:
            return np.ones(len(self.document), dtype=bool)
        return self._numbered(
            f"SELECT chunk_no FROM chunks JOIN ({DATED}) USING (doc_id) "
            "WHERE ($since IS NULL OR dated_at >= $since) AND ($until IS NULL OR dated_at < $until)",
            since=since,
            until=until,
        )

    def _numbered(self, statement: str, **values: Any) -> np.ndarray:
        """The mask of the chunks whose numbers a statement gives."""
        numbers = self.connection.execute(statement, values).fetchnumpy()["chunk_no"]
        mask = self._nothing
        mask[np.asarray(numbers, dtype=np.int64)] = True
        return mask


def _wildcards(value: str) -> str:
    """A pattern that takes * for any characters, ? for one, and all others as they are."""
    return re.sub(r"(?:\\\*)+", ".*", re.escape(value)).replace(r"\?", ".")


def _require_bounded(leaves: Iterable[Leaf]) -> None:
    """QueryError if the leaves have more than MAX_CONDITION_WORDS together, or the value of a field is too long."""
    count = 0
    for leaf in leaves:
        count += len(leaf.value.split())
        if count > MAX_CONDITION_WORDS:
            raise _refused(
                leaf, f"more than {MAX_CONDITION_WORDS} words in conditions and filters: ask with fewer"
            )
        if leaf.field not in TEXT_FIELDS and len(leaf.value) > _MAX_VALUE:
            raise _refused(leaf, f"{leaf.field}: takes at most {_MAX_VALUE:,} characters")


def _refused(leaf: Leaf, reason: str) -> QueryError:
    """The fault at a leaf, which stands in a query or is a filter beside it."""
    return QuerySyntaxError(leaf.query, leaf.position, reason) if leaf.query else QueryError(reason)
