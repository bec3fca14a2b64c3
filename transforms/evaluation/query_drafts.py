"""Ground truth drafted from what an index holds: titles, links and answered questions. A start, not a truth."""

from __future__ import annotations

import re

import polars as pl

from transforms.evaluation.ground_truth import GroundTruth, query_row, relevance_row
from transforms.hashing import text_hash
from transforms.schemas.evaluation import EVALUATION_QUERIES, EVALUATION_RELEVANCE

NOTE = """Drafted by `weft eval init`: nobody has looked at these queries and answers yet.
Known items are easy, because the query is the title; answers that nobody linked are missing.
Take out what is wrong, add what is missing, word queries as you would ask them, and remove `drafted: true`."""

_MARKS = re.compile(r"^\s*(?:(?:re|aw|fwd?|wg)\s*(?:\[\d+\])?\s*:|\[[^\]]{1,40}\])\s*", re.I)
_QUESTION = re.compile(r"[^.!?\n>][^.!?>]{24,300}\?")
_THANKS = r"(?i)\b(?:thanks|thank you|thx|that (?:worked|helped|fixed|did it)|works now|solved|perfect|danke|merci)\b"
_NOT_TRAILERS = ("quoted", "mention", "url", "image", "embed")
_TITLE_CHARS, _TITLE_WORDS = 12, 3


def draft_queries(
    mails: pl.DataFrame, nodes: pl.DataFrame, links: pl.DataFrame, count: int, file: str
) -> GroundTruth:
    """Up to `count` queries of each kind, the same for the same index.

    `mails` has message_id, thread_id, parent_id, subject, from_addr, text (the author's own) and
    effective_at; `nodes` has node_id, title and depth; `links` has from_id, to_id, kind, text and
    from_subject. Kinds, as tags: `subject` (the subject of a thread finds it), `heading` (a
    heading finds its section), `link` (the subject of a mail finds the mail that its trailer
    names, the text of a link the place it leads to) and `answered` (a question finds the reply
    that its author thanked for).
    """
    kinds = {
        "subject": _subjects(mails),
        "heading": _headings(nodes),
        "link": _links(links),
        "answered": _answered(mails),
    }
    queries, relevance = [], []
    for kind, candidates in kinds.items():
        sample = sorted(candidates, key=lambda row: text_hash(row[1] + row[0]))[:count]
        for query, target, form in sample:
            query_id = f"{kind}-{text_hash(target + query)[:8]}"
            queries.append(query_row(query_id, query, [kind], file, is_draft=True))
            relevance.append(relevance_row(query_id, 0, form, target, grade=1))
    return GroundTruth(EVALUATION_QUERIES.from_rows(queries), EVALUATION_RELEVANCE.from_rows(relevance))


def plain_subject(subject: str) -> str:
    """A subject without `Re:` and tags in brackets.

    >>> plain_subject("Re: [PATCH v2] AW: fix the lock")
    'fix the lock'
    """
    previous = None
    while previous != subject:
        previous, subject = subject, _MARKS.sub("", subject)
    return subject.strip()


def _subjects(mails: pl.DataFrame) -> list[tuple[str, str, str]]:
    roots = mails.sort("effective_at", "message_id").unique("thread_id", keep="first", maintain_order=True)
    rows = [(plain_subject(s or ""), m, "thread") for m, s in roots.select("message_id", "subject").rows()]
    return _unique(rows)


def _headings(nodes: pl.DataFrame) -> list[tuple[str, str, str]]:
    return _unique(
        [(t, n, "node") for n, t in nodes.filter(pl.col("depth") > 0).select("node_id", "title").rows()]
    )


def _links(links: pl.DataFrame) -> list[tuple[str, str, str]]:
    resolved = links.filter(pl.col("to_id").is_not_null() & ~pl.col("kind").is_in(_NOT_TRAILERS))
    rows = []
    for to_id, text, subject in resolved.select("to_id", "text", "from_subject").rows():
        query = plain_subject(subject) if subject else text.replace("#", " ").strip()
        form = "message" if subject else "node" if "#" in to_id else "document"
        if _says_enough(query):
            rows.append((query, to_id, form))
    return sorted(set(rows))


def _answered(mails: pl.DataFrame) -> list[tuple[str, str, str]]:
    """Question, reply by another, and thanks by the author of the question in answer to the reply."""
    answers = mails.select(answer_id="message_id", question_id="parent_id", answerer="from_addr")
    thanks = mails.filter(pl.col("text").str.slice(0, 400).str.contains(_THANKS))
    exchanges = (
        mails.filter(pl.col("text").str.contains("?", literal=True))
        .join(answers, left_on="message_id", right_on="question_id")
        .filter(pl.col("answerer") != pl.col("from_addr"))
        .join(thanks.select(answer_id="parent_id", thanker="from_addr"), on="answer_id")
        .filter(pl.col("thanker") == pl.col("from_addr"))
        .sort("message_id", "answer_id")
    )
    rows = []
    for text, answer in exchanges.select("text", "answer_id").rows():
        match = _QUESTION.search(text)
        if match and _says_enough(query := " ".join(match[0].split())):
            rows.append((query, answer, "message"))
    return sorted(set(rows))


def _unique(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Titles that say enough and that no other item has."""
    counts: dict[str, int] = {}
    for title, _, _ in rows:
        counts[title.casefold()] = counts.get(title.casefold(), 0) + 1
    return [row for row in rows if counts[row[0].casefold()] == 1 and _says_enough(row[0])]


def _says_enough(text: str) -> bool:
    return len(text) >= _TITLE_CHARS and len(text.split()) >= _TITLE_WORDS
