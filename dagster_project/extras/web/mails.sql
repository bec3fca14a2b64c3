-- The data of the pages of mails and threads.
-- name: thread
SELECT * FROM threads WHERE thread_id = $id
-- name: thread_of
SELECT threads.* FROM threads JOIN thread_tree USING (thread_id) WHERE message_id = $id
-- name: tree
SELECT t.message_id, t.parent_id, t.depth, t.position, t.is_ghost, m.subject, m.subject_norm, m.effective_at,
  coalesce(m.from_name, m.from_addr) AS author
FROM thread_tree t LEFT JOIN messages m USING (message_id) WHERE t.thread_id = $id ORDER BY t.position
-- name: in
IN (SELECT unnest($ids::VARCHAR[]))
-- The rows are found first: bodies would be read of all rows else.
-- name: mails
SELECT message_id, subject, from_name, from_addr, effective_at, source, list_id, lake_text(body) AS body,
  place, to_addrs, to_names, cc_addrs, cc_names, reply_to
FROM stored_messages WHERE rowid IN (SELECT rowid FROM stored_messages WHERE message_id {in})
-- name: lists
SELECT DISTINCT message_id, list_id FROM memberships WHERE message_id {in} AND list_id IS NOT NULL ORDER BY ALL
-- name: blocks
SELECT message_id, kind, quote_depth, byte_start, byte_end FROM blocks WHERE message_id {in}
-- name: attachments
SELECT attachment_id, message_id, part_index, filename, declared_type, content_class, byte_count, reason,
  text IS NOT NULL AS has_text FROM stored_attachments WHERE message_id {in} ORDER BY message_id, part_index
-- name: links
SELECT from_id AS message_id, to_id, byte_start, byte_end FROM links WHERE from_id {in} AND to_id IS NOT NULL
-- name: series
SELECT * FROM patch_series WHERE message_id {in}
