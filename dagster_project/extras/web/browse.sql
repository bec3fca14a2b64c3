-- The lists of the page that browses: of each row its heading, the kind and id of its page, its title, facts and picture.
-- name: found
($chunks::INTEGER[] IS NULL OR doc_id IN (SELECT doc_id FROM chunks WHERE chunk_no IN (SELECT unnest($chunks::INTEGER[]))))
-- name: page
LIMIT 101 OFFSET $start
-- name: found_threads
thread_id IN (SELECT thread_id FROM (SELECT thread_id, message_id AS doc_id FROM thread_tree) WHERE {found})
-- name: threads
SELECT strftime(last_at, '%B %Y') AS heading, 'thread' AS kind, thread_id AS id, subject AS title,
  concat_ws(' · ', message_count || ' mail' || if(message_count = 1, '', 's'), last_at::DATE) AS facts, '' AS picture
FROM threads WHERE last_at IS NOT NULL AND {found_threads} ORDER BY last_at DESC, thread_id {page}
-- name: unanswered
SELECT strftime(last_at, '%B %Y') AS heading, 'thread' AS kind, thread_id AS id, subject AS title,
  concat_ws(' · ', author, last_at::DATE) AS facts, '' AS picture
FROM open_threads WHERE is_unanswered AND {found_threads} ORDER BY last_at DESC, thread_id {page}
-- name: of_document
'document' AS kind, doc_id AS id, title, concat_ws(' · ', path, coalesce(modified_at, created_at)::DATE) AS facts,
  if(picture IS NULL, '', 'document') AS picture
-- name: folders
SELECT source || if(contains(path, '/'), ': ' || regexp_replace(path, '/[^/]*$', ''), '') AS heading, {of_document}
FROM documents WHERE {found}
ORDER BY source, heading, NOT regexp_matches(path, '(?i)(^|/)_?(index|readme|summary)\.\w+$'), path {page}
-- name: days
SELECT strftime(dated_at, '%A, %-d %B %Y') AS heading, * EXCLUDE dated_at FROM (
  SELECT {of_document}, coalesce(modified_at, created_at) AS dated_at FROM documents WHERE {found}
  UNION ALL SELECT 'conversation', min(doc_id), any_value(title), count(*) || if(count(*) = 1, ' turn', ' turns') || ' of a chat', '', sent_at::DATE
  FROM conversations WHERE {found} GROUP BY conversation_id, sent_at::DATE
) WHERE dated_at IS NOT NULL ORDER BY dated_at::DATE DESC, title, id {page}
-- name: today
SELECT year(dated_at)::VARCHAR AS heading, * EXCLUDE dated_at FROM (
  SELECT 'message' AS kind, message_id AS id, subject AS title, coalesce(from_name, from_addr) AS facts, '' AS picture,
    effective_at AS dated_at FROM (SELECT *, message_id AS doc_id FROM messages) WHERE {found}
  UNION ALL SELECT {of_document}, coalesce(modified_at, created_at) FROM documents WHERE {found}
  UNION ALL SELECT 'conversation', doc_id, any_value(title), count(*) || if(count(*) = 1, ' turn', ' turns') || ' of a chat', '', sent_at::DATE
  FROM conversations WHERE {found} GROUP BY doc_id, sent_at::DATE
) WHERE strftime(dated_at, '%m-%d') = $today ORDER BY dated_at DESC, id {page}
-- The turn of a chat that names each file; a window has its files in the order of its turns.
-- name: file_turns
SELECT doc_id, title, author, sent_at, unnest(range(behind - file_count, behind)) AS part_index FROM (
  SELECT *, (sum(file_count) OVER (PARTITION BY doc_id ORDER BY turn))::BIGINT AS behind FROM conversations WHERE file_count > 0)
-- name: attachment
SELECT a.*, coalesce(m.subject, w.title) AS subject, coalesce(m.from_name, m.from_addr, t.author) AS author,
  coalesce(m.effective_at, t.sent_at) AS effective_at,
  CASE WHEN w.doc_id IS NULL THEN 'message' ELSE 'conversation' END AS kind
FROM attachments a LEFT JOIN messages m USING (message_id) LEFT JOIN conversation_windows w ON w.doc_id = a.message_id
LEFT JOIN ({file_turns}) t ON t.doc_id = a.message_id AND t.part_index = a.part_index
WHERE attachment_id = $id
-- name: files
SELECT strftime(dated_at, '%B %Y') AS heading, * EXCLUDE dated_at FROM (
  SELECT 'attachment' AS kind, attachment_id AS id, filename AS title,
    concat_ws(' · ', nullif(content_class, 'other'), CASE WHEN byte_count > 0 THEN formatReadableDecimalSize(byte_count) END,
      coalesce(m.subject, t.title)) AS facts, if(reason LIKE 'missing%', '', 'attachment') AS picture,
    coalesce(m.effective_at, t.sent_at) AS dated_at
  FROM (SELECT *, message_id AS doc_id FROM attachments) a LEFT JOIN messages m USING (message_id)
  LEFT JOIN ({file_turns}) t USING (doc_id, part_index) WHERE {found}
  UNION ALL SELECT {of_document}, coalesce(modified_at, created_at) FROM documents
  WHERE (picture IS NOT NULL OR format NOT IN ('markdown', 'text')) AND {found}
) ORDER BY dated_at DESC NULLS LAST, id {page}
-- name: doc_links
SELECT coalesce(f.doc_id, l.from_id) AS doc_id, coalesce(t.doc_id, l.to_id) AS to_doc, l.target, l.kind
FROM links l LEFT JOIN nodes f ON f.node_id = l.from_id LEFT JOIN nodes t ON t.node_id = l.to_id
WHERE l.source_kind = 'document'
-- name: notes
WITH notes AS (SELECT * FROM documents WHERE {found}), linked AS ({doc_links})
(SELECT 'Tags' AS heading, 'tag' AS kind, tag AS id, '#' || tag AS title, count(*)::VARCHAR AS facts, '' AS picture
  FROM (SELECT unnest(tags) AS tag FROM notes) GROUP BY tag ORDER BY count(*) DESC, tag LIMIT 40)
UNION ALL (SELECT 'Most linked', 'document', n.doc_id, n.title, 'from ' || count(DISTINCT l.doc_id), ''
  FROM linked l JOIN notes n ON n.doc_id = l.to_doc WHERE l.doc_id <> n.doc_id
  GROUP BY n.doc_id, n.title ORDER BY count(DISTINCT l.doc_id) DESC, n.doc_id LIMIT 20)
UNION ALL (SELECT 'Links that lead nowhere', 'document', l.doc_id, l.target, 'in ' || n.title, ''
  FROM linked l JOIN notes n USING (doc_id) WHERE l.to_doc IS NULL AND l.kind <> 'url' ORDER BY l.target, l.doc_id LIMIT 100)
UNION ALL (SELECT 'No note links to these', 'document', n.doc_id, n.title, n.path, '' FROM notes n
  WHERE NOT EXISTS (FROM linked l WHERE l.to_doc = n.doc_id AND l.doc_id <> n.doc_id) ORDER BY n.doc_id LIMIT 100)
UNION ALL (SELECT 'By month', 'month', strftime(coalesce(modified_at, created_at), '%Y-%m') AS month, month,
  count(*)::VARCHAR, '' FROM notes WHERE month IS NOT NULL GROUP BY month ORDER BY month DESC LIMIT 120)
-- name: one_row
SELECT 1 FROM ({list}) LIMIT 1
