-- Discussions by the places of their threads among the hits of a topic; one has also the threads of other revisions of its patches.
-- name: discussions
WITH hit AS (SELECT unnest($ids::VARCHAR[]) AS id, unnest(range(len($ids::VARCHAR[]))) AS rank),
topic AS (
  SELECT n.thread_id, min(h.rank) AS rank FROM hit h JOIN thread_tree n ON n.message_id = h.id
  GROUP BY ALL ORDER BY rank LIMIT $most
),
revisions AS (
  SELECT f.series_id, min(t.rank) AS rank FROM topic t JOIN thread_tree n USING (thread_id) JOIN patch_series f USING (message_id)
  GROUP BY ALL
)
SELECT thread_id, min(rank) AS rank FROM (
  FROM topic UNION ALL BY NAME
  SELECT n.thread_id, r.rank FROM revisions r JOIN patch_series f USING (series_id) JOIN thread_tree n USING (message_id)
) GROUP BY ALL
-- Their mails, each with what it answers, the ranges of its author's words, and the revision that it belongs to.
-- name: mails
WITH discussion AS ({discussions}),
mail AS (SELECT d.rank, n.thread_id, n.position, n.message_id FROM discussion d JOIN thread_tree n USING (thread_id) WHERE NOT n.is_ghost),
own AS (
  SELECT b.message_id, list({'start': b.byte_start, 'end': b.byte_end} ORDER BY b.block_index) AS ranges
  FROM mail JOIN blocks b USING (message_id) WHERE b.kind = 'author' GROUP BY ALL
),
of_others AS (
  SELECT q.message_id, list({'start': q.byte_start, 'end': q.byte_end} ORDER BY q.byte_start) AS ranges
  FROM mail JOIN inferred_quotes q USING (message_id) GROUP BY ALL
),
first_author AS (SELECT thread_id, arg_min(m.person_id, position) AS person_id FROM mail JOIN messages m USING (message_id) GROUP BY ALL)
SELECT l.rank, l.thread_id, m.message_id, t.subject AS thread_subject, m.subject, m.body, m.person_id,
  coalesce(m.from_name, m.from_addr) AS author, m.effective_at, a.person_id IS NOT DISTINCT FROM m.person_id AS is_first_author,
  coalesce(o.ranges, []) AS ranges, coalesce(q.ranges, []) AS holes, f.series_id, f.version, f.title, f.is_reply, f.is_latest, f.part
FROM mail l JOIN messages m USING (message_id) JOIN threads t USING (thread_id) JOIN first_author a USING (thread_id)
LEFT JOIN own o USING (message_id) LEFT JOIN of_others q USING (message_id) LEFT JOIN patch_series f USING (message_id)
ORDER BY l.rank, m.effective_at, l.thread_id, l.position
-- Trailers by which somebody decides on what they answer.
-- name: trailers
WITH discussion AS ({discussions})
SELECT t.message_id, t.kind, t.byte_start, t.byte_end
FROM discussion d JOIN thread_tree n USING (thread_id) JOIN messages m USING (message_id) JOIN trailers t USING (message_id)
LEFT JOIN patch_series f USING (message_id)
WHERE t.kind IN (SELECT unnest($kinds::VARCHAR[])) AND f.is_reply IS DISTINCT FROM false
  AND (t.person_id = m.person_id OR t.addr = m.from_addr OR lower(t.name) = lower(m.from_name))
ORDER BY t.message_id, t.byte_start
-- name: windows
SELECT doc_id, title, markdown FROM conversation_windows WHERE doc_id IN (SELECT unnest($ids::VARCHAR[]))
