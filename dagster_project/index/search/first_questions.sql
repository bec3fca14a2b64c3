-- Texts of which first questions are made: long threads, what those who write most wrote in them, long documents, chats.
-- `place` is the thread, the document or the chunk that a right first hit is of.
-- name: candidates
WITH long AS (
  SELECT t.thread_id, t.message_count, m.subject_norm AS words
  FROM threads t JOIN messages m ON m.message_id = t.root_id WHERE m.subject_norm <> ''
  ORDER BY t.message_count DESC, t.last_at DESC, t.thread_id LIMIT 200
),
writers AS (
  SELECT person_id FROM messages WHERE person_id IS NOT NULL AND from_name <> ''
  GROUP BY ALL ORDER BY count(*) DESC, person_id LIMIT 4
),
written AS (
  SELECT m.person_id, max(m.from_name) AS person, l.thread_id AS place, any_value(l.words) AS words, count(*) AS own
  FROM messages m SEMI JOIN writers w USING (person_id) JOIN thread_tree n USING (message_id) JOIN long l USING (thread_id)
  WHERE m.message_id <> n.thread_id GROUP BY ALL
)
(SELECT 1 AS kind, thread_id AS place, words, NULL AS person FROM long
 ORDER BY message_count DESC, thread_id LIMIT 4)
UNION ALL
(SELECT 2, place, words, person FROM written
 QUALIFY row_number() OVER (PARTITION BY person_id ORDER BY own DESC, place) = 1 ORDER BY own DESC, place LIMIT 4)
UNION ALL
(SELECT 3, doc_id, title, NULL FROM documents WHERE title <> ''
 ORDER BY strlen(text) DESC, doc_id LIMIT 4)
UNION ALL
(SELECT 4, chunk_id, regexp_replace(text_display, '^[^\n]*\n', ''), NULL FROM chunks
 WHERE source_kind = 'conversation' AND char_count BETWEEN 120 AND 400
 ORDER BY hash(chunk_id) LIMIT 4)
ORDER BY kind
