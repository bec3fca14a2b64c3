-- The statements that fill a published file, and those that turn a copy of an earlier version into the next one.
-- The rows of the partitions that the views `new_...` show; of a mail in several of them, one counts.
-- name: rows_of_messages
SELECT t.* REPLACE (c.message_id AS message_id) FROM new_messages t JOIN {canonical}
-- name: rows_of_attachments
SELECT t.* REPLACE (c.message_id AS message_id) FROM new_attachments t JOIN {canonical}
UNION ALL BY NAME FROM new_conversation_attachments
-- name: rows_of_blocks
SELECT t.* REPLACE (c.message_id AS message_id) FROM new_message_blocks t JOIN {canonical}
-- name: rows_of_trailers
SELECT t.* REPLACE (c.message_id AS message_id) FROM new_message_trailers t JOIN {canonical}
-- name: rows_of_documents
SELECT * FROM new_documents
-- name: rows_of_nodes
SELECT * FROM new_document_nodes
-- name: rows_of_conversations
SELECT * FROM new_conversations
-- name: rows_of_conversation_windows
SELECT * FROM new_conversation_markdown
-- name: rows_of_exclusions
SELECT t.* REPLACE (c.message_id AS doc_id) FROM new_message_exclusions t JOIN {canonical_documents}
UNION ALL BY NAME FROM new_document_exclusions UNION ALL BY NAME FROM new_conversation_exclusions
-- name: rows_of_quarantine
FROM new_quarantine UNION ALL BY NAME FROM new_document_quarantine UNION ALL BY NAME FROM new_conversation_quarantine
-- name: rows_of_chunks
SELECT {chunk_key} AS chunk_key, rows.* REPLACE (CASE
  WHEN chunk_id IN (SELECT chunk_id FROM lake_chunk_context WHERE context <> '') THEN 'parent'
  WHEN anchor_source = 'parent' THEN 'none' ELSE anchor_source END AS anchor_source)
FROM (
  SELECT t.* REPLACE (c.message_id AS doc_id) FROM new_message_chunks t JOIN {canonical_documents}
  UNION ALL BY NAME FROM new_document_chunks UNION ALL BY NAME FROM new_conversation_chunks
) rows
-- name: canonical
{memberships} ON c.partition = t.partition AND c.stored_message_id = t.message_id
-- name: canonical_documents
{memberships} ON c.partition = t.partition AND c.stored_message_id = t.doc_id
-- name: memberships
(SELECT partition, stored_message_id, message_id FROM lake_memberships WHERE is_canonical) c
-- The number of a chunk in the inverted index, the same in every version.
-- name: chunk_key
('0x' || left(chunk_id, 16))::UBIGINT
-- name: numbers
CREATE TEMP TABLE numbers AS
SELECT rowid AS place, chunk_key, chunk_no AS old_no,
  (row_number() OVER (ORDER BY chunk_key) - 1)::INTEGER AS new_no
