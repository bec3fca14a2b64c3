-- Rules for every version: each statement counts the rows that break the rule.
-- name: a message has one row
SELECT count(*) - count(DISTINCT message_id) FROM messages
-- name: a chunk has one row
SELECT count(*) - count(DISTINCT chunk_key) FROM chunks
-- name: a document has one row
SELECT count(*) - count(DISTINCT doc_id) FROM documents
-- name: a node has one row
SELECT count(*) - count(DISTINCT node_id) FROM nodes
-- name: a person's address has one row
SELECT count(*) - count(DISTINCT addr) FROM people
-- name: a thread has one row
SELECT count(*) - count(DISTINCT thread_id) FROM threads
-- name: a window has one row
SELECT count(*) - count(DISTINCT doc_id) FROM conversation_windows
-- name: a chunk belongs to a message, a document or a window
SELECT count(*) FROM chunks WHERE doc_id NOT IN (
  SELECT message_id FROM messages UNION ALL SELECT doc_id FROM documents UNION ALL SELECT doc_id FROM conversation_windows
)
-- name: a chunk has one vector, or a reason why it has none
SELECT count(*) FROM chunks LEFT JOIN (
  SELECT chunk_no, count(*) AS n FROM (
    SELECT chunk_no FROM embeddings UNION ALL SELECT chunk_no FROM embedding_refusals
  ) GROUP BY chunk_no
) USING (chunk_no) WHERE n IS DISTINCT FROM 1 AND checksum <> '{unembedded}'
-- name: a chunk has terms
-- A text of signs alone has none: one such file must not keep all others from being published.
SELECT count(*) FROM chunk_lengths JOIN chunks USING (chunk_key)
WHERE {own_length} = 0 AND chunk_kind <> '{unauthored}'
  AND regexp_matches(concat_ws(' ', title, text_display), '[\pL\pN]')
-- name: all vectors are of one model
SELECT greatest(count(DISTINCT model) - 1, 0) FROM embeddings
-- name: a message is in the thread tree
SELECT count(*) FROM messages WHERE message_id NOT IN (SELECT message_id FROM thread_tree)
