"""The passage of a stored text that a hit shows: the author's words, the quote they answer, and the
turns around them.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime
from typing import Any, NamedTuple

from transforms.text.terms import word_runs

CountTokens = Callable[[Sequence[str]], list[int]]
"""How many tokens each text has under the model's tokenizer."""
_TURN = re.compile(
    r"## Message \d+\n\*\*Author:\*\* (?P<author>.*)\n\*\*Timestamp:\*\* (?P<at>.*)\n\n"
    r"(?P<text>(?s:.*?))(?=\n+## Message \d|\s*\Z)"
)
_HEADINGS = re.compile(r"\A(?:#{1,6} [^\n]*\n\s*)+")
_QUOTE_MARKS = re.compile(r"(?m)^[ \t]*(?:>[ \t]?)+")
_DIFF = re.compile(
    r"(?m)^(?:diff --git |@@ -|\*{15}|(?:---|\+\+\+|\*\*\*) (?:\S+\t|\S*/\S*(?:\s|$))|Index: )"
)
_PATCH = re.compile(rf"(?m)\n(?:---[ \t]*$|{_DIFF.pattern[5:]})")
"""Begins with the end of the line before, which is found sooner than each beginning of a line."""
_TRAILERS = re.compile(
    r"(?m)^(?:(?:[A-Z][a-z]+(?:-[a-z]+)*-(?:by|[Ii]d)|Cc|Link|Fixes|Closes):[^\n]*(?:\n|\Z)\s*)+\Z"
)
_AUTHOR = re.compile(r"\AFrom: [^\n]*\n\s*")
_LINES = re.compile(r"(?m)^[-+ ]*-\+-[-+ ]*$|^(?:\[[^\n]*\n){3}")
"""The line below the head of a table of psql; lines of a log that begin with a time in brackets, or
notes.
"""
SAYS_SOMETHING = 15
"""Characters from which the text above a patch explains it."""
_FEW_WORDS = 25
"""Characters of a reply, its tags aside, below which it says little without the text that it answers."""
_TAG = re.compile(r"\b[A-Z][a-z]+(?:-[a-z]+)*-by: [^<>\n]{0,80}(?:<[^<>\s]*>)?")
"""The line that somebody who read a patch writes below it, `Reviewed-by: Ann <ann@example.org>`."""
_EXPLAINS = 0.5
"""Share of the matches from which the words above a patch are shown in its place."""
_STRETCH = 1_200
"""Bytes of a turn of a chat with the turns that are read with it."""
_BLANKS = bytes.maketrans(string.punctuation.encode(), b" " * len(string.punctuation))
_WORDS = 4
"""Words of the sequences by which two texts are compared."""
_LEAST = 12
"""Sequences from which two texts in two formats are compared: shorter ones are alike by chance."""
_SAME = 0.5
"""Share of the sequences of the shorter of these that both hold, if they are one text: markup
differs, and each is cut at its own places.
"""

Ranges = list[tuple[int, int]]


def authored_ranges(spans: Iterable[Mapping[str, Any]], quotes: Iterable[Sequence[int]]) -> Ranges:
    """The half-open byte ranges of the spans with the role own, without the ranges `quotes`.

    >>> authored_ranges([{"byte_start": 0, "byte_end": 9, "role": "own"}], [(2, 4)])
    [(0, 2), (4, 9)]
    """
    ranges = sorted((s["byte_start"], s["byte_end"]) for s in spans if s["role"] == "own")
    for first, last in quotes:
        ranges = [
            part
            for start, end in ranges
            for part in ((start, min(end, first)), (max(start, last), end))
            if part[0] < part[1]
        ]
    return ranges


def quoted_ranges(spans: Iterable[Mapping[str, Any]]) -> Ranges:
    """The half-open byte ranges of the spans with the role anchor."""
    return sorted((s["byte_start"], s["byte_end"]) for s in spans if s["role"] == "anchor")


