"""Passages to a block of context: the form of the egregora design, and a compiled block that a manifest reproduces.

Compiling follows what AvocadoDB calls context compilation: a fixed order, a budget of tokens, no
text twice, a citation for every passage, and a manifest that reproduces the same bytes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from transforms.documents.markdown import closing_fence
from transforms.errors import ContextError
from transforms.hashing import bytes_sha256
from transforms.text.passages import repeated

VERSION = "4"
_SEED_HEAD = (
    "\n\n## Related Previous Posts (for continuity and linking):\n"
    "You can reference these posts in your writing to maintain conversation continuity.\n\n"
)
_COMPILED_HEAD = "# Context\n"
_ESCAPED = re.compile(
    r"^(?= {0,3}(?:#{1,6}(?:\s|$)|(?:=+|-+)[ \t]*$|<(?:[!?]|(?:script|pre|style|textarea)\b)))", re.I | re.M
)
"""Where a line begins a heading, makes one of the line before it, or begins raw HTML that no empty line ends."""
_LINE_ENDS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""What some reader takes for the end of a line; what follows it would stand on a line of its own, not quoted."""
_BRACKET = re.compile("[\u27e8\u27e9]")

_SENTENCE_ENDS = re.compile(r"\n|(?<=[.!?])\s")
_LEAST_CUT = 64
"""Tokens that a passage has at least that is cut, its title and citation included."""

SHOWN = "shown: an earlier turn of the session showed it"
TokenCounter = Callable[[Sequence[str]], list[int]]


@dataclass(frozen=True)
class Passage:
    """A chunk as it is displayed: its text and position.

    `start` and `end` are bytes of the document `doc_id`; `around` is the section or mail it
    stands in, with the bytes of that, where there is one. `tags` are the document's, `page_starts` the bytes at which
    its pages begin. `lines` and `around_lines` are the first and last line that these bytes touch, from 1. `cut` are the
    characters that are shown of a text that does not fit as a whole.
    """

    chunk_id: str
    doc_id: str
    place: str
    source_kind: str
    title: str
    date: datetime | None
    tags: tuple[str, ...]
    text: str
    start: int
    end: int
    around: str | None = None
    around_start: int = 0
    around_end: int = 0
    page_starts: tuple[int, ...] = ()
    lines: tuple[int, int] = (1, 1)
    around_lines: tuple[int, int] = (1, 1)
    similarity: float | None = None
    score: float | None = None
    expanded: bool = False
    cut: int | None = None

    @property
    def shown(self) -> tuple[str, int, int]:
        """Text and bytes: of the passage, or of its surroundings if it is expanded."""
        if self.expanded and self.around is not None:
            return self.around, self.around_start, self.around_end
        text = self.text[: self.cut]
        return text, self.start, self.start + len(text.encode()) if self._is_exact else self.end

    @property
    def shown_lines(self) -> tuple[int, int]:
        """The first and last line of what is shown."""
        if self.expanded and self.around is not None:
            return self.around_lines
        if self.cut is None or not self._is_exact:
            return self.lines
        return self.lines[0], self.lines[0] + self.text[: self.cut].rstrip("\n").count("\n")

    @property
    def _is_exact(self) -> bool:
        """True if the text is these bytes of the document, and not parts of them."""
        return len(self.text.encode()) == self.end - self.start


class Omission(NamedTuple):
    """A passage that the block omits, and the reason."""

    passage: Passage
    reason: str


class CompiledBlock(NamedTuple):
    """A block of context, its tokens, its passages in order and its omissions."""

    block: str
    tokens: int
    chosen: list[Passage]
    dropped: list[Omission]


