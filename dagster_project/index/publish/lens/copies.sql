-- The copies of mails that a lens shows, and the relations of its mails and documents.
-- A mail whose Message-ID another mail has, too, has a part of its hash behind its id.
-- name: copies
CREATE TEMP TABLE of_mails AS SELECT *, regexp_replace(message_id, '(\+[0-9a-f]{8})+$', '') AS plain_id,
  (message_id, source, partition, stored_message_id)
    IN (SELECT (message_id, source, partition, stored_message_id) FROM shown_copies) AS is_shown
FROM src.memberships;
CREATE TEMP TABLE partly_hidden AS SELECT plain_id FROM of_mails GROUP BY plain_id
HAVING bool_or(is_shown) AND NOT bool_and(is_shown);
CREATE TEMP TABLE lens_memberships AS SELECT * EXCLUDE (plain_id, is_shown) FROM of_mails
WHERE is_shown AND plain_id NOT IN (FROM partly_hidden);
CREATE TEMP TABLE stored AS SELECT DISTINCT partition, stored_message_id AS message_id FROM of_mails
WHERE is_shown AND plain_id IN (FROM partly_hidden)
-- name: stored_mails
SELECT source, partition, list_id, labels, message_id, header_message_id, text_hash, content_hash, part_hashes, effective_at
FROM lake_messages SEMI JOIN stored USING (partition, message_id)
-- name: others
INSERT INTO lens_memberships BY NAME FROM rejoined;
CREATE TEMP TABLE others AS
SELECT r.message_id, r.stored_message_id, r.source, r.partition, c.is_whole FROM rejoined r
JOIN shown_copies c USING (source, partition, stored_message_id) WHERE c.message_id IN (
  SELECT o.message_id FROM of_mails o WHERE o.partition = r.partition AND o.stored_message_id = r.stored_message_id)
AND r.is_canonical AND NOT EXISTS (FROM src.memberships p WHERE p.is_canonical AND p.message_id = r.message_id
  AND p.partition = r.partition AND p.stored_message_id = r.stored_message_id);
CREATE TEMP TABLE unshown AS SELECT DISTINCT message_id FROM of_mails WHERE plain_id IN (FROM partly_hidden)
EXCEPT SELECT message_id FROM rejoined WHERE is_canonical AND message_id NOT IN (SELECT message_id FROM others)
-- name: rows_of_others
CREATE TEMP TABLE "other_{table}" AS
SELECT t.* REPLACE (o.message_id AS "{id}"){key} FROM "lake_{table}" t JOIN others o
  ON o.partition = t.partition AND o.stored_message_id = t."{id}" WHERE {parts}
-- name: mails
SELECT message_id, in_reply_to, refs, subject, from_addr, from_name, effective_at FROM messages ORDER BY message_id
-- A reference that led to a hidden text may lead elsewhere, or be none that is recorded where nothing is.
-- name: unled
CREATE TEMP TABLE unled AS
SELECT from_id FROM src.links WHERE from_id IN (SELECT id FROM shown_ids)
  AND (to_id NOT IN (SELECT id FROM shown_ids) OR to_id IN (SELECT message_id FROM others))
UNION SELECT message_id FROM others
-- name: naming_mails
SELECT message_id, source, partition, body FROM messages WHERE message_id IN (FROM unled) ORDER BY message_id
-- name: naming_documents
SELECT doc_id, source, partition, format, text, body_start, path, title, aliases FROM documents
WHERE source IN (SELECT source FROM nodes WHERE node_id IN (FROM unled)) ORDER BY doc_id
-- name: links
SELECT * FROM src.links WHERE source_kind = '{kind}' AND from_id IN (SELECT id FROM shown_ids)
  AND from_id NOT IN (FROM unled)
UNION ALL BY NAME SELECT * FROM new_rows WHERE from_id IN (FROM unled)
-- A parent that no archive holds is named by the same id as one that the lens hides.
-- name: answering
CREATE TEMP TABLE answering AS SELECT t.message_id, t.parent_id FROM lake_thread_tree t
LEFT JOIN src.thread_tree s USING (message_id)
WHERE t.message_id IN (SELECT message_id FROM messages) AND (
  t.message_id IN (SELECT message_id FROM others) OR t.parent_id IN (SELECT message_id FROM others)
  OR t.parent_id IS DISTINCT FROM s.parent_id
  OR t.parent_id IN (SELECT message_id FROM src.messages) AND t.parent_id NOT IN (SELECT message_id FROM messages));
CREATE TEMP TABLE counted AS
SELECT chunk_id, chunk_key, partition FROM chunks
WHERE doc_id IN (SELECT message_id FROM answering) OR doc_id IN (FROM masked_ids)
-- name: compared
SELECT * FROM "{table}" WHERE "{id}" IN (SELECT message_id FROM answering UNION SELECT parent_id FROM answering)
ORDER BY "{order}"
-- name: quotes
SELECT * FROM src.inferred_quotes WHERE message_id NOT IN (SELECT message_id FROM answering)
  AND message_id IN (SELECT message_id FROM messages) AND parent_id IN (SELECT id FROM shown_ids)
UNION ALL BY NAME FROM new_rows
-- name: context
SELECT * FROM src.chunk_context SEMI JOIN chunks USING (chunk_id) ANTI JOIN counted USING (chunk_id)
UNION ALL BY NAME FROM new_rows
-- name: anchored
UPDATE chunks SET anchor_source = CASE
  WHEN chunk_id IN (SELECT chunk_id FROM lake_chunk_context WHERE context <> '') THEN 'parent'
  WHEN anchor_source = 'parent' THEN 'none' ELSE anchor_source END
WHERE chunk_id IN (SELECT chunk_id FROM counted)
-- name: counted_chunks
SELECT * FROM chunks SEMI JOIN counted USING (chunk_id) ORDER BY chunk_no
-- name: own_terms
SELECT new_rows.*, partition FROM new_rows JOIN counted USING (chunk_id)
-- Only the context of mails depends on the texts shown beside them.
-- name: no_terms
CREATE TEMP VIEW new_document_terms AS FROM new_message_terms WHERE false;
CREATE TEMP VIEW new_conversation_terms AS FROM new_message_terms WHERE false
