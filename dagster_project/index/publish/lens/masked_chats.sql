-- The chats of a lens whose names are replaced.
-- name: ids
CREATE TEMP TABLE masked_ids (doc_id VARCHAR)
-- name: masked
CREATE TEMP TABLE masked_docs AS SELECT DISTINCT doc_id FROM src.conversations SEMI JOIN shown_docs USING (doc_id)
WHERE source IN (SELECT unnest($sources::VARCHAR[]))
-- name: turns
FROM ({rows}) WHERE doc_id IN (FROM masked_docs) ORDER BY conversation_id, turn
-- name: attachments
FROM ({rows}) WHERE message_id IN (FROM masked_docs) ORDER BY message_id, part_index
-- name: names
SELECT DISTINCT author FROM src.conversations WHERE author IS NOT NULL AND source IN (SELECT unnest($sources::VARCHAR[]))
-- name: key
, {chunk_key} AS chunk_key
-- name: created
CREATE TEMP TABLE masked_{table} AS SELECT *{added} FROM data
-- name: shown
DELETE FROM shown_docs WHERE doc_id IN (FROM masked_docs);
DELETE FROM shown_attachments WHERE attachment_id IN (SELECT attachment_id FROM masked_attachments);
DELETE FROM shown_ids WHERE id IN (FROM masked_docs);
INSERT INTO masked_ids SELECT doc_id FROM masked_conversation_windows;
INSERT INTO shown_ids FROM masked_ids
