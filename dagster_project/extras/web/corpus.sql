-- The data of the pages of the corpus and of a person.
-- name: counts
SELECT (SELECT count(*) FROM messages) AS mails, (SELECT count(*) FROM threads) AS threads,
  (SELECT count(*) FROM documents) AS documents, (SELECT count(DISTINCT conversation_id) FROM conversation_windows) AS chats,
  (SELECT count(*) FROM attachments) AS attachments, (SELECT count(*) FROM quarantine) AS unread
-- name: recent
SELECT thread_id, subject, message_count, participant_count, last_at FROM threads
WHERE last_at IS NOT NULL ORDER BY last_at DESC, thread_id LIMIT 6
-- name: documents
SELECT doc_id, title, source, coalesce(modified_at, created_at) AS dated_at FROM documents
ORDER BY dated_at DESC NULLS LAST, doc_id LIMIT 6
-- name: chats
SELECT doc_id, title, last_at, message_count FROM conversation_windows ORDER BY last_at DESC, doc_id LIMIT 4
-- name: months
SELECT date_trunc('month', effective_at)::DATE AS month, count(*) AS count FROM messages
WHERE effective_at IS NOT NULL GROUP BY ALL ORDER BY ALL
-- A mail that a list sent in its author's place ("Ada via dev") is by the author whom it names.
-- name: people
SELECT coalesce(p.name, nullif(regexp_replace(m.from_name, ' via .*', ''), ''), m.from_addr) AS name,
  min(p.person_id) AS addr, count(*) AS count
FROM messages m LEFT JOIN people p ON p.addr = lower(m.from_addr) AND NOT p.is_shared
WHERE coalesce(m.from_name, m.from_addr) IS NOT NULL GROUP BY ALL ORDER BY count DESC, name LIMIT 20
-- name: threads
SELECT thread_id, subject, message_count, participant_count, first_at, last_at FROM threads
ORDER BY message_count DESC, thread_id LIMIT 20
-- name: open
SELECT m.message_id, m.subject, coalesce(m.from_name, m.from_addr) AS author, m.effective_at
FROM threads t JOIN messages m ON m.message_id = t.root_id
WHERE t.message_count = 1 AND regexp_matches(m.body, '(?m)^\w.*\w\?\s*$')
  AND m.message_id NOT IN (SELECT message_id FROM patch_series)
ORDER BY m.effective_at DESC NULLS LAST, m.message_id LIMIT 15
-- name: quarantine
WITH rows AS (SELECT source, place, reason_code AS code, reason[length(code) + 2:] AS reason, byte_count
  FROM quarantine)
SELECT code, count(*) AS count, sum(byte_count)::BIGINT AS bytes, list_sort(list(DISTINCT source)) AS sources,
  list_slice(list_sort(list({'source': source, 'place': place, 'reason': trim(reason)})), 1, 5) AS examples
FROM rows GROUP BY code ORDER BY count DESC, code
-- name: sources
FROM readiness_by_source ORDER BY source, kind
-- name: addresses
FROM people WHERE person_id = (SELECT person_id FROM people WHERE addr = lower($id))
ORDER BY mail_count DESC, mention_count DESC, addr
-- name: own
SELECT unnest($addrs::VARCHAR[])
-- name: person_months
SELECT date_trunc('month', effective_at)::DATE AS month, count(*) AS count FROM messages
WHERE from_addr IN ({own}) AND effective_at IS NOT NULL GROUP BY ALL ORDER BY ALL
-- name: person_threads
SELECT t.thread_id, any_value(t.subject) AS subject, any_value(t.message_count) AS mails, count(*) AS own,
  max(m.effective_at) AS last_at
FROM messages m JOIN thread_tree n USING (message_id) JOIN threads t USING (thread_id)
WHERE m.from_addr IN ({own}) GROUP BY t.thread_id ORDER BY last_at DESC NULLS LAST, t.thread_id LIMIT 20
-- The mails whose author reviews a patch, and the patches.
-- name: reviews
(SELECT f.message_id, f.patch_id AS parent_id FROM patch_series f JOIN messages r USING (message_id) WHERE f.is_reply
  AND EXISTS (FROM trailers t WHERE t.message_id = f.message_id AND t.addr = r.from_addr AND t.kind IN ({review})))