FROM chunks;
UPDATE chunks SET chunk_no = new_no FROM numbers WHERE chunks.rowid = place AND old_no IS DISTINCT FROM new_no
-- The numbers that chunks will have, from the lake: for work that does not wait for their rows.
-- name: numbered
CREATE TEMP TABLE numbered AS
SELECT chunk_id, chunk_key, partition, (row_number() OVER (ORDER BY chunk_key) - 1)::INTEGER AS chunk_no
FROM ({rows_of_chunks})
-- Text and quote of a chunk with inferred quotes are counted in context_terms, in place of its own.
-- name: restated
SELECT chunk_id FROM lake_chunk_context WHERE context_kind NOT IN ('parent', 'sentence')
-- name: chunks_of_partition
SELECT chunk_id, chunk_no FROM numbered WHERE partition = ?
-- name: chunks_with_context_terms
SELECT chunk_id, chunk_no FROM numbered WHERE chunk_id IN (SELECT chunk_id FROM lake_context_terms)
-- The terms of the chunks that `counted` names (chunk_id, chunk_key, partition).
-- name: added
CREATE TEMP VIEW stated_terms AS SELECT * FROM new_message_terms
WHERE field NOT IN ('text', 'quote') OR chunk_id NOT IN ({restated});
CREATE TEMP TABLE added AS
SELECT term, chunk_key, {sums}
FROM (
  SELECT chunk_id, field, term, tf FROM stated_terms SEMI JOIN counted USING (chunk_id, partition)
  UNION ALL SELECT chunk_id, field, term, tf FROM new_document_terms
  UNION ALL SELECT chunk_id, field, term, tf FROM new_conversation_terms
  UNION ALL SELECT chunk_id, field, term, tf FROM lake_context_terms
) JOIN counted USING (chunk_id)
GROUP BY term, chunk_key
-- name: added_lengths
SELECT chunk_key, {lengths}
FROM (SELECT chunk_key FROM counted) LEFT JOIN added USING (chunk_key) GROUP BY chunk_key ORDER BY chunk_key
-- name: term_forms
CREATE TABLE term_forms AS
SELECT form, term, sum(texts)::INTEGER AS chunk_count FROM added_forms GROUP BY ALL ORDER BY form, term
-- name: embedded_texts
CREATE TEMP TABLE embedded_texts AS
SELECT c.chunk_no, c.chunk_id, coalesce(x.checksum, c.checksum) AS text_hash
FROM ({chunks}) c LEFT JOIN lake_chunk_context x USING (chunk_id)
-- name: embedded
SELECT t.chunk_no, t.chunk_id, e.model, e.vector::FLOAT[{dimensions}] AS vector
FROM embedded_texts t JOIN "{vectors}" e USING (text_hash)
ORDER BY t.chunk_no
-- From the texts, since they are few: all chunks with their context would be joined first.
-- name: refused
SELECT c.chunk_no, c.chunk_id, c.doc_id, c.partition, model, reason FROM (
  SELECT chunk_id, model, reason FROM lake_embedding_refusals JOIN lake_chunk_context ON checksum = text_hash
  UNION ALL SELECT chunk_id, model, reason FROM lake_embedding_refusals JOIN chunks ON checksum = text_hash
  WHERE chunk_id NOT IN (SELECT chunk_id FROM lake_chunk_context)
) JOIN chunks c USING (chunk_id)
-- name: refusals
CREATE OR REPLACE TABLE embedding_refusals AS
SELECT chunk_no, chunk_id, doc_id, model, reason FROM ({refused}) ORDER BY chunk_no
-- Two chunks with one number in the inverted index, where the words of one would be found for the other; asked for only if
-- "a chunk has one row" is broken, which they break.
-- name: twin_keys
SELECT min(chunk_id), max(chunk_id) FROM chunks GROUP BY chunk_key HAVING min(chunk_id) <> max(chunk_id) ORDER BY 1 LIMIT 1
-- name: models
SELECT DISTINCT model, dimensions FROM lake_embeddings ORDER BY ALL
-- name: tables
SELECT table_name FROM duckdb_tables()
WHERE NOT temporary AND table_name <> 'manifest' AND database_name = current_database()
-- The rows of `readiness` that can differ from those of the version before: changed and waiting ones.
-- name: readiness_scope
CREATE TEMP TABLE scope AS FROM touched UNION SELECT partition FROM readiness WHERE waits_for IS NOT NULL
-- name: in_scope
partition IN (FROM scope)
-- Rows of some partitions in the version before.
-- name: published_readiness
SELECT {times} FROM readiness WHERE partition IN (SELECT unnest(?))
-- Those that the lake keeps in case that no version can be used.
-- name: stored_readiness
SELECT {times} FROM lake_readiness
-- name: times
doc_id, kind, content_hash, seen_at, parsed_at, chunked_at, embedded_at, published_at, waits_for
-- The texts, if search can find them, and the times of each step; `before` selects rows whose times are kept, `$now` is the time.
-- name: readiness
WITH readable AS (
  SELECT message_id AS doc_id, 'message' AS kind, source, partition, subject AS title, effective_at, content_hash
  FROM messages
  UNION ALL BY NAME SELECT doc_id, 'document' AS kind, source, partition, title,
    coalesce(modified_at, created_at) AS effective_at, content_hash FROM documents
  UNION ALL BY NAME SELECT doc_id, 'conversation' AS kind, source, partition, title, first_at AS effective_at,
    content_hash FROM conversation_windows
),
chunked AS (SELECT doc_id, count(*) AS chunk_count FROM chunks WHERE {scope} GROUP BY doc_id),
excluded AS (SELECT doc_id, list(DISTINCT reason ORDER BY reason) AS reasons FROM exclusions WHERE {scope} GROUP BY doc_id),
before AS (
  SELECT doc_id, kind, content_hash, arg_min(b, published_at) AS first FROM ({before}) b
  GROUP BY doc_id, kind, content_hash
),
-- A text that waited was not there as a whole: its times begin when it no longer waits.
whole AS (SELECT * FROM before WHERE first.waits_for IS NULL),
timed AS (
  SELECT r.*, coalesce(c.chunk_count, 0) AS chunk_count, c.doc_id IS NOT NULL AS is_searchable,
    coalesce(e.reasons, []::VARCHAR[]) AS excluded_for,
    if(list_contains(e.reasons, 'slow_lane'), 'slow lane', NULL) AS waits_for,
    coalesce(b.first.seen_at, t.seen_at, $now) AS seen_at, coalesce(b.first.parsed_at, t.parsed_at, $now) AS parsed_at,
    coalesce(w.first.chunked_at, t.chunked_at, b.first.chunked_at, $now) AS chunked_at,
    if(c.doc_id IS NULL, NULL, coalesce(w.first.embedded_at, t.embedded_at, b.first.embedded_at, $now))
      AS embedded_at,
    coalesce(w.first.published_at, $now) AS published_at
  FROM (FROM readable WHERE {scope}) r LEFT JOIN chunked c USING (doc_id) LEFT JOIN excluded e USING (doc_id)
  LEFT JOIN before b USING (doc_id, kind, content_hash) LEFT JOIN whole w USING (doc_id, kind, content_hash)
  LEFT JOIN stage_times t USING (partition)
)
SELECT *, greatest(epoch(published_at) - epoch(seen_at), 0) AS lag_seconds FROM timed ORDER BY doc_id, kind
-- The person of an address can change by mails of other partitions, so all rows are compared.
-- name: persons
CREATE OR REPLACE TEMP TABLE persons AS
SELECT place, now AS person_id FROM (
  SELECT t.rowid AS place, t.person_id AS before,
    coalesce(if(p.is_shared, nullif(t.{name}, ''), p.person_id), t.{addr}, t.{name}) AS now
  FROM {table} t LEFT JOIN people p ON p.addr = t.{addr}
) WHERE before IS DISTINCT FROM now;
UPDATE {table} SET person_id = persons.person_id FROM persons WHERE {table}.rowid = persons.place
-- name: participant_counts
CREATE TEMP TABLE participant_counts AS
SELECT t.rowid AS place, t.participant_count AS before, count(DISTINCT m.person_id) AS now
FROM threads t LEFT JOIN thread_tree n USING (thread_id) LEFT JOIN messages m USING (message_id)
GROUP BY ALL HAVING before IS DISTINCT FROM now;
UPDATE threads SET participant_count = now FROM participant_counts WHERE threads.rowid = place
-- name: first_seen_before
SELECT source, partition, place, bytes_sha256, min(first_seen) AS first_seen FROM quarantine GROUP BY ALL
-- name: first_seen
UPDATE quarantine q SET first_seen = b.first_seen FROM seen_before b
WHERE b.source = q.source AND b.partition = q.partition AND b.place = q.place
  AND b.bytes_sha256 IS NOT DISTINCT FROM q.bytes_sha256 AND q.first_seen IS NULL
