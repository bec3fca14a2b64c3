"""The preferences of a question beside its words on one published index: the chunks that meet them, and their gain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from dagster_project.index.files.hit_rows import HitRows
from transforms.mail.headers import is_reply
from transforms.retrieval import bm25
from transforms.retrieval.hits import Step, best_first, groups, unchanged
from transforms.retrieval.preference_words import condition_in_words
from transforms.retrieval.reranking import holds_all
from transforms.retrieval.small_tables import with_values
from transforms.retrieval.understanding import Understanding, verdicts
from transforms.text import passages

LIFTS = {
    "persons": 1.0,
    "speakers": 0.2,
    "spans": 0.6,
    "order": 0.8,
    "version": 0.6,
    "act": 1.0,
    "opening": 0.4,
    "replied": 0.4,
    "answered": 0.2,
}
"""The gain of a hit that meets a preference, as a share of the range of the scores of its query, and
as far as it holds the words of the query.
"""
_FADES = 0.8
"""Factor on the gain for an order, from one place in time to the next."""
_SAYS_IT = 0.9
"""Share of the best support from which a hit is about the matter, and so has a place in an order."""
MORE = 20
"""Candidates that are added for a preference."""
_LOOKED_AT = 1_000
"""Hits of words among which those are looked for that come first in an order."""
_NEAR_BEST = 0.5
"""Share of the best score of words from which a text says them in its title, or again and again."""


@dataclass(frozen=True)
class Preferences:
    """The preferences of a query, and the chunks that meet them.

    `authored` are those that one of the persons wrote, `answering` those that answer one of
    `answered`, `dated` those of a time, `acting` those whose mail does what `act` says, `posted`
    those of patches of the version; None for what is not asked for, or is seen in the text of a hit
    alone. `time` is the place of each chunk in time, the oldest first, and -1 of one without a time.
    """

    wishes: Understanding = Understanding()
    authored: np.ndarray | None = None
    answering: np.ndarray | None = None
    dated: np.ndarray | None = None
    acting: np.ndarray | None = None
    posted: np.ndarray | None = None
    time: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def mask(self) -> np.ndarray | None:
        """The chunks that meet all that masks say; those of persons or versions alone if none meets
        all of it; None if no mask says anything.
        """
        strong = [
            *([] if self.authored is None else [self.authored]),
            *([] if self.posted is None else [self.posted]),
        ]
        weak = [mask for mask in (self.dated, self.acting) if mask is not None]
        for masks in ([*strong, *weak], strong or weak):
            if masks and (met := np.logical_and.reduce(masks)).any():
                return met
        return None

    def lift(
        self, chunks: np.ndarray, rows: Mapping[int, Mapping[str, Any]], support: np.ndarray
    ) -> np.ndarray:
        """The gain of each chunk of one query, before it is scaled."""
        gain = np.zeros(len(chunks))
        facts = [rows[chunk] for chunk in chunks.tolist()]
        if self.authored is not None:
            share = LIFTS["speakers" if self.wishes.is_spoken else "persons"]
            gain += share * self.authored[chunks]
        if self.answering is not None:
            gain += LIFTS["answered"] * self.answering[chunks]
        if self.wishes.spans:
            gain += LIFTS["spans"] * np.array([self.wishes.is_then(_day(row)) for row in facts])
        if self.posted is not None:
            gain += LIFTS["version"] * self.posted[chunks]
        if self.wishes.act:
            share = LIFTS.get(self.wishes.act, LIFTS["act"])
            gain += share * self._acts(chunks, facts)
        share = support / (support.max(initial=0.0) or 1.0)
        if self.wishes.order:
            titled = share * [holds_all(self.wishes.rest, row["title"]) for row in facts]
            says = titled if titled.any() else share
            says = np.flatnonzero((says >= _SAYS_IT) & (gain >= gain.max(initial=0.0)))
            in_order = says[self._order(chunks[says])]
            gain[in_order] += LIFTS["order"] * _FADES ** np.arange(len(in_order))
        return gain * share

    def _acts(self, chunks: np.ndarray, facts: Sequence[Mapping[str, Any]]) -> np.ndarray:
        if self.acting is not None:
            return self.acting[chunks]
        replies = [is_reply(row["subject"] or "") for row in facts]
        if self.wishes.act == "opening":
            return np.array([_is_opening(row) for row in facts], dtype=bool)
        if self.wishes.act == "replied":
            return np.array(replies, dtype=bool)
        verdicts_in = [bool(verdicts().search(row["text_display"])) for row in facts]
        return np.array(replies, dtype=bool) & np.array(verdicts_in, dtype=bool)

    def unmet(self, rows: Sequence[Mapping[str, Any]]) -> str | None:
        """The preferences that none of the described hits of a query meets, in words; None if they meet
        all, or without hits.
        """
        if not rows:
            return None
        chunks = np.array([row["chunk_no"] for row in rows])
        wishes, lacking = self.wishes, []
        if self.authored is not None and not self.authored[chunks].any():
            lacking.append(f"by {' or '.join(wishes.names)}")
        if wishes.spans and not any(wishes.is_then(row["effective_at"]) for row in rows):
            days = (condition_in_words(str(span)) for span in wishes.spans)
            lacking.append(f"of {' or '.join(days)}")
        if self.posted is not None and not self.posted[chunks].any():
            lacking.append(f"a patch of {wishes.conditions[-1]}")
        return f"none of the hits is {', or '.join(lacking)}" if lacking else None

    def are_met(self, chunk: int, rows: HitRows) -> bool:
        """False of a hit that lacks a preference; a speaker is none, as the others of a chat speak
        about them.
        """
        if not self.wishes.prefers or self.wishes.is_spoken:
            return True
        row = rows.of([chunk])[chunk]
        return self.unmet([row | {"effective_at": _day(row)}]) is None

    def more(self, scores: bm25.TermScores) -> np.ndarray:
        """The first in the order, of the best chunks for the words."""
        best = scores.best(_LOOKED_AT)
        support, score = scores.support(best), scores.of(best)
        says_it = support >= _SAYS_IT * support.max(initial=0.0)
        says = best[says_it & (score >= _NEAR_BEST * score.max(initial=0.0))]
        return says[self._order(says)][:MORE]

    def _order(self, chunks: np.ndarray) -> np.ndarray:
        """The places of the chunks that have a time, in the order that is asked for."""
        time = self.time[chunks]
        order = np.argsort(-time if self.wishes.order == "newest" else time, kind="stable")
        return order[time[order] >= 0]


def _is_opening(row: Mapping[str, Any]) -> bool:
    """True of what somebody began: a mail, a chat, or a page with an author; others are of nobody."""
    is_signed = row["source_kind"] != "document" or bool(row["from_name"])
    return is_signed and not is_reply(row["subject"] or "")


def _day(row: Mapping[str, Any]) -> Any:
    """The time of a mail, page or turn."""
    if row["source_kind"] != "conversation":
        return row["effective_at"]
    return passages.turn_facts(row["text_display"])[1]


def lifted(hits: pl.DataFrame, gain: np.ndarray) -> Step:
    """The hits, each lifted by its gain times the range of the scores of its query."""
    score, of_query = hits.get_column("score").to_numpy(), groups(hits, "query")
    low, high = np.full((2, len(hits)), [[np.inf], [-np.inf]])
    np.minimum.at(low, of_query, score)
    np.maximum.at(high, of_query, score)
    return unchanged(best_first(with_values(hits, score=score + gain * (high - low)[of_query])))
