"""The views of the published file, each with its comments."""

from transforms.schemas.chunks import CHUNKS

VIEWS = {
    "backlinks": """
SELECT to_id, from_id, source_kind, kind, target, text, byte_start, byte_end FROM links
WHERE to_id IS NOT NULL AND to_id <> from_id
""",
    "readiness_by_source": """
SELECT source, kind, count(*) AS texts, count(*) FILTER (WHERE is_searchable) AS searchable,
  count(waits_for) AS waiting,
  max(published_at) AS last_published_at, quantile_cont(lag_seconds, 0.5) AS lag_p50_seconds,
  quantile_cont(lag_seconds, 0.95) AS lag_p95_seconds, max(lag_seconds) AS lag_max_seconds
FROM readiness GROUP BY source, kind ORDER BY source, kind
""",
    "semantic_chunks": """
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
""",
    "reply_times": """
SELECT t.thread_id, t.message_id, t.parent_id, coalesce(r.from_name, r.from_addr) AS author,
  coalesce(p.from_name, p.from_addr) AS answers, r.effective_at AS replied_at,
  epoch(r.effective_at) - epoch(p.effective_at) AS reply_seconds,
  row_number() OVER (PARTITION BY t.parent_id ORDER BY r.effective_at, t.message_id) = 1 AS is_first
FROM thread_tree t JOIN messages r USING (message_id) JOIN messages p ON p.message_id = t.parent_id
WHERE r.effective_at >= p.effective_at
""",
    "open_threads": """
SELECT h.thread_id, h.root_id, h.subject, coalesce(m.from_name, m.from_addr) AS author, h.message_count,
  h.first_at, h.last_at, w.others = 0 AS is_unanswered
FROM threads h JOIN messages m ON m.message_id = h.root_id
JOIN (
  SELECT t.thread_id, arg_max(o.from_addr, (o.effective_at, o.message_id)) AS last_addr,
    count(*) FILTER (o.from_addr IS DISTINCT FROM b.from_addr) AS others
  FROM thread_tree t JOIN messages o USING (message_id) JOIN threads g USING (thread_id)
  JOIN messages b ON b.message_id = g.root_id GROUP BY t.thread_id
) w USING (thread_id)
WHERE w.last_addr = m.from_addr
""",
    "series_versions": """
SELECT f.series_id, f.version, f.posting_id,
  arg_min(f.title, (coalesce(f.part, 0), f.message_id)) FILTER (NOT f.is_reply) AS title,
  arg_min(coalesce(m.from_name, m.from_addr), (coalesce(f.part, 0), f.message_id)) FILTER (NOT f.is_reply) AS author,
  min(m.effective_at) FILTER (NOT f.is_reply) AS posted_at,
  count(*) FILTER (NOT f.is_reply AND NOT f.is_cover) AS patch_count, count(*) FILTER (f.is_reply) AS reply_count,
  bool_or(f.is_latest) AS is_latest
FROM patch_series f JOIN messages m USING (message_id)
GROUP BY f.series_id, f.version, f.posting_id
""",
    "series_reviews": """
SELECT f.series_id, f.version, f.message_id, m.effective_at AS replied_at, t.kind AS trailer,
  coalesce(t.name, t.addr) AS person
FROM patch_series f JOIN messages m USING (message_id) JOIN trailers t USING (message_id)
WHERE f.is_reply AND t.kind IN ('reviewed-by', 'acked-by', 'tested-by')
""",
}

_OF_CHUNKS = (
    "chunk_kind", "chunk_index", "chunk_count", "text_display", "char_count", "quote_anchor_chars", "quote_depth_max",
    "has_patch_markers", "is_quote_heavy",
)  # fmt: skip
_MEANINGS = {column.name: column.comment for column in CHUNKS.columns}
VIEW_COMMENTS = {
    "readiness_by_source": (
        "What search can find of each source, and how long that took from the build that first saw it.",
        {
            "source": "name of the configured source",
            "kind": "message, document or conversation",
            "texts": "mails, documents or windows",
            "searchable": "those that search can find",
            "waiting": "those of which something waits for the slow lane",
            "last_published_at": "when a version held a text of the source for the first time",
            "lag_p50_seconds": "median of lag_seconds in readiness",
            "lag_p95_seconds": "95th percentile of it",
            "lag_max_seconds": "the longest",
        },
    ),
    "semantic_chunks": (
        "The chunks of mails and attachments with the columns of the pginbox design.",
        {
            "id": "the chunk",
            "source_kind": "message or attachment",
            "source_id": "attachment, else Message-ID",
            "message_id": "the mail",
            "attachment_id": "the attachment; null for the body",
            "thread_id": "thread of the mail",
            "list_id": "mailing list it was found in first",
            **{name: meaning for name, meaning in _MEANINGS.items() if name in _OF_CHUNKS},
            "text_embed": "the text that is embedded, context included",
            "embedding": "vector of text_embed; null if the model refuses it",
            "embedding_model": "model that made it",
            "embedding_created_at": "when the table of all vectors was written",
        },
    ),
    "reply_times": (
        "How long each answer took: mails of which the answered one is there and not younger.",
        {
            "thread_id": "its thread",
            "message_id": "the answer",
            "parent_id": "the mail that it answers",
            "author": "who answers: the name, or the address",
            "answers": "who is answered",
            "replied_at": "when the answer was sent",
            "reply_seconds": "seconds between the two mails",
            "is_first": "true for the first answer to its parent",
        },
    ),
    "open_threads": (
        "Threads in which the last word is that of who began them.",
        {
            "thread_id": "the thread",
            "root_id": "its first mail",
            "subject": "subject of the thread",
            "author": "who began it: the name, or the address",
            "message_count": "mails in it",
            "first_at": "when it began",
            "last_at": "when its last mail was sent",
            "is_unanswered": "true if nobody else wrote in it",
        },
    ),
    "series_versions": (
        "The versions of patch series, each with its title and how much was said to it.",
        {
            "series_id": "the patch series",
            "version": "1 for the first",
            "posting_id": "the posting: versions may be posted twice",
            "title": "title of the cover letter, or of the first patch",
            "author": "who posted it",
            "posted_at": "when its first mail was sent",
            "patch_count": "patches in it",
            "reply_count": "mails that answer them",
            "is_latest": "true for the latest version of the series",
        },
    ),
    "series_reviews": (
        "Who reviewed, acked or tested which version of a patch series, by trailers of replies.",
        {
            "series_id": "the patch series",
            "version": "its version that the reply answers",
            "message_id": "the reply",
            "replied_at": "when it was sent",
            "trailer": "reviewed-by, acked-by or tested-by",
            "person": "whom it names",
        },
    ),
}
