"""The words and vectors of a lens: as they are published, but for the texts that the lens shows otherwise."""

from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from dagster_project.index.files.segments import postings_of
from dagster_project.index.publish import table_sql
from transforms.embedding.sign_codes import CodedVectors
from transforms.schemas.chunks import UNEMBEDDED

Embed = Callable[[Sequence[str]], np.ndarray]
"""Gives the vectors of texts as they are stored."""
_BATCH = 5_000
_TF = table_sql.TFS.split(", ")


def count_words(connection: duckdb.DuckDBPyConnection, words: pa.Table, folder: Path | None) -> None:
    """Fill the inverted index: of `recounted` chunks with `words`, of the others as in `src` or in `folder`."""
    run = connection.execute
    if folder is None:
        run("CREATE TEMP VIEW src_postings AS FROM src.postings")
    else:
        shown = run(
            "SELECT chunk_no FROM src.chunks SEMI JOIN shown USING (chunk_key) ORDER BY 1"
        ).fetchnumpy()
        connection.register("found", postings_of(folder, shown["chunk_no"]).to_arrow())
        run(_FOUND_POSTINGS)
        connection.unregister("found")
    connection.register("words", words)
    for statement in _COUNTED:
        run(statement)
    connection.unregister("words")


def insert_vectors(
    connection: duckdb.DuckDBPyConnection, dimensions: int, vectors: CodedVectors | None
) -> None:
    """Fill `embeddings` and `embedding_refusals` from the published ones, or from `vectors` if these are elsewhere."""
    run = connection.execute
    run(_VECTOR_OF)
    if vectors is None:
        run("CREATE TEMP VIEW src_embeddings AS FROM src.embeddings")
    else:
        chunks = run("SELECT DISTINCT src_no FROM vector_of ORDER BY 1").fetchnumpy()["src_no"]
        run(f"CREATE TEMP TABLE found_vectors (chunk_no INTEGER, vector FLOAT[{dimensions}])")
        for start in range(0, len(chunks), _BATCH):
            some = chunks[start : start + _BATCH]
            connection.register("found", pa.table({"chunk_no": some, "vector": list(vectors.of(some))}))
            run("INSERT INTO found_vectors FROM found")
            connection.unregister("found")
        run(_FOUND_VECTORS)
    for statement in _PUBLISHED:
        run(statement)


def embed_others(connection: duckdb.DuckDBPyConnection, embed: Embed | None) -> None:
    """Insert vectors of the texts that the published version does not embed, or the reason why they have none."""
    run = connection.execute
    texts = run(_UNEMBEDDED).fetchall()
    if not texts:
        return
    numbers, model = [number for number, _, _ in texts], texts[0][2]
    if embed is None:
        run(_REFUSED, {"numbers": numbers, "model": model})
    else:
        vectors = embed([text for _, text, _ in texts])
        connection.register("made", pa.table({"chunk_no": numbers, "vector": list(vectors)}))
        run(_MADE, {"model": model})
        connection.unregister("made")
    run("CREATE TABLE in_order AS FROM embeddings ORDER BY chunk_no")
    run("DROP TABLE embeddings")
    run("ALTER TABLE in_order RENAME TO embeddings")


