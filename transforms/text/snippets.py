"""The piece of a text that shows best why it was found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from difflib import SequenceMatcher
from typing import NamedTuple

from transforms.settings.search import TermSettings
from transforms.text.spans import ByteOffsets
from transforms.text.terms import identifier_parts, stems

_WORD = re.compile(r"\w+")
_BLANKS = re.compile(r"\s+")
_NEAR, _FARTHEST = 50, 500
"""Words before and behind those of a snippet that are aligned with them, and how far these may have moved in between."""
LENGTH = 240
"""Characters of a snippet, about three lines of a terminal."""


class Snippet(NamedTuple):
    """A text on one line and the half-open character ranges in it that match the query.

    `words` are all that match in the whole text, lower case, `first` the number of the first one in the snippet.
    """

    text: str
    highlights: list[list[int]]
    words: list[str]
    first: int


class Piece(NamedTuple):
    """Bytes of a stored text as text, and where they begin."""

    start: int
    text: str


def pieces(stored: str, spans: Sequence[tuple[int, int]]) -> list[Piece]:
    """The pieces of a stored text that lie between half-open ranges of its UTF-8 bytes."""
    data = stored.encode()
    return [Piece(first, data[first:last].decode(errors="replace")) for first, last in spans]


def words_by_term(texts: Iterable[str], settings: TermSettings) -> dict[str, list[tuple[int, str]]]:
    """The words of some texts by each of their terms, with the place of the term among those of the word.

    The first term of a word is that of the whole of it, the others are those of the parts of an identifier.
    """
    words = sorted(set[str]().union(*map(_WORD.findall, texts)))
    found: dict[str, list[tuple[int, str]]] = {}
    for word, term in zip(words, stems([word.lower() for word in words], settings), strict=True):
        found.setdefault(term, []).append((0, word))
    for word, parts in identifier_parts(words).items():
        for place, term in enumerate(stems(parts, settings), 1):
            found.setdefault(term, []).append((place, word))
    return found


def matching_words(wanted: Set[str], by_term: Mapping[str, Sequence[tuple[int, str]]]) -> dict[str, str]:
    """The words (`words_by_term`) one of whose terms is wanted, each with the first of these."""
    found = sorted((place, word, term) for term in wanted for place, word in by_term.get(term, ()))
    return {word: term for _, word, term in reversed(found)}


def snippet(text: str, matching: Mapping[str, str], length: int = LENGTH) -> Snippet:
    """The window of about `length` characters with the most distinct terms of `matching_words`.

    White space is folded; windows start at a word. Ties go to the earliest window.
    """
    folded = _BLANKS.sub(" ", text).strip()
    found = _matches(folded, matching)
    start = _best_start(found, length)
    start = max(0, start - length // 6) if start + length < len(folded) or start > length // 6 else 0
    if start:
        start = folded.find(" ", start) + 1
    end = min(len(folded), start + length)
    if end < len(folded):
        end = max(folded.rfind(" ", start, end), start + length // 2)
    lead, tail = ("… " if start else ""), (" …" if end < len(folded) else "")
    shift = len(lead) - start
    shown = [n for n, (a, b, _) in enumerate(found) if a >= start and b <= end]
    marks = [[found[n][0] + shift, found[n][1] + shift] for n in shown]
    words = [folded[a:b].lower() for a, b, _ in found]
    return Snippet(f"{lead}{folded[start:end]}{tail}", marks, words, shown[0] if shown else 0)


def stored_places(
    made: Snippet, stored: Sequence[Piece], matching: Mapping[str, str]
) -> list[tuple[int, int] | None]:
    """Where the highlighted words of a snippet stand in the stored text: half-open ranges of UTF-8 bytes.

    `stored` are the pieces that the text of the snippet was made from, in order. Matching words of both are aligned
    in their order; None for one that the pieces do not hold as a word (a name of a file set before a diff).
    """
    places: list[tuple[int, int]] = []
    words: list[str] = []
    for first, text in stored:
        offsets = ByteOffsets(text)
        for start, end, _ in _matches(text, matching):
            places.append((first + offsets(start), first + offsets(end)))
            words.append(text[start:end].lower())
    numbers = range(made.first, made.first + len(made.highlights))
    aligned = _aligned(made.words, words, numbers)
    return [places[aligned[n]] if n in aligned else None for n in numbers]


def _aligned(shown: Sequence[str], kept: Sequence[str], wanted: range) -> dict[int, int]:
    """The places in `kept` of the `wanted` words of `shown`, where both have them in the same order.

    What both begin and end with is the same; between, only words near the wanted ones are compared, because comparing
    takes as long as there are pairs of equal words.
    """
    least = min(len(shown), len(kept))
    head = next((n for n in range(least) if shown[n] != kept[n]), least)
    tail = next((n for n in range(least - head) if shown[-1 - n] != kept[-1 - n]), least - head)
    longer = len(kept) - len(shown)
    aligned = {n: n for n in wanted if n < head}
    aligned |= {n: n + longer for n in wanted if n >= max(head, len(shown) - tail)}
    first, last = max(head, wanted.start - _NEAR), min(len(shown) - tail, wanted.stop + _NEAR)
    low = max(head, first + min(longer, 0) - _NEAR)
    high = min(len(kept) - tail, last + min(max(longer, 0), _FARTHEST) + _NEAR)
    if first < last and low < high:
        matcher = SequenceMatcher(None, shown[first:last], kept[low:high], autojunk=False)
        for a, b, size in matcher.get_matching_blocks():
            aligned |= {first + a + n: low + b + n for n in range(size) if first + a + n in wanted}
    return aligned


def _matches(text: str, matching: Mapping[str, str]) -> list[tuple[int, int, str]]:
    """Start, end and term of each word of a text that is one of `matching_words`."""
    if not matching:
        return []
    found = _WORD.finditer(text)
    return [(w.start(), w.end(), matching[word]) for w in found if (word := w.group()) in matching]


def _best_start(found: list[tuple[int, int, str]], length: int) -> int:
    """Start of the earliest window with the most distinct terms, by two pointers."""
    best, best_count = 0, 0
    counts: dict[str, int] = {}
    left = 0
    for start, end, term in found:
        counts[term] = counts.get(term, 0) + 1
        while end - found[left][0] > length * 5 // 6 and found[left][0] < start:
            gone = found[left][2]
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
            left += 1
        if len(counts) > best_count:
            best, best_count = found[left][0], len(counts)
    return best
