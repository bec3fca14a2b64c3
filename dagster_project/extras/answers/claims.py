"""Any text, sentence by sentence: which source says it, or what differs from the nearest."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dagster_project.config.settings import Settings
from dagster_project.extras.answers.sources import CitedPiece, pieces_at, sources_of
from dagster_project.extras.answers.transforms.check import GREEN, YELLOW, Difference, verdict
from dagster_project.extras.answers.transforms.words import sentence_ranges
from dagster_project.index.search.lookup import reading
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.servers.answers import CheckedSentence, Differing
from transforms.errors import QueryError, UnknownIdError, shortened

MOST_SENTENCES = 100
_HITS = 5
"""Hits of a sentence that are compared with it."""
_LEAST_WORDS = 3
_CITATION = re.compile(r"(?<!\\)⟨([^⟨⟩\n]+)⟩")
_ALONE = re.compile(r" bytes \d+-\d+\W*$")
_NOT_SAID = re.compile(r"^(?:>|#|https?://\S+$)")
"""Begins of lines that are quotes, headings or addresses, which say nothing of their own."""


class _Claim(NamedTuple):
    text: str
    citations: tuple[str, ...]


def checked_sentences(settings: Settings, index: SearchIndex, text: str) -> list[CheckedSentence]:
    """The sentences of a text but for quotes and headings, each with its colour; none if the text names a thing.

    One with a citation behind it is compared with that, the others with the hits of a search for them. QueryError
    for more than `MOST_SENTENCES`.
    """
    if _names_a_thing(index, text):
        return []
    claims = list(_claims_in(text))
    if len(claims) > MOST_SENTENCES:
        raise QueryError(
            f"the text has {len(claims):,} sentences, and at most {MOST_SENTENCES} are checked: give it in parts"
        )
    results = _pieces_found(index, [claim.text for claim in claims])
    return [
        _checked(settings, index, claim, sources)
        for claim, sources in zip(claims, results, strict=True)
    ]


def _names_a_thing(index: SearchIndex, text: str) -> bool:
    if _ALONE.search(text.strip()) and not _CITATION.search(text):
        return True
    if len(text.split()) < _LEAST_WORDS:
        return True
    try:
        reading(index.ask, text)
    except UnknownIdError:
        return False
    except QueryError:
        return True
    return True


def _claims_in(text: str) -> Iterator[_Claim]:
    """The sentences of a text with the citations behind them."""
    lines = (line for line in text.splitlines(keepends=True) if not _NOT_SAID.match(line.strip()))
    pieces = _CITATION.split("".join(lines))
    waiting: list[_Claim] = []
    for number, piece in enumerate(pieces):
        if number % 2:
            if waiting:
                last = waiting[-1]
                waiting[-1] = last._replace(citations=(*last.citations, piece))
            continue
        sentences = [piece[a:b] for a, b in sentence_ranges(piece)]
        new = [_Claim(s, ()) for s in sentences if any(map(str.isalnum, s))]
        if new:
            yield from waiting
            waiting = new
    yield from waiting


def _pieces_found(index: SearchIndex, sentences: Sequence[str]) -> list[list[CitedPiece]]:
    """The pieces of the hits of each sentence."""
    if not sentences:
        return []
    rows = index.search(sentences, limit=_HITS, plain=True).hits.to_pylist()
    sources = sources_of(index, rows)
    return [
        [source for source in sources if rows[source.hit]["query"] == number]
        for number in range(len(sentences))
    ]


def _checked(
    settings: Settings, index: SearchIndex, claim: _Claim, results: Sequence[CitedPiece]
) -> CheckedSentence:
    """The sentence by what it cites; if another source says it, yellow with the place of that."""
    cited = [source for name in claim.citations for source in pieces_at(index, name)]
    result = compared(settings, claim.text, cited if claim.citations else results)
    if claim.citations and result.colour != GREEN:
        other = compared(settings, claim.text, results)
        if other.colour == GREEN:
            claimed, right = shortened(claim.citations[0]), other.citation or ""
            differs = [Differing(kind="citation", claim=claimed, stands=right)]
            return other.model_copy(update={"colour": YELLOW, "differs": differs})
    return result


def compared(settings: Settings, text: str, sources: Sequence[CitedPiece]) -> CheckedSentence:
    """A sentence beside some sources: its colour, and the nearest of them."""
    judged = verdict(text, [source.evidence for source in sources], settings.terms)
    if judged.evidence is None:
        return CheckedSentence(text=text, colour=judged.colour)
    source = sources[judged.evidence]
    stands = source.shown(judged.start, judged.end)
    at = source.evidence.at
    return CheckedSentence(
        text=text,
        colour=judged.colour,
        citation=source.citation(judged.start, judged.end),
        doc_id=source.facts["doc_id"],
        speaker=source.evidence.speaker,
        at=at,
        source=stands,
        words=[(a - judged.start, b - judged.start) for a, b in judged.words],
        differs=[_differing(one) for one in judged.differs],
    )


def _differing(one: Difference) -> Differing:
    return Differing(kind=one.kind, claim=one.claim, stands=one.stands)