-- Rows are compared by their hashes, so that no text is in memory: equal rows of a key cancel out.
-- name: differing
CREATE TEMP TABLE "differing_{table}" AS
SELECT key FROM (
  SELECT {key} AS key, hash({columns})::HUGEINT AS print, 1 AS side FROM "{table}" WHERE {scope}
  UNION ALL SELECT {key}, hash({columns})::HUGEINT, -1 FROM "rows_of_{table}"
) GROUP BY key HAVING sum(print * side) <> 0 OR sum(side) <> 0
-- name: replaced
DELETE FROM "{table}" WHERE {scope} AND {key} IN (FROM "differing_{table}");
INSERT INTO "{table}" BY NAME SELECT {columns} FROM "rows_of_{table}" WHERE {key} IN (FROM "differing_{table}")
-- name: changed_parts
CREATE TEMP TABLE changed_parts AS
SELECT DISTINCT table_name, part FROM (
  (FROM parts_now EXCEPT FROM parts) UNION ALL (FROM parts EXCEPT FROM parts_now)
);
CREATE OR REPLACE TABLE parts AS FROM parts_now
-- The rows of a table in parts that can differ.
-- name: in_changed_parts
bucket IN (SELECT part FROM changed_parts WHERE table_name = '{table}')
-- The rows of a table that can differ: those of changed or removed partitions.
-- name: in_touched
partition IN (FROM touched)
-- A row for each key that lost text, which a column of the table holds.
-- name: lost_text
SELECT 1 FROM (
  SELECT rowid AS place, {key} AS key, {text} AS text FROM "{table}"
  WHERE rowid IN (SELECT rowid FROM "{table}" WHERE {key} IN (FROM "differing_{table}"))
) b LEFT JOIN (
  SELECT {key} AS key, {text} AS text FROM "rows_of_{table}" WHERE {key} IN (FROM "differing_{table}")
) n USING (key)
GROUP BY place HAVING NOT coalesce(bool_or(contains(n.text, b.text)), false)
-- By the numbers of rows: otherwise DuckDB reads the texts of all chunks before it filters.
-- name: texts
{texts_of} chunks WHERE rowid IN (SELECT rowid FROM chunks WHERE chunk_id IN (FROM differing_chunks))
-- Partitions are read from the lake if their files changed, if other mails of them are canonical now, or if the
-- relations of one of their chunks changed, or whether a model refuses it.
-- name: changed
CREATE TEMP TABLE changed AS
WITH canonical_now AS (
  SELECT partition, message_id, stored_message_id FROM rows_of_memberships
  WHERE is_canonical AND message_id IN (FROM differing_memberships)
), canonical_before AS (
  SELECT partition, message_id, stored_message_id FROM memberships
  WHERE is_canonical AND message_id IN (FROM differing_memberships)
), refused_now AS (
  SELECT chunk_id, partition FROM ({refused})
), refused_before AS (
  SELECT chunk_id, partition FROM chunks SEMI JOIN embedding_refusals USING (chunk_id)
)
SELECT DISTINCT partition FROM (
  SELECT partition FROM (FROM partitions_now EXCEPT FROM partitions)
  UNION ALL SELECT partition FROM (FROM canonical_now EXCEPT FROM canonical_before)
  UNION ALL SELECT partition FROM (FROM canonical_before EXCEPT FROM canonical_now)
  UNION ALL SELECT partition FROM chunks WHERE chunk_id IN (FROM differing_chunk_context)
  UNION ALL SELECT partition FROM chunks WHERE doc_id IN (FROM differing_inferred_quotes)
  UNION ALL SELECT partition FROM (FROM refused_now EXCEPT FROM refused_before)
  UNION ALL SELECT partition FROM (FROM refused_before EXCEPT FROM refused_now)
) WHERE partition IN (SELECT partition FROM partitions_now);
CREATE TEMP TABLE touched AS
FROM changed UNION SELECT partition FROM partitions WHERE partition NOT IN (SELECT partition FROM partitions_now);
DELETE FROM partitions;
INSERT INTO partitions FROM partitions_now
-- Inferred quotes count as quotes: another one in a mail changes the counts of its chunks. Texts that a model refuses, or takes
-- at last, are counted with them, so that a chunk with another vector is one with other terms.
-- name: recounted
CREATE TEMP TABLE refused_before AS SELECT chunk_id FROM embedding_refusals;
{refusals};
CREATE TEMP TABLE recounted AS
SELECT chunk_id, {chunk_key} AS chunk_key FROM (
  SELECT key AS chunk_id FROM differing_chunks UNION SELECT key FROM differing_chunk_context
  UNION SELECT chunk_id FROM chunks WHERE doc_id IN (FROM differing_inferred_quotes)
  UNION (FROM refused_before EXCEPT SELECT chunk_id FROM embedding_refusals)
  UNION (SELECT chunk_id FROM embedding_refusals EXCEPT FROM refused_before)
);
CREATE TEMP TABLE counted AS
SELECT chunk_id, chunk_key, partition FROM chunks WHERE chunk_id IN (SELECT chunk_id FROM recounted);
-- A delete reads the keys of all postings, unless there are none to look for.
CREATE TEMP TABLE uncounted AS SELECT chunk_key FROM recounted SEMI JOIN chunk_lengths USING (chunk_key)
-- To delete and return the rows in one statement takes ten microseconds for each of them.
-- name: gone_postings
CREATE TEMP TABLE gone_postings AS SELECT rowid AS place, term_id FROM postings WHERE chunk_key IN (FROM uncounted);
DELETE FROM postings WHERE rowid IN (SELECT place FROM gone_postings)
-- name: changed_terms
CREATE TEMP TABLE gone_from_terms AS
SELECT term_id, any_value(term) AS term, count(*)::INTEGER AS df FROM gone_postings JOIN terms USING (term_id)
GROUP BY term_id;
UPDATE terms SET df = terms.df - g.df FROM gone_from_terms g WHERE g.term_id = terms.term_id;
CREATE TEMP TABLE came_to_terms AS
WITH came AS (SELECT term, count(*)::INTEGER AS df FROM added GROUP BY term),
highest AS (SELECT coalesce(max(term_id), -1) AS term_id FROM terms)
SELECT coalesce(t.term_id, highest.term_id + row_number() OVER (PARTITION BY t.term_id IS NULL ORDER BY came.term))::INTEGER
  AS term_id, came.term, came.df, t.term_id IS NULL AS is_new
