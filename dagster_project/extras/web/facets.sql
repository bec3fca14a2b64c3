-- The facts of hits that facets count.
-- name: facts
WITH hits AS (SELECT unnest($chunks::INTEGER[]) AS chunk_no),
found AS (SELECT c.doc_id, min(c.source_kind) AS kind, min(c.source) AS source
  FROM chunks c JOIN hits USING (chunk_no) GROUP BY c.doc_id)
SELECT f.kind, f.source, m.list_id AS list, s.person_id AS "from", s.name AS author, d.dated_at, o.tags AS tag, o.format, o.frontmatter,
  CASE WHEN contains(o.path, '/') THEN split_part(o.path, '/', 1) END AS path
FROM found f LEFT JOIN messages m ON m.message_id = f.doc_id LEFT JOIN senders s ON s.message_id = f.doc_id LEFT JOIN documents o ON o.doc_id = f.doc_id
LEFT JOIN ({dated}) d ON d.doc_id = f.doc_id
