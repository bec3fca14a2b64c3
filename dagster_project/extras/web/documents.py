"""Documents and chats as they are read: a document with its outline and backlinks, a chat by its
days.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice, pairwise
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from dagster_project.extras.web.marks import Marked, markdown_html
from dagster_project.extras.web.notes import links_of, properties
from dagster_project.extras.web.site import rows_about
from dagster_project.index.search.lookup import Ask
from transforms.conversations.pseudonyms import short_pseudonyms
from transforms.settings.documents import PLAIN_FORMATS

_DOCUMENT = "SELECT * FROM documents WHERE doc_id = $id"
_NODES = """
SELECT node_id, parent_id, title, slug, depth, heading_start FROM nodes
WHERE doc_id = $id AND slug IS NOT NULL ORDER BY position
"""
_BACKLINKS = """
SELECT DISTINCT b.from_id, b.text, coalesce(d.title, m.subject) AS title,
  coalesce(n.breadcrumb, d.path, m.from_name, m.from_addr) AS place,
  CASE WHEN m.message_id IS NOT NULL THEN 'message' ELSE 'node' END AS kind
FROM backlinks b
LEFT JOIN nodes n ON n.node_id = b.from_id LEFT JOIN documents d ON d.doc_id = coalesce(n.doc_id, b.from_id)
LEFT JOIN messages m ON m.message_id = b.from_id
WHERE b.to_id = $id OR b.to_id IN (SELECT node_id FROM nodes WHERE doc_id = $id)
ORDER BY title, b.from_id LIMIT 100
"""
_WINDOW = "SELECT * FROM conversation_windows WHERE doc_id = $id"
_WINDOWS = """
SELECT doc_id, "window", first_at, last_at FROM conversation_windows
WHERE conversation_id = $id ORDER BY first_at, doc_id
"""
_TURNS = """
SELECT c.* EXCLUDE (answered_turn), a.turn AS answered_turn, a.doc_id AS answered_doc,
  a.author AS answered_author, a.text[:100] AS answered_text
FROM conversations c LEFT JOIN conversations a ON a.conversation_id = c.conversation_id AND a.turn = c.answered_turn
WHERE c.doc_id = $id ORDER BY c.turn
"""
_FILES = """
SELECT attachment_id, filename, byte_count, reason, text IS NOT NULL AS has_text FROM attachments
WHERE message_id = $id ORDER BY part_index
"""
_HEAD = re.compile(
    rb"^## Message \d+\n\*\*Author:\*\* [^\n]*\n\*\*Timestamp:\*\* [^\n]*\n\n?", re.MULTILINE
)
_HUES = 8


class _Document(NamedTuple):
    """A document: its row, the HTML of its text, of a PDF by its pages, the headings of its
    outline, the links to it.

    `properties` are those of its frontmatter, `embedded` the ids and texts of the notes that it
    shows in place.
    """

    row: Mapping[str, Any]
    pages: list[Markup]
    outline: list[dict[str, Any]]
    backlinks: list[dict[str, Any]]
    properties: list[tuple[str, Markup]]
    embedded: list[tuple[str, str]]


class Turn(NamedTuple):
    """A turn of a chat: its row, its text, the number of its author's colour, whether the one
    before is by the same.

    `files` are rows of `attachments`, the files that it names.
    """

    row: Mapping[str, Any]
    html: Markup
    hue: int
    goes_on: bool
    files: Sequence[Mapping[str, Any]]


class _Chat(NamedTuple):
    """A window of a conversation: its row, its turns by day, and the windows of the same
    conversation in order.
    """

    row: Mapping[str, Any]
    days: list[tuple[Any, list[Turn]]]
    windows: list[dict[str, Any]]


def document_page(
    ask: Ask, doc_id: str, cited: tuple[int, int] | None, *, has_files: bool = False
) -> _Document:
    """A document by its id, with the pictures that it embeds if files may be shown; UnknownIdError
    if there is none.
    """
    (row,) = rows_about(ask, _DOCUMENT, "document", doc_id)
    outline = ask(_NODES, {"id": doc_id}).to_pylist()
    text = Marked(row["text"], cited, is_printed=row["format"] == "pdf")
    slugs = {node["heading_start"]: node["slug"] for node in outline}
    links = links_of(ask, doc_id, has_files=has_files)
    if row["format"] in PLAIN_FORMATS:
        body = Markup(text.html(row["body_start"], len(text.data)))
        pages = [Markup('<pre class="text">{}</pre>').format(body)]
    else:
        starts = (row["page_starts"] if row["format"] == "pdf" else None) or [row["body_start"]]
        spans = pairwise([*starts, len(text.data)])
        of = doc_id if has_files else None
        pages = [
            markdown_html(text, slugs, links.targets, of, span, links.embeds) for span in spans
        ]
    backlinks = ask(_BACKLINKS, {"id": doc_id}).to_pylist()
    own = properties(row["frontmatter"], links.named)
    return _Document(row, pages, outline, backlinks, own, links.texts)


def chat_page(ask: Ask, doc_id: str, cited: tuple[int, int] | None) -> _Chat:
    """A window of a conversation by its id; UnknownIdError if there is none."""
    (row,) = rows_about(ask, _WINDOW, "chat", doc_id)
    text = Marked(row["markdown"], cited)
    turns, files = (ask(statement, {"id": doc_id}).to_pylist() for statement in (_TURNS, _FILES))
    by_day = groupby(_turns(text, turns, iter(files)), key=lambda turn: turn.row["sent_at"].date())
    days = [(day, list(of_day)) for day, of_day in by_day]
    return _Chat(row, days, ask(_WINDOWS, {"id": row["conversation_id"]}).to_pylist())


def _turns(text: Marked, rows: list[dict[str, Any]], files: Iterator[dict[str, Any]]) -> list[Turn]:
    """The turns with the texts of messages from the window's Markdown, so that citations can be
    marked in them.
    """
    heads = list(_HEAD.finditer(text.data))
    ends = [*(head.start() for head in heads[1:]), len(text.data)]
    ranges = (
        (head.end(), end) for head, end in zip(heads, ends, strict=False)
    )  # none of media alone
    authors = dict.fromkeys(row["author"] for row in rows)
    hues = {author: number % _HUES for number, author in enumerate(authors)}
    turns: list[Turn] = []
    for row in rows:
        html = Markup(short_pseudonyms(escape(row["text"])))
        if row["kind"] == "message" and (span := next(ranges, None)) is not None:
            start, end = span
            html = Markup(text.html(start, start + len(text.data[start:end].rstrip())))
        before = (turns[-1].row["kind"], turns[-1].row["author"]) if turns else None
        goes_on = before == ("message", row["author"]) and row["kind"] == "message"
        # An index of an older version does not say how many files a turn has.
        own = list(islice(files, row.get("file_count", 0)))
        turns.append(Turn(row, html, hues[row["author"]], goes_on, own))
    return turns