FROM came LEFT JOIN terms t USING (term) CROSS JOIN highest;
UPDATE terms SET df = terms.df + c.df FROM came_to_terms c WHERE c.term_id = terms.term_id;
INSERT INTO terms SELECT term_id, term, df FROM came_to_terms WHERE is_new ORDER BY term_id;
DELETE FROM terms WHERE df = 0;
DELETE FROM chunk_lengths WHERE chunk_key IN (FROM uncounted);
INSERT INTO chunk_lengths {added_lengths}
-- name: added_postings
INSERT INTO postings SELECT term_id, chunk_key, {frequencies} FROM added JOIN came_to_terms USING (term)
ORDER BY chunk_key, term_id
-- name: moved_postings
SELECT (SELECT count(*) FROM added) + (SELECT coalesce(sum(df), 0) FROM gone_from_terms)
-- The documents whose texts in the arrays change, and those with a changed fact about a hit.
-- name: changed_documents
CREATE TEMP TABLE changed_texts AS
SELECT key AS doc_id FROM differing_messages UNION FROM differing_documents UNION FROM differing_conversation_windows
UNION FROM differing_attachments UNION SELECT doc_id FROM chunks WHERE chunk_id IN (FROM differing_chunks);
CREATE TEMP TABLE changed_facts AS
FROM changed_texts UNION FROM differing_blocks UNION FROM differing_nodes UNION FROM differing_thread_tree
UNION SELECT message_id FROM thread_tree WHERE thread_id IN (FROM differing_threads)
UNION FROM differing_inferred_quotes
UNION SELECT doc_id FROM chunks WHERE chunk_id IN (FROM differing_chunk_context)
-- name: changed_forms
CREATE TEMP TABLE form_changes AS
SELECT form, term, sum(texts)::INTEGER AS change
FROM (SELECT form, term, texts FROM added_forms UNION ALL SELECT form, term, -texts FROM removed_forms) GROUP BY ALL;
UPDATE term_forms f SET chunk_count = chunk_count + change FROM form_changes c WHERE c.form = f.form AND c.term = f.term;
INSERT INTO term_forms SELECT form, term, change FROM form_changes ANTI JOIN term_forms USING (form, term);
DELETE FROM term_forms WHERE chunk_count <= 0
-- name: renumbered_vectors
DELETE FROM embeddings WHERE chunk_id IN (SELECT chunk_id FROM recounted);
UPDATE embeddings SET chunk_no = new_no FROM numbers WHERE old_no = embeddings.chunk_no AND old_no <> new_no
-- name: parts_with_texts
SELECT DISTINCT part FROM lake_embeddings SEMI JOIN embedded_texts USING (text_hash) ORDER BY part
-- name: chunks_embedded_anew
FROM chunks WHERE chunk_id IN (SELECT chunk_id FROM recounted)
-- name: columns_of_tables
SELECT table_name, list(column_name ORDER BY column_index) FROM duckdb_columns()
WHERE database_name = current_database() GROUP BY table_name
