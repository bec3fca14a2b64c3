"""Attachments to drafts (patches by file and hunk, code by definition, prose by section), and
sections of bodies.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from transforms.mail.chunks.drafts import Draft, Drafts
from transforms.schemas.chunks import PICTURE
from transforms.settings.mail import ChunkSettings
from transforms.text.diffs import (
    binary_ranges,
    diff_segments,
    file_starts,
    first_diff,
    header_lines,
)
from transforms.text.segments import TextSegment, code_segments, section_segments, sql_segments
from transforms.text.spans import SUBSTANCE, Offsets, Span, display_text
from transforms.text.visible import picture_words

BINARY_CLASSES = frozenset({"archive", "other"})
KIND = "attachment_segment"


def emit_attachment(part: Mapping[str, Any], drafts: Drafts, settings: ChunkSettings) -> None:
    """Add the drafts of the attachment that is open in `drafts`, or the reason why it has no chunk.

    Hunks of patches are packed up to `message_chars` characters. `part` has the columns text,
    picture, content_class, filename, declared_type and byte_count of the table `attachments`.
    """
    text, content_class = part["text"], part["content_class"]
    if text is None:
        drafts.exclude(
            0, part["byte_count"], "binary" if content_class in BINARY_CLASSES else "no_text"
        )
        return
    offsets = Offsets(text)
    if not text.strip():
        drafts.exclude(0, offsets(len(text)), "empty")
        return
    if part["picture"]:
        draft = Draft(PICTURE, picture_words(text), display=text.strip(), picture=part["picture"])
        drafts.add(draft, [Span(0, len(text), "own")], offsets)
        return
    if content_class == "patch":
        _emit_patch(text, drafts, offsets, settings)
        return
    is_sql = (part["filename"] or "").lower().endswith(".sql") or part[
        "declared_type"
    ] == "application/sql"
    is_code = content_class == "code"
    split = section_segments
    if len(text) > settings.attachment_syntax_chars:
        split = sql_segments if is_sql else code_segments if is_code else section_segments
    for segment in split(text, settings.attachment_chars):
        spans = [Span(segment.start, segment.end, "own")]
        _add(
            Draft(KIND, display_text(text, spans), content_class=content_class),
            spans,
            drafts,
            offsets,
        )


def _add(draft: Draft, spans: list[Span], drafts: Drafts, offsets: Offsets) -> None:
    """Add a draft, or exclude its spans if its text has no substance."""
    if SUBSTANCE.search(draft.own):
        drafts.add(draft, spans, offsets)
    elif draft.own.strip():
        drafts.exclude(offsets(spans[0].start), offsets(spans[-1].end), "too_little_text")


def has_many_files(text: str | None) -> bool:
    """True if the text of a patch changes so many files that its segments are slow."""
    return text is not None and len(file_starts(text, 0, len(text))) > PATCH_FILES


def _emit_patch(text: str, drafts: Drafts, offsets: Offsets, settings: ChunkSettings) -> None:
    """Add a patch by file and hunk; a patch of many files is slow and gets a record of the files,
    too.
    """
    is_slow = has_many_files(text)
    if is_slow:
        lines = [Span(a, b, "own") for a, b in header_lines(text, file_starts(text, 0, len(text)))]
        record = display_text(text, lines, "\n")
        drafts.add(Draft(KIND, record, diff=record, content_class="patch"), lines, offsets)
    for segment, spans, binaries in _without_binaries(text, _patch_segments(text, settings)):
        own = display_text(text, spans, "\n") if spans else ""
        for start, end in binaries:
            drafts.exclude(offsets(start), offsets(end), "binary")
        diff = own if segment.file or first_diff(own, 0, len(own)) is not None else ""
        draft = Draft(
            KIND,
            own,
            file=segment.file,
            hunk=segment.hunk,
            diff=diff,
            content_class="patch",
            is_slow=is_slow,
        )
        _add(draft, spans, drafts, offsets)


def _patch_segments(text: str, settings: ChunkSettings) -> Iterator[TextSegment]:
    """The text above the first diff by section, then the diff by file and hunk.

    A text without a recognisable diff is cut into sections of `attachment_chars` characters.
    """
    at = first_diff(text, 0, len(text))
    if at is None:
        yield from section_segments(text, settings.attachment_chars)
        return
    yield from section_segments(text[:at], settings.attachment_chars)
    yield from diff_segments(text, at, len(text), settings.message_chars, PATCH_CHARS, PATCH_HUNKS)


def _without_binaries(
    text: str, segments: Iterator[TextSegment]
) -> Iterator[tuple[TextSegment, list[Span], list[tuple[int, int]]]]:
    """Each segment with its ranges of text, and its ranges of encoded binary files."""
    holes = binary_ranges(text)
    first = 0
    for segment in segments:
        spans, binaries, at = [], [], segment.start
        while first < len(holes) and holes[first][1] <= segment.start:
            first += 1
        for start, end in holes[first:]:
            if start >= segment.end:
                break
            start, end = max(start, at), min(end, segment.end)
            if start > at:
                spans.append(Span(at, start, "own"))
            binaries.append((start, end))
            at = end
        if at < segment.end:
            spans.append(Span(at, segment.end, "own"))
        yield segment, spans, binaries


class Section(NamedTuple):
    """A half-open range of authored characters; `is_code` for a patch or code, `is_diff` for a
    diff.
    """

    start: int
    end: int
    is_code: bool
    is_diff: bool = False


def extend(sections: list[Section], start: int, end: int, is_code: bool, reach: int) -> None:
    """Add a block to the sections of a reply; `reach` is the end of the blank lines below the last
    section.
    """
    if sections and reach == start:
        last = sections[-1]
        if not last.is_code and not is_code:
            sections[-1] = Section(last.start, end, False)
            return
        sections[-1] = Section(last.start, start, last.is_code)
    sections.append(Section(start, end, is_code))


def sections_between(
    sections: list[Section], starts: list[int], start: int, end: int
) -> Iterator[Section]:
    """The sections between two positions, cut to them; `starts` are the starts of all sections."""
    i = max(bisect_right(starts, start) - 1, 0)
    while i < len(sections) and sections[i].start < end:
        section = sections[i]
        if section.end > start:
            yield section._replace(start=max(section.start, start), end=min(section.end, end))
        i += 1


def content_class(sections: list[Section]) -> str:
    """The class of most characters: patch, code or text."""
    chars = {"patch": 0, "code": 0, "text": 0}
    for start, end, is_code, is_diff in sections:
        chars["patch" if is_diff else "code" if is_code else "text"] += end - start
    if chars["patch"] + chars["code"] <= chars["text"]:
        return "text"
    return "patch" if chars["patch"] >= chars["code"] else "code"


_HEADER = re.compile(
    r"^(?:[ \t]?>[ \t]?)?(?:\+\+\+ (?:b/)?(?P<file>[^\t\n]+)|(?P<hunk>@@ -\d[^\n]*))", re.MULTILINE
)
_CHANGE = re.compile(r"^(?:[ \t]?>[ \t]?)?(?:[+-]|@@ -\d)", re.MULTILINE)
_PROSE = re.compile(r"^[ \t]?>? ?[^\s>+\\@-]", re.MULTILINE)


class ReviewedPlaces:
    """The headers of the patches in a body, quoted once or not at all."""

    def __init__(self, body: str) -> None:
        self.body = body
        headers = list(_HEADER.finditer(body)) if "@@ -" in body else []
        self._starts = [header.start() for header in headers]
        self._places: list[tuple[str, str]] = []
        file = ""
        for header in headers:
            file = (header["file"] or file).rstrip()
            self._places.append((file, header["hunk"] or ""))

    def of(self, start: int, end: int) -> tuple[str, str]:
        """The file and the header of the hunk at the end of a quote, empty for prose.

        Without a known file the header only if it names a function.

        >>> body = "> +++ b/a.c\\n> @@ -1 +1 @@ int f(void)\\n> +x\\n\\nWhy?\\n\\n> +y\\n\\nWhy?\\n"
        >>> ReviewedPlaces(body).of(body.index("> +y"), body.index("> +y") + 5)
        ('a.c', '@@ -1 +1 @@ int f(void)')
        """
        last = bisect_left(self._starts, end) - 1
        is_prose = _PROSE.search(self.body, start, end) and not _CHANGE.search(
            self.body, start, end
        )
        file, hunk = self._places[last] if last >= 0 and not is_prose else ("", "")
        file = "" if file == "/dev/null" else file
        return file, hunk if file or not hunk.endswith("@@") else ""


PATCH_FILES = 100
"""Files; a patch with more gets one chunk that names them all, and its segments count as very long
text.
"""
PATCH_CHARS = 12_000
"""A longer diff of one file is split by hunks, and a longer hunk by lines."""
PATCH_HUNKS = 10
"""Hunks; the diff of one file with more is split by hunks."""
