-- The views of the file of the lake that join its tables.
-- What each query of a window of a chat retrieved, beside what it asked: a row for each candidate.
-- name: conversation_retrievals
SELECT c.window_id, c.query, coalesce(q.text_query, w.markdown) AS query_text, c.rank, c.chunk_id, c.document_id,
  c.source_kind, c.similarity, c.lexical_score, c.score, c.evidence, d.place, d.found_by,
  coalesce(list_contains([r.chunk_id FOR r IN x.records], c.chunk_id), false) AS is_shown,
  x.outcome, x.index_version, c.partition
FROM conversation_candidates c
JOIN conversation_markdown w ON w.doc_id = c.window_id
LEFT JOIN conversation_query_chunks q ON q.doc_id = c.window_id AND q.chunk_index = c.query
LEFT JOIN conversation_documents d ON d.window_id = c.window_id AND d.chunk_id = c.chunk_id
LEFT JOIN conversation_context x ON x.window_id = c.window_id
ORDER BY c.window_id, c.query, c.rank