_FOUND_POSTINGS = f"""
CREATE TEMP TABLE src_postings AS SELECT term_id, chunk_key, {table_sql.TFS}
FROM found JOIN src.terms USING (term) JOIN src.chunks USING (chunk_no)
"""
_SUMS = ", ".join(
    f"least(coalesce(sum(tf) FILTER (field = '{tf.removesuffix('_tf')}'), 0), 65535)::USMALLINT AS {tf}"
    for tf in _TF
)
_LENGTHS = ", ".join(f"coalesce(sum({tf}), 0)::INTEGER AS {tf.removesuffix('_tf')}_length" for tf in _TF)
_COUNTED = (
    f"""CREATE TEMP TABLE counted AS SELECT term, chunk_key, {_SUMS} FROM words JOIN recounted USING (chunk_id)
GROUP BY term, chunk_key""",
    """CREATE TEMP TABLE known_terms AS SELECT term, term_id AS old_id FROM src.terms
UNION ALL SELECT term, -row_number() OVER (ORDER BY term) FROM (
  SELECT DISTINCT term FROM counted WHERE term NOT IN (SELECT term FROM src.terms))""",
    f"""CREATE TEMP TABLE shown_postings AS SELECT term_id AS old_id, chunk_key, {table_sql.TFS} FROM src_postings
SEMI JOIN (FROM shown WHERE chunk_key NOT IN (SELECT chunk_key FROM recounted)) USING (chunk_key)
UNION ALL SELECT old_id, chunk_key, {table_sql.TFS} FROM counted JOIN known_terms USING (term)""",
    """CREATE TEMP TABLE shown_terms AS
SELECT (row_number() OVER (ORDER BY term) - 1)::INTEGER AS term_id, term, f.df, old_id
FROM (SELECT old_id, count(*)::INTEGER AS df FROM shown_postings GROUP BY old_id) f JOIN known_terms USING (old_id)""",
    "INSERT INTO terms SELECT term_id, term, df FROM shown_terms ORDER BY term_id",
    f"""INSERT INTO postings SELECT t.term_id, p.chunk_key, {table_sql.TFS} FROM shown_postings p
JOIN shown_terms t USING (old_id) ORDER BY t.term_id, p.chunk_key""",
    f"""INSERT INTO chunk_lengths BY NAME SELECT * FROM (
  SELECT * FROM src.chunk_lengths
  SEMI JOIN (FROM shown WHERE chunk_key NOT IN (SELECT chunk_key FROM recounted)) USING (chunk_key)
  UNION ALL BY NAME SELECT chunk_key, {_LENGTHS} FROM recounted LEFT JOIN counted USING (chunk_key) GROUP BY chunk_key
) ORDER BY chunk_key""",
)

# Which chunk of the published version has the vector of each: the same, or one that is embedded by the same text.
_VECTOR_OF = """
CREATE TEMP TABLE vector_of AS
WITH texts AS (
  SELECT c.chunk_no, coalesce(x.checksum, c.checksum) AS checksum FROM chunks c LEFT JOIN chunk_context x USING (chunk_id)
  WHERE chunk_id IN (SELECT chunk_id FROM recounted)
), published AS (
  SELECT coalesce(x.checksum, c.checksum) AS checksum, min(c.chunk_no) AS src_no
  FROM src.chunks c LEFT JOIN src.chunk_context x USING (chunk_id) GROUP BY 1
)
SELECT s.chunk_no, c.chunk_no AS src_no FROM (FROM shown WHERE chunk_id NOT IN (SELECT chunk_id FROM recounted)) s
JOIN src.chunks c USING (chunk_id)
UNION ALL SELECT chunk_no, src_no FROM texts JOIN published USING (checksum)
"""
_FOUND_VECTORS = """
CREATE TEMP VIEW src_embeddings AS
SELECT chunk_no, chunk_id, model, v.vector FROM src.embeddings JOIN found_vectors v USING (chunk_no)
"""
_PUBLISHED = (
    """INSERT INTO embeddings SELECT s.chunk_no, s.chunk_id, e.model, e.vector FROM src_embeddings e
JOIN vector_of v ON v.src_no = e.chunk_no JOIN shown s ON s.chunk_no = v.chunk_no ORDER BY s.chunk_no""",
    """INSERT INTO embedding_refusals BY NAME
SELECT e.* REPLACE (s.chunk_no AS chunk_no, s.chunk_id AS chunk_id, s.doc_id AS doc_id) FROM src.embedding_refusals e
JOIN vector_of v ON v.src_no = e.chunk_no JOIN shown s ON s.chunk_no = v.chunk_no ORDER BY s.chunk_no""",
)
_UNEMBEDDED = f"""
SELECT c.chunk_no, coalesce(x.text_embed, c.text_embed), (SELECT any_value(model) FROM src_embeddings)
FROM chunks c LEFT JOIN chunk_context x USING (chunk_id)
WHERE c.checksum <> '{UNEMBEDDED}' AND chunk_no NOT IN (SELECT chunk_no FROM embeddings)
  AND chunk_no NOT IN (SELECT chunk_no FROM embedding_refusals) ORDER BY c.chunk_no
"""
_REFUSED = """
INSERT INTO embedding_refusals BY NAME
SELECT chunk_no, chunk_id, doc_id, $model AS model, 'it was embedded with a text that is not shown' AS reason
FROM chunks WHERE chunk_no IN (SELECT unnest($numbers::INTEGER[]))
"""
_MADE = """
INSERT INTO embeddings BY NAME SELECT chunk_no, chunk_id, $model AS model, m.vector FROM made m JOIN chunks USING (chunk_no)
"""
