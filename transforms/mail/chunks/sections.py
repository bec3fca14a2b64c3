"""Sections of authored text: ranges of characters that are prose, code or a diff."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from transforms.text.spans import Span, merged_ranges


class Section(NamedTuple):
    """A half-open range of authored characters; `is_code` for a patch or code, `is_diff` for a diff."""

    start: int
    end: int
    is_code: bool
    is_diff: bool = False


def extend(sections: list[Section], start: int, end: int, is_code: bool, reach: int) -> None:
    """Add a block to the sections of a reply; `reach` is the end of the blank lines below the last section."""
    if sections and reach == start:
        last = sections[-1]
        if not last.is_code and not is_code:
            sections[-1] = Section(last.start, end, False)
            return
        sections[-1] = Section(last.start, start, last.is_code)
    sections.append(Section(start, end, is_code))


def sections_between(sections: list[Section], starts: list[int], start: int, end: int) -> Iterator[Section]:
    """The sections between two positions, cut to them; `starts` are the starts of all sections."""
    i = max(bisect_right(starts, start) - 1, 0)
    while i < len(sections) and sections[i].start < end:
        section = sections[i]
        if section.end > start:
            yield section._replace(start=max(section.start, start), end=min(section.end, end))
        i += 1


def joined_spans(sections: list[Section]) -> list[Span]:
    """Sections as spans, adjacent ones joined."""
    return [Span(a, b, "own") for a, b in merged_ranges(Span(s.start, s.end, "own") for s in sections)]


def content_class(sections: list[Section]) -> str:
    """The class of most characters: patch, code or text."""
    chars = {"patch": 0, "code": 0, "text": 0}
    for start, end, is_code, is_diff in sections:
        chars["patch" if is_diff else "code" if is_code else "text"] += end - start
    if chars["patch"] + chars["code"] <= chars["text"]:
        return "text"
    return "patch" if chars["patch"] >= chars["code"] else "code"
