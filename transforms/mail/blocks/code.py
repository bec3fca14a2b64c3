"""Code: runs of lines that are patches, or look like code, logs, sessions or tables, though nothing
marks them.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from transforms.mail.blocks import rules
from transforms.mail.blocks.lines import (
    AUTHOR,
    CODE,
    LETTER,
    QUOTE,
    SPACE,
    UPPER,
    Lines,
    Mask,
    Rule,
    Words,
    byte_table,
    counts_before,
    last_true,
    next_at,
    next_true,
    rows_within,
)

# Gaps between words from which a line is prose, and from which a report was written by a person.
PROSE_GAPS = 6
REPORT_PROSE_GAPS = 8
# Gaps of a short sentence without any sign in it.
SENTENCE_GAPS = 4
# Gaps of the short lines that do not belong to the code in their paragraph.
TRIMMED_GAPS = 2
# Share of a paragraph's lines from which it is code.
_MOSTLY = 0.6
# Lines of log from which a mail without prose counts as a report.
REPORT_LINES = 20
_SENTENCE_END = byte_table(b".?!")
CODE_END = byte_table(b";{},&|\\/!")
BULLET_MARK = byte_table(b"-*+o")
ARROW = ord("-") << 8 | ord(">")
PROMPT_SIGN = byte_table(b"$#%")
_MIN_CODE_LINES = 2
"""Lines that look like code before a run counts as code."""


def mark_code(lines: Lines, words: Words, diff: Mask, python: Mask) -> None:
    """Marks runs of lines that look like code, bridged over blank, indented and unworded lines."""
    author = lines.author()
    prose = (words.gaps >= PROSE_GAPS) & (words.gaps > words.symbols)
    sentence = (words.symbols == 0) & (words.gaps >= SENTENCE_GAPS)
    sentence &= UPPER[lines.byte] & _SENTENCE_END[lines.last] & (lines.indent < 2)
    prose |= sentence
    dense = author & (words.symbols >= 2) & (words.symbols > words.gaps)
    shaped = _shaped(lines, words, prose, author, python)
    code = shaped | _dense_paragraphs(lines, words, shaped, dense, prose) | (lines.kind == CODE)
    neutral = _bridges(lines, words, author & ~code & ~sentence, code, dense & ~prose) | lines.blank
    breaker = ~(code | neutral) | lines.first
    group, stop = last_true(breaker), np.append(next_true(breaker), lines.n)[1:]
    inside = (last_true(code) >= np.maximum(group, 0)) & (next_true(code) < stop)
    count = counts_before(code)
    enough = count[stop] - count[np.maximum(group, 0)] >= _MIN_CODE_LINES
    selected = inside & (neutral | code) & (enough | (lines.kind == CODE))
    selected &= ~lines.matches(TRAILER, selected & author)
    weak = selected & (author | (lines.blank & ~diff))
    lines.mark(selected & (author | lines.blank), CODE)
    lines.inferred[weak] = True
    lines.inferred[(lines.kind == CODE) & diff] = False
    _mark_reports(lines, words, diff)
    _join_marks(lines)


def _shaped(lines: Lines, words: Words, prose: Mask, author: Mask, python: Mask) -> Mask:
    """Rows that look like code, a log, a session or a table by themselves."""
    rich = author & (words.symbols > 0)
    worded = (words.gaps >= 4) & (words.gaps > 2 * words.symbols)
    arrow = worded & (lines.pair == ARROW)
    shaped = python | lines.matches(CODE_SIGNS, author & ~arrow)
    shaped &= ~lines.matches(REFERENCE, shaped)
    open_rows = rich & ~worded & ~shaped
    for rule in WORDS:
        shaped |= lines.matches(rule, open_rows)
    shaped |= lines.matches(WORD_PAIR, author & (words.columns > 0) & ~shaped)
    ended = lines.matches(TAIL, author & CODE_END[lines.last] & ~shaped, tail=True)
    shaped |= ended & ~lines.matches(BULLET, ended)
    table = author & (words.columns >= 2)
    shaped |= table & (lines.shifted(table, 1) | lines.shifted(table, -1))
    return (
        shaped | _shortlogs(lines, author) | (_sessions(lines, words, author, rich) & ~prose)
    ) & author


def _shortlogs(lines: Lines, author: Mask) -> Mask:
    """Commit subjects under the name of their author, as git shortlog writes them."""
    indented = author & (lines.indent >= 2)
    names = lines.matches(SHORTLOG, author & (lines.last == ord(":")) & lines.shifted(indented, -1))
    rows = np.flatnonzero(names)
    return rows_within(rows, lines.until(~(indented | names), rows), lines.n)


def _sessions(lines: Lines, words: Words, author: Mask, rich: Mask) -> Mask:
    """Rows from a prompt to the end of its paragraph."""
    prompts = lines.matches(PROMPT, rich & ((words.symbols >= 2) | PROMPT_SIGN[lines.byte]))
    prompt = last_true(prompts)
    return (prompt >= 0) & (prompt > last_true(~author | lines.first & ~prompts))


def _dense_paragraphs(lines: Lines, words: Words, shaped: Mask, dense: Mask, prose: Mask) -> Mask:
    """Unworded lines of paragraphs that mostly look like code or have more signs than gaps."""
    author = lines.author()
    opening = author & ~lines.shifted(author, 1)
    run = np.cumsum(opening, dtype=np.int32)[author] - 1
    if not len(run):
        return shaped
    sign = shaped | dense
    size = np.bincount(run)
    full = np.bincount(run, shaped[author]) >= _MIN_CODE_LINES
    full &= np.bincount(run, sign[author]) >= _MOSTLY * size
    out = np.zeros_like(author)
    out[author] = full[run]
    # Prose that leads to code or thanks below it has signs on one side only.
    begins, total = last_true(opening), counts_before(sign)
    ends = np.append(next_true(opening | ~author), lines.n)[1:]
    rows = np.flatnonzero(out)
    bare = LETTER[lines.byte] & (lines.indent < 2) & (words.symbols + words.columns == 0)
    bare &= words.gaps <= TRIMMED_GAPS
    signs_around = (total[rows + 1] > total[begins[rows]]) & (total[ends[rows]] > total[rows])
    out[rows] = ~bare[rows] | signs_around
    return out & ~prose


def _bridges(lines: Lines, words: Words, plain: Mask, code: Mask, dense: Mask) -> Mask:
    """Lines that belong to the code around them: one or two between code, indented, dense or
    labels.
    """
    before, after = lines.shifted(code, 1), lines.shifted(code, -1)
    first = plain & before & lines.shifted(code, 2)
    pair = first & lines.shifted(plain & after & lines.shifted(code, -2), -1)
    bridge = plain & before & after | pair | lines.shifted(pair, 1)
    tab = (lines.data[lines.starts] == ord("\t")) & ~BULLET_MARK[lines.byte]
    bridge |= plain & ((lines.indent >= 2) | tab)
    bridge |= dense & plain
    return bridge | plain & (lines.last == ord(":")) & (words.gaps <= 1)


def _mark_reports(lines: Lines, words: Words, diff: Mask) -> None:
    """Marks all text of a mail that is nearly all log and has no line of prose: a machine wrote it."""
    mails = np.flatnonzero(lines.first)
    author = lines.kind == AUTHOR
    log = np.add.reduceat((lines.kind == CODE) & ~lines.blank & ~diff, mails, dtype=np.int64)
    text = np.add.reduceat(author, mails, dtype=np.int64)
    human = np.logical_or.reduceat(author & (words.gaps >= REPORT_PROSE_GAPS) | diff, mails)
    report = (log >= REPORT_LINES) & (log >= 9 * text) & ~human
    lines.mark(np.repeat(report, np.diff(np.append(mails, lines.n))) & author, CODE, inferred=True)


def _join_marks(lines: Lines) -> None:
    """A run of code is inferred only if no line in it is marked."""
    code = lines.kind == CODE
    opening = code & (~lines.shifted(code, 1) | lines.first)
    run = np.cumsum(opening, dtype=np.int32)
    marked = np.zeros(int(run[-1]) + 1, dtype=bool)
    marked[run[code & ~lines.inferred]] = True
    lines.inferred[code & marked[run]] = False


# Diffs
HUNK = r"^@@ -\d+(?:,(?P<old>\d{1,9}))? \+\d+(?:,(?P<new>\d{1,9}))? @@"
DIFF = Rule(
    rules.EXPRESSIONS["diff"], r"di In in -- ++ @@ == RC re Bi ne de ol si co GI ** cr \· Mo Ad De"
)
FENCE = Rule(r"(?:```|~~~)[\w+.-]*$", "`` ~~")
FENCE_END = Rule(r"(?:```|~~~)$", "`` ~~")
DIFFSTAT = Rule(rules.EXPRESSIONS["diffstat"])
MONTICELLO = Rule(
    r"Item was (?:changed|added|removed|moved)|(?:[+-] )?-{5} (?:Method|Class): |={15} Diff against",
    "It -- +· -· ==",
)
"""The line that Smalltalk's tool for versions writes above a change."""
DOUBLE_RULE = Rule(r"={8,}$", "==")
SHORTLOG = Rule(r"[A-Z].+ \(\d+\):$")
CONTEXT_HUNK = Rule(r"\*{15}|\*\*\* \d+(?:,\d+)? \*{4}|--- \d+(?:,\d+)? ----", "** --")
BINARY_PATCH = Rule(r"GIT binary patch", "GI")
BINARY_LINE = Rule(r"(?:literal|delta) \d+|[A-Za-z][!-~]{5,}$")

