"""Which copies of mails meet conditions: a mail that several sources or lists hold is judged once
for each copy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars as pl

from dagster_project.index.search.conditions.field_values import FieldValues
from transforms.retrieval.query_language import Condition, Leaf, Negation, leaves_of

_OF_COPY = {"source": "sources", "l": "lists"}
"""The fields that copies of one mail differ in, and the column that has their values."""
_COPIES = """
SELECT message_id, source, partition, stored_message_id, [source] AS sources, list(list_id) AS lists,
  bool_or(is_canonical) AS is_canonical
FROM memberships GROUP BY message_id, source, partition, stored_message_id ORDER BY ALL
"""
_CHUNKS = """
SELECT chunk_no::BIGINT AS chunk_no, doc_id AS message_id, attachment_id IS NULL AS is_body FROM chunks
WHERE doc_id IN (SELECT message_id FROM memberships)
"""
_MEMBERSHIPS = """
SELECT message_id, source, list_id FROM memberships WHERE message_id IN (SELECT unnest($ids::VARCHAR[]))
ORDER BY message_id, is_canonical DESC, source, partition, list_id
"""
_OF_PLACE = {*_OF_COPY, "kind", "tag", "type"}
"""The fields that say nothing of the text of a copy of a mail, nor of the mails beside it."""
_NOTHING = Leaf("kind", "nothing")
_STORED_IDS = "SELECT DISTINCT message_id, source, partition, stored_message_id FROM memberships"
_COPY = ["message_id", "source", "partition", "stored_message_id"]
"""The key of a copy: a partition may hold a mail in several of its lists."""
_Masks = Mapping[Leaf, np.ndarray]
"""The mask of the chunks that meet each leaf."""


class ShownCopies(NamedTuple):
    """The numbers of chunks as they are published, and the copies (message_id, source, partition,
    stored_message_id, is_whole).

    `is_whole` is true if all chunks of the published copy met the conditions, not only some of its
    body.
    """

    chunks: np.ndarray
    copies: pl.DataFrame


def narrowing(conditions: Sequence[Condition]) -> list[Condition]:
    """The parts of conditions on places, if other parts depend on the copies and mails that these
    hold; else empty.
    """
    fields = {leaf.field for condition in conditions for leaf in leaves_of(condition)}
    if fields.isdisjoint(_OF_COPY) or fields <= _OF_PLACE:
        return []
    return [_of_places(condition) for condition in conditions]


def _of_places(condition: Condition, is_met: bool = True) -> Condition:
    """The part of a condition on places: all other parts count as met, or as not met where that
    excludes.
    """
    if isinstance(condition, Leaf):
        other: Condition = Negation(_NOTHING) if is_met else _NOTHING
        return condition if condition.field in _OF_PLACE else other
    if isinstance(condition, Negation):
        return Negation(_of_places(condition.part, not is_met))
    return type(condition)(tuple(_of_places(part, is_met) for part in condition.parts))


def as_published(
    scope: ShownCopies, narrowed: duckdb.DuckDBPyConnection, published: duckdb.DuckDBPyConnection
) -> ShownCopies:
    """The shown copies of a narrowed version, by the numbers of chunks and the ids of mails of the
    published one.
    """
    chunks = narrowed.execute("SELECT chunk_id, chunk_no FROM chunks ORDER BY chunk_no").pl()[
        scope.chunks
    ]
    numbers = published.execute("SELECT chunk_id, chunk_no FROM chunks").pl()
    ids = scope.copies.drop("message_id").join(
        published.execute(_STORED_IDS).pl(), on=["source", "partition", "stored_message_id"]
    )
    numbers = numbers.join(chunks, on="chunk_id", how="semi")
    return ShownCopies(np.sort(numbers["chunk_no"].to_numpy()), ids.select(scope.copies.columns))


def shown_copies(
    connection: duckdb.DuckDBPyConnection,
    values: FieldValues,
    conditions: Sequence[Condition],
    by_leaf: _Masks,
    met: Callable[[_Masks], np.ndarray],
) -> ShownCopies:
    """The copies and chunks that meet conditions, each copy of a mail by its own source and lists.

    `by_leaf` has the leaves by the published copies, and `met` gives the chunks that meet the
    conditions then.
    """
    leaves = list(
        dict.fromkeys(leaf for c in conditions for leaf in leaves_of(c) if leaf.field in _OF_COPY)
    )
    copies = pl.DataFrame(connection.execute(_COPIES).to_arrow_table())
    chunks = pl.DataFrame(connection.execute(_CHUNKS).to_arrow_table())
    columns = [f"leaf_{n}" for n in range(len(leaves))]
    for leaf, column in zip(leaves, columns, strict=True):
        names = [] if values.lacks(leaf) else values.named(leaf) or []
        is_named = pl.col(_OF_COPY[leaf.field]).list.eval(pl.element().is_in(names)).list.any()
        copies = copies.with_columns(is_named.alias(column))
    matching = met(by_leaf)
    of_mails = chunks.get_column("chunk_no").to_numpy()
    is_shown = matching.copy()
    is_shown[of_mails] = False
    parts = [copies.select(*_COPY, is_whole=pl.lit(value=True)).clear()]
    for same in copies.partition_by(columns, maintain_order=True) if columns else [copies]:
        judged = dict(by_leaf)
        for leaf, column in zip(leaves, columns, strict=True):
            judged[leaf] = by_leaf[leaf].copy()
            judged[leaf][of_mails] = same.get_column(column)[0] if len(same) else False
        mask = met(judged)
        mails = chunks.with_columns(is_met=mask[of_mails]).join(same, on="message_id", how="semi")
        judgement = mails.group_by("message_id").agg(
            is_met=(pl.col("is_met") & pl.col("is_body")).any(), is_whole=pl.col("is_met").all()
        )
        met_copies = same.join(judgement.filter("is_met"), on="message_id")
        parts.append(met_copies.select(parts[0].columns))
        published = mails.join(met_copies.filter("is_canonical"), on="message_id", how="semi")
        is_shown[published.filter("is_met").get_column("chunk_no").to_numpy()] = True
    return ShownCopies(np.flatnonzero(is_shown), pl.concat(parts).sort(_COPY))


def named_places(conditions: Iterable[Condition], values: FieldValues) -> dict[str, set[str]]:
    """The sources (`source`) and lists (`list_id`) that conditions name; if these all hold, each
    hit is in one of these.
    """
    places: dict[str, set[str]] = {}
    for condition in conditions:
        if isinstance(condition, Leaf) and condition.field in _OF_COPY:
            column = "list_id" if condition.field == "l" else "source"
            names = set(values.named(condition) or ())
            places[column] = places.get(column, names) & names
    return places


def at_named_places(
    connection: duckdb.DuckDBPyConnection,
    rows: Sequence[dict[str, Any]],
    places: Sequence[Mapping[str, set[str]]],
) -> None:
    """Let rows of hits name the source and list of a copy that is where their query (column
    `query`) looked for it.
    """

    def is_there(copy: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
        return all(copy[column] in names for column, names in places[row["query"]].items())

    elsewhere = [
        row
        for row in rows
        if row["source_kind"] in ("message", "attachment") and not is_there(row, row)
    ]
    if not elsewhere:
        return
    table = connection.execute(
        _MEMBERSHIPS, {"ids": [row["doc_id"] for row in elsewhere]}
    ).to_arrow_table()
    copies: dict[str, list[dict[str, Any]]] = {}
    for copy in table.to_pylist():
        copies.setdefault(copy["message_id"], []).append(copy)
    for row in elsewhere:
        there = next((copy for copy in copies.get(row["doc_id"], ()) if is_there(copy, row)), None)
        row |= {"source": there["source"], "list_id": there["list_id"]} if there else {}
