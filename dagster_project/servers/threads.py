"""Threads as programs read them: the mails with their texts, and the passages that bear a query out."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from dagster_project.index.search.lookup import resolved_name
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.outgoing.receipts import Disclosed
from dagster_project.servers.answers import BY_OTHERS, Shown, within
from dagster_project.servers.requests import MOST_MAILS, ThreadRequest
from dagster_project.system.sql_files import SqlFile
from transforms.errors import QueryError, UnknownIdError, shortened
from transforms.languages import OR
from transforms.retrieval.diversity import thread_evidence
from transforms.text.terms import stems

_SQL = SqlFile(__file__, "threads.sql")
_LOOKED_AT = 10
"""Hits of a thread that its evidence is taken from."""
_TEXTS = ("subject", "from_name", "from_addr", "text")


class ThreadMessage(BaseModel):
    """A mail of a thread in reading order; a ghost is named by others and in no archive."""

    message_id: str
    parent_id: str | None
    position: int
    depth: int
    is_ghost: bool
    subject: str | None
    from_name: str | None
    from_addr: str | None
    at: datetime | None
    text: str | None = Field(description=BY_OTHERS)


class Thread(BaseModel):
    """A thread with its mails; if there are more, the next page begins at `next`."""

    thread_id: str
    subject: str | None
    message_count: int
    participant_count: int
    first_at: datetime | None
    last_at: datetime | None
    evidence: list[str] = Field(
        description="citations of one to three passages for `q`, in the order of the thread; on the first page"
    )
    start: int
    next: int | None
    messages: list[ThreadMessage]


def thread_record(index: SearchIndex, request: ThreadRequest) -> Shown[Thread]:
    """A page of a thread, by its id or by a Message-ID in it; UnknownIdError if it means neither."""
    start, limit = request.start, within("limit", request.limit, MOST_MAILS, MOST_MAILS)
    ask, id_ = index.ask, request.id.strip().strip("<>")
    row = next(iter(ask(_SQL("thread"), {"id": id_}).to_pylist()), None)
    if row is None:
        resolved_name(ask, id_)  # says what is near
        raise UnknownIdError(f"{shortened(id_)!r} is neither a thread nor a mail")
    page = {"id": row["thread_id"], "start": start, "limit": limit + 1}
    rows = ask(_SQL("messages"), page).to_pylist()
    mails = [
        ThreadMessage(**mail | {name: index.screen.optional(mail[name]) for name in _TEXTS})
        for mail in rows[:limit]
    ]
    there = next((mail.message_id for mail in mails if not mail.is_ghost), id_)
    passages = card(index, request.q, there, plain=request.plain) if start == 0 else []
    answer = Thread(
        **row | {"subject": index.screen.optional(row["subject"])},
        start=start,
        next=start + limit if len(rows) > limit else None,
        messages=mails,
        evidence=[passage["citation"] for passage in passages],
    )
    texts = [Disclosed(m.message_id, m.text, m.message_id) for m in mails if m.text]
    return Shown(answer, texts)


def card(
    index: SearchIndex, query: str, message_id: str, *, plain: bool = False
) -> list[Mapping[str, Any]]:
    """One to three hits, rows of `schemas.SEARCH_HITS`, of the thread of a mail, in its order.

    Empty if the query has no words or cannot be understood, or if the thread lacks all of its
    words.
    """
    try:
        words = index.resolved([query], plain=plain)[0].understood.text
        plain_words = re.sub(r"[^\w -]", " ", words).replace(" -", " ")
        result = (
            index.search([f"{plain_words} thread:{message_id}"], limit=_LOOKED_AT)
            if words
            else None
        )
    except QueryError:
        return []
    rows = [row for row in result.hits.to_pylist() if row["support"]] if result else []
    terms = _stems(index, words)
    marked = [
        " ".join(row["snippet"][start:end] for start, end in row["highlights"]) for row in rows
    ]
    chosen = thread_evidence(
        [row["score"] for row in rows], [_stems(index, text) & terms for text in marked]
    )
    return sorted((rows[n] for n in chosen), key=lambda row: row["thread_position"])


def _stems(index: SearchIndex, text: str) -> set[str]:
    terms = stems(re.findall(r"[^\W_]+", text.lower()), index.term_settings)
    return {name for term in terms for name in term.split(OR)}
