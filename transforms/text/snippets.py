"""Snippets: the window of a text that best explains why it matches a query."""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from difflib import SequenceMatcher
from functools import cache, lru_cache
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple

from transforms.languages import OR, UNSPACED
from transforms.settings.search import TermSettings
from transforms.text.spans import Offsets
from transforms.text.terms import identifier_parts, stems, word_runs

_WORD, _SPACED_WORD = re.compile(r"\w+", re.ASCII), re.compile(rf"[^\W{UNSPACED}]+")
_UNSPACED = re.compile(f"[{UNSPACED}]+")
_WORDS_KNOWN = 1 << 16
"""Words whose terms are remembered."""
_KNOWING = Lock()
_LINE_BREAKS = re.compile(r"\s*\n")
_LINE_CHARS = 160
"""Characters of the longest line at whose start a snippet that keeps lines begins; in longer ones
it begins at a word.
"""
_NEAR, _FARTHEST = 50, 500
"""Words before and after those of a snippet that are aligned with them, and how far these may have
moved.
"""
LENGTH = 240
"""Characters of a snippet, about three lines of a terminal."""


class Snippet(NamedTuple):
    """A text, on one line unless lines are kept, and the half-open character ranges in it that
    match the query.

    `words` are all that match in the whole text, lower case, `first` the number of the first one in
    the snippet.
    """

    text: str
    highlights: list[list[int]]
    words: list[str]
    first: int


class StoredText(NamedTuple):
    """A range of a stored text: its first byte and its text."""

    start: int
    text: str


def stored_texts(stored: str, spans: Sequence[tuple[int, int]]) -> list[StoredText]:
    """The texts of half-open ranges of UTF-8 bytes of a stored text.

    >>> stored_texts("año nuevo", [(0, 4), (5, 10)])
    [StoredText(start=0, text='año'), StoredText(start=5, text='nuevo')]
    """
    data = stored.encode()
    return [StoredText(first, data[first:last].decode(errors="replace")) for first, last in spans]


def words_by_term(
    texts: Iterable[str], targets: Set[str], settings: TermSettings
) -> dict[str, list[tuple[int, str]]]:
    """The words of some texts by each of their terms in `targets`, with the number of the term
    among those of the word.

    Term 0 is that of the complete word, the others are those of the parts of an identifier.
    """
    words = set[str]().union(*map(_words_in, texts))
    words_of = {term: [(0, term)] for term in targets if _UNSPACED.fullmatch(term)}
    target_of = {term: target for target in sorted(targets) for term in target.split(OR)}
    known, numbers_of = _known_words(settings)
    with _KNOWING:
        if len(known) > _WORDS_KNOWN:
            known.clear()
            numbers_of.clear()
        parts = identifier_parts(new := words - known)
        forms = [
            (n, word, form)
            for word in new
            for n, form in enumerate([word.lower(), *parts.get(word, ())])
        ]
        terms = stems([form for *_, form in forms], settings)
        for (number, word, _), term in reversed([*zip(forms, terms, strict=True)]):
            for name in term.split(OR):
                numbers_of.setdefault(name, {})[word] = number
        known |= new
        for term in target_of.keys() & numbers_of.keys():
            if matching := numbers_of[term].keys() & words:
                places = [(numbers_of[term][word], word) for word in matching]
                words_of.setdefault(target_of[term], []).extend(places)
    return words_of


@cache
def _known_words(settings: TermSettings) -> tuple[set[str], dict[str, dict[str, int]]]:
    """The words that are known, as hits have most in common, and by term those with it, each with
    the term's number.
    """
    return set(), {}


def matching_words(
    terms: Set[str], by_term: Mapping[str, Sequence[tuple[int, str]]]
) -> dict[str, str]:
    """The words (`words_by_term`) one of whose terms is in `terms`, each with the first of these."""
    matches = sorted(
        (number, word, term) for term in terms for number, word in by_term.get(term, ())
    )
    return {word: term for _, word, term in reversed(matches)}


