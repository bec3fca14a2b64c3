"""The text that an id or a citation names in the published file, exactly, and its facts for a
reader.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from dagster_project.outgoing.screen import Ask
from transforms.context.passages import render_thread
from transforms.errors import QueryError, UnknownIdError, shortened
from transforms.text.storable import storable

# As hits print it: a place, perhaps the attachment or block in it, the page, and bytes.
_CITATION = re.compile(
    r"(?P<place>.+?)(?: attachment (?P<attachment>[0-9a-f]+)| block \d+)?(?: page \d+)? bytes (?P<start>\d+)-(?P<end>\d+)"
)
_NEAREST_COUNT = 3
COMPARED_CHARS = 200
"""Characters of an unknown id that are compared with the known ones, which takes the product of
both lengths.
"""

_MEANT = """
WITH meant AS (
  SELECT 0 AS place, 'chunk' AS kind, chunk_id AS id FROM chunks WHERE chunk_id = $id
  UNION ALL SELECT 0, 'message', message_id FROM messages WHERE message_id = trim($id, '<>')
  UNION ALL SELECT 0, 'attachment', attachment_id FROM attachments WHERE attachment_id = $id
  UNION ALL SELECT 0, 'thread', thread_id FROM threads WHERE thread_id = $id
  UNION ALL SELECT 0, 'conversation', doc_id FROM conversation_windows WHERE doc_id = $id
  UNION ALL SELECT 0, 'document', doc_id FROM documents WHERE doc_id = $id
  UNION ALL SELECT 0, 'node', node_id FROM nodes WHERE node_id = $id AND slug IS NOT NULL
  UNION ALL SELECT 1, 'document', doc_id FROM documents WHERE path = $id OR ends_with(path, '/' || $id)
  UNION ALL SELECT 1, 'node', node_id FROM nodes
    WHERE slug IS NOT NULL AND (ends_with(node_id, ':' || $id) OR ends_with(node_id, '/' || $id))
)
SELECT kind, id FROM meant WHERE place = (SELECT min(place) FROM meant) ORDER BY kind, id LIMIT 6
"""

# The names that ids of people's making are compared with; those that are hashes are compared by
# their beginning.
_NEAREST = """
WITH named AS (
  SELECT message_id AS id, message_id AS name FROM messages UNION ALL SELECT doc_id, doc_id FROM conversation_windows
  UNION ALL SELECT doc_id, doc_id FROM documents UNION ALL SELECT doc_id, path FROM documents
  UNION ALL SELECT doc_id, parse_filename(path) FROM documents
  UNION ALL SELECT node_id, node_id FROM nodes WHERE slug IS NOT NULL
),
hashes AS (
  SELECT chunk_id AS id FROM chunks UNION ALL SELECT attachment_id FROM attachments
  UNION ALL SELECT thread_id FROM threads
),
near AS (
  SELECT id, jaro_winkler_similarity(lower(name), lower(trim($id, '<>'))) AS likeness FROM named
  UNION ALL SELECT id, 2 FROM hashes WHERE length($id) >= 6 AND starts_with(id, lower($id))
)
SELECT id FROM near WHERE likeness >= 0.7 GROUP BY id ORDER BY max(likeness) DESC, id LIMIT $count
"""

_TEXTS = {
    "message": """
SELECT m.message_id AS doc_id, m.subject AS title, m.from_name, m.from_addr, m.effective_at, m.list_id, m.source,
  t.thread_id, m.body AS text, (
    SELECT count(*) FROM thread_tree o
    WHERE o.thread_id = t.thread_id AND NOT o.is_ghost AND o.position <= t.position
  ) AS thread_position
FROM messages m LEFT JOIN thread_tree t USING (message_id) WHERE m.message_id = $id
""",
    "attachment": """
SELECT a.message_id AS doc_id, a.filename AS title, a.filename, a.declared_type, a.content_class, a.byte_count,
  a.reason, a.source, a.text
FROM attachments a WHERE a.attachment_id = $id
""",
    "document": """
SELECT doc_id, title, path, source, coalesce(modified_at, created_at) AS effective_at, tags, text
FROM documents WHERE doc_id = $id
""",
    "conversation": """
SELECT doc_id, title, source, first_at AS effective_at, markdown AS text FROM conversation_windows WHERE doc_id = $id
""",
    "node": """
SELECT n.doc_id, n.title, n.breadcrumb, d.path, d.source, n.byte_start, n.byte_end,
  decode(encode(d.text)[n.byte_start + 1 : n.byte_end]) AS text
FROM nodes n JOIN documents d USING (doc_id) WHERE n.node_id = $id
""",
    "chunk": """
SELECT doc_id, title, source_kind, chunk_kind, attachment_id, parent_id, chunk_index, chunk_count, source, spans,
  text_display AS text
FROM chunks WHERE chunk_id = $id
""",
    "thread": """
