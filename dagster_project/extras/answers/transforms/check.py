"""The check of a sentence: whether one sentence of a source says the same, and if not, what differs."""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from dagster_project.extras.answers.transforms.words import (
    OTHERS,
    SELF,
    SentenceWord,
    Signs,
    language_for,
    sentence_ranges,
    signs_of,
    words_of,
)
from transforms.settings.search import TermSettings

GREEN, YELLOW, RED = COLOURS = ("green", "yellow", "red")
_NEAR = 0.5
"""Share of the words of a sentence that a near one has."""
_WHOLE = 0.6
"""Share of the words of a part of a source that a sentence has of each part that it uses."""
_OWN = 0.6
"""Share of the words of a sentence that the source's has without its header."""
_KEPT = frozenset({"negation", "modal", "hedge", "report", "doubt"})
"""Kinds of words without which a sentence says something else."""
_CONTIGUOUS = 0.1
"""Worth of a word that follows its neighbour in both sentences, beside that of a word."""


class Evidence(NamedTuple):
    """A passage with its header: who said it when, or the title of a document without an author."""

    text: str
    speaker: str | None = None
    at: datetime | None = None
    title: str = ""


class Difference(NamedTuple):
    """One thing that a sentence says and its source does not, or the other way round.

    `kind` is number, date, name, speaker, negation, modal, hedge, question, order, part or word.
    """

    kind: str
    claim: str
    stands: str


class Verdict(NamedTuple):
    """The colour of a sentence, the nearest sentence of a source, and what differs.

    `evidence` is the number of the passage, `start` and `end` the half-open bytes of its sentence in its text, `words`
    those of the words that both have.
    """

    colour: str
    evidence: int | None = None
    start: int = 0
    end: int = 0
    words: tuple[tuple[int, int], ...] = ()
    differs: tuple[Difference, ...] = ()


class _Claim(NamedTuple):
    """A sentence to check: its words, whether it names the speaker as who said it, and its dates before that."""

    words: list[SentenceWord]
    is_attributed: bool
    names_speaker: bool
    dates: list[SentenceWord]
    is_question: bool


def verdict(sentence: str, sources: Sequence[Evidence], settings: TermSettings) -> Verdict:
    """Green if a sentence of one source says it, yellow if one is near, with what differs, else red.

    Words are those of a search (`terms.stems`). Every word of the sentence but fillers is in one sentence of the
    source, in its order, or is its speaker, its day or, of a document without an author, in its title. A part of the source
    that is used is there whole but for a short end; nowhere is a condition, nor a negation, a modal word or a
    verb of saying before it. A number keeps the word behind it. Pronouns of the first person are the speaker.

    >>> source = [Evidence("I can't pay 90 euros.", "Ann")]
    >>> verdict("Ann cannot pay 90 euros.", source, TermSettings()).colour
    'green'
    >>> verdict("Ann can pay 90 euros.", source, TermSettings()).differs[0].kind
    'negation'
    """
    best, best_rank = Verdict(RED), (0, 0.0)
    for number, source in enumerate(sources):
        language = language_for(f"{source.text} {sentence}")
        claim = _claim(sentence, source, language, settings)
        if not claim.words:
            continue
        for begin, start, words in _read(source.text, language, settings):
            compared = _Compared(claim, words, source, signs_of(language))
            if (share := compared.share()) < _NEAR:
                continue
            differs = compared.differences(source.text[begin : begin + start])
            rank = (1 if not differs else 0, share - len(differs) / 100)
            if rank > best_rank:
                best_rank = rank
                best = _verdict(number, source.text, (begin, begin + start), compared, differs)
        if best.colour == GREEN:
            break
    return best


@lru_cache(maxsize=512)  # the sentences of an answer are checked against the same passages
def _read(
    text: str, language: str, settings: TermSettings
) -> list[tuple[int, int, list[SentenceWord]]]:
    """The sentences of a text: the place, the length and the words of each."""
    return [
        (start, end - start, words_of(text[start:end], language, settings))
        for start, end in sentence_ranges(text)
    ]


def _claim(sentence: str, source: Evidence, language: str, settings: TermSettings) -> _Claim:
    """The words of a sentence without an attribution to the speaker before them."""
    signs, text = signs_of(language), sentence.strip()
    words = words_of(text, language, settings)
    names = {w.form for w in words_of(source.speaker or "", language, settings)}
    head, rest = _attribution(words, names, signs)
    dates = [word for word in head if word.kind in ("date", "number")]
    is_attributed = any(word.form in names for word in head)
    return _Claim(
        words=_with_speaker(rest, names),
        is_attributed=is_attributed,
        names_speaker=is_attributed or any(word.form in names for word in rest),
        dates=dates,
        is_question=text.rstrip("\"”»' ").endswith("?"),
    )


