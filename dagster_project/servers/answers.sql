-- name: thread
SELECT n.thread_id, n.message_id, n.parent_id, n.depth, t.subject AS thread_subject,
  m.from_name, m.from_addr, m.effective_at, m.subject
FROM thread_tree n JOIN threads t USING (thread_id) LEFT JOIN messages m USING (message_id)
WHERE n.thread_id = $id OR n.thread_id IN (SELECT thread_id FROM thread_tree WHERE message_id = $id)
ORDER BY n.position LIMIT $limit OFFSET $start
-- name: sources
SELECT source AS name, list_sort(list(DISTINCT source_kind)) AS kinds,
  (SELECT coalesce(list(DISTINCT list_id ORDER BY list_id), []) FROM memberships m
    WHERE m.source = c.source AND list_id IS NOT NULL) AS lists,
  count(DISTINCT doc_id) AS documents, count(*) AS passages, max(dated_at) AS newest
FROM chunks c LEFT JOIN ({dated}) USING (doc_id) GROUP BY source ORDER BY source
