"""Code: runs of lines that look like code, logs, sessions or tables, though nothing marks them."""

from __future__ import annotations

import numpy as np

from transforms.mail.blocks import code_rules
from transforms.mail.blocks.lines import (
    AUTHOR,
    CODE,
    LETTER,
    UPPER,
    Lines,
    Mask,
    byte_table,
    counts_before,
    last_true,
    next_at,
    next_true,
    rows_within,
)
from transforms.mail.blocks.words import Words

# Gaps between words from which a line is prose, and from which a report was written by a person.
PROSE_GAPS = 6
REPORT_PROSE_GAPS = 8
# Gaps of a short sentence without any sign in it.
SENTENCE_GAPS = 4
# Gaps of the short lines that do not belong to the code in their paragraph.
TRIMMED_GAPS = 2
# Share of a paragraph's lines from which it is code.
MOSTLY = 0.6
# Lines of log from which a mail without prose counts as a report.
REPORT_LINES = 20
SENTENCE_END = byte_table(b".?!")
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
    sentence &= UPPER[lines.byte] & SENTENCE_END[lines.last] & (lines.indent < 2)
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
    selected &= ~lines.matches(code_rules.TRAILER, selected & author)
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
    shaped = python | lines.matches(code_rules.CODE_SIGNS, author & ~arrow)
    shaped &= ~lines.matches(code_rules.REFERENCE, shaped)
    shaped |= lines.matching_any(code_rules.WORDS, rich & ~worded & ~shaped)
    shaped |= lines.matches(code_rules.WORD_PAIR, author & (words.columns > 0) & ~shaped)
    ended = lines.matches(code_rules.TAIL, author & CODE_END[lines.last] & ~shaped, tail=True)
    shaped |= ended & ~lines.matches(code_rules.BULLET, ended)
    table = author & (words.columns >= 2)
    shaped |= table & (lines.shifted(table, 1) | lines.shifted(table, -1))
    return (shaped | _shortlogs(lines, author) | (_sessions(lines, words, author, rich) & ~prose)) & author


def _shortlogs(lines: Lines, author: Mask) -> Mask:
    """Commit subjects under the name of their author, as git shortlog writes them."""
    indented = author & (lines.indent >= 2)
    names = lines.matches(
        code_rules.SHORTLOG, author & (lines.last == ord(":")) & lines.shifted(indented, -1)
    )
    rows = np.flatnonzero(names)
    stops = np.minimum(next_at(~(indented | names), rows), lines.message_end[rows])
    return rows_within(rows, stops, lines.n)


def _sessions(lines: Lines, words: Words, author: Mask, rich: Mask) -> Mask:
    """Rows from a prompt to the end of its paragraph."""
    prompts = lines.matches(code_rules.PROMPT, rich & ((words.symbols >= 2) | PROMPT_SIGN[lines.byte]))
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
    full &= np.bincount(run, sign[author]) >= MOSTLY * size
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
    """Lines that belong to the code around them: one or two between code, indented, dense or labels."""
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