def _with_speaker(words: Sequence[SentenceWord], names: set[str]) -> list[SentenceWord]:
    """The words without marks, the name of the speaker as one pronoun of the first person."""
    results: list[SentenceWord] = []
    for word in words:
        if word.kind == "mark":
            continue
        if word.form in names and word.kind in ("name", "word"):
            if results and results[-1].kind == "speaker":
                continue
            word = word._replace(form=SELF, kind="speaker")
        results.append(word)
    return results


def _attribution(
    words: list[SentenceWord], names: set[str], signs: Signs
) -> tuple[list[SentenceWord], list[SentenceWord]]:
    """The words that say who said it and when, if they are those of the speaker, and the others."""
    place = 0
    while place < len(words) and (
        words[place].form in signs.date
        or words[place].kind in ("date", "number")
        or (words[place].form == "," and place)
    ):
        place += 1
    has_date = any(word.kind == "date" for word in words[:place])
    begin = place if has_date else 0
    at, is_said = begin, False
    if tuple(w.text.lower() for w in words[at : at + len(signs.according)]) == signs.according:
        at, is_said = at + len(signs.according), True
    first = at
    while at < len(words) and words[at].form in names:
        at += 1
    if at > first and at < len(words) and words[at].kind == "report":
        at, is_said = at + 1, True
    if at > first and at < len(words) and words[at].form in (":", ","):
        is_said, at = is_said or words[at].form == ":", at + 1
    if at > first and is_said:
        return words[:at], words[at:]
    has_mark = has_date and begin and words[begin - 1].form == ","
    return (words[:begin], words[begin:]) if has_mark else ([], words)


class _Compared:
    """A claim beside a sentence of a source: which words stand for which."""

    def __init__(
        self, claim: _Claim, words: Sequence[SentenceWord], source: Evidence, signs: Signs
    ):
        self.claim, self.source, self.signs = claim, source, signs
        self.words = [word for word in words if word.kind != "mark"]
        self.parts = _parts_of(words, signs)
        self.further = _further_conditions(words, signs)
        self.title = frozenset(
            re.findall(r"\w+", source.title.lower()) if source.speaker is None else ()
        )
        self.pairs: dict[int, int] = {}

    def share(self) -> float:
        """The share of the claim's words that the sentence has in any order."""
        own = {word.form for word in self.words}
        has = sum(word.form in own or self._is_of_date(word, own) for word in self.claim.words)
        return has / len(self.claim.words)

    def _is_of_date(self, word: SentenceWord, forms: set[str]) -> bool:
        return (
            word.form[:1] == "m"
            and word.kind == "date"
            and any(form.startswith(f"d{word.form[1:]}-") for form in forms)
        )

    def differences(self, text: str) -> tuple[Difference, ...]:
        """The words of the claim that the sentence lacks, and the other way round."""
        self.pairs = _aligned(self.claim.words, self.words, self._same)
        results = [
            *self._unsaid(),
            *self._left_out(),
            *self._moved_numbers(),
            *self._other_times(),
            *self._dates(),
        ]
        if text.rstrip("\"”»' )").endswith("?") and not self.claim.is_question:
            results.append(Difference("question", "", "?"))
        return tuple(dict.fromkeys(results))

    def _same(self, claimed: SentenceWord, stands: SentenceWord) -> bool:
        if claimed.form == stands.form:
            return True
        if claimed.kind == "date" and stands.kind == "date":
            return claimed.form[0] == "m" and stands.form.startswith(f"d{claimed.form[1:]}-")
        is_other = claimed.kind == "others" and self.claim.names_speaker
        return is_other and stands.form == SELF

    def _unsaid(self) -> Iterator[Difference]:
        """Words of the claim that do not stand in the sentence in this order."""
        own = {word.form for word in self.words}
        missing = [n for n in range(len(self.claim.words)) if n not in self.pairs]
        of_title = {
            n
            for n in missing
            if (w := self.claim.words[n]).text.lower() in self.title or w.form in self.title
        }
        if len(self.pairs) < _OWN * len(self.claim.words):
            of_title = set()
        for number in missing:
            word = self.claim.words[number]
            if number in of_title:
                continue
            if word.form in own and word.form != SELF:
                yield Difference("order", word.text, word.text)
            else:
                kind = "speaker" if word.form in (SELF, OTHERS) else word.kind
                yield Difference(kind, word.text, self._in_place_of(number, kind))

    def _in_place_of(self, number: int, kind: str) -> str:
        """The word of the same kind that the sentence has there and the claim does not."""
        if kind == "speaker":
            return self.source.speaker or ""
        before = max((self.pairs[n] for n in self.pairs if n < number), default=-1)
        taken = set(self.pairs.values())
        free = [
            w for n, w in enumerate(self.words) if n > before and n not in taken and w.kind == kind
        ]
        return free[0].text if free else ""

    def _left_out(self) -> Iterator[Difference]:
        """Words of the sentence without which it says something else."""
        if not self.pairs:
            return
        taken = set(self.pairs.values())
        last = max(taken)
        used = {self.parts[n] for n in taken}
        for number, word in enumerate(self.words):
            is_used, is_before = self.parts[number] in used, number < last
            is_condition = word.kind == "hedge" and number not in self.further
            is_told = word.kind in _KEPT and (is_used or is_before or is_condition)
            is_within = is_used and is_before and word.kind != "date"
            if number not in taken and (is_told or is_within):
                kind = "speaker" if word.kind in ("self", "others") else word.kind
                yield Difference(kind, "", word.text)
        for part in sorted(used):
            whole = [n for n, of in enumerate(self.parts) if of == part]
            behind = [n for n in whole if n > last]
            is_short = len(taken.intersection(whole)) < _WHOLE * len(whole)
            if is_short or (behind and not self._may_end(self.words[behind[0]])):
                rest = " ".join(self.words[n].text for n in whole if n not in taken)
                yield Difference("part", "", rest)

    def _may_end(self, word: SentenceWord) -> bool:
        """True for a word before which a sentence may end: it begins a place, a time or a way."""
        return word.kind == "date" or word.text.lower() in self.signs.function

    def _moved_numbers(self) -> Iterator[Difference]:
        """Numbers that stand before another word in the sentence than in the claim."""
        for number, place in self.pairs.items():
            word = self.claim.words[number]
            if word.kind != "number":
                continue
            beside = number + 1 if number + 1 in self.pairs else number - 1
            if beside in self.pairs and self.pairs[beside] - place != beside - number:
                yield Difference("number", word.text, self._after(place))

    def _other_times(self) -> Iterator[Difference]:
        """Verbs of the past that the claim has in another time; their terms are the same."""
        for number, place in self.pairs.items():
            before, after = self.claim.words[number].text, self.words[place].text
            if _is_past(before) != _is_past(after):
                yield Difference("word", before, after)

    def _after(self, place: int) -> str:
        return " ".join(w.text for w in self.words[place : place + 2])

    def _dates(self) -> Iterator[Difference]:
        """Days before the claim that are not the passage's, or that its own sentence replaces."""
        if not self.claim.dates:
            return
        at = self.source.at
        known = {f"d{at:%m-%d}", f"m{at:%m}", f"{at.year}", f"{at.day}"} if at else set[str]()
        has_own = any(word.kind == "date" for word in self.words) and not self.claim.is_attributed
        for word in self.claim.dates:
            if word.form not in known or has_own:
                yield Difference("date", word.text, f"{at:%Y-%m-%d}" if at else "")


