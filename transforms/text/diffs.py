"""Diffs: their segments, the files and functions that they name, the lines that they add and
remove.

The fixed prefixes of lines identify unified and context diffs and plain `diff` output; nothing here
applies a patch.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

import polars as pl

from transforms.text.segments import TextSegment, line_windows
from transforms.toml_file import patterns

_PATTERNS = patterns(__name__, "patterns.toml")
DIFF_MARK = rf"(?m)^(?:{_PATTERNS['diff_mark']})"
"""A line that only diffs have; a pattern for Python and Polars."""
_MARK = re.compile(DIFF_MARK)
DIFF_FILE = re.compile(rf"^(?:{_PATTERNS['diff_file']})", re.MULTILINE)
_BODY = re.compile(r"^(?:@@ |\*{15}|GIT binary)", re.MULTILINE)
DIFF_HUNK = re.compile(
    r"^(?:@@ -\d[^\n]*|\*{15}[^\n]*|\d+(?:,\d+)?[acd]\d+(?:,\d+)?$)", re.MULTILINE
)
_FILE_NAME = re.compile(rf"^(?:{_PATTERNS['file_name']})", re.MULTILINE)
# `literal 123` and `delta 45` with their base-85 lines; the lines of `uuencode` between `begin` and
# `end`.
_BINARY = re.compile(
    r"^GIT binary patch\n(?:(?:(?:literal|delta) \d+|[A-Za-z](?:[!-~]{5}){1,13})?\n)*|"
    r"^begin [0-7]{3,4} [^\n]+\n(?:[ -`]{1,62}\n)+?end\n?",
    re.MULTILINE,
)
_UNIFIED_HEADER = r"(?m)^--- (\S[^\n]*)\n\+\+\+ "
_GIT_VERSION = r"(?m)^-- \n(\d[\w.-]*)$"
_FILE_LINE = rf"(?m)^(?:{_PATTERNS['file_line']})"
_FILE_LEAD = (
    r"^(?:--- [^\n]*\n\+\+\+ (?:b/)?|diff --git a/.* b/|\w+: |\*\*\* [^\n]*\n--- |rename from )"
)
_FUNCTION_LINE = r"(?m)^(?:@@ -[\d,]+ \+[\d,]+ @@ |\*{15} )\S[^\n]*"
_FUNCTION_LEAD = r"^(?:@@ [^@]* @@ |\*{15} )"
HUNK_FUNCTION = _FUNCTION_LEAD + r"(\S.*)$"
"""The header of a hunk with the function that it names; a pattern for Polars."""
_OTHER_FORM = r"(?m)^(?:\*{15}|\*\*\* \d+(?:,\d+)? \*{4}|\d+(?:,\d+)?[acd]\d+(?:,\d+)?$)"
_STATE_LINE = re.compile(r"(?:(\*\*\*) \d+(?:,\d+)? \*{4}|(---) \d+(?:,\d+)? ----)$")


def is_diff_text(text: str, start: int, end: int) -> bool:
    """True if a range contains a line that only diffs have."""
    return bool(_MARK.search(text, start, end))


def binary_ranges(text: str) -> list[tuple[int, int]]:
    """Half-open ranges of the encoded bytes of binary files: git's binary patches and uuencode."""
    if "GIT binary patch\n" not in text and "\nend" not in text:
        return []
    return [m.span() for m in _BINARY.finditer(text)]


def first_diff(text: str, start: int, end: int) -> int | None:
    """The start of the first diff in a range: its file's header, else a hunk; None without a diff."""
    match = DIFF_FILE.search(text, start, end) or DIFF_HUNK.search(text, start, end)
    return None if match is None else match.start()


def diff_segments(
    text: str, start: int, end: int, pack_chars: int, patch_chars: int, patch_hunks: int
) -> Iterator[TextSegment]:
    """Segments that cover a diff without overlap: by file, else by hunk, else by lines.

    A file's diff is one segment up to `patch_chars` characters and `patch_hunks` hunks. Above, its
    hunks are packed up to `pack_chars` characters, and a hunk over `patch_chars` is cut at lines.
    """
    files = file_starts(text, start, end)
    for a, b in pairwise(sorted({start, *files, end})):
        name = _file_name(text, a, b)
        # Plain `diff` output has no hunks that are so cheap to count; its length decides.
        count = text.count("\n@@ -", a, b) + text.count("\n***************", a, b)
        if b - a <= patch_chars and count <= patch_hunks:
            yield TextSegment(a, b, name)
        else:
            hunks = [(m.start(), m.group()) for m in DIFF_HUNK.finditer(text, a, b)]
            for c, d, hunk in _hunk_ranges(
                text, (a, b), hunks, min(pack_chars, patch_chars), patch_chars
            ):
                yield TextSegment(c, d, name, hunk)


def file_starts(text: str, start: int, end: int) -> list[int]:
    """Starts of the diffs of files; the `---` line below a `diff` or `Index:` line opens no second
    one.
    """
    out: list[int] = []
    if text.startswith("diff --git a/", start):
        at = start
        while at >= 0:
            out.append(at)
            at = text.find("\ndiff --git a/", at, end) + 1 or -1
        return out
    for match in DIFF_FILE.finditer(text, start, end):
        at = match.start()
        below_diff = bool(out) and text.startswith("diff ", out[-1])
        inner = ("--- ", "*** ") if below_diff else ("--- ", "*** ", "diff ")
        has_body = out and (at - out[-1] > 2000 or _BODY.search(text, out[-1], at))
        if not out or has_body or not text.startswith(inner, at):
            out.append(at)
    return out


