-- The macros that `weft sql` and Python add to a published file: they call functions of the process.
-- name: search_semantic
CREATE TEMP MACRO search_semantic(words, k := 10) AS TABLE
WITH asked AS MATERIALIZED (SELECT embedded(words)::FLOAT[{dimensions}] AS vector),
near AS (
  SELECT e.chunk_no, array_cosine_similarity(e.vector, asked.vector) AS cosine FROM "{file}".embeddings e, asked
  ORDER BY cosine DESC, e.chunk_no LIMIT k
)
{shown} ORDER BY rank
-- DuckDB plans a statement on the HNSW index if it orders by the distance to a constant alone, as a function of a constant
-- is. With words or an id from a subquery all vectors are compared.
-- name: search_semantic_by_index
CREATE TEMP MACRO search_semantic(words, k := 10) AS TABLE
WITH near AS (
  SELECT e.chunk_no, array_cosine_similarity(e.vector, embedded(words)::FLOAT[{dimensions}]) AS cosine
  FROM "{file}".embeddings e ORDER BY array_cosine_distance(e.vector, embedded(words)::FLOAT[{dimensions}]) LIMIT k
)
{shown} ORDER BY rank
-- name: similar_by_index
CREATE TEMP MACRO "similar"(given, k := 10) AS TABLE
WITH near AS (
  SELECT e.chunk_no, array_cosine_similarity(e.vector, vector_of(given)::FLOAT[{dimensions}]) AS cosine
  FROM "{file}".embeddings e ORDER BY array_cosine_distance(e.vector, vector_of(given)::FLOAT[{dimensions}]) LIMIT k + 1
)
{shown} WHERE c.chunk_id <> given AND n.cosine IS NOT NULL ORDER BY rank LIMIT k
-- name: shown
SELECT row_number() OVER (ORDER BY n.cosine DESC, n.chunk_no) AS rank, n.cosine, c.chunk_id, c.doc_id, c.source_kind,
  coalesce(w.title, c.title) AS title, c.text_display
FROM near n JOIN chunks c USING (chunk_no) LEFT JOIN conversation_windows w USING (doc_id)
-- name: vector
SELECT vector FROM "{file}".embeddings WHERE chunk_id = $given