def _is_past(word: str) -> bool:
    return word.lower().endswith("ed")


def _parts_of(words: Sequence[SentenceWord], signs: Signs) -> list[int]:
    """The number of the part of a sentence that each of its words is in; marks are left out."""
    parts, part = [], 0
    for before, word in pairwise([None, *words]):
        assert word is not None
        is_new = word.kind == "mark" or word.text.lower() in signs.clause
        part += is_new and not (before is not None and before.kind == "mark")
        if word.kind != "mark":
            parts.append(part)
    return parts


def _further_conditions(words: Sequence[SentenceWord], signs: Signs) -> set[int]:
    """The places, marks not counted, of conditions of a further statement: "and if", "; when"."""
    results, place = set[int](), 0
    for before, word in pairwise([None, *words]):
        assert word is not None
        is_further = before is not None and (
            before.form == ";" or before.text.lower() in signs.further
        )
        if is_further and word.text.lower() in signs.condition:
            results.add(place)
        place += word.kind != "mark"
    return results


def _aligned(
    claim: Sequence[SentenceWord],
    words: Sequence[SentenceWord],
    same: Callable[[SentenceWord, SentenceWord], bool],
) -> dict[int, int]:
    """The longest common sequence of words, by their places; one without gaps is taken before others."""
    rows, columns = len(claim), len(words)
    worth = [[(0.0, 0.0)] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            skip = max(worth[i + 1][j][0], worth[i][j + 1][0])
            both = 0.0
            if same(claim[i], words[j]):
                follows = worth[i + 1][j + 1][1]
                both = 1 + max(worth[i + 1][j + 1][0], follows + _CONTIGUOUS if follows else 0.0)
            worth[i][j] = (max(skip, both), both)
    pairs, i, j = dict[int, int](), 0, 0
    while i < rows and j < columns:
        best, both = worth[i][j]
        if both and both >= best:
            pairs[i] = j
            i, j = i + 1, j + 1
        elif worth[i][j + 1][0] >= worth[i + 1][j][0]:
            j += 1
        else:
            i += 1
    return pairs


def _verdict(
    number: int,
    text: str,
    span: tuple[int, int],
    compared: _Compared,
    differs: tuple[Difference, ...],
) -> Verdict:
    start, end = (len(text[:at].encode()) for at in span)
    sentence = text[span[0] : span[1]]
    words = tuple(
        (start + len(sentence[: w.start].encode()), start + len(sentence[: w.end].encode()))
        for w in (compared.words[place] for place in sorted(set(compared.pairs.values())))
    )
    return Verdict(
        colour=YELLOW if differs else GREEN,
        evidence=number,
        start=start,
        end=end,
        words=words,
        differs=differs,
    )
