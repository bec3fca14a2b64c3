-- name: thread
SELECT thread_id, subject, message_count, participant_count, first_at, last_at FROM threads
WHERE thread_id = $id OR thread_id IN (SELECT thread_id FROM thread_tree WHERE message_id = $id)
-- name: messages
SELECT t.message_id, t.parent_id, t.position, t.depth, t.is_ghost, m.subject, m.from_name, m.from_addr,
  m.effective_at AS at, lake_text(m.body) AS text
FROM (FROM thread_tree WHERE thread_id = $id ORDER BY position LIMIT $limit OFFSET $start) t
LEFT JOIN stored_messages m USING (message_id) ORDER BY t.position
