-- The words and vectors of a lens: those of `src`, but for the texts that the lens shows otherwise.
-- name: unchanged
(SELECT chunk_key FROM chunks ANTI JOIN counted USING (chunk_key))
-- name: unchanged_numbers
SELECT chunk_no FROM src.chunks SEMI JOIN {unchanged} USING (chunk_key) ORDER BY chunk_no
-- name: postings_in_file
CREATE TEMP VIEW src_postings AS FROM src.postings
-- name: postings_in_arrays
CREATE TEMP TABLE src_postings AS SELECT term_id, chunk_key, {frequencies}
FROM found JOIN src.terms USING (term) JOIN src.chunks USING (chunk_no)
-- name: inverted
CREATE TEMP TABLE known_terms AS SELECT term, term_id AS old_id FROM src.terms
UNION ALL SELECT term, -row_number() OVER (ORDER BY term) FROM (
  SELECT DISTINCT term FROM added ANTI JOIN src.terms USING (term));
CREATE TEMP TABLE shown_postings AS
SELECT term_id AS old_id, chunk_key, {frequencies} FROM src_postings SEMI JOIN {unchanged} USING (chunk_key)
UNION ALL SELECT old_id, chunk_key, {frequencies} FROM added JOIN known_terms USING (term);
CREATE TEMP TABLE shown_terms AS
SELECT (row_number() OVER (ORDER BY term) - 1)::INTEGER AS term_id, term, f.df, old_id
FROM (SELECT old_id, count(*)::INTEGER AS df FROM shown_postings GROUP BY old_id) f JOIN known_terms USING (old_id);
CREATE TABLE terms AS SELECT term_id, term, df FROM shown_terms ORDER BY term_id;
CREATE TABLE postings AS SELECT t.term_id, p.chunk_key, {frequencies} FROM shown_postings p
JOIN shown_terms t USING (old_id) ORDER BY p.chunk_key, t.term_id;
CREATE TABLE chunk_lengths AS SELECT * FROM (
  SELECT * FROM src.chunk_lengths SEMI JOIN {unchanged} USING (chunk_key) UNION ALL BY NAME ({added_lengths})
) ORDER BY chunk_key
-- A chunk of the published version that has the vector of each text, or the reason why there is none: one of several.
-- name: vector_of
CREATE TEMP TABLE vector_of AS
SELECT text_hash, min(chunk_no) AS chunk_no FROM (
  SELECT coalesce(x.checksum, c.checksum) AS text_hash, c.chunk_no
  FROM src.chunks c LEFT JOIN src.chunk_context x USING (chunk_id)
) SEMI JOIN embedded_texts USING (text_hash) GROUP BY text_hash;
CREATE TEMP TABLE lake_embedding_refusals AS
SELECT text_hash, model, reason FROM src.embedding_refusals JOIN vector_of USING (chunk_no);
CREATE TEMP TABLE found_vectors (chunk_no INTEGER, vector FLOAT[{dimensions}]);
CREATE TEMP TABLE new_vectors (text_hash VARCHAR, vector FLOAT[{dimensions}])
-- name: embedded_elsewhere
SELECT chunk_no FROM vector_of SEMI JOIN src.embeddings USING (chunk_no) ORDER BY chunk_no
-- name: vectors
CREATE TEMP VIEW lake_embeddings AS SELECT text_hash, '{model}' AS model, vector FROM (
  SELECT text_hash, vector FROM {published} JOIN vector_of USING (chunk_no) UNION ALL FROM new_vectors)
-- name: unembedded_texts
SELECT text_hash, any_value(coalesce(x.text_embed, c.text_embed)) FROM embedded_texts JOIN chunks c USING (chunk_id)
LEFT JOIN chunk_context x USING (chunk_id)
WHERE text_hash <> '{unembedded}' AND text_hash NOT IN (SELECT text_hash FROM vector_of)
GROUP BY text_hash ORDER BY text_hash
-- name: refused
INSERT INTO lake_embedding_refusals
SELECT unnest($texts::VARCHAR[]), $model, 'it was embedded with a text that is not shown'
