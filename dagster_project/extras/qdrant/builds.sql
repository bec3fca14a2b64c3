-- The views in place of vectors and postings that are in Qdrant, and the statements of a publish on its file in their stead.
-- name: embeddings
CREATE OR REPLACE VIEW embeddings AS
SELECT chunk_no, chunk_id, '{model}' AS model, error('vectors of this version are in Qdrant, which `weft search` and '
  '`weft similar` ask; `weft sql --lake` reads those of texts in embeddings')::FLOAT[{dimensions}] AS vector FROM chunks
WHERE checksum <> '{unembedded}' AND chunk_no NOT IN (SELECT chunk_no FROM embedding_refusals)
-- name: postings
CREATE OR REPLACE VIEW postings AS SELECT {elsewhere}::INTEGER AS term_id, {elsewhere}::UBIGINT AS chunk_key, {frequencies}
WHERE {elsewhere} IS NULL
-- name: elsewhere
error('postings of this version are in Qdrant, which `weft search` asks; `weft sql --lake` reads the words of chunks in '
  'message_terms')
-- How many rows there would be.
-- name: count of embeddings
SELECT count(*) FROM embeddings
-- name: count of postings
SELECT coalesce(sum(df), 0)::BIGINT FROM terms
-- name: without_vector
SELECT count(*) FROM embedded_texts JOIN chunks c USING (chunk_no)
WHERE c.checksum <> '{unembedded}' AND chunk_no NOT IN (SELECT chunk_no FROM vectors)
  AND chunk_no NOT IN (SELECT chunk_no FROM embedding_refusals)
-- A row for each chunk of whose words its document has lost some.
-- name: lost_words
WITH differing AS (
  SELECT doc_id, [{fields}] AS words FROM chunks
  WHERE rowid IN (SELECT rowid FROM chunks WHERE chunk_id IN (FROM differing_chunks))
)
SELECT 1 FROM differing b LEFT JOIN (
  SELECT doc_id, [{document_fields}] AS words FROM rows_of_chunks
  WHERE doc_id IN (SELECT doc_id FROM differing) GROUP BY doc_id
) n USING (doc_id)
WHERE NOT coalesce(list_bool_and([contains(n.words[i], b.words[i]) FOR i IN range(1, len(b.words) + 1)]), false)