def related_posts(passages: Sequence[Passage], passage_chars: int = 400) -> str:
    """The block of related posts of the egregora design; empty without passages.

    Lines of a text that begin a heading, or HTML without an end, get a backslash, and code that is cut off is
    closed, so that no text can pass for a post of its own or hide the next one.
    """
    if not passages:
        return ""
    texts = [_SEED_HEAD]
    for passage in passages:
        date = f"{passage.date:%Y-%m-%d}" if passage.date else "no date"
        text = _ESCAPED.sub(r"\\", _LINE_ENDS.sub("\n", passage.text[:passage_chars])) + "..."
        if fence := closing_fence(text):
            text = f"{text}\n{fence}"
        tags = ", ".join(_one_line(t) for t in passage.tags) or "none"
        texts.append(f"### [{_one_line(passage.title)}] ({date})\n{text}\n- Tags: {tags}\n")
        similarity = 0.0 if passage.similarity is None else passage.similarity
        texts.append(f"- Similarity: {similarity:.2f}\n\n")
    return "".join(texts)


def compile_block(
    passages: Sequence[Passage],
    budget_tokens: int,
    count: TokenCounter,
    *,
    expand: bool = True,
    earlier: Sequence[Passage] = (),
) -> CompiledBlock:
    """The block of as many of `passages`, in their order, as the budget holds, without what `earlier` blocks showed.

    A passage that repeats a chosen one, or that lies inside or across its bytes, is left out. The first one that does
    not fit is cut, and none behind it is shown; if hardly anything of it would fit, it is left out and what follows may
    fit. With `expand`, what is left of the budget shows sections and mails in place of the passages from them, the best
    first.
    """
    chosen: list[Passage] = []
    dropped: list[Omission] = []
    remaining = budget_tokens - count([_COMPILED_HEAD])[0]
    first_costs = count([_render(p) for p in passages])
    further_costs = count([_render(p, is_first=False) for p in passages])
    headed: set[tuple[str, str, datetime | None]] = set()
    for passage, first_cost, further_cost in zip(passages, first_costs, further_costs, strict=True):
        cost = further_cost if _heading_of(passage) in headed else first_cost
        if _repeats(passage, earlier):
            dropped.append(Omission(passage, SHOWN))
        elif repeated := _repeats(passage, chosen):
            dropped.append(Omission(passage, repeated))
        elif cost + 1 > remaining and (shorter := _cut_to(passage, cost, remaining - 1, count)):
            chosen.append(shorter)
            headed.add(_heading_of(passage))
            remaining = 0
        elif cost + 1 > remaining:
            dropped.append(Omission(passage, f"over_budget: {cost} tokens, {max(remaining, 0)} are left"))
        else:
            chosen.append(passage)
            headed.add(_heading_of(passage))
            remaining -= cost + 1
    if expand:
        chosen = _expand(chosen, remaining, count, earlier)
    chosen = _together(chosen)
    block = render_block(chosen)
    tokens = count([block])[0] if block else 0
    while tokens > budget_tokens:
        last = next((n for n in reversed(range(len(chosen))) if chosen[n].expanded), None)
        if last is None:
            dropped.append(Omission(chosen.pop(), "over_budget: the whole block is too large"))
        else:
            chosen[last] = replace(chosen[last], expanded=False)
        block = render_block(chosen)
        tokens = count([block])[0] if block else 0
    return CompiledBlock(block, tokens, chosen, dropped)


def _cut_to(passage: Passage, cost: int, budget: int, count: TokenCounter) -> Passage | None:
    """The beginning of a passage, up to the end of a line or sentence, within `budget` tokens; None if little is left."""
    length = len(passage.text)
    while budget >= _LEAST_CUT:
        length = int(length * min(0.95, budget / cost))
        ends = [m.end() for m in _SENTENCE_ENDS.finditer(passage.text, 0, length)]
        shorter = replace(passage, cut=ends[-1] if ends else length)
        if length < 1 or not _says_anything(passage.text[: shorter.cut]):
            return None
        cost = count([_render(shorter)])[0]
        if cost <= budget:
            return shorter if cost >= _LEAST_CUT else None
    return None


def _says_anything(text: str) -> bool:
    """True if a line stands in the text that is not quoted."""
    return any(line.strip() and not line.startswith(">") for line in text.splitlines())


