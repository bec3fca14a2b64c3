"""Blocks: the ordered runs of lines of one kind that a mail's body consists of.

A batch of bodies stays one buffer of bytes. Lines are positions in it; what the first and last
bytes of a line tell is read for all lines at once, and a regular expression only looks at the few
lines whose first two bytes allow a match. Reach (of a hunk, a signature, a run of code) is settled
with array arithmetic. No step looks at a line more than a fixed number of times, so the cost is
linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.schemas import MESSAGE_BLOCKS
from transforms.settings import BlockSettings

VERSION = "2"

Mask: TypeAlias = npt.NDArray[np.bool_]
Rows: TypeAlias = npt.NDArray[np.int64]

KINDS = ("author", "blank", "header", "patch_or_code", "quote", "signature")
AUTHOR, BLANK, HEADER, CODE, QUOTE, SIGNATURE = range(6)

# Expressions read this much of a line's head or tail; a body of one line stays cheap.
READ_BYTES = 400
BATCH_BYTES = 2 << 20
MAX_FOLDED_LINES = 8
# A footer has at most this many lines, and names its list within this many lines.
FOOTER_LINES = 40
FOOTER_WORD_LINES = 9
# Lines below a closing rule, at the end of the mail and above a quote.
CLOSING_LINES = 8
CLOSING_LINES_ABOVE_QUOTE = 4
# Gaps between words from which a line is prose, and from which a report was written by a person.
PROSE_GAPS = 6
REPORT_PROSE_GAPS = 8
# Share of a paragraph's lines from which it is code.
MOSTLY = 0.6
# Lines of log from which a mail without prose counts as a report.
REPORT_LINES = 20
# Steps that arrays take along leading blanks and quote marks before single lines are read instead.
VECTOR_STEPS = 48


class _Rule:
    """An expression for the text of a line from its first visible byte, and the bytes such lines begin with.

    `starts` are beginnings of one or two bytes; without them every line is read.
    """

    def __init__(self, pattern: str, starts: str | None = None, search: bool = False) -> None:
        compiled = re.compile(pattern.encode())
        self.find = compiled.search if search else compiled.match
        self.table = None if starts is None else _pair_table(starts.split())


def _pair_table(starts: Iterable[str]) -> Mask:
    """Which pairs of first bytes may begin a match; `·` stands for a blank in `starts`."""
    table = np.zeros((256, 256), dtype=bool)
    for start in starts:
        data = start.replace("·", " ").encode()[:2]
        if len(data) == 1:
            table[data[0], :] = True
        else:
            table[data[0], data[1]] = True
    return table.reshape(-1)


def _byte_table(members: bytes) -> Mask:
    table = np.zeros(256, dtype=bool)
    table[list(members)] = True
    return table


SPACE = _byte_table(b" \t\r\n\x0b\x0c")
LETTER = _byte_table(bytes(range(65, 91)) + bytes(range(97, 123)) + bytes(range(128, 256)))
WORD_END = LETTER | _byte_table(b",.;'")
SYMBOL = _byte_table(b'{}[]()<>=;|\\/&#$@*_"+%^~:`0123456789')
FOLDED = _byte_table(bytes(range(97, 123)) + b"(\"'0123456789")
SENTENCE_END = _byte_table(b".?!:;>")
STAT_END = _byte_table(b"0123456789+-)s")
CODE_END = _byte_table(b";{},&|\\/")
PROMPT_SIGN = _byte_table(b"$#%")
CONTEXT_MARK = _byte_table(b" !+-")
UNICODE_BLANK = re.compile(
    rb"(?:[ \t\r\x0b\x0c]|\xc2[\xa0\x85]|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80|"
    rb"\xe1\x9a\x80)*"
)
QUOTE_MARKS = re.compile(rb"(?:>[ \t]{0,3})+")

WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
GNATS = _Rule(
    r">(?:Submitter-Id|Originator|Organization|Confidential|Synopsis|Severity|Priority|Category|Class|Release|"
    r"Environment|Description|How-To-Repeat|Fix|Number|Responsible|State|Arrival-Date|Closed-Date|"
    r"Last-Modified|Release-Note|Audit-Trail|Unformatted|Quarter|Keywords|Date-Required):"
)
FROM_LINE = _Rule(r">From ", ">F")
PYTHON_PROMPT = _Rule(
    r">>> (?:import |from [\w.]+ import|print\b|[\w.\[\]]+ ?= ?|[\w.]+\(.*\)$|for .*:|def |class |with )",
    ">>",
)
CLOSED_TAG = _Rule(r"></", "></")
SUPERCITE_HEADER = _Rule(r'>{3,} ?"?[^>"]{1,60}"?.{0,10} (?:==|writes|wrote).*:', ">>")
INITIALS = re.compile(rb"([A-Z][A-Za-z]{0,3}|[a-z]{2,3})>+(?:[ \t]|$)")
PROMPT_NAMES = {b"SQL", b"sql", b"ftp", b"gdb", b"db", b"cmd", b"psql", b"sh", b"jdb", b"irb"}

VERB = _Rule(
    r"(?:\b(?:[Ww]rote|[Ww]rites|schrieb(?:en)?|schreibt|a (?:é|e)crit|escribi(?:ó|o)|ha scritto|scrisse|"
    r"escreveu|schreef|schreven|napisa(?:ł|l)\(?a?\)?|skrev|napsal\(?a?\)?|kirjoitti|yazd)|пишет|писал|"
    r"rašė|írta|の発言|は書きました|さん wrote|写道|>wrote)[^:]{0,90}(?::|：)$",
    search=True,
)
ATTRIBUTION = _Rule(
    r"(?:\* .{1,100}[>\])]?:$|(?i:quoting |citando |zitat von ).*:$|\d{4}[./-]\d+[./-]\d+ .{0,120}:$|"
    r"\d{4}[/-]\d+[/-]\d+.{0,40}<.*>:$|[^:]{1,80}<[^<> ]+@[^<> ]+>:$|\.\.\. .{0,80}:$)"
)
ATTRIBUTION_START = _Rule(
    r"(?:On|Am|Le|El|Il|Op|Em|Dne|Dnia|W dniu|Den|At|In|Na|Begin|Quoting|В|Пн|Вт|Ср|Чт|Пт|Сб|Вс|"
    r"Mon|Tue|Wed|Thu|Fri|Sat|Sun|\*|--- In|\d{1,4}(?:[./-]|年)\d)[^\n]*[\d<@]"
)
DATED_START = _Rule(r"On " + WEEKDAY + r"[a-z]*\b", "On")
ORIGINAL = _Rule(
    r"(?i:[-_]{2,}[ \t]*(?:original message|original-nachricht|urspr..?ngliche nachricht|"
    r"message d'origine|message original|mensaje original|messaggio originale|mensagem original|"
    r"oorspronkelijk bericht|oprindelig meddelelse|ursprungligt meddelande|"
    r"original appointment|forwarded message|begin forwarded|reply message|"
    r"weitergeleitete nachricht|forwarded by)|begin forwarded message:)|"
    r"-{2,} ?(?:Исходное сообщение|Пересылаемое сообщение|邮件原件|原始邮件|原邮件)",
    "-- __ Be be",
)
FIELD = _Rule(
    r"[*]?(?:From|Sent(?: by)?|To|Cc|CC|cc|Bcc|Subject|Date|Reply-To|Newsgroups|Von|Gesendet|An|Betreff|"
    r"Datum|De|Envoyé|À|Objet|Enviado|Para|Asunto|Fecha|Data|Da|Inviato|Oggetto|Assunto|Van|Verzonden|Aan|"
    r"Onderwerp|Från|Skickat|Till|Ämne|Fra|Sendt|Til|Emne|От|Кому|Тема|Дата|Отправлено|发件人|发送时间|收件人|抄送|主题|差出人|"
    r"送信日時|宛先|件名|Importance|Organization|Message-I[dD]|Attachments?)[*]?[ \t]?(?::|：)"
)
FIELD_FROM = _Rule(
    r"[*]?(?:From|Von|De|Da|Van|Från|Fra|От|发件人|差出人)[*]?[ \t]?(?::|：)", "* F V D О 发 差"
)
FIELD_TO = _Rule(
    r"[*]?(?:To|Sent|An|Gesendet|À|Envoyé|Para|Enviado|A|Inviato|Aan|Verzonden|Til|Sendt|Till|Skickat|"
    r"Кому|Отправлено|收件人|发送时间|宛先|送信日時)[*]?[ \t]?(?::|：)"
)
GIT_FROM = _Rule(r"From [0-9a-f]{7,40} " + WEEKDAY + " ", "Fr")
TRACKER = _Rule(
    r"-{3,} (?:Additional )?Comments? (?:#\d+ )?[Ff]rom .*|.{1,90} (?:updated|commented on|changed|created|"
    r"resolved|reopened|closed)(?: [A-Z0-9]+-\d+)?:$"
)
NEAR_RULE = _Rule(r"-{8,}|What +\||-{3,} (?:Additional )?Comment", "-- Wh")

DASHES = _Rule(r"-- ?$", "--")
RULE_LINE = _Rule(
    r"[-_=~*#]{8,}|--~--~|-~-----|-----+ ?[A-Z][^-]{3,60}-{3,}|={5,}.*={5,}", "-- -~ __ == ~~ ** ##"
)
FOOTER_WORDS = _Rule(
    r"(?i:mailing[ -]?list|unsubscribe|listinfo|p\.sf\.net|sourceforge\.net/lists|groups\.google|"
    r"yahoo.{0,12}groups|groups\.yahoo|majordomo|list archive|archives? (?:at|and|is)|listserv|"
    r"automatically generated|do you yahoo|never miss a thing|mail\.yahoo|hotmail|msn\.com|"
    r"view this thread|pipermail|mail-archive\.com|d(?:é|e)sabonn|currently subscribed|receiv(?:ed|"
    r"ing) this (?:message|mail|e-?mail)|intended only for|abmelden|afmelden|info/terms)",
    search=True,
)
BROADCAST = _Rule(r"-{5,}\((?:end of broadcast|fim da|fin de)", "--")
TIP = _Rule(
    r"TIP \d+: |http://(?:www|archives)\.postgresql\.org/(?:docs/faqs|users-lounge/docs/faq)", "TI ht"
)
DEVICE = _Rule(
    r"To unsubscribe (?:from|send|e-?mail)|You (?:have )?received this message because you are|"
    r"Sent from (?:my|Mail|a|Yahoo|Outlook)\b|Sent via |Sendt fra min|Von meinem .{1,30} gesendet|"
    r"Envoyé de mon|Enviado desde mi|Get Outlook for|Inviato da |Verzonden vanaf|Skickat från|从我的|"
    r"发自我的",
    "To Yo Se Vo En Ge In Ve Sk 从 发",
)
CUT = _Rule(r"---$", "--")
COLUMN_MARK = _Rule(r"[|]", search=True)
CONTACT = _Rule(r"https?://|www\.|\S@\S", search=True)
NAME = _Rule(r"[A-Z][\w.'-]*(?: [A-Z(][\w.')-]*){0,3}[,.]?$")
PGP = _Rule(r"-----(?:BEGIN|END) PGP ", "--")
PGP_SIGNED = _Rule(r"-----BEGIN PGP SIGNED MESSAGE-----", "--")
PGP_HASH = _Rule(r"Hash: [A-Z0-9, -]+$", "Ha")
PGP_BEGIN = _Rule(r"-----BEGIN PGP (?:SIGNATURE|PUBLIC KEY BLOCK|MESSAGE)-----", "--")
PGP_END = _Rule(r"-----END PGP (?:SIGNATURE|PUBLIC KEY BLOCK|MESSAGE)-----", "--")

HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
DIFF = _Rule(
    r"diff (?:-|a/|\w)|Index: \S+|index [0-9a-f]{4,}|--- (?:a/|/dev/null|\S+\t|\S+[./]\S* +\S)|"
    r"--- [\w./-]+/[\w.-]+$|\+\+\+ (?:b/|\S)|@@ -|@@@ |RCS file: |retrieving revision|Binary files? |"
    r"(?:new|deleted) file mode |old mode |new mode |(?:dis)?similarity index |(?:rename|copy) (?:from|to) |"
    r"GIT binary patch|\*{15}|\*\*\* [\w./-]+(?:,\d+ \*{4}|\s+(?:"
    + WEEKDAY
    + r"|\d{4}[-/]))|--- \d+,\d+ ----|"
    r"\*\*\* \d+,\d+ \*{4}|(?:create|delete) mode \d{6}|\\ No newline at end|"
    r"(?:Modified|Added|Deleted): \S+/\S+$",
    r"di In in -- ++ @@ == RC re Bi ne de ol si co GI ** cr \· Mo Ad De",
)
DIFFSTAT = _Rule(
    r"\S[^|]*\|  *(?:\d+ [+-]*|Bin(?: .*)?|\d+ \+*-*|\d+)$|\d+ files? changed|rename .*\(\d+%\)|"
    r"(?:create|delete) mode \d{6}"
)
DOUBLE_RULE = _Rule(r"={8,}$", "==")
SHORTLOG = _Rule(r"[A-Z].{1,60} \(\d+\):$")
CONTEXT_HUNK = _Rule(r"\*{15}|\*\*\* \d+(?:,\d+)? \*{4}|--- \d+(?:,\d+)? ----", "** --")
BINARY_PATCH = _Rule(r"GIT binary patch", "GI")
BINARY_LINE = _Rule(r"(?:literal|delta) \d+|[A-Za-z][!-~]{5,}$")


# What code, logs and sessions look like, by the bytes that lines of that shape begin with.
CODE_SIGNS = _Rule(
    r"#[ \t]*(?:include|define|ifdef|ifndef|endif|undef|pragma)\b|/\*|\*/|//|\} ?(?:else|while|catch|;)|"
    r"[,`]-{4}|<[/!?]?[A-Za-z][A-Za-z0-9_:.-]*(?:/?>| [^<>:@]*/?>| [A-Za-z0-9_:-]+=)|"
    r"\[[A-Za-z0-9_][A-Za-z0-9_ .:-]{0,20}\] {1,4}\S|[-=]{2,}\+[-=+]+|\+[-=]{2,}|\|.*\|$|->  ?[A-Za-z0-9_]|"
    r"\([0-9]+ rows?\)|\.\.\. [0-9]+ more|\[ *[0-9]+\.[0-9]{3,}\]|\[<[0-9a-f]+>\]|\^[ \t~]*$|"
    r"[$%] [A-Za-z0-9_]|#[0-9]+ +(?:0x|[A-Za-z0-9_]+ \()|[=\-(*'\"^!][#>] |# [A-Za-z0-9_][A-Za-z0-9_./-]* |"
    r"\[[A-Za-z0-9_]+@[A-Za-z0-9_.-]+[ :~][^ ]*\]?[$#] |[{}]$|[+-]\t|[+-] {2,}\S|[+-][#}{/*]|[+-]$",
    "# / * } , ` < [ - = + | ( . ^ $ % { \" ' !",
)
CODE_WORDS = _Rule(
    # statements, declarations, assignments, attributes, lists of files, pairs of words
    r"(?:if|for|while|switch|foreach|elif|elsif) ?\(.*[){;]|else\b ?[{:]?$|return\b[^.]*;|"
    r"(?:static|struct|const|unsigned|typedef|enum|extern|public|private|protected|virtual|inline)\b.*[;{(,)=]$|"
    r"(?:void|int|char|bool|long|float|double|size_t)[ *]+[A-Za-z0-9_]+[^.]*[;{(,)=]$|"
    r"(?:def|class) [A-Za-z0-9_]+.*:$|from [A-Za-z0-9_.]+ import |import [A-Za-z0-9_.]+;?$|"
    r"[a-z][A-Za-z0-9_]*[ \t]*\([^)]*\);?[ \t]*\{?$|[A-Za-z0-9_.>\[\]-]+[ \t]*[-+*/|&:]?=[ \t]*[^= ].*[;,]$|"
    r"[A-Za-z0-9_:.-]+=\"[^\"]*\"|(?:[A-Za-z0-9_+-]+\.(?:o|c|h|so|a|lo) ?){3,}|"
    # SQL and what a database server says
    r"(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|DROP|ALTER|EXPLAIN|ORDER BY|GROUP BY|VALUES ?\(|"
    r"WHERE|BEGIN;|COMMIT;) ?[A-Za-z0-9_*(]|QUERY PLAN|Total runtime: |"
    r"(?:select|insert into|delete from|create (?:table|index|function|unique|view)|drop table|alter table|"
    r"explain|grant) .*[;,(*]|"
    r"(?:NOTICE|ERROR|WARNING|LOG|DEBUG|FATAL|HINT|DETAIL|CONTEXT|STATEMENT|PANIC|INFO):  ?\S|"
    # stack traces, dumps, time stamps, prompts, compilers
    r"[A-Za-z0-9_.$]+(?:Error|Exception)(?::|$)|at [A-Za-z0-9_.$<>/]+\(|Caused by: |Traceback \(most|"
    r"File \".*\", line [0-9]+|(?:0x)?[0-9a-f]{4,16}:? (?:[0-9a-f]{2,8} ){3}|"
    r"[0-9]{4}-[0-9][0-9]-[0-9][0-9][ T][0-9][0-9]:[0-9][0-9]:[0-9][0-9]|"
    r"[A-Z][a-z]{2} +[0-9]+ [0-9][0-9]:[0-9][0-9]:[0-9][0-9] |[0-9][0-9]:[0-9][0-9]:[0-9][0-9][.,][0-9]|"
    r"[A-Za-z0-9_]+[=\-(*'\"^!][#>] |[A-Za-z0-9_.-]{2,12}> (?:select|insert|update|create|ls|cd|make|"
    r"SELECT|\\)|"
    r"[A-Za-z0-9_]+@[A-Za-z0-9_.-]+[ :~][^ ]*[$#] |"
    r"[A-Za-z0-9_./+-]+\.(?:c|h|cc|cpp|y|l|java|py|pl|go|rs|sh|S):[0-9]+[:,]|"
    r"make(?:\[[0-9]+\])?: |(?:gcc|cc|g\+\+|ld|ar) .*-|In file included|[bcdl-][rwxsStT-]{9}[ +.@]"
)
WORD_PAIR = _Rule(r"\S+\t\S+$")
TAIL = _Rule(
    r"(?:[\w)\]\"'}>*][ \t]*;|[){=,][ \t]*\{|\{|\}[;,]?|&&|\|\||\\|\*/)[ \t]*(?:/[*/].*)?$", search=True
)
BULLET = _Rule(r"(?:[-*+o•]|\d+[.)])[ \t]+[A-Za-z]")
PROMPT = _Rule(r"[$#%] [a-z./~][A-Za-z0-9_./-]*(?: |$)|[A-Za-z0-9_]*[=\-(*'^!][#>] ")


def message_blocks(messages: pa.Table, settings: BlockSettings) -> pa.Table:
    """The blocks of every body, ordered by message and position.

    Columns: those of `schemas.MESSAGE_BLOCKS`. The blocks of one message are contiguous, from byte
    0 to the end of its body; an empty body has none. `inferred` is true for a quote that carries no
    mark (text under an Outlook header, the rest of a line a mailer folded) and for code that is
    known by the shape of its lines only. The kinds are those of the pginbox design (seed 000,
    "Message parsing model"); positions are UTF-8 bytes, characters and lines.
    """
    parts = [_blocks(batch, settings) for batch in _batches(messages.select(["message_id", "body"]))]
    return pa.concat_tables([MESSAGE_BLOCKS.empty(), *parts]).combine_chunks()


def _batches(messages: pa.Table) -> Iterator[pa.Table]:
    """The mails in runs whose line tables stay in the processor's cache."""
    sizes = np.cumsum(pc.binary_length(messages["body"]).to_numpy())
    start = 0
    while start < len(messages):
        done = sizes[start - 1] if start else 0
        stop = max(int(np.searchsorted(sizes, done + BATCH_BYTES)), start + 1)
        yield messages.slice(start, stop - start)
        start = stop


