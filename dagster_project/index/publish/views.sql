-- The views of the published file.
-- name: senders
SELECT m.message_id, m.person_id, coalesce(if(p.is_shared, NULL, p.name), m.from_name, m.from_addr) AS name,
  regexp_matches(concat_ws(' ', m.from_name, m.from_addr),
    '(?i)\b(ro|syz)?bot\b|\bno-?reply\b|\bmailer-daemon\b|\bpostmaster\b') AS is_automatic
FROM messages m LEFT JOIN people p ON p.addr = m.from_addr
-- name: participants
SELECT x.message_id, x.role, x.addr,
  coalesce(x.person_id, p.person_id, x.addr, x.name) AS person_id,
  coalesce(if(p.is_shared, NULL, p.name), nullif(x.name, ''), x.addr) AS name
FROM (
  SELECT message_id, 'from' AS role, from_addr AS addr, from_name AS name, person_id FROM messages
  UNION ALL SELECT message_id, 'to', unnest(to_addrs), unnest(to_names), NULL FROM messages
  UNION ALL SELECT message_id, 'cc', unnest(cc_addrs), unnest(cc_names), NULL FROM messages
  UNION ALL SELECT message_id, kind, addr, name, person_id FROM trailers WHERE person_id IS NOT NULL
) x LEFT JOIN people p ON p.addr = x.addr 
WHERE if(x.role = 'from', x.person_id IS NOT NULL, p.is_shared IS NOT TRUE)
-- name: backlinks
SELECT l.to_id, l.from_id, l.source_kind, l.kind, l.target, l.text, l.byte_start, l.byte_end
FROM links l LEFT JOIN nodes a ON a.node_id = l.from_id LEFT JOIN nodes b ON b.node_id = l.to_id
WHERE coalesce(b.doc_id, l.to_id) <> coalesce(a.doc_id, l.from_id)
-- name: readiness_by_source
SELECT source, kind, count(*) AS texts, count(*) FILTER (WHERE is_searchable) AS searchable,
  count(waits_for) AS waiting,
  max(published_at) AS last_published_at, quantile_cont(lag_seconds, 0.5) AS lag_p50_seconds,
  quantile_cont(lag_seconds, 0.95) AS lag_p95_seconds, max(lag_seconds) AS lag_max_seconds
FROM readiness GROUP BY source, kind ORDER BY source, kind
-- name: semantic_chunks
SELECT c.chunk_id AS id, c.source_kind, coalesce(c.attachment_id, c.doc_id) AS source_id, c.doc_id AS message_id,
  c.attachment_id, t.thread_id, m.list_id, c.chunk_kind, c.chunk_index, c.chunk_count, c.text_display,
  coalesce(nullif(x.text_embed, ''), c.text_embed) AS text_embed, c.char_count, c.quote_anchor_chars, c.quote_depth_max,
  c.has_patch_markers, c.is_quote_heavy, e.vector AS embedding, e.model AS embedding_model,
  CASE WHEN e.chunk_no IS NOT NULL THEN r.embedded_at END AS embedding_created_at
FROM chunks c JOIN messages m ON m.message_id = c.doc_id
LEFT JOIN thread_tree t ON t.message_id = c.doc_id
LEFT JOIN chunk_context x ON x.chunk_id = c.chunk_id
LEFT JOIN embeddings e ON e.chunk_no = c.chunk_no
LEFT JOIN readiness r ON r.doc_id = c.doc_id
-- name: note_chunks
SELECT c.chunk_id, d.path AS note_path, d.title AS note_title, c.heading_path, c.chunk_index, c.text_display AS chunk_text,
  coalesce(nullif(x.text_embed, ''), c.text_embed) AS chunk_text_contextualized,
  coalesce(x.sentence, '') AS context_sentence, c.checksum, {tokens} AS token_count,
  d.created_at, d.modified_at AS updated_at
FROM chunks c JOIN documents d USING (doc_id) LEFT JOIN chunk_context x ON x.chunk_id = c.chunk_id
-- name: reply_times
SELECT thread_id, message_id, parent_id, author, answers, replied_at, reply_seconds,
  NOT is_own AND NOT is_automatic AND 1 = row_number() OVER (
    PARTITION BY parent_id, is_own OR is_automatic ORDER BY replied_at, message_id) AS is_first,
  is_own, is_automatic