def _expand(
    chosen: list[Passage], remaining: int, count: TokenCounter, earlier: Sequence[Passage]
) -> list[Passage]:
    """The passages with their surroundings, as far as the remaining tokens allow."""
    wider = [replace(p, expanded=p.around is not None and p.cut is None) for p in chosen]
    narrow_costs, wide_costs = (count([_render(p) for p in form]) for form in (chosen, wider))
    result = list(chosen)
    for number, passage in enumerate(wider):
        cost = wide_costs[number] - narrow_costs[number]
        others = [*result[:number], *result[number + 1 :], *earlier]
        if passage.expanded and cost <= remaining and not _repeats(passage, others):
            result[number] = passage
            remaining -= cost
    return result


def _repeats(passage: Passage, chosen: Sequence[Passage]) -> str | None:
    text, start, end = passage.shown
    for number, other in enumerate(chosen, start=1):
        other_text, low, high = other.shown
        if passage.place.split("#")[0] == other.place.split("#")[0] and start < high and low < end:
            return f"overlaps: its bytes are partly those of passage {number}"
        if passage.doc_id == other.doc_id and repeated([other_text, text])[-1] is not None:
            return f"same_text: passage {number} says it"
    return None


def _heading_of(passage: Passage) -> tuple[str, str, datetime | None]:
    """The document and the heading under which a passage stands in a block."""
    return passage.doc_id, passage.title, passage.date


def _together(chosen: Sequence[Passage]) -> list[Passage]:
    """The passages with those under one heading together, in the order of their document, where the first of them was."""
    places: dict[tuple[str, str, datetime | None], int] = {}
    for number, passage in enumerate(chosen):
        places.setdefault(_heading_of(passage), number)
    return sorted(chosen, key=lambda passage: (places[_heading_of(passage)], passage.shown[1]))


def render_block(chosen: Sequence[Passage]) -> str:
    """The block of these passages; none of their text can pass for a line of Weft's.

    Passages under one heading follow each other, and the first has it. Every line of theirs begins with `> `, whichever
    sign ends it, and their brackets of citations get a backslash: those without are Weft's.
    """
    before = [None, *map(_heading_of, chosen)]
    rendered = (
        _render(passage, is_first=_heading_of(passage) != last)
        for passage, last in zip(chosen, before, strict=False)
    )
    return "\n".join([_COMPILED_HEAD, *rendered]) if chosen else ""


def _render(passage: Passage, *, is_first: bool = True) -> str:
    text, start, end = passage.shown
    date = f" ({passage.date:%Y-%m-%d})" if passage.date else ""
    title, citation = map(_named, (passage.title, passage.place))
    page = f" page {bisect_right(passage.page_starts, start)}" if passage.page_starts else ""
    heading = f"## {title}{date}\n\n" if is_first else ""
    return f"{heading}{_quoted(text)}\n\n\u27e8{citation}{page} bytes {start}-{end}\u27e9\n"


def render_thread(mails: Iterable[Mapping[str, Any]]) -> str:
    """The mails of a thread below their headers; no text of theirs can pass for a header, or for a mail, of another.

    `mails` have message_id, author, effective_at, subject and body, of which all but the first may be None. Bodies are
    quoted as passages of a block are.
    """
    return "\n".join(map(_render_mail, mails))


def _render_mail(mail: Mapping[str, Any]) -> str:
    at, subject = mail["effective_at"], mail["subject"]
    headers = [
        f"From: {_named(mail['author'] or 'not in the archives')}",
        f"Message-ID: <{_named(mail['message_id'])}>",
        *([f"Date: {at:%Y-%m-%d %H:%M}"] if at else []),
        *([f"Subject: {_named(subject)}"] if subject is not None else []),
    ]
    return "\n".join([*headers, "", *([_quoted(mail["body"]), ""] if mail["body"] else [])])