# Shapes of code, logs and sessions, by the bytes that lines of that shape begin with.
CODE_SIGNS = Rule(
    rules.EXPRESSIONS["code_signs"], "# / * } , ` < [ - = + | ( . ^ $ % { \" ' ! \\ @ : ma ch"
)
REFERENCE = Rule(r"\[\w{1,4}\]:?[ \t]+(?:https?:|ftp:|<http|www[.])", "[")
CODE_WORDS = Rule(rules.EXPRESSIONS["code_words"])
# Names of any kind and a sign behind them: these are two expressions since one takes twice the time
# of both.
ASSIGNMENTS = Rule(rules.EXPRESSIONS["assignments"])
_NAMES = Rule(rules.EXPRESSIONS["names"])
SMALLTALK = Rule(
    r"\[ ?:[a-z]\w* ?[:|]|(?:True|False|Nil|Empty|Do|do|collect|select): ?[\[(]", search=True
)
STAMPS = Rule(rules.EXPRESSIONS["stamps"])
WORDS = (CODE_WORDS, ASSIGNMENTS, _NAMES, SMALLTALK, STAMPS)
WORD_PAIR = Rule(r"\S+\t\S+$")
TAIL = Rule(
    r"(?:[\w)\]\"'}>*][ \t]*;|[){=,][ \t]*\{|\{|\}[;,]?|&&|\|\||\\|\*/)[ \t]*(?:/[/*].*)?$|! !$",
    search=True,
)
BULLET = Rule(r"(?:[-*+o]|•|\d+[.)])[ \t]+[A-Za-z]")
# Who signed or tested a patch: the author's words, however many signs they have.
TRAILER = Rule(
    r"[A-Z][a-z]+(?:-[a-z]+)*-by: |(?:Fixes|Closes|Link|[Cc]c|Cheers|Reported): ?\S",
    "Si Re Ac As Te Co Su Fi Cl Li Cc cc De Bi Di In",
)
PROMPT = Rule(r"[$#%] [a-z./~][A-Za-z0-9_./-]*(?: |$)|[A-Za-z0-9_]*[=\-(*'^!][#>] ")


