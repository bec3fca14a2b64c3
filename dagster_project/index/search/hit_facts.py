"""The facts that the stages behind the pool read of its hits (`transforms.retrieval.hits.FACTS`).

Those that each search by default needs are arrays; the others come in one statement.
"""

from collections.abc import Sequence
from typing import NamedTuple

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from dagster_project.index.files.arrays import SearchArrays
from transforms.retrieval.hits import FACTS, ORIGIN, REVISION


def with_facts(
    connection: duckdb.DuckDBPyConnection, arrays: SearchArrays, hits: pl.DataFrame, names: Sequence[str]
) -> pl.DataFrame:
    """Hits with the columns of FACTS that are named; `arrays` are those of the version that `connection` reads."""
    chunks = hits.get_column("chunk_no").to_numpy()
    if {*names} & {*REVISION}:
        patches = arrays.patches
        number = patches.number[chunks]
        is_none = number < 0
        own = (number, patches.version[chunks], patches.is_latest[chunks])
        columns = (pa.array(values, mask=is_none) for values in own)
        hits = hits.hstack(
            [pl.Series(name, values, FACTS[name]) for name, values in zip(REVISION, columns, strict=True)]
        )
    if "vector" in names:
        hits = hits.hstack([pl.Series("vector", list(arrays.vectors.of(chunks)), FACTS["vector"])])
    if stored := [name for name in names if name not in hits.columns]:
        rows = connection.execute(_statement(stored), {"chunks": np.unique(chunks).tolist()})
        facts = pl.DataFrame(rows.to_arrow_table()).select(
            "chunk_no", *(pl.col(name).cast(FACTS[name]) for name in stored)
        )
        hits = hits.join(facts, on="chunk_no", how="left", maintain_order="left")
    return hits


class _Group(NamedTuple):
    """Facts that are read together: their names, their columns and tables, and the SQL before the statement."""

    names: tuple[str, ...]
    columns: str
    tables: str = ""
    queries: str = ""


def _statement(names: Sequence[str]) -> str:
    """The statement that reads the named facts of `$chunks`."""
    groups = [group for group in _GROUPS if set(names) & set(group.names)]
    queries = "".join(f",\n{group.queries}" for group in groups if group.queries)
    columns = ", ".join(group.columns for group in groups)
    tables = "\n".join(group.tables for group in groups)
    return (
        "WITH RECURSIVE pool AS (\n"
        "  SELECT chunk_no, chunk_id, doc_id, source, parent_id, checksum FROM chunks\n"
        f"  WHERE chunk_no IN (SELECT unnest($chunks::INTEGER[]))\n){queries}\n"
        f"SELECT c.chunk_no::BIGINT AS chunk_no, {columns} FROM pool c\n{tables}"
    )


_GROUPS = (
    _Group(("source",), "c.source"),
    _Group(
        ("path",),
        "p.path",
        "LEFT JOIN paths p USING (chunk_no)",
        """tree AS MATERIALIZED (
  SELECT node_id, parent_id, struct_pack(node_id, parent_id, depth, sibling_count) AS node
  FROM nodes WHERE doc_id IN (SELECT doc_id FROM pool)
), above AS (
  SELECT c.chunk_no, t.parent_id, t.node FROM pool c JOIN tree t ON t.node_id = c.parent_id
  UNION ALL SELECT a.chunk_no, t.parent_id, t.node FROM above a JOIN tree t ON t.node_id = a.parent_id
), paths AS (
  SELECT chunk_no, list(node ORDER BY node.depth DESC) AS path FROM above GROUP BY chunk_no
)""",
    ),
    _Group(
        tuple(ORIGIN),
        """c.doc_id, coalesce(x.checksum, c.checksum) AS checksum,
  CASE WHEN x.context_kind = 'quote' THEN q.parent_id END AS quoted_from""",
        """LEFT JOIN chunk_context x USING (chunk_id)
LEFT JOIN (SELECT message_id, min(parent_id) AS parent_id FROM inferred_quotes GROUP BY message_id) q
  ON q.message_id = c.doc_id""",
    ),
)
