"""Filters of hits, as a mask on the chunks of a published index that is applied before candidates."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars as pl

from dagster_project.index.files.arrays import SearchArrays
from dagster_project.index.search.conditions.copies import ShownCopies, named_places, shown_copies
from dagster_project.index.search.conditions.field_values import (
    FIELDS_SQL,
    FieldConditions,
    FieldValues,
    refused,
)
from dagster_project.index.search.conditions.languages import document_languages
from dagster_project.index.search.conditions.sensitive import labelled_texts
from dagster_project.index.search.conditions.text_conditions import TextConditions
from dagster_project.index.search.preferences import Preferences
from transforms.errors import QueryError, shortened
from transforms.languages import language_names
from transforms.retrieval import collapse
from transforms.retrieval.query_fields import LABELLED
from transforms.retrieval.query_language import (
    MAX_CONDITION_WORDS,
    TEXT_FIELDS,
    Both,
    Condition,
    Either,
    Leaf,
    Negation,
    Query,
    checked_query,
    leaves_of,
    parsed_query,
)
from transforms.retrieval.search_filters import SEARCH_FILTERS, Filters
from transforms.retrieval.understanding import Understanding, understood
from transforms.settings.search import TermSettings

_TIMES = {"d", "newer_than", "older_than"}
"""Fields of times."""
_MAX_VALUE = 1_000
"""Characters of a name, an id or a path that is looked for: no header line of a mail has more."""


def filter_leaves(filters: Filters) -> list[Leaf]:
    """Filters as conditions of the query language; those on time are not among them.

    QueryError if one is too long.
    """
    values = {f.field: getattr(filters, f.name) for f in SEARCH_FILTERS if not f.is_day}
    return [
        Leaf(name, checked_query(value, f"the filter {name}:"))
        for name, value in values.items()
        if value is not None
    ]


def where_conditions(where: str) -> tuple[Condition, ...]:
    """The conditions of a text that holds nothing else; QueryError if a part of it would rank."""
    if not where.strip():
        return ()
    query = parsed_query(where)
    if query.text or query.patterns or not query.conditions:
        raise QueryError(
            f"{shortened(where)!r} is to hold conditions alone, as `source:notes OR kind:message`, not words to look for"
        )
    return query.conditions


def excluded_leaves(conditions: Iterable[Condition]) -> set[Leaf]:
    """The leaves that conditions name to exclude, and not to include.

    >>> sorted(leaf.value for leaf in excluded_leaves(where_conditions("kind:message -(l:a -l:b) -l:c")))
    ['a', 'c']
    """
    sides: tuple[set[Leaf], set[Leaf]] = set(), set()
    stack = [(condition, 0) for condition in conditions]
    while stack:
        condition, side = stack.pop()
        if isinstance(condition, Leaf):
            sides[side].add(condition)
        elif isinstance(condition, Negation):
            stack.append((condition.part, 1 - side))
        else:
            stack += [(part, side) for part in condition.parts]
    return sides[1] - sides[0]


class Understood(NamedTuple):
    """The reading of a query: the text that ranks, and each condition with the chunks that meet it
    alone.

    `order` is score, newest (nothing ranks) or id (the query is one); `note` names an attempt in
    vain. Where the hits are not shown, as none is near, `nearest` is the title and id of the first,
    and `meant` is at most one text with words of the index in place of all that no text holds. Hits that meet one of
    `lifts` rank higher.
    """

    text: str
    conditions: list[dict[str, Any]]
    order: str
    note: str | None
    nearest: str | None = None
    meant: Sequence[str] = ()
    lifts: Sequence[str] = ()


class Resolved(NamedTuple):
    """A query on one index: the text that ranks, the chunks that are allowed, how it was
    understood.

    Without a text the hits are the chunks of `listed`: none if that is null. With one they follow
    those that rank. Its hits hold a text that the query demands if `demands_text`, and are in one
    of the sources and lists of `places`. `factors` have the weights of some words of the text,
    beside 1. `preferences` is what the text asks for beside its words. `fields` say the same as the mask, if fields can.
    """

    text: str
    mask: np.ndarray | None
    understood: Understood
    listed: np.ndarray | None = None
    factors: Mapping[str, float] = {}
    fields: FieldConditions | None = None
    demands_text: bool = False
    places: Mapping[str, set[str]] = {}
    preferences: Preferences = Preferences()


def demands_text(condition: Condition) -> bool:
    """True if whatever meets the condition holds a text that it names."""
    if isinstance(condition, Leaf):
        return condition.field in TEXT_FIELDS
    if isinstance(condition, Negation):
        return False
    each = map(demands_text, condition.parts)
    return any(each) if isinstance(condition, Both) else all(each)


class Conditions:
    """Conditions evaluated on the tables of one published index.

    A condition on text holds for a mail, a window or a section of a document as a whole: a phrase
    may stand in any of its chunks, and `-word` leaves out all chunks of a mail that holds the word
    in one.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        term_settings: TermSettings,
        arrays: SearchArrays,
        labels: Path | None = None,
    ):
        self.connection, self.ids, self.is_mail = connection, arrays.ids, arrays.places.is_mail
        self.ranked = arrays.postings.ranked
        self.document = arrays.places.document
        """Number of the document of each chunk."""
        self.values = FieldValues(connection)
        self.labels, self.patches = labels, arrays.patches
        self.texts = TextConditions(connection, term_settings, arrays.postings, arrays.rows.of)

    def mask(self, filters: Filters, conditions: Sequence[Condition] = ()) -> np.ndarray | None:
        """True of chunks that meet all filters and conditions, by chunk number; None without
        filters and conditions.

        A mail or section that meets them allows its chunks that hold the text of a condition; all
        of them without such a condition, or if none of them does.
        """
        return self._mask(filters, [*filter_leaves(filters), *conditions], {})

    def shown(
        self,
        conditions: Sequence[Condition],
        may_lack: Callable[..., Iterable[Leaf]] = excluded_leaves,
    ) -> ShownCopies:
        """The copies and chunks that a lens of conditions, none on text, shows; it may exclude a
        name that nothing has.

        QueryError if a name that nothing has is in another leaf than `may_lack` gives; its text
        names known ones.
        """
        masks = {leaf: self._nothing for leaf in may_lack(conditions) if self.values.lacks(leaf)}
        self._look_up(conditions, masks)
        for leaf, chunks in masks.items():
            if leaf.field == "f":
                # A turn is stored with those of the others of its chat, whom the lens does not name.
                masks[leaf] = chunks & self.is_mail

        def met(of_leaves: Mapping[Leaf, np.ndarray]) -> np.ndarray:
            parts = [self._mask_of(condition, self._nothing, of_leaves) for condition in conditions]
            return np.logical_and.reduce(parts or [self._nothing])

        return shown_copies(self.connection, self.values, conditions, masks, met)

    def _mask(
        self, filters: Filters, conditions: Sequence[Condition], masks: dict[Leaf, np.ndarray]
    ) -> np.ndarray | None:
        """As `mask`; `masks` gets, and may have, the mask of each leaf by itself."""
        times = since, until = filters.since, filters.until
        if not conditions and not any(times):
            return None
        if since and until and since >= until:
            raise QueryError(
                f"no day is both since {since:%Y-%m-%d} and before {until:%Y-%m-%d}: exchange the two"
            )
        self._look_up(conditions, masks)
        met = self._masked(self.values.dated(*times) if any(times) else slice(None))
        holding = self._nothing
        for condition in conditions:
            met &= self._mask_of(condition, holding, masks)
        matching = holding & met
        return np.asarray(met & (matching | ~self._whole(matching)))

    def resolved(self, query: Query, filters: Filters) -> Resolved:
        """The query on this index, under the filters."""
        masks: dict[Leaf, np.ndarray] = {}
        conditions = [*filter_leaves(filters), *query.conditions]
        mask = self._mask(filters, conditions, masks)
        places = named_places(conditions, self.values)
        identified = self._identified(query.identifier, mask)
        counts = [
            {
                "condition": str(condition),
                "chunks": int(self._mask_of(condition, self._nothing, masks).sum()),
            }
            for condition in query.conditions
        ]
        if len(identified):
            return Resolved("", mask, Understood("", counts, "id", None), identified, places=places)
        note = None
        if any(times := (filters.since, filters.until)) and not len(self.values.dated(*times)):
            note = "no text of the index is of this time"
        if re.fullmatch(r"<[^\s<>@]+@[^\s<>]+>", query.original.strip()):
            note = f"no mail of the index has the Message-ID {query.original.strip()}; it was searched for as text"
        text, factors = self.texts.ranking(query)
        if mask is not None and not any(map(str.isalnum, text)):
            newest = self._by_time[mask[self._by_time]]
            return Resolved("", mask, Understood("", counts, "newest", note), newest, places=places)
        fields = self._fields(filters, conditions)
        listed = self._unranked(mask, masks)
        demands = any(map(demands_text, query.conditions))
        preferences = self.preferences(replace(query, text=text), conditions)
        wishes = preferences.wishes
        reading = Understood(wishes.rest, counts, "score", note, lifts=wishes.conditions)
        return Resolved(
            wishes.rest, mask, reading, listed, factors, fields, demands, places, preferences
        )

    def preferences(self, query: Query, conditions: Sequence[Condition] = ()) -> Preferences:
        """The preferences of a query beside its words, and the chunks that meet them; nothing that
        conditions say.
        """
        if not query.asks:
            return Preferences(Understanding(query.text))
        leaves = [leaf for condition in conditions for leaf in leaves_of(condition)]
        text, fields, people = query.text, {leaf.field for leaf in leaves}, self.values.people
        for leaf in leaves:
            text = text.replace(leaf.value, f'"{leaf.value}"') if leaf.exact else text
        known = ({}, {}) if "f" in fields else (people.by_words, people.speakers)
        today = None if fields & _TIMES else datetime.now(UTC).date()
        wishes = understood(text, today, *known)
        dated = self._dated(wishes)
        if wishes.spans and (dated is None or not dated.any()):
            # Days of no year, and days that no text of the index is of, are words of texts too.
            wishes = wishes._replace(rest=understood(text, None, *known).rest)
        return self._meeting(wishes, dated) if wishes.prefers else Preferences(wishes)

    def _meeting(self, wishes: Understanding, dated: np.ndarray | None) -> Preferences:
        """The preferences with the chunks that meet them."""
        chunks = partial(self.values.preferred, self._masked)
        by = "spoken_by" if wishes.is_spoken else "written_by"
        is_trailer = wishes.act in ("reviewed", "acked", "tested")
        persons, answered = (
            chunks(statement, persons=sorted(names)) if names else None
            for statement, names in ((by, wishes.persons), ("answering", wishes.answered))
        )
        return Preferences(
            wishes=wishes,
            authored=persons,
            answering=answered,
            dated=dated,
            acting=chunks("with_own_trailer", kind=f"{wishes.act}-by") if is_trailer else None,
            posted=self._posted(wishes.version),
            time=self._time if wishes.order else self._nothing[:0],
        )

    def _posted(self, version: int | None) -> np.ndarray | None:
        """The chunks of patches of a version, 0 for the latest, replies aside."""
        if version is None:
            return None
        patches = self.patches
        return (
            patches.is_latest
            if version == 0
            else (patches.number >= 0) & (patches.version == version)
        )

    def _dated(self, wishes: Understanding) -> np.ndarray | None:
        """The chunks of the days that a query names with their year."""
        spans = [span.times for span in wishes.spans if span.first[0]]
        masks = [self._masked(self.values.dated(*times)) for times in spans]
        return np.logical_or.reduce(masks) if masks else None

    @cached_property
    def _time(self) -> np.ndarray:
        """The place of each chunk in time, the oldest first, and -1 of one without a time."""
        rows = self.connection.execute(FIELDS_SQL("oldest_first")).fetchnumpy()
        place = np.empty(len(rows["chunk_no"]), dtype=np.int64)
        place[rows["chunk_no"]] = np.where(rows["has_time"], np.arange(len(place)), -1)
        return place

    def _fields(self, filters: Filters, conditions: Sequence[Condition]) -> FieldConditions | None:
        """Filters and conditions by fields; None if fields cannot say all of it."""
        values: dict[str, Sequence[str]] = {}
        for condition in conditions:
            if not isinstance(condition, Leaf) or condition.field in values:
                return None
            if (names := self.values.named(condition)) is None:
                return None
            if condition.field == "source" and self.values.has_copies_in(names):
                return None  # a ranking elsewhere has the source of the copy that is published
            values[condition.field] = names
        return FieldConditions(values, filters.since, filters.until)

    def _unranked(
        self, mask: np.ndarray | None, masks: Mapping[Leaf, np.ndarray]
    ) -> np.ndarray | None:
        """The allowed chunks in no ranking that hold a text that is looked for, newest first; None
        if there are none.
        """
        if mask is None or self.ranked.all():
            return None
        holding = np.logical_or.reduce(
            [
                self._nothing,
                *(chunks for leaf, chunks in masks.items() if leaf.field in TEXT_FIELDS),
            ]
        )
        chunks = self._by_time[(mask & holding & ~self.ranked)[self._by_time]]
        return chunks if len(chunks) else None

    def listed(
        self,
        queries: Sequence[Resolved],
        limit: int,
        per_document: int | None,
        before: Mapping[int, int],
    ) -> pl.DataFrame:
        """The hits of queries that list chunks, `per_document` of a document as in a ranked search:
        scores are 0.

        They stand behind the hits that each query has `before` them. Columns are query, rank,
        chunk_no and the scores of `pipeline.RANKED` that no hit goes without.
        """
        columns = {"query": pl.Int32, "rank": pl.Int32, "chunk_no": pl.Int64}
        scores = (
            "score",
            "fused_score",
            "thread_score",
            "lexical_score",
            "vector_score",
            "support",
        )
        parts = [pl.DataFrame(schema=columns)]
        for number, query in enumerate(queries):
            if query.listed is None:
                continue
            chunks = query.listed
            stays = collapse.stays(per_document, self.document[chunks], self.is_mail[chunks])
            first = pl.DataFrame({"chunk_no": chunks[stays][:limit]})
            rank = pl.int_range(1, pl.len() + 1) + before.get(number, 0)
            placed = first.with_columns(query=number, rank=rank)
            parts.append(placed.select(pl.col(name).cast(kind) for name, kind in columns.items()))
        return pl.concat(parts).with_columns(pl.lit(0.0).alias(name) for name in scores)

    def _identified(self, identifier: str | None, mask: np.ndarray | None) -> np.ndarray:
        """The allowed chunks of the thing with this id, in the order of the document; empty without
        one.
        """
        if identifier is None or not self.ids.may_have(identifier):  # most queries
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
        """All chunks, those of the newest document first; those without a time are last."""
        rows = self.connection.execute(FIELDS_SQL("newest_first")).fetchnumpy()
        return np.asarray(rows["chunk_no"], dtype=np.int64)

    @cached_property
    def _languages(self) -> np.ndarray:
        """The language of each document."""
        return document_languages(self.texts.postings, self.document, self.texts.term_settings)

    @property
    def _nothing(self) -> np.ndarray:
        return np.zeros(len(self.document), dtype=bool)

    def _look_up(self, conditions: Sequence[Condition], masks: dict[Leaf, np.ndarray]) -> None:
        """Find the mask of each distinct leaf of some conditions once: chunks that hold its text,
        or meet its value.
        """
        leaves = dict.fromkeys(leaf for condition in conditions for leaf in leaves_of(condition))
        _require_bounded(leaves)
        masks |= self.texts.holding(leaf for leaf in leaves if leaf.field in TEXT_FIELDS)
        for leaf in leaves:
            if leaf.field == "language":
                masks[leaf] = self._languages[self.document] == language_names()[leaf.value]
            elif leaf.field == "sensitivity" and leaf.value == LABELLED:
                labelled = labelled_texts(self.connection, self.document, self.labels)
                masks[leaf] = labelled[self.document]
            elif leaf.field not in TEXT_FIELDS and leaf not in masks:
                masks[leaf] = self._masked(self.values.chunks(leaf))

    def _mask_of(
        self, condition: Condition, holding: np.ndarray, masks: Mapping[Leaf, np.ndarray]
    ) -> np.ndarray:
        """Which chunks meet a condition by the `masks` of leaves; those with a text it looks for
        are added to `holding`.
        """
        if isinstance(condition, Negation):
            return ~self._mask_of(condition.part, self._nothing, masks)
        if isinstance(condition, Both):
            return np.logical_and.reduce(
                [self._mask_of(part, holding, masks) for part in condition.parts]
            )
        if isinstance(condition, Either):
            return np.logical_or.reduce(
                [self._mask_of(part, holding, masks) for part in condition.parts]
            )
        chunks = masks[condition]
        if condition.field not in TEXT_FIELDS:
            return chunks
        holding |= chunks
        return self._whole(chunks)

    def _masked(self, chunks: np.ndarray | slice) -> np.ndarray:
        mask = self._nothing
        mask[chunks] = True
        return mask

    @cached_property
    def unit(self) -> np.ndarray:
        """Number of the unit of each chunk to look for texts in: its mail or chat, of documents its
        section.
        """
        rows = self.connection.execute(
            "SELECT chunk_no, dense_rank() OVER (ORDER BY parent_id, doc_id) AS section FROM chunks "
            "WHERE source_kind = 'document'"
        ).fetchnumpy()
        units = self.document.astype(np.int64)
        units[rows["chunk_no"]] = units.max(initial=-1) + rows["section"]
        return units

    def _whole(self, chunks: np.ndarray) -> np.ndarray:
        """The chunks of all mails, chats and sections that a mask has a chunk of."""
        units = np.zeros(int(self.unit.max(initial=-1)) + 1, dtype=bool)
        units[self.unit[chunks]] = True
        return units[self.unit]


def _require_bounded(leaves: Iterable[Leaf]) -> None:
    """QueryError if the leaves have more than MAX_CONDITION_WORDS together, or the value of a field
    is too long.
    """
    count = 0
    for leaf in leaves:
        count += len(leaf.value.split())
        if count > MAX_CONDITION_WORDS:
            raise refused(
                leaf,
                f"more than {MAX_CONDITION_WORDS} words in conditions and filters: ask with fewer",
            )
        if leaf.field not in TEXT_FIELDS and len(leaf.value) > _MAX_VALUE:
            raise refused(leaf, f"{leaf.field}: takes at most {_MAX_VALUE:,} characters")