def _blocks(messages: pa.Table, settings: BlockSettings) -> pa.Table:
    """The blocks of one batch."""
    body = messages["body"].cast(pa.large_string()).combine_chunks()
    offsets = np.frombuffer(body.buffers()[1], dtype=np.int64)[body.offset : body.offset + len(body) + 1]
    if offsets[0] == offsets[-1]:
        return MESSAGE_BLOCKS.empty()
    lines = _Classifier(body.buffers()[2][offsets[0] : offsets[-1]], offsets - offsets[0], settings)
    lines.classify()
    return _run_length(lines, messages["message_id"])


def _run_length(lines: _Classifier, ids: pa.ChunkedArray) -> pa.Table:
    """Equal neighbours of classified lines as blocks with their positions."""
    changed = lines.first.copy()
    for column in (lines.kind, lines.depth, lines.inferred):
        changed[1:] |= column[1:] != column[:-1]
    rows = np.flatnonzero(changed)
    ends = np.append(rows[1:], lines.n)
    opening = lines.message_start[rows]
    m, kind = lines.m[rows], lines.kind[rows]
    index = np.arange(len(rows))
    byte0 = lines.starts[opening]
    stop = np.append(lines.starts[rows[1:]], len(lines.data))
    continued = np.flatnonzero(lines.data.view(np.int8) < -64)
    chars = np.diff(np.searchsorted(continued, np.append(lines.starts[rows], len(lines.data))))
    chars = stop - lines.starts[rows] - chars
    table = pa.table(
        {
            "message_id": ids.take(pa.array(m)),
            "block_index": index - np.maximum.accumulate(np.where(lines.first[rows], index, 0)),
            "kind": pa.DictionaryArray.from_arrays(pa.array(kind), pa.array(KINDS)).cast(pa.string()),
            "quote_depth": lines.depth[rows].astype(np.int64),
            "char_length": chars,
            "line_count": ends - rows,
            "start_line": rows - opening,
            "end_line": ends - opening,
            "byte_start": lines.starts[rows] - byte0,
            "byte_end": stop - byte0,
            "inferred": lines.inferred[rows],
        }
    )
    return MESSAGE_BLOCKS.conform(table)


