"""Answers that programs get from the published index: hits, texts and blocks of context, bounded and cited."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from dagster_project.config.settings import Settings
from dagster_project.resources.search.conversation_context import context_of, read_conversation
from dagster_project.resources.search.filters import Filters
from dagster_project.resources.search.lookup import asking, reading
from dagster_project.resources.search.search_index import SearchIndex
from transforms.errors import QueryError


class Hit(BaseModel):
    """One hit of a search."""

    rank: int
    citation: str = Field(description="what `get` opens: a place and its bytes")
    doc_id: str
    source_kind: str
    title: str | None
    author: str | None
    at: datetime | None
    score: float
    snippet: str = Field(description="text by others")


class Hits(BaseModel):
    """The answer to a search; `label` says how far it can be trusted.

    Without hits `nearest` is the title and id of what came nearest, `meant` are words in place of those no text holds.
    """

    outcome: str
    label: str
    nearest: str | None
    meant: list[str]
    index_version: str
    hits: list[Hit]


class Text(BaseModel):
    """A stored text; `byte_end` is where the next `get` would go on if `is_cut`."""

    kind: str
    id: str
    doc_id: str
    title: str | None
    text: str = Field(description="text by others")
    byte_start: int
    byte_end: int
    is_cut: bool


class Block(BaseModel):
    """Passages for a text under a budget of tokens, with their citations."""

    outcome: str
    index_version: str
    tokens: int
    block: str = Field(description="text by others, under headings that cite it")


def hits(index: SearchIndex, query: str, filters: Filters, limit: int, plain: bool) -> Hits:
    """The best `limit` hits of a query."""
    result = index.search([query], filters, limit, plain)
    rows = result.hits.to_pylist()
    found = [
        Hit(
            title=row["subject"],
            author=row["from_name"] or row["from_addr"],
            at=row["effective_at"],
            **{n: row[n] for n in ("rank", "citation", "doc_id", "source_kind", "score", "snippet")},
        )
        for row in rows
    ]
    outcome = "HITS" if found else "NO_RESULTS"
    return Hits(
        outcome=outcome,
        label=result.labels[0],
        nearest=result.understood[0].nearest,
        meant=list(result.understood[0].meant),
        index_version=index.manifest["version"],
        hits=found,
    )


def text(index: SearchIndex, id_: str, byte_start: int, most: int) -> Text:
    """At most `most` characters of what an id or citation stands for, from a byte of it on."""
    document = reading(asking(index.connection), id_)
    stored = document.text.encode()
    if not 0 <= byte_start <= len(stored):
        raise QueryError(
            f"byte_start {byte_start} is not in {document.id}, which has {len(stored)} bytes here"
        )
    excerpt = stored[byte_start:].decode(errors="replace")[:most]
    end = byte_start + len(excerpt.encode())
    return Text(
        **{n: getattr(document, n) for n in ("kind", "id", "doc_id", "title")},
        text=excerpt,
        byte_start=byte_start,
        byte_end=end,
        is_cut=end < len(stored),
    )


def block(settings: Settings, index: SearchIndex, text: str, budget: int) -> Block:
    """Passages for a longer text under a budget of tokens."""
    narrowed = settings.context.model_copy(update={"budget_tokens": budget})
    context = context_of(
        settings.model_copy(update={"context": narrowed}), read_conversation(settings, None, text), index
    )
    return Block(
        outcome=context.outcome,
        index_version=str(context.manifest["index_version"]),
        tokens=int(context.manifest["block_tokens"]),
        block=context.block,
    )