-- name: review
'reviewed-by', 'acked-by', 'tested-by'
-- A person's addresses count together, under the name that the mails use most.
-- name: answers
WITH pairs AS (
  SELECT other.from_addr AS addr, coalesce(other.from_name, other.from_addr) AS name, own.from_addr IN ({own}) AS is_own
  FROM {pairs} n JOIN messages own ON own.message_id = n.{mail} JOIN messages other ON other.message_id = n.{partner}
)
SELECT coalesce(p.person_id, addr) AS addr, mode(coalesce(p.name, pairs.name)) AS name, count(*) AS count
FROM pairs LEFT JOIN people p USING (addr)
WHERE is_own AND addr NOT IN ({own}) GROUP BY ALL ORDER BY count DESC, addr LIMIT 10
-- name: reviewed
SELECT t.message_id, t.kind, m.subject, m.effective_at FROM trailers t JOIN messages m USING (message_id)
WHERE t.addr IN ({own}) AND t.kind IN ({review}) AND m.from_addr IN ({own})
ORDER BY m.effective_at DESC NULLS LAST, t.message_id LIMIT 20
-- name: files
SELECT a.attachment_id, a.filename, a.content_class, a.byte_count, m.subject, m.message_id
FROM attachments a JOIN messages m USING (message_id)
WHERE m.from_addr IN ({own}) ORDER BY m.effective_at DESC NULLS LAST, a.attachment_id LIMIT 20
-- name: examples
SELECT (SELECT coalesce(from_name, from_addr) FROM messages GROUP BY ALL ORDER BY count(*) DESC, 1 LIMIT 1) AS author,
  (SELECT addr FROM (SELECT unnest(to_addrs) AS addr FROM messages) GROUP BY ALL ORDER BY count(*) DESC, 1 LIMIT 1) AS address,
  (SELECT addr FROM trailers WHERE kind = 'reviewed' GROUP BY ALL ORDER BY count(*) DESC, 1 LIMIT 1) AS reviewer,
  (SELECT list_id FROM messages WHERE list_id <> '' GROUP BY ALL ORDER BY count(*) DESC, 1 LIMIT 1) AS list,
  (SELECT source FROM chunks GROUP BY ALL ORDER BY count(*) DESC, 1 LIMIT 1) AS source,
  (SELECT kind FROM (SELECT source_kind AS kind FROM chunks) GROUP BY ALL ORDER BY count(*) DESC, 1 LIMIT 1) AS kind,
  (SELECT strftime(max(dated_at), '%Y-%m') FROM (SELECT max(effective_at) AS dated_at FROM messages
    UNION ALL SELECT max(coalesce(modified_at, created_at)) FROM documents
    UNION ALL SELECT max(last_at) FROM conversation_windows)) AS month,
  (SELECT message_id FROM messages ORDER BY effective_at DESC NULLS LAST, 1 LIMIT 1) AS mail,
  coalesce((SELECT regexp_replace(subject, '^(\s*(\w{1,4}:|\[[^\]]*\]))+\s*', '') FROM threads ORDER BY message_count DESC, thread_id LIMIT 1),
    (SELECT title FROM documents ORDER BY coalesce(modified_at, created_at) DESC NULLS LAST, doc_id LIMIT 1)) AS subject,
  (SELECT tag FROM (SELECT unnest(tags) AS tag FROM documents) GROUP BY ALL ORDER BY count(*) DESC, 1 LIMIT 1) AS tag,
  (SELECT path FROM documents ORDER BY doc_id LIMIT 1) AS path,
  (SELECT format FROM documents GROUP BY ALL ORDER BY count(*) DESC, 1 LIMIT 1) AS format,
  (SELECT key FROM (SELECT unnest(json_keys(frontmatter)) AS key FROM documents WHERE frontmatter <> '')
    WHERE lower(key) NOT IN ('title', 'tags', 'aliases') GROUP BY ALL ORDER BY count(*) DESC, 1 LIMIT 1) AS property
