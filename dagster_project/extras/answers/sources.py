"""Evidence for sentences from the published index: pieces of hits and citations, with headers and places."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dagster_project.extras.answers.transforms.check import Evidence
from dagster_project.extras.answers.transforms.pieces import (
    TextPiece,
    turns_at,
    turns_in,
    without_diff,
)
from dagster_project.index.search.lookup import reading
from dagster_project.index.search.search_index import SearchIndex
from transforms.errors import QueryError, UnknownIdError
from transforms.retrieval.citations import citation
from transforms.text.passages import authored_ranges
from transforms.text.snippets import stored_texts

_BYTES = re.compile(r" bytes \d+-\d+$")


class CitedPiece(NamedTuple):
    """A piece of a text with its header, its place, the number of the hit that it is of, and the facts of its document."""

    evidence: Evidence
    start: int
    facts: Mapping[str, Any]
    place: str
    hit: int = 0

    def citation(self, start: int, end: int) -> str:
        """The citation of a half-open range of bytes of the piece."""
        return f"{self.place} bytes {self.start + start}-{self.start + end}"

    def shown(self, start: int, end: int) -> str:
        """The text of a half-open range of bytes of the piece."""
        return self.evidence.text.encode()[start:end].decode(errors="replace")


def sources_of(index: SearchIndex, rows: Sequence[Mapping[str, Any]]) -> list[CitedPiece]:
    """The pieces of hits, whose rows are those of `schemas.SEARCH_HITS`, as they may be shown."""
    facts = index.arrays.rows.of(row["chunk_no"] for row in rows)
    texts = index.arrays.rows.texts({fact["text_key"] for fact in facts.values()})
    masked = dict(zip(texts, index.screen.masked(list(texts.values())), strict=True))
    return [
        _source(row, piece, number)
        for number, row in enumerate(rows)
        for piece in _pieces(facts[row["chunk_no"]], masked.get(facts[row["chunk_no"]]["text_key"]))
        if _is_shown(index, piece.text)
    ]


def pieces_at(index: SearchIndex, name: str) -> list[CitedPiece]:
    """The pieces of the text that a citation names, as they may be shown; none if the index lacks it."""
    try:
        part = reading(index.ask, name)
        if part.kind == "thread" or part.byte_start is None:
            return []
        whole = reading(index.ask, part.doc_id) if part.kind == "conversation" else part
    except (QueryError, UnknownIdError):
        return []
    facts = {"doc_id": part.doc_id, "subject": part.title, "source_kind": part.kind, **part.facts}
    facts |= {"from_name": part.facts.get("from_name"), "from_addr": part.facts.get("from_addr")}
    if part.kind == "conversation":
        pieces = turns_at(whole.text, part.byte_start, part.byte_end or part.byte_start)
    else:
        pieces = [TextPiece(part.byte_start, part.text)]
    place = _BYTES.sub("", name.strip().strip("⟨⟩").strip())
    return [
        _source({"effective_at": None, **facts}, piece, 0, place)
        for piece in pieces
        if _is_shown(index, piece.text)
    ]


def _source(row: Mapping[str, Any], piece: TextPiece, number: int, place: str = "") -> CitedPiece:
    speaker = piece.speaker or row["from_name"] or row["from_addr"]
    evidence = Evidence(
        text=piece.text,
        speaker=speaker,
        at=piece.at or row["effective_at"],
        title=row["subject"] or "",
    )
    if not place:
        nowhere = {"block_index": None, "page": None, "byte_start": 0, "byte_end": 0}
        place = _BYTES.sub("", citation({**row, **nowhere}))
    return CitedPiece(evidence, piece.start, row, place, number)


def _pieces(fact: Mapping[str, Any], stored: str | None) -> Iterable[TextPiece]:
    """The pieces of a chunk by its author."""
    if stored is None:
        return []
    quotes = fact["inferred_quotes"] or () if fact["source_kind"] == "message" else ()
    parts = stored_texts(stored, authored_ranges(fact["spans"], quotes))
    if fact["source_kind"] == "conversation" and fact["chunk_kind"] != "turn":
        return [
            turn._replace(start=part.start + turn.start)
            for part in parts
            for turn in turns_in(part.text)
        ]
    return [without_diff(TextPiece(part.start, part.text)) for part in parts]


def _is_shown(index: SearchIndex, text: str) -> bool:
    """True for a text that is not held back as a whole."""
    return len(index.screen.text(text).encode()) == len(text.encode())