def unmarked(quote: str) -> str:
    """A quote without its quote marks.

    >>> unmarked("> > why?")
    'why?'
    """
    return _QUOTE_MARKS.sub("", quote)


def without_tags(reply: str) -> str:
    """A reply without the tags of those who read a patch.

    >>> without_tags("Fine. Acked-by: Ann <ann@example.org>")
    'Fine. '
    """
    return _TAG.sub("", reply) if "-by:" in reply else reply


def says_little(reply: str, subject: str) -> bool:
    """True for a reply of few words, or of tags alone, but for patches: it says little without the
    text that it answers.

    >>> says_little("Thanks!", "Re: lost disk"), says_little("Thanks!", "[PATCH] md: fix it")
    (True, False)
    """
    return len(without_tags(reply).strip()) < _FEW_WORDS and not subject.startswith("[")


def has_lines(text: str, content_class: str) -> bool:
    """True for a text whose line breaks mean something: code, a log, a diff, a table, or a text
    with one of them.
    """
    return (
        content_class != "text" or _DIFF.search(text) is not None or _LINES.search(text) is not None
    )


def commit_message(text: str) -> str:
    r"""The text above the first diff or the list of its files, without the line of its author and
    its trailers.

    >>> commit_message("From: Ann\n\nFix it.\n\nFixes: 1ab4 (\"Add it\")\n---\n a.c | 2 +-\ndiff --git a/a.c b/a.c")
    'Fix it.'
    """
    diff = _PATCH.search(f"\n{text}")
    return _TRAILERS.sub("", _AUTHOR.sub("", text[: diff.start()] if diff else text)).strip()


def patch_message(
    text: str, subject: str, terms: Mapping[str, str], weights: Mapping[str, int]
) -> str:
    r"""The message above a patch if this says something, and with the subject has half of the
    matches; else empty.

    `terms` are those of words that match, `weights` those of terms, 1 if not named.

    >>> patch_message("It leaked memory.\ndiff --git a/a.c b/a.c\n-char *a", "Free it", {"Free": "free", "char": "char"}, {})
    'It leaked memory.'
    """
    if not _PATCH.search(f"\n{text}") or len(message := commit_message(text)) < SAYS_SOMETHING:
        return ""
    above, most = (
        {terms[w] for w in word_runs(f"{subject} {t}") if w in terms} for t in (message, text)
    )
    share = [sum(weights.get(term, 1) for term in matching) for matching in (above, most)]
    return message if share[0] >= _EXPLAINS * share[1] else ""


def without_headings(text: str) -> str:
    """A section without the headings it begins with, which its breadcrumb shows; unless it has
    nothing else.

    >>> without_headings("# Backup\\n\\nCopy it.")
    'Copy it.'
    """
    return _HEADINGS.sub("", text) or text


def turn_lines(markdown: str) -> str:
    """The turns of a window of a conversation, each as its time, its speaker and its text.

    >>> turn_lines("## Message 3\\n**Author:** Ada\\n**Timestamp:** 2025-01-02 10:00\\n\\nYes.\\n")
    '2025-01-02 10:00 Ada: Yes.'
    """
    return "\n".join(
        f"{turn['at']} {turn['author']}: {turn['text']}" for turn in _TURN.finditer(markdown)
    )


class Neighbours(NamedTuple):
    """The turns before and behind a turn in its stretch, and the bytes of the stretch."""

    before: str
    after: str
    start: int
    end: int


def stretch(start: int, end: int) -> tuple[int, int]:
    """The bytes around a turn at a half-open range between which turns are read with it."""
    reach = max(0, _STRETCH - (end - start)) // 2
    return start - reach, end + reach


