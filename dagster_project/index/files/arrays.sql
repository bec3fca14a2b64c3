-- The rows of a published file that arrays are made of.
-- name: postings
SELECT chunk_no, {frequencies} FROM postings
JOIN (SELECT term_id, row_number() OVER (ORDER BY term) AS term_no FROM terms) USING (term_id)
JOIN (SELECT chunk_key, chunk_no FROM chunks) USING (chunk_key)
ORDER BY term_no, chunk_no
-- name: without_vector
SELECT chunk_no FROM embedding_refusals UNION SELECT chunk_no FROM chunks WHERE checksum = '{unembedded}' ORDER BY 1
-- name: lengths
SELECT chunk_no, l.* FROM chunk_lengths l JOIN chunks USING (chunk_key) SEMI JOIN segment_chunks USING (chunk_no)
-- Each document is looked up once for a chunk, and numbers come back. A chunk of no mail, or in no ranking, is a thread of
-- its own. A patch in one posting is that of its title in the others; one with a new title is that of its part in the version
-- before, if that has lost its title.
-- name: chunks
WITH RECURSIVE documents_ AS (
  SELECT doc_id, is_page, (row_number() OVER (ORDER BY doc_id) - 1)::INTEGER AS document FROM (
    SELECT message_id AS doc_id, false AS is_page FROM messages UNION ALL SELECT doc_id, true FROM documents
    UNION ALL SELECT doc_id, false FROM conversation_windows
  )
), trees AS (
  SELECT message_id AS doc_id, (dense_rank() OVER (ORDER BY thread_id) - 1)::INTEGER AS thread FROM thread_tree
), posted AS (
  SELECT message_id, series_id, version, part, title, is_latest, previous_id FROM patch_series WHERE NOT is_reply
), renamed AS (
  SELECT n.message_id, min(o.message_id) AS previous_id FROM posted n JOIN posted o
    ON o.series_id = n.series_id AND o.part = n.part AND o.version < n.version
  WHERE n.previous_id IS NULL
    AND o.version = (SELECT max(v.version) FROM posted v WHERE v.series_id = n.series_id AND v.version < n.version)
    AND NOT EXISTS (FROM posted k WHERE k.series_id = n.series_id AND k.version = n.version AND k.title = o.title)
  GROUP BY 1
), chains AS (
  SELECT p.message_id, coalesce(p.previous_id, r.previous_id) AS previous_id FROM posted p LEFT JOIN renamed r USING (message_id)
), roots AS (
  SELECT message_id, message_id AS root FROM chains c WHERE NOT EXISTS (FROM posted p WHERE p.message_id = c.previous_id)
  UNION ALL SELECT c.message_id, r.root FROM chains c JOIN roots r ON c.previous_id = r.message_id
), patches AS (
  SELECT message_id AS doc_id, version, is_latest, (dense_rank() OVER (ORDER BY root) - 1)::INTEGER AS patch
  FROM posted JOIN roots USING (message_id)
), facts AS (FROM documents_ LEFT JOIN trees USING (doc_id) LEFT JOIN patches USING (doc_id))
SELECT chunk_no, chunk_key AS chunk_keys, document, thread IS NOT NULL AND chunk_kind <> '{unauthored}' AS mails,
  is_page AS pages, CASE WHEN mails THEN thread ELSE -1 END AS thread,
  coalesce(content_class = 'log', false) AS logs, coalesce(patch, -1) AS patch, coalesce(version, 0) AS version,
  coalesce(is_latest, false) AS latest
FROM chunks JOIN facts USING (doc_id)