def _quoted(text: str) -> str:
    """`text` with `> ` before each line, whichever sign ends it, and a backslash before brackets of citations."""
    lines = _escape_brackets(_LINE_ENDS.sub("\n", text)).strip("\n").split("\n")
    return "\n".join(f"> {line}".rstrip() for line in lines)


def _named(text: str) -> str:
    """A title or a name as it stands in a line of Weft's."""
    return _escape_brackets(_one_line(text))


def manifest(compilation: CompiledBlock, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The origin of a compiled block: `facts` (index version, model, settings, budget, question) and every passage."""
    return {
        "manifest": VERSION,
        **facts,
        "block_sha256": bytes_sha256(compilation.block.encode()),
        "block_tokens": compilation.tokens,
        "chosen": [_manifest_entry(p) for p in compilation.chosen],
        "dropped": [{**_manifest_entry(d.passage), "reason": d.reason} for d in compilation.dropped],
    }


def _manifest_entry(passage: Passage) -> dict[str, Any]:
    text, start, end = passage.shown
    return {
        "chunk_id": passage.chunk_id,
        "doc_id": passage.doc_id,
        "place": passage.place,
        "byte_start": start,
        "byte_end": end,
        "lines": list(passage.shown_lines),
        "expanded": passage.expanded,
        "cut": passage.cut,
        "text_sha256": bytes_sha256(text.encode()),
        "similarity": passage.similarity if passage.similarity is None else round(passage.similarity, 6),
        "score": passage.score if passage.score is None else round(passage.score, 6),
    }


def reproduce_block(recorded: Mapping[str, Any], passages: Mapping[str, Passage]) -> str:
    """The block of a manifest, reproduced byte for byte from `passages` by chunk.

    Raises ContextError if a chunk is missing or if the bytes are not those that the manifest names.
    """
    chosen = []
    for entry in recorded["chosen"]:
        passage = passages.get(entry["chunk_id"])
        if passage is None:
            raise ContextError(f"chunk {entry['chunk_id']} of {entry['place']} is not in the index any more")
        chosen.append(as_shown(passage, entry))
    block = render_block(chosen)
    digest = bytes_sha256(block.encode())
    if digest != recorded["block_sha256"]:
        raise ContextError(
            f"the block made again has SHA-256 {digest}, the manifest names {recorded['block_sha256']}"
        )
    return block


def as_shown(passage: Passage, entry: Mapping[str, Any]) -> Passage:
    """A passage as the entry of a manifest says that it was shown."""
    return replace(passage, expanded=entry["expanded"], cut=entry.get("cut"))


def difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """What changed from one manifest to the other: passages `added`, `removed`, `moved` and `resized`."""
    old = {e["chunk_id"]: (n, e) for n, e in enumerate(first["chosen"], start=1)}
    new = {e["chunk_id"]: (n, e) for n, e in enumerate(second["chosen"], start=1)}
    new_order = [c for c in new if c in old]
    # Only what changed its place among those that stayed has moved.
    old_order = [c for c in old if c in new]
    return {
        "added": [
            {"place": e["place"], "chunk_id": c, "rank": n} for c, (n, e) in new.items() if c not in old
        ],
        "removed": [
            {"place": e["place"], "chunk_id": c, "rank": n} for c, (n, e) in old.items() if c not in new
        ],
        "moved": [
            {"place": new[c][1]["place"], "chunk_id": c, "from": old[c][0], "to": new[c][0]}
            for c, was in zip(new_order, old_order, strict=True)
            if c != was
        ],
        "resized": [
            {"place": new[c][1]["place"], "chunk_id": c, "expanded": new[c][1]["expanded"]}
            for c in new_order
            if any(new[c][1].get(how) != old[c][1].get(how) for how in ("expanded", "cut"))
        ],
    }


def _escape_brackets(text: str) -> str:
    """`text` with a backslash before the brackets that begin and end a citation."""
    return _BRACKET.sub(r"\\\g<0>", text)


def _one_line(text: str) -> str:
    return " ".join(text.split())