def around_turn(markdown: str, start: int, end: int) -> Neighbours:
    """The other turns of a window in the stretch of those at a half-open range of UTF-8 bytes."""
    head, data = b"\n## Message ", b"\n" + markdown.encode()
    low, high = stretch(start, end)
    own = first = max(data.rfind(head, 0, start + 1), 0)
    while first and _text_start(data, before := max(data.rfind(head, 0, first), 0)) >= low:
        first = before
    behind = last = max(data.find(head, end), end + 1)
    while data.startswith(head, last):
        further = data.find(head, last + 1)
        stop = further if further > 0 else len(data)
        if len(data[:stop].rstrip()) - 1 > high:
            break
        last = stop
    return Neighbours(
        before=turn_lines(data[first:own].decode(errors="replace")),
        after=turn_lines(data[behind:last].decode(errors="replace")),
        start=_text_start(data, first) if first < own else start,
        end=len(data[:last].rstrip()) - 1 if last > behind else end,
    )


def _text_start(data: bytes, head: int) -> int:
    """The byte of the Markdown, which is one behind in `data`, where the text below a head begins."""
    return data.find(b"\n\n", head + 1) + 1


def turn_facts(display: str) -> tuple[str, datetime | None]:
    """Speaker and time (UTC) of the first line of the text of a turn.

    >>> turn_facts("Ada, 2025-01-02 10:00\\nYes.")[0]
    'Ada'
    """
    speaker, _, at = display.partition("\n")[0].rpartition(", ")
    try:
        return speaker, datetime.strptime(at, "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
    except ValueError:
        return "", None


@functools.lru_cache(maxsize=256)  # two hits are compared in several ways
def word_sequences(text: str) -> frozenset[tuple[str, ...]]:
    """The sequences of four words of a text; the whole of it if it has fewer."""
    words = word_runs(text.lower())
    if len(words) < _WORDS:
        return frozenset([tuple(words)])
    return frozenset(zip(*(words[n:] for n in range(_WORDS)), strict=False))


def file_ending(doc_id: str) -> str:
    """The ending of the name of a document's file.

    >>> file_ending("manual:library/csv.rst.TXT")
    'txt'
    """
    return doc_id.rpartition(".")[2].lower()


class FormatText(NamedTuple):
    """A text of a file: its source, the ending of the file, the hashes of its sequences of four
    words, and every fourth of these, by which it is sought in a longer one: a search compares thirty
    texts with each other.
    """

    source: str
    ending: str
    sequences: frozenset[int]
    sample: frozenset[int]

    @classmethod
    def of(cls, doc_id: str, text: str) -> FormatText:
        """That of a text of a document."""
        words = text.encode().lower().translate(_BLANKS).split()
        hashes = [*map(hash, zip(*(words[n:] for n in range(_WORDS)), strict=False))]
        sets = frozenset(hashes), frozenset(hashes[::_WORDS])
        return cls(doc_id.partition(":")[0], file_ending(doc_id), *sets)

    def is_in_other_format(self, other: FormatText) -> bool:
        """True if a file of the source with another ending has most of the text."""
        if self.ending == other.ending or self.source != other.source:
            return False
        shorter, longer = sorted((self, other), key=lambda text: len(text.sequences))
        if len(shorter.sequences) < _LEAST:
            return False
        return len(shorter.sample & longer.sequences) >= _SAME * len(shorter.sample)


def repeated(texts: Sequence[str], share: float = 0.8) -> list[int | None]:
    """For each text the place of the text before it that has most of it in common, if those before
    it hold `share` of its word sequences; else None.

    >>> repeated(["a b c d e", "f g", "A B C D E!"])
    [None, None, 0]
    """
    prior: list[Set[tuple[str, ...]]] = []
    places: list[int | None] = []
    above: set[tuple[str, ...]] = set()
    for text in texts:
        sequences = word_sequences(text)
        is_repeat = len(sequences & above) >= share * len(sequences)
        if is_repeat:
            # Most repeats say nothing that one other text does not say, which no text can have more
            # of.
            whole = next((n for n, other in enumerate(prior) if sequences <= other), None)
            most = (
                max(range(len(prior)), key=lambda n: len(sequences & prior[n]))
                if whole is None
                else whole
            )
            places.append(most)
            prior.append(set())
        else:
            places.append(None)
            prior.append(sequences)
        above |= sequences
    return places
