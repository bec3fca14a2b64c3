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
-- its own. A patch in one posting is known by its series and part.
-- name: chunks
WITH documents_ AS (
  SELECT doc_id, is_page, (row_number() OVER (ORDER BY doc_id) - 1)::INTEGER AS document FROM (
    SELECT message_id AS doc_id, false AS is_page FROM messages UNION ALL SELECT doc_id, true FROM documents
    UNION ALL SELECT doc_id, false FROM conversation_windows
  )
), trees AS (
  SELECT message_id AS doc_id, (dense_rank() OVER (ORDER BY thread_id) - 1)::INTEGER AS thread FROM thread_tree
), patches AS (
  SELECT message_id AS doc_id, version, is_latest,
    (dense_rank() OVER (ORDER BY series_id, coalesce(part::VARCHAR, '')) - 1)::INTEGER AS patch
  FROM patch_series WHERE NOT is_reply
), facts AS (FROM documents_ LEFT JOIN trees USING (doc_id) LEFT JOIN patches USING (doc_id))
SELECT chunk_no, chunk_key AS chunk_keys, document, thread IS NOT NULL AND chunk_kind <> '{unauthored}' AS mails,
  is_page AS pages, CASE WHEN mails THEN thread ELSE -1 END AS thread,
  coalesce(content_class = 'log', false) AS logs, coalesce(patch, -1) AS patch, coalesce(version, 0) AS version,
  coalesce(is_latest, false) AS latest
FROM chunks JOIN facts USING (doc_id)
