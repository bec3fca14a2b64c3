"""Statements that find the chunks of a published index that meet a condition, and the names that conditions may have."""

DATED = """
SELECT message_id AS doc_id, effective_at AS dated_at FROM messages
UNION ALL SELECT doc_id, coalesce(modified_at, created_at) FROM documents
UNION ALL SELECT doc_id, first_at FROM conversation_windows
"""
"""The time of every mail, document and window."""

# A path is looked for as whole components, the last with or without its ending, anywhere in the path. A pattern, unlike
# GLOB, takes no longer for more wildcards.
_AT_PATH = "regexp_matches(path, $path)"

# Statements that give the numbers of the chunks of documents whose field has the value.
CHUNKS_OF = "SELECT chunk_no FROM chunks WHERE doc_id IN ({})"
STATEMENTS = {
    "m": "SELECT chunk_no FROM chunks WHERE doc_id = $value",
    "l": CHUNKS_OF.format("SELECT message_id FROM memberships WHERE list_id IN (SELECT unnest($names))"),
    "source": "SELECT chunk_no FROM chunks WHERE source IN (SELECT unnest($names))",
    "tag": CHUNKS_OF.format(
        "SELECT doc_id FROM (SELECT doc_id, unnest(tags) AS tag FROM documents) WHERE tag IN (SELECT unnest($names))"
    ),
    "type": CHUNKS_OF.format(
        "SELECT doc_id FROM documents WHERE doc_type IN (SELECT unnest($names)) OR format IN (SELECT unnest($names))"
    ),
    "kind": "SELECT chunk_no FROM chunks WHERE source_kind = $value",
    "path": f"""
SELECT chunk_no FROM chunks WHERE doc_id IN (SELECT doc_id FROM documents WHERE {_AT_PATH})
UNION SELECT chunk_no FROM (SELECT chunk_no, unnest(diff_files) AS path FROM chunks) WHERE {_AT_PATH}
""",
    "thread": CHUNKS_OF.format(
        "SELECT message_id FROM thread_tree WHERE thread_id = $value OR thread_id IN "
        "(SELECT thread_id FROM thread_tree WHERE message_id = $value)"
    ),
    "series": CHUNKS_OF.format(
        "SELECT message_id FROM patch_series WHERE series_id = $value OR series_id IN "
        "(SELECT series_id FROM patch_series WHERE message_id = $value)"
    ),
}
HAS = {
    "patch": CHUNKS_OF.format("SELECT doc_id FROM chunks WHERE has_patch_markers"),
    "attachment": CHUNKS_OF.format("SELECT message_id FROM attachments"),
}
NAMES = {
    "l": ("mailing list", "SELECT DISTINCT list_id FROM memberships WHERE list_id IS NOT NULL ORDER BY ALL"),
    "source": ("source", "SELECT DISTINCT source FROM chunks ORDER BY ALL"),
    "tag": ("tag", "SELECT DISTINCT unnest(tags) FROM documents ORDER BY ALL"),
    "type": (
        "type",
        "SELECT doc_type FROM documents WHERE doc_type IS NOT NULL UNION SELECT format FROM documents ORDER BY ALL",
    ),
}