FROM (
  SELECT t.thread_id, t.message_id, t.parent_id, a.name AS author, b.name AS answers, r.effective_at AS replied_at,
    epoch(r.effective_at) - epoch(p.effective_at) AS reply_seconds, a.is_automatic,
    a.person_id IS NOT DISTINCT FROM b.person_id AS is_own
  FROM thread_tree t JOIN messages r USING (message_id) JOIN messages p ON p.message_id = t.parent_id
  JOIN senders a ON a.message_id = r.message_id JOIN senders b ON b.message_id = p.message_id
  WHERE r.effective_at >= p.effective_at
)
-- name: open_threads
SELECT h.thread_id, h.root_id, h.subject, w.author, h.message_count, h.first_at, h.last_at, w.is_unanswered
FROM threads h JOIN (
  SELECT t.thread_id, any_value(s.name) FILTER (t.message_id = g.root_id) AS author,
    bool_or(s.is_automatic) FILTER (t.message_id = g.root_id) AS is_automatic,
    any_value(s.person_id) FILTER (t.message_id = g.root_id) AS first_id,
    arg_max(s.person_id, (o.effective_at, o.message_id)) AS last_id,
    min(coalesce(s.person_id, '')) = max(coalesce(s.person_id, '')) AS is_unanswered
  FROM thread_tree t JOIN threads g USING (thread_id) JOIN messages o USING (message_id) JOIN senders s USING (message_id)
  WHERE NOT s.is_automatic OR t.message_id = g.root_id GROUP BY t.thread_id
) w USING (thread_id) WHERE w.last_id = w.first_id AND NOT w.is_automatic
-- name: series_versions
SELECT f.series_id, f.version, f.posting_id,
  arg_min(f.title, (coalesce(f.part, 0), f.message_id)) FILTER (NOT f.is_reply) AS title,
  arg_min(coalesce(m.from_name, m.from_addr), (coalesce(f.part, 0), f.message_id)) FILTER (NOT f.is_reply) AS author,
  min(m.effective_at) FILTER (NOT f.is_reply) AS posted_at,
  count(*) FILTER (NOT f.is_reply AND NOT f.is_cover) AS patch_count, count(*) FILTER (f.is_reply) AS reply_count,
  bool_or(f.is_latest) AS is_latest
FROM patch_series f JOIN messages m USING (message_id)
GROUP BY f.series_id, f.version, f.posting_id
-- name: series_reviews
SELECT f.series_id, f.version, f.message_id, m.effective_at AS replied_at, t.kind AS trailer,
  coalesce(t.name, t.addr) AS person
FROM patch_series f JOIN messages m USING (message_id) JOIN trailers t USING (message_id)
WHERE f.is_reply AND t.kind IN ('reviewed-by', 'acked-by', 'tested-by')
-- Each text is cut at its addresses, so that the lengths of the parts give the bytes; then the punctuation of the
-- sentence around an address goes.
-- name: urls
SELECT source_kind, doc_id, attachment_id, url, lower(regexp_extract(url, '(?i)^https?://(?:[^/@]*@)?([^/:?#]+)', 1)) AS host,
  byte_start, byte_start + strlen(url) AS byte_end,
  concat(doc_id, ' attachment ' || attachment_id, ' bytes ', byte_start, '-', byte_start + strlen(url)) AS place
FROM (
  SELECT source_kind, doc_id, attachment_id, byte_start,
    if(surplus > 0 AND ends_with(raw, repeat(')', surplus)),
      rtrim(left(raw, length(raw) - surplus), '.,;:!?''*_~]'), raw) AS url
  FROM (
    SELECT source_kind, doc_id, attachment_id, raw,
      length(replace(raw, '(', '')) - length(replace(raw, ')', '')) AS surplus,
      (sum(strlen(gap) + strlen(raw)) OVER (PARTITION BY doc_id, attachment_id ORDER BY n) - strlen(raw))::BIGINT AS byte_start
    FROM (
      SELECT source_kind, doc_id, attachment_id, unnest(found) AS raw, unnest(gaps) AS gap, unnest(range(len(gaps))) AS n
      FROM (
        SELECT source_kind, doc_id, attachment_id, regexp_extract_all(text, '{url}') AS found,
          regexp_split_to_array(text, '{url}') AS gaps
        FROM (
          SELECT 'message' AS source_kind, message_id AS doc_id, NULL::VARCHAR AS attachment_id, body AS text FROM messages
          UNION ALL SELECT 'attachment', message_id, attachment_id, text FROM attachments
          UNION ALL SELECT 'document', doc_id, NULL, text FROM documents
          UNION ALL SELECT 'conversation', doc_id, NULL, markdown FROM conversation_windows
        ) WHERE contains(text, '://')
      )
    ) WHERE raw IS NOT NULL
  )
)
-- name: term_chunks
SELECT t.term, c.chunk_id, c.doc_id, p.* EXCLUDE (term_id, chunk_key)
FROM postings p JOIN terms t USING (term_id) JOIN chunks c USING (chunk_key)
