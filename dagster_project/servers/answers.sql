-- name: outline
SELECT n.thread_id, n.message_id, n.parent_id, n.depth, t.subject AS thread_subject,
  m.from_name, m.from_addr, m.effective_at, m.subject
FROM thread_tree n JOIN threads t USING (thread_id) LEFT JOIN messages m USING (message_id)
WHERE n.thread_id = $id OR n.thread_id IN (SELECT thread_id FROM thread_tree WHERE message_id = $id)
ORDER BY n.position LIMIT $limit OFFSET $start
-- name: sources
SELECT source AS name, list_sort(list(DISTINCT source_kind)) AS kinds,
  (SELECT coalesce(list(DISTINCT list_id ORDER BY list_id), []) FROM memberships m
    WHERE m.source = c.source AND list_id IS NOT NULL) AS lists,
  count(DISTINCT doc_id) AS documents, count(*) AS passages, max(dated_at) AS newest
FROM chunks c LEFT JOIN ({dated}) USING (doc_id) GROUP BY source ORDER BY source
-- A person's mails, the latest threads with one of them, and how many address or name the person.
-- name: people
WITH own AS (
  SELECT person_id, name, addr, mention_count FROM people
  WHERE person_id IN (SELECT person_id FROM people WHERE addr IN (SELECT unnest($addrs::VARCHAR[])))
),
mails AS (
  SELECT own.person_id, m.message_id, m.list_id, m.effective_at, n.thread_id
  FROM own JOIN messages m ON m.from_addr = own.addr JOIN thread_tree n USING (message_id)
),
threads_of AS (
  SELECT person_id, thread_id, max(effective_at) AS last_at FROM mails GROUP BY person_id, thread_id
  QUALIFY row_number() OVER (PARTITION BY person_id ORDER BY last_at DESC NULLS LAST, thread_id) <= 5
),
latest AS (
  SELECT o.person_id, list({'thread_id': thread_id, 'subject': t.subject} ORDER BY o.last_at DESC NULLS LAST, thread_id) AS threads
  FROM threads_of o JOIN threads t USING (thread_id) GROUP BY ALL
),
counts AS (
  SELECT person_id, count(*) AS mails, min(effective_at) AS first_at, max(effective_at) AS last_at,
    list_sort(list(DISTINCT list_id) FILTER (list_id IS NOT NULL)) AS lists
  FROM mails GROUP BY ALL
),
named AS (
  SELECT person_id, max(name) AS name, list_sort(list(addr)) AS addresses, sum(mention_count)::BIGINT AS mentions
  FROM own GROUP BY ALL
)
SELECT name, addresses, coalesce(mails, 0) AS mails, mentions, first_at, last_at,
  coalesce(lists, []) AS lists, coalesce(threads, []) AS threads
FROM named LEFT JOIN counts USING (person_id) LEFT JOIN latest USING (person_id)
ORDER BY mails DESC, mentions DESC, person_id LIMIT $limit
