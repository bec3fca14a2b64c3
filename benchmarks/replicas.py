"""A published index of any size, made of perturbed copies of a real one: what search and publishing are measured on."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from transforms import lexical

DROPPED = 10
"""One posting of so many is left out of each copy, by hash."""
RARE = 3
"""Terms in up to so many chunks become words of each copy's own, so that the dictionary grows with the index."""
NOISE = 0.5
"""Length of the random vector that is added to each copy's unit vector: copies of a chunk have a cosine near .8."""

_IDS = {
    "messages": ("message_id",),
    "thread_tree": ("message_id", "thread_id", "parent_id"),
    "threads": ("thread_id", "root_id"),
    "memberships": ("message_id", "stored_message_id"),
    "blocks": ("message_id",),
    "attachments": ("attachment_id", "message_id"),
    "exclusions": ("doc_id",),
}
_TFS = [f"{field}_tf" for field in lexical.FIELDS]


def replicate(base: Path, place: Path, chunks: int) -> None:
    """Write to `place` an index of `chunks` chunks, copies of those of the index at `base`, the first as it is.

    Copies have ids of their own, so that chunks are numbered and mails threaded as in an index of that
    size; a tenth of their postings is gone, rare terms are renamed, vectors are turned.
    """
    place.unlink(missing_ok=True)
    with duckdb.connect(str(place), config={"preserve_insertion_order": True}) as connection:
        run = connection.execute
        run(f"ATTACH '{base}' AS base (READ_ONLY)")
        run(f"COPY FROM DATABASE base TO {place.stem.replace('-', '_')} (SCHEMA)")
        (held,) = run("SELECT count(*) FROM base.chunks").fetchone() or (0,)
        run(f"CREATE TEMP TABLE copies AS SELECT range::INTEGER AS copy FROM range({-(-chunks // held)})")
        run("CREATE TEMP MACRO named(id, copy) AS CASE WHEN copy = 0 THEN id ELSE id || '.copy' || copy END")
        run(_NUMBERED, [chunks])
        for (table,) in run("SELECT table_name FROM duckdb_tables() WHERE database_name = 'base'").fetchall():
            if table in _IDS:
                renamed = ", ".join(f"named({name}, copy) AS {name}" for name in _IDS[table])
                run(
                    f"INSERT INTO {table} SELECT * EXCLUDE (copy) REPLACE ({renamed}) FROM base.{table}, copies"
                )
            elif table not in ("chunks", "embeddings", "terms", "postings", "chunk_lengths"):
                run(f"INSERT INTO {table} FROM base.{table}")
        for statement in (_CHUNKS, _COPIED_POSTINGS, _TERMS, _POSTINGS, _LENGTHS):
            run(statement)
        _insert_vectors(connection)
        run("UPDATE manifest SET value = value || '-' || ? WHERE key = 'version'", [str(chunks)])
        run("DETACH base")


def _insert_vectors(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill the table `embeddings` with turned copies of the vectors of the base, by chunk number."""
    old = connection.execute("FROM base.embeddings ORDER BY chunk_no").to_arrow_table()
    vectors = old.column("vector").combine_chunks().flatten().to_numpy().reshape(old.num_rows, -1)
    places = connection.execute(
        "SELECT chunk_no, old_no, copy, chunk_id FROM numbered ORDER BY chunk_no"
    ).to_arrow_table()
    model = old.column("model")[0].as_py()
    for first in range(0, places.num_rows, 100_000):
        part = places.slice(first, 100_000)
        made = vectors[part.column("old_no").to_numpy()]
        noise = np.random.default_rng(first).standard_normal(made.shape, dtype=np.float32)
        noise *= NOISE / np.sqrt(made.shape[1])
        made = made + noise * (part.column("copy").to_numpy() > 0)[:, None]
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        batch = pa.table(
            {
                "chunk_no": part.column("chunk_no"),
                "chunk_id": part.column("chunk_id"),
                "model": pa.repeat(model, part.num_rows),
                "vector": pa.FixedSizeListArray.from_arrays(made.ravel(), made.shape[1]),
            }
        )
        connection.register("batch", batch)
        connection.execute("INSERT INTO embeddings BY NAME FROM batch")
        connection.unregister("batch")


_NUMBERED = """
CREATE TEMP TABLE numbered AS
WITH made AS (
  SELECT chunk_no AS old_no, copy, CASE WHEN copy = 0 THEN chunk_id ELSE left(sha256(chunk_id || copy), len(chunk_id)) END
    AS chunk_id FROM base.chunks, copies ORDER BY copy, old_no LIMIT ?
)
SELECT (row_number() OVER (ORDER BY chunk_id) - 1)::INTEGER AS chunk_no, * FROM made
"""

_CHUNKS = """
INSERT INTO chunks BY NAME
SELECT c.* REPLACE (
  n.chunk_no AS chunk_no, n.chunk_id AS chunk_id, named(c.doc_id, copy) AS doc_id,
  named(c.attachment_id, copy) AS attachment_id, named(c.parent_id, copy) AS parent_id
) FROM base.chunks c JOIN numbered n ON n.old_no = c.chunk_no ORDER BY copy, old_no
"""

_COPIED_POSTINGS = f"""
CREATE TEMP TABLE copied AS
SELECT named(t.term, CASE WHEN t.df <= {RARE} THEN n.copy ELSE 0 END) AS term, t.term_id, n.chunk_no,
  CASE WHEN t.df <= {RARE} THEN n.copy ELSE 0 END AS copy, p.* EXCLUDE (term_id, chunk_no)
FROM base.postings p JOIN numbered n ON n.old_no = p.chunk_no JOIN base.terms t ON t.term_id = p.term_id
WHERE n.copy = 0 OR hash(p.term_id, n.chunk_no) % {DROPPED} > 0
"""

_TERMS = """
INSERT INTO terms SELECT (row_number() OVER (ORDER BY term) - 1)::INTEGER, term, df FROM (
  SELECT any_value(term) AS term, count(*)::INTEGER AS df FROM copied GROUP BY term_id, copy
)
"""

_POSTINGS = f"""
INSERT INTO postings BY NAME SELECT t.term_id, p.chunk_no, {", ".join(_TFS)}
FROM copied p JOIN terms t USING (term) ORDER BY t.term_id, p.chunk_no
"""

_LENGTHS = f"""
INSERT INTO chunk_lengths BY NAME
SELECT n.chunk_no, {", ".join(f"coalesce(sum({tf}), 0)::INTEGER AS {tf.removesuffix('_tf')}_length" for tf in _TFS)}
FROM numbered n LEFT JOIN postings USING (chunk_no) GROUP BY n.chunk_no ORDER BY n.chunk_no
"""