STAT_END = byte_table(b"0123456789+-)s")
CONTEXT_MARK = byte_table(b" !+-")


def mark_patches(lines: Lines) -> Mask:
    """Marks the lines of diffs; the rows of them, blank ones inside included."""
    author = lines.author()
    head = lines.matches(DIFF, author & (lines.indent <= 1))
    head |= lines.matches(MONTICELLO, author)
    head |= lines.matches(DIFFSTAT, author & (lines.indent == 1) & STAT_END[lines.last])
    adjacent = lines.shifted(head, 1) | lines.shifted(head, -1) | lines.shifted(head, 2)
    head |= lines.matches(DOUBLE_RULE, author & adjacent)
    diff = head | _hunks(lines, head & (lines.pair == ord("@") * 257)) | _context_hunks(lines, head)
    cut = lines.matches(rules.CUT, author)
    diff |= cut & (lines.shifted(head, -1) | lines.shifted(head, -2))
    diff |= _binary_patches(lines, diff)
    diff |= _git_version(lines, diff)
    diff &= ~lines.blank | diff[lines.next_filled]
    lines.mark(diff & (author | lines.blank), CODE)
    return diff


def mark_fences(lines: Lines) -> None:
    """Marks text between two lines of backquotes or tildes, and these lines, as code."""
    rows = np.flatnonzero(lines.matches(FENCE, lines.author()))
    closing = lines.matching(FENCE_END, rows)
    blocked = counts_before(lines.kind == QUOTE)
    opened = -1
    for row, closes in zip(rows.tolist(), closing.tolist(), strict=True):
        is_open = opened >= lines.message_start[row]
        if is_open and closes and blocked[row] == blocked[opened]:
            lines.kind[opened : row + 1] = CODE
            opened = -1
        else:
            opened = row


