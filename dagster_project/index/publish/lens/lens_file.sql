-- The part of the published file `src` that a lens shows: a mail or document as a whole if its own text is, an attachment if it is.
-- name: shown
CREATE TEMP TABLE shown_docs AS SELECT DISTINCT doc_id FROM src.chunks SEMI JOIN shown_chunks USING (chunk_no)
WHERE attachment_id IS NULL AND doc_id NOT IN (SELECT message_id FROM unshown);
CREATE TEMP TABLE shown_attachments AS SELECT DISTINCT attachment_id
FROM src.chunks SEMI JOIN shown_chunks USING (chunk_no) SEMI JOIN shown_docs USING (doc_id)
WHERE attachment_id IS NOT NULL;
CREATE TEMP TABLE shown_ids AS SELECT doc_id AS id FROM shown_docs
UNION ALL SELECT message_id FROM others UNION ALL SELECT node_id FROM src.nodes SEMI JOIN shown_docs USING (doc_id);
CREATE TEMP TABLE lake_memberships AS SELECT * FROM lens_memberships
WHERE message_id IN (SELECT id FROM shown_ids) ORDER BY message_id, source, partition, list_id
-- name: of_mail
message_id IN (SELECT doc_id FROM shown_docs)
-- name: of_document
doc_id IN (SELECT doc_id FROM shown_docs)
-- name: of_attachment
attachment_id IN (SELECT attachment_id FROM shown_attachments)
-- name: of_text
{of_document} AND (attachment_id IS NULL OR {of_attachment})
-- name: of_nothing
false
-- name: times
SELECT partition, max(seen_at) AS seen_at, max(parsed_at) AS parsed_at, max(chunked_at) AS chunked_at,
  max(embedded_at) AS embedded_at FROM src.readiness GROUP BY partition
-- Tables but those that say when something was made.
-- name: undated_tables
SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() AND NOT temporary
  AND table_name NOT IN ('readiness', 'manifest') ORDER BY table_name
