-- name: m
SELECT chunk_no FROM chunks WHERE doc_id = $value
-- name: kind
SELECT chunk_no FROM chunks WHERE source_kind = $value
-- name: of_documents
SELECT chunk_no FROM chunks WHERE doc_id IN ({ids})
-- name: l
SELECT chunk_no FROM chunks WHERE doc_id IN (SELECT message_id FROM memberships WHERE list_id IN (SELECT unnest($names)))
-- name: source
SELECT chunk_no FROM chunks WHERE source IN (SELECT unnest($names)) UNION SELECT chunk_no FROM chunks WHERE doc_id IN (
  SELECT message_id FROM memberships WHERE NOT is_canonical AND source IN (SELECT unnest($names))
)
-- name: copied
SELECT 1 FROM memberships m JOIN messages USING (message_id)
WHERE m.source <> messages.source AND m.source IN (SELECT unnest($names::VARCHAR[])) LIMIT 1
-- name: tag
SELECT chunk_no FROM chunks WHERE doc_id IN (
  SELECT doc_id FROM (SELECT doc_id, unnest(tags) AS tag FROM documents) WHERE tag IN (SELECT unnest($names))
)
-- name: type
SELECT chunk_no FROM chunks WHERE doc_id IN (
  SELECT doc_id FROM documents WHERE list_has_any(string_split(concat_ws(', ', doc_type, format), ', '), $names)
)
-- name: path
SELECT chunk_no FROM chunks WHERE doc_id IN (SELECT doc_id FROM documents WHERE regexp_matches(path, $path))
UNION SELECT chunk_no FROM (SELECT chunk_no, unnest(diff_files) AS path FROM chunks) WHERE regexp_matches(path, $path)
-- name: d
SELECT chunk_no FROM chunks JOIN ({dated}) USING (doc_id)
WHERE ($since IS NULL OR ended_at >= $since) AND ($until IS NULL OR dated_at < $until)
-- name: newest_first
SELECT chunk_no FROM chunks LEFT JOIN ({dated}) USING (doc_id)
ORDER BY dated_at DESC NULLS LAST, doc_id, attachment_id IS NOT NULL, attachment_id, chunk_index, chunk_no
-- Turns of a chat are in the order of their window.
-- name: oldest_first
SELECT chunk_no, dated_at IS NOT NULL AS has_time FROM chunks LEFT JOIN ({dated}) USING (doc_id)
ORDER BY dated_at NULLS FIRST, doc_id, chunk_index, chunk_no
-- name: larger
SELECT chunk_no FROM chunks WHERE doc_id IN (SELECT message_id FROM messages WHERE raw_bytes > $size
  UNION ALL SELECT doc_id FROM documents WHERE strlen(text) > $size)
-- name: keyword
SELECT chunk_no FROM chunks JOIN chunk_keywords USING (chunk_id) WHERE keyword IN (SELECT unnest($names))
-- name: thread
SELECT chunk_no FROM chunks WHERE doc_id IN (SELECT message_id FROM thread_tree WHERE thread_id = $value OR thread_id IN (
  SELECT thread_id FROM thread_tree WHERE message_id = $value
))
-- name: series
SELECT chunk_no FROM chunks WHERE doc_id IN (SELECT message_id FROM patch_series WHERE series_id = $value OR series_id IN (
  SELECT series_id FROM patch_series WHERE message_id = $value
))
-- name: has patch
SELECT chunk_no FROM chunks WHERE doc_id IN (SELECT doc_id FROM chunks WHERE has_patch_markers)
-- name: has attachment
SELECT chunk_no FROM chunks WHERE doc_id IN (SELECT message_id FROM attachments)
-- name: is unanswered
SELECT chunk_no FROM chunks WHERE doc_id IN (
  SELECT root.message_id FROM thread_tree root JOIN senders asking USING (message_id)
  WHERE root.parent_id IS NULL AND NOT root.is_ghost AND NOT EXISTS (
    FROM thread_tree answer JOIN senders answering ON answering.message_id = answer.message_id
    WHERE answer.thread_id = root.thread_id AND answer.message_id <> root.message_id
      AND NOT answering.is_automatic AND answering.person_id IS DISTINCT FROM asking.person_id
  )
)
-- name: is_code
-- Classes, if the index has any, go by a rule of their own for documents.
SELECT chunk_no FROM chunks LEFT JOIN chunk_classes c USING (chunk_id) WHERE coalesce(c.is_code, chunks.is_code) = $value::BOOLEAN
-- name: is_code_without_classes
SELECT chunk_no FROM chunks WHERE is_code = $value::BOOLEAN
-- name: written_by
SELECT chunk_no FROM chunks WHERE doc_id IN (SELECT message_id FROM messages WHERE person_id IN (SELECT unnest($persons)))
-- name: answering
SELECT chunk_no FROM chunks WHERE doc_id IN (
  SELECT t.message_id FROM thread_tree t JOIN messages p ON p.message_id = t.parent_id
  WHERE p.person_id IN (SELECT unnest($persons))
)
-- name: spoken_by
SELECT chunk_no FROM chunks
WHERE chunk_kind = 'turn' AND regexp_extract(text_display, '^(.+), [^,\n]*\n', 1) IN (SELECT unnest($persons))
-- name: with_own_trailer
SELECT chunk_no FROM chunks WHERE doc_id IN (
  SELECT message_id FROM trailers t JOIN messages m USING (message_id) WHERE t.kind = $kind AND t.person_id = m.person_id
) AND NOT has_patch_markers
