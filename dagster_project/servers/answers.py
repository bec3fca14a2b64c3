"""Answers to programs from the published index: texts screened, bounded and cited, with the passages that they show."""

import json
from datetime import datetime
from math import isfinite
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, Field

from dagster_project.config.settings import Settings
from dagster_project.context.conversation_context import context_of, read_conversation
from dagster_project.index.search.completeness import Completeness
from dagster_project.index.search.conditions.field_values import DATED
from dagster_project.index.search.hit_table import SearchResult
from dagster_project.index.search.lookup import reading, resolved_name
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.index.search.statements.assistant_sql import bounded_rows
from dagster_project.outgoing.receipts import Disclosed
from dagster_project.system.sql_files import SqlFile
from transforms.errors import QueryError

_Answer = TypeVar("_Answer", bound=BaseModel)
_OTHERS = "text by others"
_SQL = SqlFile(__file__, "answers.sql", dated=DATED)


class Shown(NamedTuple, Generic[_Answer]):
    """An answer, and the passages whose text it shows."""

    answer: _Answer
    passages: list[Disclosed]


class Hit(BaseModel):
    """One hit of a search."""

    rank: int
    citation: str = Field(description="for `get`: a place and its bytes")
    doc_id: str
    source: str
    source_kind: str
    list_id: str | None
    title: str | None = Field(description=_OTHERS)
    breadcrumb: str | None = Field(
        description="titles from the document down to the section, by others"
    )
    author: str | None = Field(description=_OTHERS)
    at: datetime | None
    thread_id: str | None
    score: float
    lexical_score: float
    vector_score: float
    snippet: str = Field(description=_OTHERS)
    expansions: list["Around"] = []


class Around(BaseModel):
    """A text around a hit, if the search was asked to expand hits."""

    kind: str = Field(description="parent, previous, next, section or link")
    citation: str
    doc_id: str
    title: str | None = Field(description=_OTHERS)
    text: str = Field(description=_OTHERS)


class Hits(BaseModel):
    """The answer to a search; `label` says how far it can be trusted.

    Without hits `nearest` is the title and id of the nearest text, `meant` are words in place of those no text holds.
    """

    outcome: str
    label: str
    nearest: str | None = Field(description=_OTHERS)
    meant: list[str]
    index_version: str
    hits: list[Hit]
    completeness: Completeness


class Text(BaseModel):
    """A stored text; `byte_end` is where the next `get` would go on if `is_cut`."""

    kind: str
    id: str
    doc_id: str
    title: str | None = Field(description=_OTHERS)
    text: str = Field(
        description=f"{_OTHERS}; a mark takes as many bytes as the text that it masks"
    )
    byte_start: int
    byte_end: int
    is_cut: bool


class Block(BaseModel):
    """Passages for a text under a budget of tokens, with their citations."""

    outcome: str
    index_version: str
    tokens: int
    budget_tokens: int
    stopped: str = Field(
        description="budget: the next passage does not fit; evidence: no more bears it out"
    )
    block: str = Field(description="text by others, under headings that cite it")
    completeness: Completeness


class Mail(BaseModel):
    """A mail of a thread; one that is not in the archives has no author, time and subject."""

    message_id: str
    parent_id: str | None
    depth: int
    author: str | None = Field(description=_OTHERS)
    at: datetime | None
    subject: str | None = Field(description=_OTHERS)


class Thread(BaseModel):
    """A discussion; `is_cut` if it has more mails than are listed, those from the place `next` on."""

    thread_id: str
    subject: str | None = Field(description=_OTHERS)
    mails: list[Mail]
    is_cut: bool
    next: int | None


class Source(BaseModel):
    """One source of the index; `newest` is the time of its newest mail, document or chat."""

    name: str
    kinds: list[str]
    lists: list[str]
    documents: int = Field(description="mails, documents, and windows of chats")
    passages: int
    newest: datetime | None


class Rows(BaseModel):
    """The rows of a statement; `is_cut` if there are more than are shown."""

    columns: list[str]
    rows: list[list[str | int | float | bool | None]] = Field(description="texts by others")
    is_cut: bool


class SourceList(BaseModel):
    """The sources of the index."""

    index_version: str
    sources: list[Source]


def within(name: str, number: int | None, usual: int, most: int, least: int = 1) -> int:
    """The number that a question names, else the usual one or the most; QueryError for one that is not given."""
    if number is not None and number > most:
        raise QueryError(
            f"{name} is {number}, and this server gives {most} at most: ask for less, or parts"
        )
    if number is not None and number < least:
        raise QueryError(f"{name} is {number}, and begins at {least}")
    return min(usual, most) if number is None else number


def hits(index: SearchIndex, result: SearchResult) -> Shown[Hits]:
    """The hits of a search for one query, or of the texts near to one."""
    items = [
        Hit(
            title=row["subject"],
            author=row["from_name"] or row["from_addr"],
            at=row["effective_at"],
            expansions=[
                Around(
                    title=index.screen.optional(around["title"]),
                    **{n: around[n] for n in ("kind", "citation", "doc_id", "text")},
                )
                for around in row["expansions"]
            ],
            **{name: row[name] for name in _SAME},
        )
        for row in result.hits.to_pylist()
    ]
    understood = result.understood[0]
    answer = Hits(
        outcome="HITS" if items else "NO_RESULTS",
        label=result.labels[0],
        nearest=understood.nearest,
        meant=list(understood.meant),
        index_version=index.manifest["version"],
        hits=items,
        completeness=result.completeness,
    )
    passages = list[Disclosed]()
    for hit in items:
        passages.append(Disclosed(hit.citation, hit.snippet, hit.doc_id))
        passages += [
            Disclosed(around.citation, around.text, around.doc_id) for around in hit.expansions
        ]
    return Shown(answer, passages)