def _next_true(mask: Mask) -> Rows:
    """For each row, the first row at or after it where `mask` holds; the length if none."""
    n = len(mask)
    found = np.where(mask, np.arange(n, dtype=np.int64), n)
    following: Rows = np.minimum.accumulate(found[::-1])[::-1]
    return following


def _last_true(mask: Mask) -> Rows:
    """For each row, the last row at or before it where `mask` holds; -1 if none."""
    found = np.where(mask, np.arange(len(mask), dtype=np.int64), -1)
    latest: Rows = np.maximum.accumulate(found)
    return latest


def _counted(mask: Mask) -> Rows:
    """How often `mask` holds before each row; one entry more than rows."""
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(mask)))


def _covered(starts: Rows, ends: Rows, n: int) -> Mask:
    """Rows inside one of the half-open intervals."""
    change = np.zeros(n + 1, dtype=np.int64)
    np.add.at(change, starts, 1)
    np.add.at(change, np.maximum(starts, ends), -1)
    covered: Mask = np.cumsum(change)[:n] > 0
    return covered


class _Lines:
    """The lines of a batch of bodies as positions in one buffer, and what their first bytes tell."""

    def __init__(self, buffer: pa.Buffer, edges: Rows) -> None:
        self.buffer = memoryview(buffer)
        self.data = data = np.frombuffer(buffer, dtype=np.uint8)
        newline = np.flatnonzero(data == 10) + 1
        bounds = np.sort(np.concatenate((edges, newline)), kind="stable")
        bounds = bounds[np.concatenate((bounds[1:] != bounds[:-1], [True]))]
        self.starts, self.ends = bounds[:-1], bounds[1:]
        self.n = n = len(self.starts)
        bodies = np.flatnonzero(edges[1:] > edges[:-1])
        opening = np.searchsorted(self.starts, edges[bodies])
        counts = np.diff(np.append(opening, n))
        self.m = np.repeat(bodies, counts)
        self.message_start = np.repeat(opening, counts)
        self.message_end = np.repeat(opening + counts, counts)
        self.first = np.zeros(n, dtype=bool)
        self.first[opening] = True
        self.stops = self._trimmed_end()
        self.heads = self._first_visible()
        self.blank = self.heads >= self.stops
        padded = np.concatenate((data, np.zeros(2, dtype=np.uint8)))
        self.byte = padded[self.heads]
        self.byte[self.blank] = 0
        self.blank |= self._unicode_blank()
        second = padded[self.heads + 1]
        self.pair = self.byte.astype(np.uint16) << 8 | second
        self.indent = self.heads - self.starts
        self.last = data[np.maximum(self.stops - 1, 0)]

    def _trimmed_end(self) -> Rows:
        """Where the visible part of each line ends."""
        stops = self.ends.copy()
        rows = np.flatnonzero(SPACE[self.data[stops - 1]])
        for _ in range(VECTOR_STEPS):
            stops[rows] -= 1
            rows = rows[stops[rows] > self.starts[rows]]
            rows = rows[SPACE[self.data[stops[rows] - 1]]]
            if not len(rows):
                return stops
        for row in rows.tolist():
            start = int(self.starts[row])
            stops[row] = start + len(bytes(self.buffer[start : int(stops[row])]).rstrip())
        return stops

    def _first_visible(self) -> Rows:
        """Where the visible part of each line begins; its end where there is none."""
        heads = self.starts.copy()
        rows = np.flatnonzero(SPACE[self.data[heads]] & (heads < self.stops))
        for _ in range(VECTOR_STEPS):
            heads[rows] += 1
            rows = rows[SPACE[self.data[heads[rows]]]]
            if not len(rows):
                return heads
        for row in rows.tolist():
            text = bytes(self.buffer[int(heads[row]) : int(self.stops[row])])
            heads[row] += len(text) - len(text.lstrip())
        return heads

    def _unicode_blank(self) -> Mask:
        """Lines of blanks that are not ASCII."""
        out = np.zeros(self.n, dtype=bool)
        for row in np.flatnonzero((self.byte == 0xC2) | ((self.byte >= 0xE1) & (self.byte <= 0xE3))).tolist():
            out[row] = bool(UNICODE_BLANK.fullmatch(self.buffer, int(self.heads[row]), int(self.stops[row])))
        return out

    def matches(self, rule: _Rule, among: Mask, tail: bool = False) -> Mask:
        """Rows of those `among` whose head, or tail, matches."""
        out = np.zeros(self.n, dtype=bool)
        rows = np.flatnonzero(among)
        if rule.table is not None:
            rows = rows[rule.table[self.pair[rows]]]
        if not len(rows):
            return out
        heads, stops = self.heads[rows], self.stops[rows]
        if tail:
            heads = np.maximum(heads, stops - READ_BYTES)
        else:
            stops = np.minimum(stops, heads + READ_BYTES)
        found = map(rule.find, repeat(self.buffer), heads.tolist(), stops.tolist())
        out[rows] = np.fromiter(map(bool, found), dtype=bool, count=len(rows))
        return out

    def shifted(self, mask: Mask, by: int) -> Mask:
        """`mask` moved down by `by` rows (up if negative) within each mail, false where nothing comes in."""
        out = np.zeros_like(mask)
        if abs(by) >= self.n:
            return out
        to, source = (slice(by, None), slice(None, -by)) if by > 0 else (slice(None, by), slice(-by, None))
        out[to] = mask[source] & (self.m[source] == self.m[to])
        return out