def _hunks(lines: Lines, heads: Mask) -> Mask:
    """Rows of unified hunks, by the line counts in their headers."""
    rows = np.flatnonzero(heads & (lines.indent == 0))
    counts = pc.extract_regex(lines.head_texts.take(pa.array(2 * rows)), HUNK)
    valid = counts.is_valid().to_numpy(zero_copy_only=False)
    rows, counts = rows[valid], counts.drop_null()
    old, new = (_line_counts(counts.field(name), lines.n) for name in ("old", "new"))
    byte = lines.data[lines.starts]
    minus, plus, note = byte == ord("-"), byte == ord("+"), byte == ord("\\")
    plain = (byte == 32) | (byte == 9) | lines.blank
    olds = np.cumsum(plain | minus, dtype=np.int32)
    news = np.cumsum(plain | plus, dtype=np.int32)
    stop = next_at(~(plain | minus | plus | note), np.minimum(rows + 1, lines.n - 1))
    last = np.maximum(
        np.searchsorted(olds, olds[rows] + old), np.searchsorted(news, news[rows] + new)
    )
    ends = np.minimum(np.minimum(last + 1, stop), lines.message_end[rows])
    return rows_within(rows, np.maximum(ends, rows + 1), lines.n)


def _line_counts(texts: pa.Array, most: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Counts of a hunk header; a missing one is 1, and none is larger than the batch."""
    filled = pc.if_else(pc.equal(pc.binary_length(texts), 0), b"1", texts)
    numbers = filled.cast(pa.string()).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return np.minimum(numbers, most)


def _context_hunks(lines: Lines, head: Mask) -> Mask:
    """Rows of context diffs: those that follow their rules and line numbers and carry their marks."""
    context = lines.matches(CONTEXT_HUNK, head)
    second = lines.data[np.minimum(lines.starts + 1, len(lines.data) - 1)]
    body = lines.author() & CONTEXT_MARK[lines.data[lines.starts]] & SPACE[second] | lines.blank
    return _rows_below(lines, context, ~(body | context) | lines.first)


def _binary_patches(lines: Lines, diff: Mask) -> Mask:
    heads = lines.matches(BINARY_PATCH, diff)
    if not heads.any():
        return heads
    return _rows_below(lines, heads, ~(lines.matches(BINARY_LINE, lines.author()) | lines.blank))


def _rows_below(lines: Lines, heads: Mask, stop: Mask) -> Mask:
    """Each of the heads with the rows below it up to one where `stop` holds."""
    rows = np.flatnonzero(heads)
    ends = next_at(stop, np.minimum(rows + 1, lines.n - 1))
    return rows_within(rows, np.minimum(ends, lines.message_end[rows]), lines.n)


def _git_version(lines: Lines, diff: Mask) -> Mask:
    """`-- ` and the version of git, with which format-patch ends a patch: part of it, nobody's
    signature.
    """
    below = lines.shifted(diff, 1) | (lines.shifted(diff, 2) & lines.shifted(lines.blank, 1))
    dashes = lines.matches(rules.DASHES, below)
    version = lines.matches(rules.GIT_VERSION, lines.shifted(dashes, 1))
    return version | lines.shifted(version, -1)
