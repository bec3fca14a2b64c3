"""The body of a mail in parts that are read differently: text, trailers, folded quotes, diffs,
signatures.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from markupsafe import Markup

from dagster_project.extras.web.marks import Marked

_WRAPPED = 48
"""Bytes from which on a line may have been wrapped by a mail program, which most do between 65 and
78.
"""
_LISTED = (b"", b" ", b"\t", b"-", b"*", b"+", b"#", b">", b"|")
"""How lines begin that stand for themselves."""
SHORT_QUOTE = 2
"""Lines up to which a quote is not folded."""
_TRAILER = re.compile(
    rb"^((?:[A-Z][a-z]+(?:-[a-z]+)*-by|Fixes|Link|Closes|Cc|Message-I[dD]|Change-Id): )\S.*$"
)
_QUOTE_MARKS = re.compile(r"^[ \t]*(?:[>|:][ \t]*)+")
_ALIGNED = re.compile(rb"^(?: {4}|\t)|\S {3,}\S|\S\t\S|^[|+]", re.MULTILINE)
_NAME = re.compile(r"\+\+\+ (?:b/)?([^\t]+)|diff --git a/.* b/(.+)|Index: (.+)|--- (?:a/)?([^\t]+)")
_OF_HEADER = (
    b"diff --",
    b"index ",
    b"Index: ",
    b"--- ",
    b"+++ ",
    b"new file",
    b"deleted file",
    b"rename ",
    b"similarity ",
)
_OF_HUNK = {b"@": "h", b"+": "a", b"-": "r", b"*": "h", b"!": "a"}


class DiffFile(NamedTuple):
    """The diff of one file: its name, its lines as HTML, how many lines it adds and removes."""

    name: str
    html: Markup
    added: int
    removed: int


class Part(NamedTuple):
    """A part of a mail: text, aligned (text in columns), trailers, quote, header, code, diff or
    signature.

    A quote has its first line as `summary`, its number of lines and its depth; it is open if cited
    bytes lie in it.
    """

    kind: str
    html: Markup = Markup("")
    summary: str = ""
    lines: int = 0
    depth: int = 0
    is_open: bool = False
    files: Sequence[DiffFile] = ()
    trailers: Sequence[tuple[Markup, Markup]] = ()


def mail_parts(text: Marked, blocks: Iterable[Mapping[str, Any]]) -> list[Part]:
    """The parts of a body whose blocks are rows of the table `blocks`, in order; blank ones go with
    the part before.
    """
    parts: list[Part] = []
    texts = (block for block in blocks if block["kind"] != "blank")
    for part, run in groupby(texts, key=lambda block: _PARTS.get(block["kind"], _text)):
        members = list(run)
        depth = min(block["quote_depth"] for block in members)
        parts += part(text, members[0]["byte_start"], members[-1]["byte_end"], depth)
    return parts


def plain_parts(text: Marked, *, is_diff: bool) -> list[Part]:
    """The one part of an attachment."""
    end = len(text.data)
    return list((_diff if is_diff else _code)(text, 0, end, 0))


def _text(text: Marked, start: int, end: int, _depth: int) -> Iterator[Part]:
    lines = text.data[start:end].splitlines(keepends=True)
    for kind, run in groupby(_kinds(lines), key=lambda pair: pair[0]):
        members = [line for _, line in run]
        after = start + sum(map(len, members))
        stop = start + len(text.data[start:after].rstrip())
        if kind == "trailers":
            yield Part(kind, trailers=list(_trailers(text, start, members)))
        elif stop > start:
            while not members[0].strip():
                start += len(members.pop(0))
            html = Markup(text.html(start, stop))
            yield Part(kind, flowing(html, text.data[start:stop]) if kind == "text" else html)
        start = after


def flowing(html: Markup, data: bytes) -> Markup:
    """The HTML of `data` whose line breaks that only wrapped a paragraph have a class: a narrow
    page shows a space.

    >>> flowing(Markup("a line as long as most programs allow before they\\nwrap it\\n- item"), \
            b"a line as long as most programs allow before they\\nwrap it\\n- item")
    Markup('a line as long as most programs allow before they<span class="wrap">\\n</span>wrap it\\n- item')
    """
    pieces, lines = html.split("\n"), data.split(b"\n")
    breaks = [
        Markup('<span class="wrap">\n</span>')
        if len(line) >= _WRAPPED and after[:1] not in _LISTED
        else "\n"
        for line, after in pairwise(lines)
    ]
    return Markup("").join(
        piece for pair in zip(pieces, [*breaks, ""], strict=True) for piece in pair
    )


def _kinds(lines: Sequence[bytes]) -> Iterator[tuple[str, bytes]]:
    """The lines of a text with their kinds: text or aligned, which is known of a paragraph as a
    whole, or trailers.

    Blank lines have the kind of the line before.
    """
    kind = "text"
    for is_blank, run in groupby(lines, key=lambda line: not line.strip()):
        paragraph = list(run)
        if not is_blank:
            kind = "aligned" if _ALIGNED.search(b"".join(paragraph)) else "text"
        for line in paragraph:
            yield ("trailers" if _TRAILER.match(line) else kind), line


def _trailers(text: Marked, start: int, lines: Sequence[bytes]) -> Iterator[tuple[Markup, Markup]]:
    for line in lines:
        colon, stop = start + line.index(b": "), start + len(line.rstrip())
        yield Markup(text.html(start, colon)), Markup(text.html(colon + 2, stop))
        start += len(line)


def _quote(text: Marked, start: int, end: int, depth: int) -> Iterator[Part]:
    quoted = text.data[start:end].decode(errors="replace").splitlines()
    bare = (_QUOTE_MARKS.sub("", line).strip() for line in quoted)
    summary = next((line for line in bare if line), "")
    is_open = len(quoted) <= SHORT_QUOTE or text.holds_cited(start, end)
    yield Part("quote", _trimmed(text, start, end), summary, len(quoted), depth, is_open)


def _code(text: Marked, start: int, end: int, _depth: int, kind: str = "code") -> Iterator[Part]:
    yield Part(kind, _trimmed(text, start, end))


def _patch_or_code(text: Marked, start: int, end: int, depth: int) -> Iterator[Part]:
    is_diff = re.search(
        rb"(?m)^(?:@@ -\d|--- \S+[ \t]*\n\+\+\+ |\*{15}|Index: \S)", text.data[start:end]
    )
    return (_diff if is_diff else _code)(text, start, end, depth)


def _diff(text: Marked, start: int, end: int, _depth: int) -> Iterator[Part]:
    lines = text.data[start:end].splitlines(keepends=True)
    starts = _file_starts(lines)
    before = sum(len(line) for line in lines[: starts[0]]) if starts else len(text.data[start:end])
    if text.data[start : start + before].strip():
        yield Part("code", _trimmed(text, start, start + before))
    at, files = start + before, []
    for first, last in pairwise([*starts, len(lines)]):
        files.append(_diff_file(text, at, lines[first:last]))
        at += sum(len(line) for line in lines[first:last])
    if files:
        yield Part("diff", files=files)


def _file_starts(lines: Sequence[bytes]) -> list[int]:
    """Numbers of the lines at which the diffs of files begin; that of a hunk without a file counts
    as one.
    """
    starts: list[int] = []
    in_header = False
    for number, line in enumerate(lines):
        follows = lines[number + 1] if number + 1 < len(lines) else b""
        names = line.startswith((b"--- ", b"*** ")) and follows.startswith((b"+++ ", b"--- "))
        if line.startswith((b"diff --", b"Index: ")) or (names and not in_header):
            starts.append(number)
            in_header = True
        elif line.startswith((b"@@ ", b"*" * 15)):
            in_header = False
            if not starts:
                starts.append(number)
    return starts


def _diff_file(text: Marked, start: int, lines: Sequence[bytes]) -> DiffFile:
    pieces, counts, at = [], {"a": 0, "r": 0}, start
    name, in_hunks = "", False
    for class_, run in groupby(_classified(lines), key=lambda pair: pair[0]):
        members = [line for _, line in run]
        end = at + sum(map(len, members))
        pieces.append(f'<span class="{class_ or "c"}">{text.html(at, end)}</span>')
        at, in_hunks = end, in_hunks or class_ == "h"
        if class_ in counts:
            counts[class_] += len(members)
        elif class_ == "f" and not in_hunks:
            name = next(filter(None, map(_file_name, reversed(members))), name)
    return DiffFile(name or "diff", Markup("".join(pieces)), counts["a"], counts["r"])


def _classified(lines: Sequence[bytes]) -> Iterator[tuple[str, bytes]]:
    """The lines of a file's diff: f for its header, h for headers of hunks, a for added and r for
    removed ones.
    """
    in_hunks = False
    for line in lines:
        in_hunks = in_hunks or line.startswith((b"@@", b"*" * 15))
        if in_hunks:
            yield _OF_HUNK.get(line[:1], ""), line
        else:
            yield "f" if line.startswith(_OF_HEADER) else "", line


def _file_name(line: bytes) -> str:
    """The name in a line of a diff's header; empty without one.

    >>> [_file_name(line) for line in (b"+++ b/fs/data.c\\t2020", b"diff --git a/x.c b/x.c", b"index 12..34")]
    ['fs/data.c', 'x.c', '']
    """
    match = _NAME.match(line.decode(errors="replace").rstrip())
    name = next(filter(None, match.groups()), "") if match else ""
    return "" if name == "/dev/null" else name


def _trimmed(text: Marked, start: int, end: int) -> Markup:
    """A range without blank lines at its end."""
    return Markup(text.html(start, start + len(text.data[start:end].rstrip())))


_PARTS = {
    "quote": _quote,
    "header": partial(_code, kind="header"),
    "patch_or_code": _patch_or_code,
    "signature": partial(_code, kind="signature"),
}