def header_lines(text: str, starts: list[int]) -> list[tuple[int, int]]:
    """The ranges of the first line of each file's diff."""
    return [(at, text.find("\n", at) + 1 or len(text)) for at in starts]


def _file_name(text: str, start: int, end: int) -> str:
    """The file that a diff changes, without git's `b/`; empty if its header names none.

    >>> _file_name("--- a/src/main.c\\n+++ b/src/main.c\\n", 0, 34)
    'src/main.c'
    """
    for match in _FILE_NAME.finditer(text, start, min(end, start + 2000)):
        name = str(match.group(match.lastgroup or 0)).strip()
        if name != "/dev/null":
            return name[2:] if name.startswith("b/") else name
    return ""


def _hunk_ranges(
    text: str, diff: tuple[int, int], hunks: list[tuple[int, str]], pack: int, bound: int
) -> Iterator[tuple[int, int, str]]:
    """Hunks packed up to `pack` characters, those over `bound` cut at lines, with the header of a
    hunk that is cut.
    """
    start, end = diff
    edges = [start, *(a for a, _ in hunks if a > start), end]
    headers = dict(hunks)
    begin = edges[0]
    for a, b in pairwise(edges):
        if b - begin > pack and a > begin and (begin in headers or a != edges[1]):
            yield begin, a, ""
            begin = a
        if b - begin > bound:
            for number, (c, d) in enumerate(line_windows(text, begin, b, bound)):
                yield c, d, headers.get(a, "") if number else ""
            begin = b
    if begin < end:
        yield begin, end, ""


def diff_columns(diffs: pl.DataFrame) -> pl.DataFrame:
    """The changes of each diff.

    `diffs` has the columns diff (text of a diff or of a segment of one), file and hunk (the file
    and the hunk header that the segment begins in, empty if its text names them). Columns:
    diff_files, diff_functions (lists, in order, each name once), lines_added, lines_removed
    (counts), added_lex, removed_lex (those lines without their sign) and rest (all other lines).
    """
    diff = pl.col("diff").str.replace_all(_UNIFIED_HEADER, " --- $1\n +++ ")
    diff = diff.str.replace_all(_GIT_VERSION, "$1")
    unified = diffs.with_columns(
        added=diff.str.extract_all(r"(?m)^\+[^\n]*"),
        removed=diff.str.extract_all(r"(?m)^-[^\n]*"),
        rest=diff.str.replace_all(r"(?m)^[+-][^\n]*(?:\n|\z)", ""),
    ).with_columns(
        pl.col("added", "removed")
        .list.join("\n")
        .str.replace_all(r"(?m)^[+-]", "")
        .name.suffix("_lex"),
        pl.col("added", "removed").list.len().cast(pl.Int64).name.prefix("lines_"),
    )
    other: pl.Series = unified.select(pl.col("diff").str.contains(_OTHER_FORM)).to_series()
    if other.any():
        changes = [
            _changes(text) if is_other else None
            for text, is_other in zip(unified["diff"], other, strict=True)
        ]
        texts = dict.fromkeys(("added_lex", "removed_lex", "rest"), pl.String())
        counts = dict.fromkeys(("lines_added", "lines_removed"), pl.Int64())
        schema: dict[str, pl.DataType] = {**texts, **counts}
        table = pl.DataFrame([c or (None,) * 5 for c in changes], schema=schema, orient="row")
        unified = unified.with_columns(pl.coalesce(table[c], pl.col(c)).alias(c) for c in schema)
    name, function = (
        pl.element().str.replace(_FILE_LEAD, ""),
        pl.element().str.replace(_FUNCTION_LEAD, ""),
    )
    files = pl.col("diff").str.extract_all(_FILE_LINE).list.eval(name.str.strip_chars())
    lead = pl.col("hunk").str.extract(HUNK_FUNCTION, 1)
    functions = pl.col("diff").str.extract_all(_FUNCTION_LINE).list.eval(function.str.strip_chars())
    return unified.select(
        diff_files=_names(
            pl.concat_list(pl.concat_list("file"), files), r"^(?:/dev/null|\d+(?:,\d+)?|)$"
        ),
        diff_functions=_names(pl.concat_list(pl.concat_list(lead.fill_null("")), functions), r"^$"),
        lines_added="lines_added",
        lines_removed="lines_removed",
        added_lex="added_lex",
        removed_lex="removed_lex",
        rest="rest",
    )


def _names(listed: pl.Expr, nothing: str) -> pl.Expr:
    """Each name once, in order, without those that match `nothing`."""
    names = listed.list.eval(pl.element().filter(~pl.element().str.contains(nothing)))
    return names.list.unique(maintain_order=True)


def _changes(text: str) -> tuple[str, str, str, int, int]:
    """Added, removed and other lines of a context diff or of plain `diff` output, and both counts."""
    added, removed, rest = [], [], []
    side = ""
    for line in text.split("\n"):
        state = _STATE_LINE.match(line)
        if state:
            side = state[1] or state[2]
        if state or line.startswith(("--- ", "*** ", "+++ ", "---")):
            rest.append(line)
        elif line.startswith(("+", "> ")) or (line.startswith("! ") and side == "---"):
            added.append(line[1:])
        elif line.startswith(("-", "< ")) or (line.startswith("! ") and side == "***"):
            removed.append(line[1:])
        else:
            rest.append(line)
    return "\n".join(added), "\n".join(removed), "\n".join(rest), len(added), len(removed)