def snippet(
    text: str,
    matching: Mapping[str, str],
    length: int = LENGTH,
    keep_lines: bool = False,
    weights: Mapping[str, int] = MappingProxyType({}),
) -> Snippet:
    """The window of about `length` characters with the distinct terms of `matching_words` that
    weigh most, 1 if not named.

    White space is folded, but for line ends and indents if lines are kept; windows start at a word,
    or at a line that is not very long. Ties go to the earliest window.
    """
    folded = (
        _LINE_BREAKS.sub("\n", text.expandtabs(4)).strip("\n")
        if keep_lines
        else " ".join(text.split())
    )
    matches = _matches(folded, matching, text)
    best = _best_start(matches, length, weights)
    # A window that reaches the end is as long as others.
    start = max(0, min(best - length // 6, len(folded) - length))
    if start:
        line = folded.rfind("\n", 0, start) + 1
        is_whole = (
            keep_lines
            and len(folded[line : line + _LINE_CHARS + 1].partition("\n")[0]) <= _LINE_CHARS
        )
        start = line if is_whole else folded.find(" ", start, best) + 1 or start
    end = min(len(folded), start + length)
    if end < len(folded):
        least = max(start + length // 2, *(last for _, last, _ in matches if last <= end), 0)
        end = next((at for gap in "\n " if (at := folded.rfind(gap, least, end)) > 0), end)
    lead = f"…{folded[start - 1] if folded[start - 1].isspace() else ' '}" if start else ""
    tail = f"{folded[end] if folded[end].isspace() else ' '}…" if end < len(folded) else ""
    shift = len(lead) - start
    numbers = [n for n, (a, b, _) in enumerate(matches) if a >= start and b <= end]
    marks = [[matches[n][0] + shift, matches[n][1] + shift] for n in numbers]
    words = [folded[a:b].lower() for a, b, _ in matches]
    return Snippet(f"{lead}{folded[start:end]}{tail}", marks, words, numbers[0] if numbers else 0)


def stored_ranges(
    excerpt: Snippet, stored: Sequence[StoredText], matching: Mapping[str, str]
) -> list[tuple[int, int] | None]:
    """The ranges of the highlighted words of a snippet in the stored text: half-open, in UTF-8
    bytes.

    `stored` are the ranges that the text of the snippet consists of, in order. Matching words of
    both are aligned in their order; None for a word that the stored ranges lack (a name of a file
    added before a diff).
    """
    ranges: list[tuple[int, int]] = []
    words: list[str] = []
    for first, text in stored:
        offsets = Offsets(text)
        for start, end, _ in _matches(text, matching, text):
            ranges.append((first + offsets(start), first + offsets(end)))
            words.append(text[start:end].lower())
    numbers = range(excerpt.first, excerpt.first + len(excerpt.highlights))
    aligned = _aligned(excerpt.words, words, numbers)
    return [ranges[aligned[n]] if n in aligned else None for n in numbers]


def _aligned(
    snippet_words: Sequence[str], stored_words: Sequence[str], numbers: range
) -> dict[int, int]:
    """The positions in `stored_words` of the words `numbers` of `snippet_words`, if both have them
    in the same order.

    A common start and end align directly; between them only words near `numbers` are compared,
    because the time grows with the number of pairs of equal words.
    """
    least = min(len(snippet_words), len(stored_words))
    head = next((n for n in range(least) if snippet_words[n] != stored_words[n]), least)
    tail = next(
        (n for n in range(least - head) if snippet_words[-1 - n] != stored_words[-1 - n]),
        least - head,
    )
    longer = len(stored_words) - len(snippet_words)
    aligned = {n: n for n in numbers if n < head}
    aligned |= {n: n + longer for n in numbers if n >= max(head, len(snippet_words) - tail)}
    first, last = (
        max(head, numbers.start - _NEAR),
        min(len(snippet_words) - tail, numbers.stop + _NEAR),
    )
    low = max(head, first + min(longer, 0) - _NEAR)
    high = min(len(stored_words) - tail, last + min(max(longer, 0), _FARTHEST) + _NEAR)
    if first < last and low < high:
        matcher = SequenceMatcher(
            None, snippet_words[first:last], stored_words[low:high], autojunk=False
        )
        for a, b, size in matcher.get_matching_blocks():
            aligned |= {first + a + n: low + b + n for n in range(size) if first + a + n in numbers}
    return aligned


def _matches(text: str, matching: Mapping[str, str], whole: str) -> list[tuple[int, int, str]]:
    """Start, end and term of each word of a text that is one of `matching_words`; `whole` has at
    least the same words.

    The few words that match are found faster than all words are looked at.
    """
    # The characters of Chinese and Japanese words are found below, one by one.
    places, of_word = [], (_WORD if text.isascii() else _SPACED_WORD).match
    for word in _words_in(whole) & matching.keys():
        start = text.find(word)
        while start >= 0:
            end = start + len(word)
            if not of_word(text, end) and not (start and of_word(text, start - 1)):
                places.append((start, end, matching[word]))
            start = text.find(word, end)
    if not text.isascii() and (
        unspaced := [word for word in matching if _UNSPACED.fullmatch(word)]
    ):
        runs = re.finditer("|".join(sorted(unspaced, key=len, reverse=True)), text)
        places += [(run.start(), run.end(), matching[run.group()]) for run in runs]
    return sorted(places)


@lru_cache(maxsize=256)  # the text of a hit is looked at several times
def _words_in(text: str) -> frozenset[str]:
    return frozenset(word_runs(text) if text.isascii() else _SPACED_WORD.findall(text))


def _best_start(
    matches: list[tuple[int, int, str]], length: int, weights: Mapping[str, int]
) -> int:
    """Start of the earliest window whose distinct terms weigh most, by two pointers."""
    best, best_weight = 0, 0
    counts: dict[str, int] = {}
    first = weight = 0
    for start, end, term in matches:
        counts[term] = counts.get(term, 0) + 1
        weight += weights.get(term, 1) * (counts[term] == 1)
        while end - matches[first][0] > length * 5 // 6 and matches[first][0] < start:
            dropped = matches[first][2]
            counts[dropped] -= 1
            weight -= weights.get(dropped, 1) * (not counts[dropped])
            first += 1
        if weight > best_weight:
            best, best_weight = matches[first][0], weight
    return best