SELECT root_id AS doc_id, subject AS title, message_count, ghost_count, participant_count, first_at, last_at
FROM threads WHERE thread_id = $id
""",
}

_MAILS = """
SELECT message_id, coalesce(from_name, from_addr) AS author, effective_at, subject, lake_text(body) AS body
FROM thread_tree LEFT JOIN stored_messages USING (message_id) WHERE thread_id = $id ORDER BY position
"""

_BYTES = """
SELECT m.message_id AS doc_id, strlen(lake_text(m.body)) + coalesce(sum(strlen(lake_text(a.text))), 0) AS bytes
FROM stored_messages m LEFT JOIN stored_attachments a USING (message_id)
WHERE m.message_id IN (SELECT unnest($ids::VARCHAR[]))
GROUP BY m.message_id, m.body
UNION ALL SELECT doc_id, strlen(lake_text(text)) FROM stored_documents WHERE doc_id IN (SELECT unnest($ids::VARCHAR[]))
UNION ALL SELECT doc_id, strlen(lake_text(markdown)) FROM stored_conversation_windows
WHERE doc_id IN (SELECT unnest($ids::VARCHAR[]))
"""

_ATTACHMENT = """
SELECT attachment_id FROM attachments WHERE message_id = $id AND starts_with(attachment_id, $beginning) LIMIT 2
"""


def document_bytes(ask: Ask, ids: Sequence[str]) -> dict[str, int]:
    """The bytes of the texts of mails with their attachments, documents and windows of chats, by
    id.
    """
    rows = ask(_BYTES, {"ids": list(ids)}).to_pylist()
    return {row["doc_id"]: int(row["bytes"]) for row in rows}


@dataclass(frozen=True)
class Reading:
    """The mail, document, chunk or thread that an id names.

    `kind` is message, attachment, document, node, conversation, chunk or thread; `id` its full id.
    `text` is stored text, cut to a citation's bytes if there is one, then with `byte_start` and
    `byte_end` in the text of `doc_id` or the attachment. The text of a thread is that of its mails,
    quoted, below their headers. `facts` are further columns of the published file.
    """

    kind: str
    id: str
    doc_id: str
    title: str | None
    text: str
    byte_start: int | None = None
    byte_end: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The fields and facts in one dictionary, times as ISO 8601."""
        facts = {k: v.isoformat() if hasattr(v, "isoformat") else v for k, v in self.facts.items()}
        own = {k: v for k, v in vars(self).items() if k != "facts"}
        return {**own, **facts}


def asking(connection: duckdb.DuckDBPyConnection) -> Ask:
    """An `Ask` on an open connection."""
    return lambda statement, values: connection.execute(
        statement, storable_values(values)
    ).to_arrow_table()


def storable_values(values: Mapping[str, object]) -> dict[str, object]:
    """The values of a statement with texts as `storable`; DuckDB takes no others."""
    return {
        name: storable(value) if isinstance(value, str) else value for name, value in values.items()
    }


def reading(ask: Ask, text: str) -> Reading:
    """The reading of the one thing that `text` names in the published file.

    It is a Message-ID with or without angle brackets, the id of a chunk, attachment, thread or
    conversation, the id or the path of a document or its end, perhaps with `#slug`, or a citation
    as hits print it. UnknownIdError with the nearest ids if nothing has that name, QueryError if
    several things have it, if it lacks a text, or if the bytes are outside of it.
    """
    name = text.strip().strip("\u27e8\u27e9").strip()
    if thing := _named_thing(ask, name):
        return _read(ask, *thing)
    cited = _CITATION.fullmatch(name)
    if not cited:
        raise _unknown(ask, name)
    kind, id_ = resolved_name(ask, cited["place"])
    if cited["attachment"]:
        values = {"id": id_, "beginning": cited["attachment"]}
        ids = ask(_ATTACHMENT, values).column("attachment_id").to_pylist()
        if len(ids) != 1:
            raise UnknownIdError(
                f"the mail {id_} has {len(ids) or 'no'} attachments {cited['attachment']}"
            )
        kind, id_ = "attachment", str(ids[0])
    elif kind == "node":
        kind, id_ = "document", _read(ask, kind, id_).doc_id
    return _cut(_read(ask, kind, id_), int(cited["start"]), int(cited["end"]))


def resolved_name(ask: Ask, name: str) -> tuple[str, str]:
    """Kind and full id of the one thing that a name means; UnknownIdError or QueryError as
    `reading`.
    """
    if thing := _named_thing(ask, name):
        return thing
    raise _unknown(ask, name)


def _named_thing(ask: Ask, name: str) -> tuple[str, str] | None:
    things = [(row["kind"], row["id"]) for row in ask(_MEANT, {"id": name}).to_pylist()]
    if len(things) > 1:
        raise QueryError(
            f"{name!r} means several things: {', '.join(f'{k} {i}' for k, i in things)}"
        )
    return things[0] if things else None


def _unknown(ask: Ask, name: str) -> UnknownIdError:
    near = (
        ask(_NEAREST, {"id": name[:COMPARED_CHARS], "count": _NEAREST_COUNT})
        .column("id")
        .to_pylist()
    )
    hint = f"; the nearest are {', '.join(near)}" if near else "; `search` finds ids by words"
    return UnknownIdError(f"the index holds nothing called {shortened(name)!r}{hint}")


def _read(ask: Ask, kind: str, id_: str) -> Reading:
    (row,) = ask(_TEXTS[kind], {"id": id_}).to_pylist()
    if kind == "thread":
        row["text"] = render_thread(ask(_MAILS, {"id": id_}).to_pylist())
    own = {name: row.pop(name) for name in ("doc_id", "title", "text")}
    if own["text"] is None:
        raise QueryError(f"the {kind} {id_} has no text: {row.get('reason') or 'it is empty'}")
    place = {name: row.pop(name, None) for name in ("byte_start", "byte_end")}
    return Reading(kind, id_, **own, **place, facts=row)


def _cut(full: Reading, start: int, end: int) -> Reading:
    """The bytes `start` to `end` of a text; QueryError if they are outside of it or cut a letter."""
    stored = full.text.encode()
    if not start <= end <= len(stored):
        raise QueryError(f"bytes {start}-{end} are not in {full.id}, which has {len(stored)} bytes")
    try:
        text = stored[start:end].decode()
    except UnicodeDecodeError as error:
        raise QueryError(
            f"bytes {start}-{end} of {full.id} begin or end inside of a letter"
        ) from error
    return replace(full, text=text, byte_start=start, byte_end=end)
