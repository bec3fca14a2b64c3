"""Texts of hits that are copies of each other but for dates."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from transforms.text.passages import word_sequences

_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_DATE = re.compile(
    rf"\b\d{{1,4}}[-./]\d{{1,2}}[-./]\d{{1,4}}\b|\b\d{{1,2}}:\d\d(?::\d\d)?\b|\b(?:19|20)\d\d\b|"
    rf"\b\d{{1,2}}(?:st|nd|rd|th)?\.? (?:{_MONTHS})[a-z]{{0,6}}\b|"
    rf"\b(?:{_MONTHS})[a-z]{{0,6}}\.? \d{{1,2}}(?:st|nd|rd|th)?\b|"
    r"\b(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}day\b",
    re.IGNORECASE,
)
_LEAST = 12
"""Sequences of words from which two texts are compared: shorter ones are alike by chance."""
_ALIKE = 0.9
"""Share of the sequences of either of two texts that both of them hold, if they are copies."""


def copies(rows: Sequence[Mapping[str, Any]], titles: Sequence[str]) -> list[int | None]:
    """For each row of a query the place of the first that its text is a copy of but for dates, None
    without one.

    A patch is never one: two may explain themselves alike. A mail is one of a mail with its title; `titles` are
    those of the rows without tags.
    """
    texts = [_DATE.sub(" ", f"{row['snippet']} {row['quoted_text'] or ''}") for row in rows]
    sequences = [
        frozenset() if row["content_class"] == "patch" else word_sequences(text)
        for row, text in zip(rows, texts, strict=True)
    ]
    titled = [_DATE.sub("", title).split() for title in titles]
    result: list[int | None] = []
    for place, own in enumerate(sequences):
        others = (
            n
            for n in range(place)
            if result[n] is None
            and len(sequences[n]) >= _LEAST
            and _ALIKE * len(own) <= len(sequences[n]) <= len(own) / _ALIKE
        )
        alike = (
            n
            for n in others
            if len(own & sequences[n]) >= _ALIKE * max(len(own), len(sequences[n]))
            and (titled[n] == titled[place] or not _are_mails(rows[n], rows[place]))
        )
        result.append(next(alike, None) if len(own) >= _LEAST else None)
    return result


def _are_mails(*rows: Mapping[str, Any]) -> bool:
    return all(row["source_kind"] == "message" for row in rows)