_SAME = (
    "rank",
    "snippet",
    "breadcrumb",
    "citation",
    "doc_id",
    "source",
    "source_kind",
    "list_id",
    "thread_id",
    "score",
    "lexical_score",
    "vector_score",
)


def text(index: SearchIndex, name: str, byte_start: int, most: int) -> Shown[Text]:
    """The text that `name` means, from `byte_start` on, `most` characters; QueryError if that is behind its end."""
    item = reading(index.ask, name)
    stored = index.screen.text(item.text).encode()
    if byte_start > len(stored):
        raise QueryError(
            f"byte_start {byte_start} is not in {item.id}, which has {len(stored)} bytes here"
        )
    excerpt = stored[byte_start:].decode(errors="replace")[:most]
    end = byte_start + len(excerpt.encode())
    answer = Text(
        **{n: getattr(item, n) for n in ("kind", "id", "doc_id")},
        title=index.screen.optional(item.title),
        text=excerpt,
        byte_start=byte_start,
        byte_end=end,
        is_cut=end < len(stored),
    )
    of = item.id if item.kind == "thread" else item.doc_id
    return Shown(answer, [Disclosed(f"{item.id}:{byte_start}-{end}", excerpt, of)])


def block(
    settings: Settings, index: SearchIndex, question: str, budget: int, where: str
) -> Shown[Block]:
    """The context of a text; `where` narrows the sources of the settings."""
    usual = settings.context.where
    both = f"({usual}) ({where})" if usual.strip() and where.strip() else usual + where
    narrowed = settings.context.model_copy(update={"budget_tokens": budget, "where": both})
    conversation = read_conversation(settings, None, question)
    context = context_of(settings.model_copy(update={"context": narrowed}), conversation, index)
    answer = Block(
        outcome=context.outcome,
        index_version=index.manifest["version"],
        tokens=int(context.manifest["block_tokens"]),
        budget_tokens=budget,
        stopped=context.manifest["stopped"],
        block=context.block,
        completeness=context.completeness,
    )
    return Shown(answer, context.disclosed())


def thread(index: SearchIndex, name: str, limit: int, start: int = 0) -> Shown[Thread]:
    """Mails of the thread that `name` means, or that the mail of that name is in, from the place `start` on.

    QueryError if it means neither, or if the thread has no mail there.
    """
    kind, id_ = resolved_name(index.ask, name)
    if kind not in ("thread", "message"):
        raise QueryError(f"{name!r} is a {kind}, which is in no thread: name a thread or a mail")
    values = {"id": id_, "limit": limit + 1, "start": start}
    rows = index.connection.execute(_SQL("thread"), values).to_arrow_table().to_pylist()
    if not rows:
        raise QueryError(f"{name!r} has no mail at the place {start}")
    mails = [
        Mail(
            author=index.screen.optional(row["from_name"] or row["from_addr"]),
            subject=index.screen.optional(row["subject"]),
            at=row["effective_at"],
            **{n: row[n] for n in ("message_id", "parent_id", "depth")},
        )
        for row in rows[:limit]
    ]
    answer = Thread(
        thread_id=rows[0]["thread_id"],
        subject=index.screen.optional(rows[0]["thread_subject"]),
        mails=mails,
        is_cut=len(rows) > limit,
        next=start + limit if len(rows) > limit else None,
    )
    return Shown(
        answer, [Disclosed(mail.message_id, mail.subject or "", mail.message_id) for mail in mails]
    )


def sources(index: SearchIndex) -> Shown[SourceList]:
    """The sources of the index."""
    rows: list[dict[str, Any]] = (
        index.connection.execute(_SQL("sources")).to_arrow_table().to_pylist()
    )
    answer = SourceList(
        index_version=index.manifest["version"], sources=[Source(**row) for row in rows]
    )
    return Shown(answer, [])


def rows(index: SearchIndex, statement: str, most: int, most_characters: int) -> Shown[Rows]:
    """The rows of one SELECT on the shown index, with every text masked, up to so many rows and characters."""
    table = bounded_rows(
        index.path, statement, most + 1, most_characters, on_start=index.further.append
    )
    lines: list[list[str | int | float | bool | None]] = []
    room = most_characters
    for row in zip(*(column.to_pylist() for column in table.slice(0, most).columns), strict=True):
        cells = [_cell(value, index) for value in row]
        room -= sum(len(cell) for cell in cells if isinstance(cell, str))
        if room < 0:
            break
        lines.append(cells)
    answer = Rows(columns=table.column_names, rows=lines, is_cut=len(lines) < table.num_rows)
    texts = [json.dumps(cells, ensure_ascii=False) for cells in lines]
    return Shown(
        answer, [Disclosed(f"row {number}", text, "sql") for number, text in enumerate(texts, 1)]
    )


def _cell(value: Any, index: SearchIndex) -> str | int | float | bool | None:
    """A value as JSON has it: numbers as they are, all else as a masked text."""
    if (
        value is None
        or isinstance(value, bool | int)
        or (isinstance(value, float) and isfinite(value))
    ):
        return value
    return index.screen.text(str(value))
