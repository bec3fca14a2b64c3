"""Which documents two published versions have otherwise, and what their points say of them, as DuckDB statements."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa

from dagster_project.index.publish.lake_views import quoted

_OWN = ("chunks", "embedding_refusals")
"""Tables whose rows have numbers of chunks, which say nothing of a document."""
_KEYS = {
    "chunks": "doc_id",
    "embedding_refusals": "doc_id",
    "chunk_context": "(SELECT doc_id FROM {version}.chunks c WHERE c.chunk_id = t.chunk_id)",
    "inferred_quotes": "message_id",
    "memberships": "message_id",
    "messages": "message_id",
    "documents": "doc_id",
    "conversation_windows": "doc_id",
}
"""What the points of a document are made of: the tables, and the document of a row."""
_PRINTS = "SELECT {key} AS doc_id, hash({columns})::HUGEINT AS print FROM {version}.{table} t"

POINTS = """
SELECT c.chunk_no, c.chunk_id, c.doc_id, c.source, c.source_kind AS kind, l.lists, d.tags,
  coalesce(m.effective_at, d.modified_at, d.created_at, w.first_at) AS at,
  coalesce(m.effective_at, d.modified_at, d.created_at, w.last_at) AS ended_at
FROM chunks c SEMI JOIN wanted USING (chunk_no)
LEFT JOIN messages m ON m.message_id = c.doc_id
LEFT JOIN documents d USING (doc_id)
LEFT JOIN conversation_windows w USING (doc_id)
LEFT JOIN (
  SELECT message_id, list(DISTINCT list_id ORDER BY list_id) AS lists FROM memberships WHERE list_id IS NOT NULL
  GROUP BY message_id
) l ON l.message_id = c.doc_id
ORDER BY c.chunk_no
"""
"""What the payload of a chunk says, of the chunks whose numbers are in `wanted`."""


def changed_documents(new: Path, before: Path) -> pl.Series:
    """The documents of the version in `before` that the one in `new` has not, or otherwise, and those it has alone."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, file in (("now", new), ("earlier", before)):
            connection.execute(f"ATTACH '{quoted(str(file))}' AS {name} (READ_ONLY)")
        rows = connection.execute(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'now' ORDER BY column_index"
        ).fetchall()
        sides = []
        for version, sign in (("now", 1), ("earlier", -1)):
            for table, key in _KEYS.items():
                left_out = ("chunk_no",) if table in _OWN else ()
                columns = [f'"{name}"' for of, name in rows if of == table and name not in left_out]
                prints = _PRINTS.format(
                    key=key.format(version=version), columns=", ".join(columns), version=version, table=table
                )
                sides.append(f"SELECT doc_id, '{table}' AS part, {sign} AS side, print FROM ({prints})")
        differing = connection.execute(
            f"SELECT DISTINCT doc_id FROM (SELECT doc_id FROM ({' UNION ALL '.join(sides)}) GROUP BY doc_id, part "
            "HAVING sum(print * side) <> 0 OR sum(side) <> 0) WHERE doc_id IS NOT NULL"
        ).to_arrow_table()
    return pl.Series("doc_id", pl.DataFrame(differing)["doc_id"], dtype=pl.String)


def chunks_of(connection: duckdb.DuckDBPyConnection, documents: pl.Series) -> pl.DataFrame:
    """The chunks of some documents: chunk_no and chunk_key, by number."""
    connection.register("wanted_documents", pa.table({"doc_id": documents.to_arrow()}))
    table = connection.execute(
        "SELECT chunk_no, chunk_key FROM chunks SEMI JOIN wanted_documents USING (doc_id) ORDER BY chunk_no"
    ).to_arrow_table()
    connection.unregister("wanted_documents")
    return pl.DataFrame(table)
