-- Texts one step away from hits, which `$chunk_ids` and `$node_ids` name.
-- name: hits
WITH hits AS (
  SELECT unnest(range(len($chunk_ids))) AS hit, unnest($chunk_ids::VARCHAR[]) AS chunk_id,
    unnest($node_ids::VARCHAR[]) AS node_id
),
here AS (SELECT h.hit, h.node_id, c.* FROM hits h JOIN stored_chunks c USING (chunk_id)),
stored AS (
  SELECT message_id AS doc_id, NULL AS attachment_id, subject AS title, body AS text FROM stored_messages
  UNION ALL SELECT doc_id, NULL, title, text FROM stored_documents
  UNION ALL SELECT doc_id, NULL, title, markdown FROM stored_conversation_windows
  UNION ALL SELECT message_id, attachment_id, filename, text FROM stored_attachments
)
-- name: parent
{hits}
SELECT here.hit, 'parent' AS kind, m.message_id AS doc_id, NULL AS chunk_id, m.subject AS title,
  m.message_id AS place, lake_text(m.body) AS stored, strlen(lake_text(m.body)) AS last,
  coalesce((SELECT min(byte_start) FROM blocks b WHERE b.message_id = m.message_id AND b.kind = 'author'), 0) AS first
FROM here JOIN thread_tree t ON t.message_id = here.doc_id JOIN stored_messages m ON m.message_id = t.parent_id
ORDER BY here.hit
-- name: neighbours
{hits}
SELECT here.hit, CASE WHEN n.chunk_index < here.chunk_index THEN 'previous' ELSE 'next' END AS kind,
  n.doc_id, n.chunk_id, n.title, coalesce(o.node_id, n.doc_id) AS place, lake_text(s.text) AS stored,
  list_min([x.byte_start FOR x IN n.spans IF x.role = 'own']) AS first,
  list_max([x.byte_end FOR x IN n.spans IF x.role = 'own']) AS last
FROM here JOIN chunks n ON n.doc_id = here.doc_id AND n.attachment_id IS NOT DISTINCT FROM here.attachment_id
  AND (n.chunk_kind = here.chunk_kind OR n.source_kind <> 'conversation') AND abs(n.chunk_index - here.chunk_index) = 1
JOIN stored s ON s.doc_id = n.doc_id AND s.attachment_id IS NOT DISTINCT FROM n.attachment_id
LEFT JOIN nodes o ON o.node_id = n.parent_id
ORDER BY here.hit, n.chunk_index, n.chunk_id
-- name: section
{hits}
SELECT here.hit, 'section' AS kind, here.doc_id, NULL AS chunk_id,
  coalesce(ltrim(n.breadcrumb, '> '), s.title) AS title, coalesce(n.node_id, here.doc_id) AS place,
  lake_text(s.text) AS stored, coalesce(n.heading_start, 0) AS first, coalesce(n.body_end, strlen(lake_text(s.text))) AS last
FROM here LEFT JOIN nodes n ON n.node_id = here.node_id
JOIN stored s ON s.doc_id = here.doc_id AND s.attachment_id IS NOT DISTINCT FROM here.attachment_id
WHERE here.source_kind <> 'conversation'
ORDER BY here.hit
-- name: links
{hits}
, followed AS (
  SELECT DISTINCT here.hit, l.to_id, min(l.byte_start) AS byte_start
  FROM here JOIN links l ON l.from_id IN (here.doc_id, here.node_id)
  WHERE l.to_id IS NOT NULL AND l.to_id NOT IN (here.doc_id, coalesce(here.node_id, '')) GROUP BY here.hit, l.to_id
  QUALIFY row_number() OVER (PARTITION BY here.hit ORDER BY min(l.byte_start), l.to_id) <= $most
)
SELECT f.hit, 'link' AS kind, coalesce(n.doc_id, f.to_id) AS doc_id, NULL AS chunk_id,
  coalesce(ltrim(n.breadcrumb, '> '), s.title) AS title, f.to_id AS place, lake_text(s.text) AS stored,
  coalesce(n.heading_start, 0) AS first, coalesce(n.byte_end, strlen(lake_text(s.text))) AS last
FROM followed f LEFT JOIN nodes n ON n.node_id = f.to_id
JOIN stored s ON s.doc_id = coalesce(n.doc_id, f.to_id) AND s.attachment_id IS NULL
ORDER BY f.hit, f.byte_start, f.to_id