class _Classifier(_Lines):
    """Kinds, depths and the inferred mark of the lines of one batch.

    Every step reads the marks and writes `kind`, `depth` and `inferred` for rows that are still
    author text; what is settled earlier wins.
    """

    def __init__(self, buffer: pa.Buffer, edges: Rows, settings: BlockSettings) -> None:
        super().__init__(buffer, edges)
        self.settings = settings
        self.kind = np.where(self.blank, np.int8(BLANK), np.int8(AUTHOR))
        self.depth = np.zeros(self.n, dtype=np.int32)
        self.inferred = np.zeros(self.n, dtype=bool)

    def classify(self) -> None:
        """Settles the kind, quote depth and inferred mark of every row."""
        self._quotes()
        self._diffs()
        self._initials()
        self._read_words()
        self._headers()
        self._signatures()
        if self.settings.unmarked_history:
            self._unmarked_quotes()
        self._code()

    def _author(self) -> Mask:
        return self.kind == AUTHOR

    def _set(self, rows: Mask, kind: int, inferred: bool = False) -> None:
        self.kind[rows] = kind
        if inferred:
            self.inferred[rows] = True

    def _quotes(self) -> None:
        """Lines with quote marks, and their depth."""
        marked = (self.byte == ord(">")) & (self.indent <= 8)
        self.supercite_header = self.matches(SUPERCITE_HEADER, marked & (self.last == ord(":")))
        marked &= ~self.supercite_header
        marked &= ~self.matches(CLOSED_TAG, marked)
        near = self.shifted(marked, 1) | self.shifted(marked, -1)
        marked &= ~(self.matches(FROM_LINE, marked) & ~near)
        marked &= ~self.matches(GNATS, marked & (LETTER[self.pair & 255]))
        self.python = self._python_sessions(marked)
        marked &= ~self.python
        self.kind[marked] = QUOTE
        self._depths(np.flatnonzero(marked))
        self._folded_quotes()

    def _python_sessions(self, marked: Mask) -> Mask:
        """Statements behind `>>> ` in mails that quote nothing else."""
        third = self.data[np.minimum(self.heads + 3, len(self.data) - 1)]
        python = self.matches(PYTHON_PROMPT, marked & (third == 32))
        if python.any():
            plain = _counted(marked & (self.pair != ord(">") * 257))
            python &= plain[self.message_end] == plain[self.message_start]
        return python

    def _depths(self, rows: Rows) -> None:
        """Counts the marks of quoted lines; up to three blanks stand between two marks."""
        at, stops = self.heads[rows], self.stops[rows]
        gap = np.zeros(len(rows), dtype=np.int8)
        for _ in range(VECTOR_STEPS):
            byte = self.data[at]
            mark = byte == ord(">")
            self.depth[rows[mark]] += 1
            gap = np.where(mark, 0, gap + 1)
            at = at + 1
            going = (mark | (((byte == 32) | (byte == 9)) & (gap <= 3))) & (at < stops)
            rows, at, stops, gap = rows[going], at[going], stops[going], gap[going]
            if not len(rows):
                return
        for row in rows.tolist():
            found = QUOTE_MARKS.match(self.buffer, int(self.heads[row]), int(self.stops[row]))
            self.depth[row] = found.group().count(b">") if found else 1

    def _folded_quotes(self) -> None:
        """What a mailer folded: unmarked lines right between two quote lines of one depth.

        Either a paragraph that goes on in lower case where a long quote line stops inside its
        sentence, or one short line below a long one.
        """
        author, quote = self._author(), self.kind == QUOTE
        size = self.stops - self.starts
        inside = self.shifted(quote & (size >= 60) & ~SENTENCE_END[self.last], 1)
        heads = inside & (self.byte >= ord("a")) & (self.byte <= ord("z"))
        heads |= (
            self.shifted(quote & (size >= 65), 1) & (size <= 24) & FOLDED[self.byte] & self.shifted(quote, -1)
        )
        rows = np.flatnonzero(heads & author)
        stops = np.minimum(_next_true(~author)[rows], self.n - 1)
        kept = quote[stops] & (self.depth[stops] == self.depth[rows - 1]) & (stops - rows <= MAX_FOLDED_LINES)
        kept &= stops < self.message_end[rows]
        self.kind[_covered(rows[kept], stops[kept], self.n)] = QUOTE
        for row, stop in zip(rows[kept].tolist(), stops[kept].tolist(), strict=True):
            self.depth[row:stop] = self.depth[row - 1]
            self.inferred[row:stop] = True

    def _initials(self) -> None:
        """Quotes marked with initials (`XY> text`), when a mail has two of the same or names their owner."""
        maybe = self._author() & LETTER[self.byte] & (self.indent <= 1)
        rows = np.flatnonzero(maybe)
        near = np.minimum(self.heads[rows, None] + np.arange(1, 5), len(self.data) - 1)
        names: dict[tuple[int, bytes], list[int]] = {}
        for row in rows[(self.data[near] == ord(">")).any(axis=1)].tolist():
            found = INITIALS.match(self.buffer, int(self.heads[row]), int(self.stops[row]))
            if found and found[1] not in PROMPT_NAMES:
                names.setdefault((int(self.m[row]), found[1]), []).append(row)
        named = set(self.m[self.supercite_header].tolist())
        for (mail, _), found_rows in names.items():
            if len(found_rows) >= 2 or mail in named:
                self.kind[found_rows] = QUOTE
                self.depth[found_rows] = 1

    def _diffs(self) -> None:
        """Unified hunks by their counts, context diffs, and the lines that frame them."""
        author = self._author()
        diff = self.matches(DIFF, author & (self.indent <= 1))
        diff |= self.matches(DIFFSTAT, author & (self.indent == 1) & STAT_END[self.last])
        beside = self.shifted(diff, 1) | self.shifted(diff, -1) | self.shifted(diff, 2)
        diff |= self.matches(DOUBLE_RULE, author & beside)
        self.diff = diff | self._hunk_bodies(diff & (self.pair == ord("@") * 257))
        self._context_hunks(diff, author)
        cut = self.matches(CUT, author)
        for step in (1, 2):
            self.diff |= cut & self.shifted(diff, -step)
        self._binary_patches()
        self.diff &= ~self.blank | self.diff[self._next_kept()]
        self.kind[self.diff & (author | self.blank)] = CODE

    def _context_hunks(self, diff: Mask, author: Mask) -> None:
        """Rows of context diffs: what follows their rules and line numbers and carries their marks."""
        context = self.matches(CONTEXT_HUNK, diff)
        if not context.any():
            return
        second = self.data[np.minimum(self.starts + 1, len(self.data) - 1)]
        body = author & CONTEXT_MARK[self.data[self.starts]] & SPACE[second] | self.blank
        stop = ~(body | context)
        stop |= self.first
        rows = np.flatnonzero(context)
        following = np.minimum(rows + 1, self.n - 1)
        self.diff |= _covered(rows, np.minimum(_next_true(stop)[following], self.message_end[rows]), self.n)

    def _hunk_bodies(self, hunk: Mask) -> Mask:
        """Rows of unified hunks, by the line counts in their headers."""
        heads: list[int] = []
        old: list[int] = []
        new: list[int] = []
        for row in np.flatnonzero(hunk & (self.indent == 0)).tolist():
            found = HUNK.match(self.buffer, int(self.heads[row]), int(self.stops[row]))
            if found:
                heads.append(row)
                old.append(min(int(found[1] or 1), self.n))
                new.append(min(int(found[2] or 1), self.n))
        if not heads:
            return hunk
        rows = np.array(heads)
        byte = self.data[self.starts]
        minus, plus, note = byte == ord("-"), byte == ord("+"), byte == ord("\\")
        plain = (byte == 32) | (byte == 9) | self.blank
        olds = np.cumsum(plain | minus)
        news = np.cumsum(plain | plus)
        stop = _next_true(~(plain | minus | plus | note))
        first = np.minimum(rows + 1, self.n - 1)
        last = np.maximum(np.searchsorted(olds, olds[rows] + old), np.searchsorted(news, news[rows] + new))
        ends = np.minimum(np.minimum(last + 1, stop[first]), self.message_end[rows])
        return _covered(rows, np.maximum(ends, rows + 1), self.n)

    def _binary_patches(self) -> None:
        """The base-85 lines of a GIT binary patch."""
        heads = self.matches(BINARY_PATCH, self.diff)
        if not heads.any():
            return
        rows = np.flatnonzero(heads)
        body = self.matches(BINARY_LINE, self._author()) | self.blank
        following = np.minimum(rows + 1, self.n - 1)
        stop = np.minimum(_next_true(~body)[following], self.message_end[rows])
        self.diff |= _covered(rows, stop, self.n)

    def _next_kept(self) -> Rows:
        """For each row, the next row of the same message that is not blank; its own row if none."""
        following = np.append(_next_true(~self.blank), self.n)[1:]
        return np.where(following < self.message_end, following, np.arange(self.n))

    def _headers(self) -> None:
        """Reply headers that stand before a quote, Outlook's and git's header blocks."""
        author = self._author()
        quote = self.kind == QUOTE
        before_quote = quote[self._next_kept()] & ~quote
        colon = author & ((self.last == ord(":")) | (self.last == 0x9A))
        verb = self.matches(VERB, colon, tail=True)
        end = before_quote & (verb | self.matches(ATTRIBUTION, colon & before_quote))
        start = self._attribution_starts(end | verb)
        self.attribution = verb & (start | self.shifted(start, 1) | self.shifted(start, 2))
        header = self._with_folded_start(end | self.attribution, start)
        header |= self.matches(DATED_START, author & self.shifted(quote, -1))
        header |= self.matches(TRACKER, (colon | (self.pair == ord("-") * 257)) & author & self._near_rule())
        self.outlook, fields = self._field_blocks(author)
        self._set((header & author) | (self.supercite_header & ~quote), HEADER)
        self._set(fields, HEADER)

    def _attribution_starts(self, end: Mask) -> Mask:
        """Where attributions begin, among the ends of attributions and the two lines above each."""
        near = end | self.shifted(end, -1) | self.shifted(end, -2)
        return self.matches(ATTRIBUTION_START, near & self._author())

    def _with_folded_start(self, end: Mask, start: Mask) -> Mask:
        """Header ends together with the one or two lines above that they continue."""
        author = self._author()
        one = self.shifted(end & ~start, -1) & author
        two = self.shifted(one & ~start, -1) & author & start
        one &= start | self.shifted(two, 1)
        return end | one | two

    def _near_rule(self) -> Mask:
        """Rows above a rule or a table of changes, and rows that look like one comment's heading."""
        rule = self.matches(NEAR_RULE, self._author())
        return rule | self.shifted(rule, -1) | self.shifted(rule, -2)

    def _field_blocks(self, author: Mask) -> tuple[Mask, Mask]:
        """Rows of header fields that open an unmarked quote, and all rows of such blocks."""
        none = np.zeros(self.n, dtype=bool)
        original = self.matches(ORIGINAL, author)
        sender = self.matches(FIELD_FROM, author)
        git = self.matches(GIT_FROM, author)
        if not (original | sender | git).any():
            return none, none
        mails = np.unique(self.message_start[original | sender | git])
        author = author & np.isin(self.message_start, mails)
        field = self.matches(FIELD, author)
        run = field | original | git
        continued = author & (self.indent > 0) & self.shifted(field, 1)
        above = self.shifted(field, 1) | self.shifted(field, 2)
        below = self.shifted(field, -1) | self.shifted(field, -2)
        run |= continued | (above & below & author)
        starts = run & (~self.shifted(run, 1) | self.first)
        ends = _next_true(~run | (self.first & ~starts))
        rows = np.flatnonzero(starts)
        stop = np.minimum(ends[rows], self.message_end[rows])
        total = _counted(field)
        fields = total[stop] - total[rows]
        origin = original[rows] | original[np.maximum(rows - 1, 0)]
        top = _last_true(~self.blank & self.first)[rows] == rows
        addressed = _counted(self.matches(FIELD_TO, field))
        outlook = original[rows] | (sender[rows] & (fields >= 3) & (addressed[stop] > addressed[rows]))
        kept = outlook | git[rows] | (sender[rows] & top & (fields <= 3)) | (origin & (fields >= 1))
        none[rows[outlook & ~top]] = True
        return none, _covered(rows[kept], stop[kept], self.n) & author

    def _signatures(self) -> None:
        """Signatures and footers, from their mark to the next quote, header, diff or end of the mail."""
        author = self._author()
        filled = _counted(~self.blank)
        section = (self.kind == QUOTE) | (self.kind == HEADER) | (self.diff & ~self.blank) | self.first
        ends = self._behind(section & ~self._mottos(author, filled))
        left = filled[ends] - filled[np.arange(1, self.n + 1)]
        dashes = self.matches(DASHES, author)
        rules = self._rules(author & ~self.matches(PGP, author))
        footer, reach = self._footers(author, dashes | rules | self.matches(CUT, author), ends, left)
        footer |= self._closing(author, rules, ends, left) | self.matches(BROADCAST, author)
        next_footer = np.minimum(self._behind(footer), ends)
        own = filled[next_footer] - filled[np.arange(1, self.n + 1)]
        dashes &= own <= self.settings.max_signature_lines
        dashes &= (next_footer == ends) | footer[np.minimum(next_footer, self.n - 1)]
        marks = np.flatnonzero((dashes | footer) & ~self.first)
        signature = _covered(marks, np.where(dashes, ends, reach)[marks], self.n)
        signature |= self.matches(DEVICE, author) | self.matches(TIP, author) | self._pgp(author)
        signature |= self._last_paragraphs(author & ~signature, ~self.blank & ~(author & signature))
        signature &= author | self.blank | (self.kind == QUOTE)
        self._set(signature, SIGNATURE)
        self.depth[signature] = 0
        self._trim_blank_end(SIGNATURE)

    def _behind(self, mask: Mask) -> Rows:
        """For each row, the next row behind it where `mask` holds, at most the end of its mail."""
        return np.minimum(np.append(_next_true(mask), self.n)[1:], self.message_end)

    def _rules(self, author: Mask) -> Mask:
        """Lines drawn with signs, but not those of tables."""
        rule = self.matches(RULE_LINE, author)
        table = self.matches(COLUMN_MARK, author & (self.shifted(rule, 1) | self.shifted(rule, -1)))
        return rule & ~(self.shifted(table, 1) | self.shifted(table, -1))

    def _footers(self, author: Mask, marks: Mask, ends: Rows, left: Rows) -> tuple[Mask, Rows]:
        """Marks with words of list footers below them, and where each ends.

        A footer in the middle of a long text ends with the paragraph of those words.
        """
        here = np.arange(self.n)
        rows = np.flatnonzero(marks)
        near = _covered(rows, np.minimum(ends[rows], rows + FOOTER_WORD_LINES + 1), self.n)
        word = self._behind(self.matches(FOOTER_WORDS, author & near))
        footer = marks & (word <= here + FOOTER_WORD_LINES) & (word < ends)
        paragraph_end = np.append(_next_true(~author), self.n)[np.minimum(word, self.n)]
        return footer, np.where(left <= FOOTER_LINES, ends, np.minimum(paragraph_end, ends))

    def _closing(self, author: Mask, rules: Mask, ends: Rows, left: Rows) -> Mask:
        """Rules with a few lines below that end a mail or stand above its quotes; no underlined title."""
        size = self.stops - self.heads
        above = np.append(0, size[:-1])
        title = (np.abs(above - size) <= 3) & self.shifted(author, 1)
        most = np.where(ends == self.message_end, CLOSING_LINES, CLOSING_LINES_ABOVE_QUOTE)
        return rules & self.shifted(author, -1) & (left >= 1) & (left <= most) & ~title

    def _last_paragraphs(self, author: Mask, text: Mask) -> Mask:
        """Last paragraphs that are a list footer, or a name and how to reach its owner."""
        last = author & (self._behind(text) >= self.message_end)
        opening = author & ~self.shifted(author, 1)
        lasts = np.flatnonzero(last)
        starts = _last_true(opening)[lasts]
        short = lasts - starts < 6
        starts, stops = starts[short], lasts[short] + 1
        if not len(starts):
            return np.zeros_like(last)
        paragraph = _covered(starts, stops, self.n)
        contact = _counted(self.matches(CONTACT, paragraph & (self.symbols > 0)))
        known = contact[stops] > contact[starts]
        starts, stops = starts[known], stops[known]
        paragraph = _covered(starts, stops, self.n)
        words = _counted(self.matches(FOOTER_WORDS, paragraph))
        prose = _counted(paragraph & (self.gaps > 4))
        named = self.matches(NAME, paragraph & opening)[starts]
        named &= (prose[stops] == prose[starts]) & (stops - starts > 1)
        named &= starts > self.message_start[starts]
        kept = (words[stops] > words[starts]) | named
        return _covered(starts[kept], stops[kept], self.n)

    def _mottos(self, author: Mask, filled: Rows) -> Mask:
        """Quotes that stand inside a short signature, with no blank line above: a motto, not a reply."""
        following = np.append(np.arange(1, self.n), self.n - 1)
        header = _next_true((self.kind == HEADER) | self.matches(BROADCAST, author))
        ends = np.minimum(np.append(header, self.n)[1:], self.message_end)
        size = filled[ends] - filled[following]
        blank_behind = self.data[np.minimum(self.stops, len(self.data) - 1)] == 32
        marks = self.matches(DASHES, author & (self.indent == 0) & blank_behind)
        marks &= size <= self.settings.max_signature_lines
        rows = np.flatnonzero(marks)
        quote = self.kind == QUOTE
        first_quote = np.minimum(np.append(_next_true(quote), self.n)[1:], self.n - 1)[rows]
        kept = ~self.blank[first_quote - 1] & (first_quote < ends[rows])
        return quote & _covered(rows[kept], ends[rows][kept], self.n)

    def _trim_blank_end(self, kind: int) -> None:
        """Blank lines behind the last line of a run of `kind` are blank again, unless the mail ends there."""
        following = self._next_kept()
        ends = self.blank & (self.kind == kind) & (self.kind[following] != kind)
        self.kind[ends] = BLANK

    def _pgp(self, author: Mask) -> Mask:
        """PGP armour."""
        armour = self.matches(PGP, author)
        begin = np.flatnonzero(self.matches(PGP_BEGIN, armour))
        signed = self.matches(PGP_SIGNED, armour)
        signed |= self.matches(PGP_HASH, author & self.shifted(signed, 1))
        if not len(begin):
            return signed
        end = np.minimum(_next_true(self.matches(PGP_END, armour))[begin] + 1, self.message_end[begin])
        return signed | _covered(begin, end, self.n)

    def _unmarked_quotes(self) -> None:
        """Text below an Outlook header, or below an attribution at the end of a mail that marks no quotes."""
        author = self._author()
        quote = self.kind == QUOTE
        next_quote = _next_true(quote)
        above = _counted(author)
        rows = np.arange(self.n)
        quoteless = np.minimum(next_quote, _next_true(self.diff)) >= self.message_end
        late = self.attribution & author & quoteless & (above[rows] - above[self.message_start] >= 2)
        last_field = self.outlook & ~quote[self._next_kept()]
        opening = np.flatnonzero(late | (last_field & quoteless))
        if not len(opening):
            return
        start = self._attribution_starts(late)
        self._set(self._with_folded_start(late, start) & author, HEADER)
        text = _covered(opening, self.message_end[opening], self.n)
        text &= (self.kind == AUTHOR) | (self.kind == CODE)
        self._set(text, QUOTE, inferred=True)
        self.depth[text] = 1

    def _read_words(self) -> None:
        """Counts for lines that are still text: signs and digits, gaps between words, and columns."""
        author = self._author()
        sizes = self.ends - self.starts
        text = self.data[np.repeat(author, sizes)]
        starts = np.cumsum(sizes[author]) - sizes[author]
        self.symbols, self.gaps, self.columns = (np.zeros(self.n, dtype=np.int32) for _ in range(3))
        if not len(starts):
            return
        self.symbols[author] = np.add.reduceat(SYMBOL[text], starts, dtype=np.int32)
        space = text == 32
        letter = LETTER[text]
        gap = np.zeros(len(text), dtype=bool)
        gap[1:-1] = space[1:-1] & WORD_END[text[:-2]] & letter[2:]
        gap[starts] = False
        gap[starts - 1] = False
        self.gaps[author] = np.add.reduceat(gap, starts, dtype=np.int32)
        column = text == 9
        column[2:] |= space[2:] & space[1:-1] & space[:-2]
        column[1:] = column[:-1] & ~SPACE[text[1:]]
        column[starts + self.indent[author]] = False
        self.columns[author] = np.add.reduceat(column, starts, dtype=np.int32)

    def _shaped(self, author: Mask) -> Mask:
        """Rows that look like code, a log, a session or a table by themselves."""
        rich = author & (self.symbols > 0)
        shaped = self.python | self.matches(CODE_SIGNS, author)
        worded = (self.gaps >= 4) & (self.gaps > 2 * self.symbols)
        shaped |= self.matches(CODE_WORDS, rich & ~worded & ~shaped)
        shaped |= self.matches(WORD_PAIR, author & (self.columns > 0) & ~shaped)
        ended = self.matches(TAIL, author & CODE_END[self.last] & ~shaped, tail=True)
        shaped |= ended & ~self.matches(BULLET, ended)
        table = author & (self.columns >= 2)
        shaped |= table & (self.shifted(table, 1) | self.shifted(table, -1))
        indented = author & (self.indent >= 2)
        names = self.matches(SHORTLOG, author & (self.last == ord(":")) & self.shifted(indented, -1))
        rows = np.flatnonzero(names)
        stops = np.minimum(_next_true(~(indented | names))[rows], self.message_end[rows])
        shaped |= _covered(rows, stops, self.n)
        prompts = self.matches(PROMPT, rich & ((self.symbols >= 2) | PROMPT_SIGN[self.byte]))
        prompt = _last_true(prompts)
        session = (prompt >= 0) & (prompt > _last_true(~author | self.first & ~prompts))
        return (shaped | (session & ~self.prose)) & author

    def _dense_paragraphs(self, shaped: Mask, author: Mask) -> Mask:
        """Unworded lines of paragraphs that mostly look like code or have more signs than gaps."""
        opening = author & ~self.shifted(author, 1)
        run = np.cumsum(opening)[author] - 1
        if not len(run):
            return shaped
        size = np.bincount(run)
        strong = np.bincount(run, shaped[author])
        dense = np.bincount(run, (shaped | self.dense)[author])
        full = (strong >= self.settings.min_code_lines) & (dense >= MOSTLY * size)
        out = np.zeros_like(author)
        out[author] = full[run]
        return out & ~self.prose

    def _code(self) -> None:
        """Runs of lines that look like code, bridged over blank, indented and unworded lines."""
        author = self._author()
        self.prose = (self.gaps >= PROSE_GAPS) & (self.gaps > self.symbols)
        self.dense = author & (self.symbols >= 2) & (self.symbols > self.gaps)
        shaped = self._shaped(author)
        code = shaped | self._dense_paragraphs(shaped, author) | (self.kind == CODE)
        neutral = self._bridges(author & ~code, code) | self.blank
        breaker = ~(code | neutral) | self.first
        last_code, next_code = _last_true(code), _next_true(code)
        group, stop = _last_true(breaker), self._group_end(breaker)
        inside = (last_code >= group) & (last_code >= 0) & (next_code < stop)
        count = _counted(code)
        enough = count[stop] - count[np.maximum(group, 0)] >= self.settings.min_code_lines
        kept = inside & (neutral | code) & (enough | (self.kind == CODE))
        weak = kept & (author | (self.blank & ~self.diff))
        self.kind[kept & (author | self.blank)] = CODE
        self.inferred[weak] = True
        self.inferred[(self.kind == CODE) & self.diff] = False
        self._reports()
        self._one_mark_per_run()

    def _bridges(self, plain: Mask, code: Mask) -> Mask:
        """Lines that belong to the code around them: one or two between code, indented, dense or labels."""
        before, after = self.shifted(code, 1), self.shifted(code, -1)
        first = plain & before & self.shifted(code, 2)
        pair = first & self.shifted(plain & after & self.shifted(code, -2), -1)
        bridge = plain & before & after | pair | self.shifted(pair, 1)
        bridge |= plain & (self.indent >= 2)
        bridge |= self.dense & plain & ~self.prose
        return bridge | plain & (self.last == ord(":")) & (self.gaps <= 1)

    def _reports(self) -> None:
        """A mail that is nearly all log and has no line of prose was written by a machine."""
        mails = np.flatnonzero(self.first)
        author = self.kind == AUTHOR
        log = np.add.reduceat((self.kind == CODE) & ~self.blank & ~self.diff, mails, dtype=np.int64)
        text = np.add.reduceat(author, mails, dtype=np.int64)
        human = np.logical_or.reduceat(author & (self.gaps >= REPORT_PROSE_GAPS) | self.diff, mails)
        report = (log >= REPORT_LINES) & (log >= 9 * text) & ~human
        self._set(np.repeat(report, np.diff(np.append(mails, self.n))) & author, CODE, inferred=True)

    def _group_end(self, breaker: Mask) -> Rows:
        """For each row, the next breaking row behind it."""
        return np.minimum(np.append(_next_true(breaker), self.n)[1:], self.n)

    def _one_mark_per_run(self) -> None:
        """A run of code is inferred only if no line in it is marked."""
        code = self.kind == CODE
        opening = code & (~self.shifted(code, 1) | self.first)
        run = np.cumsum(opening)
        marked = np.zeros(int(run[-1]) + 1, dtype=bool)
        marked[run[code & ~self.inferred]] = True
        self.inferred[code & marked[run]] = False
