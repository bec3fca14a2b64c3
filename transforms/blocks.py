"""Blocks: the ordered runs of lines of one kind that a mail's body consists of.

A body becomes a table of lines, each line gets marks from anchored regular expressions over
whole columns, positions (which header stands before which quote, how far a hunk or a signature
reaches) are settled with array arithmetic, and equal neighbours are run-length encoded. No step
looks at a line more than a fixed number of times, so the cost is linear in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from transforms.schemas import MESSAGE_BLOCKS
from transforms.settings import BlockSettings

VERSION = "1"

Mask: TypeAlias = npt.NDArray[np.bool_]
Rows: TypeAlias = npt.NDArray[np.int64]

KINDS = ("author", "blank", "header", "patch_or_code", "quote", "signature")
AUTHOR, BLANK, HEADER, CODE, QUOTE, SIGNATURE = range(6)

# The head of a line is all that the anchored expressions read; a body of one line stays cheap.
HEAD_CHARS = 400
BATCH_BYTES = 4 << 20

QUOTE_MARK = r"^[ \t]{0,8}>"
QUOTE_PREFIX = r"^[ \t]*((?:>[ \t]{0,3})+)"
SUPERCITE = r"^ ?([A-Z][A-Za-z]{0,3}|[a-z]{2,3})>+(?:[ \t]|$)"
GNATS = (
    r"^>(?:Submitter-Id|Originator|Organization|Confidential|Synopsis|Severity|Priority|Category|Class|"
    r"Release|"
    r"Environment|Description|How-To-Repeat|Fix|Number|Responsible|State|Arrival-Date|Closed-Date|"
    r"Last-Modified|Release-Note|Audit-Trail|Unformatted|Quarter|Keywords|Date-Required):"
)
PROMPT_NAMES = ["SQL", "sql", "ftp", "gdb", "db", "cmd", "psql", "sh", "SQL2", "jdb", "irb"]
PYTHON_PROMPT = (
    r"^>>> (?:import |from [\w.]+ import|print\b|[\w.\[\]]+ ?= ?|[\w.]+\(.*\)\s*$|for .*:|def |class |with )"
)

WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
VERB = (
    r"(?i)(?:\b(?:wrote|writes|wrtoe|schrieb(?:en)?|schreibt|a [ée]crit|escribi[óo]|ha scritto|scrisse|"
    r"escreveu|"
    r"schreef|schreven|napisa[łl]\(?a?\)?|пишет|писал\(?а?\)?|написал\(?а?\)?|skrev|napsal\(?a?\)?|kirjoitti|"
    r"rašė|yazdı|írta)\b|>wrote|の発言|は書きました|さん wrote|写道)[^:：]{0,90}[:：][ \t\r]*$"
)
ATTRIBUTION = (
    r"^(?:\* .{1,100}[>\])]?:[ \t\r]*$|\d{4}[/-]\d+[/-]\d+.{0,40}<.*>:[ \t\r]*$|(?i:quoting |citando |"
    r"zitat von ).*:[ \t\r]*$|"
    r"\d{4}[./-]\d+[./-]\d+ .{0,120}:[ \t\r]*$|[^:]{1,80}<[^<> ]+@[^<> ]+>:[ \t\r]*$|"
    r"\.\.\. .{0,80}:[ \t\r]*$)"
)
ATTRIBUTION_START = (
    r"^[ \t]*(?:On|Am|Le|El|Il|Op|Em|Dne|Dnia|W dniu|Den|At|In|At|Em|Na|Den|Begin|Quoting|В|Пн|Вт|Ср|Чт|"
    r"Пт|Сб|Вс|"
    r"Mon|Tue|Wed|Thu|Fri|Sat|Sun|\*|--- In|\d{1,4}[./年-]\d)[^\n]*[\d<@]"
)
DATED_START = r"^[ \t]*On " + WEEKDAY + r"[a-z]*\b"
SUPERCITE_HEADER = r'^>{3,} ?"?[^>"]{1,60}"?.{0,10} (?:==|writes|wrote).*:'
ORIGINAL = (
    r"(?i)^[ \t]*(?:[-_]{2,}[ \t]*(?:original message|original-nachricht|urspr.ngliche nachricht|"
    r"message d'origine|message original|mensaje original|messaggio originale|mensagem original|"
    r"oorspronkelijk bericht|oprindelig meddelelse|ursprungligt meddelande|исходное сообщение|"
    r"пересылаемое сообщение|original appointment|forwarded message|begin forwarded|reply message|"
    r"weitergeleitete nachricht|forwarded by|邮件原件|原始邮件|原邮件)|begin forwarded message:)"
)
FIELD = (
    r"^[ \t>*]{0,8}(?:From|Sent|Sent by|To|Cc|CC|cc|Bcc|Subject|Date|Reply-To|Newsgroups|Von|Gesendet|An|"
    r"Betreff|Datum|"
    r"De|Envoyé|À|Objet|Enviado|Para|Asunto|Fecha|Data|Da|Inviato|Oggetto|Assunto|Van|Verzonden|Aan|"
    r"Onderwerp|"
    r"Från|Skickat|Till|Ämne|Fra|Sendt|Til|Emne|От|Кому|Тема|Дата|Отправлено|发件人|发送时间|收件人|抄送|主题|差出人|"
    r"送信日時|宛先|件名|Importance|Organization|Message-I[dD]|Attachments?)[*]?[ \t]?[:：]"
)
FIELD_FROM = r"^[ \t*]{0,8}(?:From|Von|De|Da|Van|Från|Fra|От|发件人|差出人)[*]?[ \t]?[:：]"
FIELD_TO = (
    r"^[ \t*]{0,8}(?:To|Sent|An|Gesendet|À|Envoyé|Para|Enviado|A|Inviato|Aan|Verzonden|Til|Sendt|Till|"
    r"Skickat|"
    r"Кому|Отправлено|收件人|发送时间|宛先|送信日時)[*]?[ \t]?[:：]"
)
GIT_FROM = r"^From [0-9a-f]{7,40} (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) "
TRACKER = (
    r"^(?:--- Comment #\d+ from .* ---[ \t\r]*$|.{1,90} (?:updated|commented on|changed|created|resolved|"
    r"reopened|closed)(?: [A-Z0-9]+-\d+)?:[ \t\r]*$)"
)

STRICT_DASHES = r"^-- \r?$"
DASHES = r"^[ \t]*-- ?[ \t\r]*$"
RULE_LINE = r"^[ \t]*(?:[-_=~*#]{8,}|--~--~|-~-----|-----+ ?[A-Z][^-]{3,60}-{3,}|={5,}.*={5,})"
FOOTER_WORDS = (
    r"(?i)(?:mailing[ -]?list|unsubscribe|listinfo|p\.sf\.net|sourceforge\.net/lists|groups\.google|"
    r"yahoo.{0,12}groups|groups\.yahoo|majordomo|list archive|archives? (?:at|and|is)|listserv|"
    r"automatically generated|do you yahoo|never miss a thing|mail\.yahoo|hotmail|msn\.com|"
    r"view this thread|pipermail|mail-archive\.com|d[ée]sabonn|currently subscribed|receiv(?:ed|"
    r"ing) this (?:message|mail|e-?mail)|intended only for|abmelden|afmelden|info/terms)"
)
BROADCAST = r"^-{5,}\((?:end of broadcast|fim da|fin de)"
TIP = r"^(?:TIP \d+: |http://(?:www|archives)\.postgresql\.org/(?:docs/faqs|users-lounge/docs/faq))"
DEVICE = (
    r"^[ \t]*(?:To unsubscribe (?:from|send|e-?mail)|You (?:have )?received this message because you are|"
    r"Sent from (?:my|Mail|a|Yahoo|Outlook)\b|Sent via |Sendt fra min|Von meinem .{1,30} gesendet|"
    r"Envoyé de mon|Enviado desde mi|Get Outlook for|Inviato da |Verzonden vanaf|Skickat från|"
    r"从我的|发自我的)"
)
PGP_SIGNED = r"^-----BEGIN PGP SIGNED MESSAGE-----"
PGP_HASH = r"^Hash: [A-Z0-9, -]+$"
PGP_BEGIN = r"^-----BEGIN PGP (?:SIGNATURE|PUBLIC KEY BLOCK|MESSAGE)-----"
PGP = r"^-----(?:BEGIN|END) PGP "
PGP_END = r"^-----END PGP (?:SIGNATURE|PUBLIC KEY BLOCK|MESSAGE)-----"

HUNK = r"^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@"
HUNK_COUNTS = r"^@@ -\d+(?:,(?P<old>\d+))? \+\d+(?:,(?P<new>\d+))? @@"
DIFF = (
    r"^(?:diff (?:-|--git|a/|\w)|Index: \S+|index [0-9a-f]{4,}|--- (?:a/|/dev/null|\S+\t|\S+[./]\S* +\S)|"
    r"--- [\w./-]+/[\w.-]+$|\+\+\+ (?:b/|\S)|@@ -|@@@ |={60,}$|RCS file: |retrieving revision|Binary files? |"
    r"(?:new|deleted) file mode |old mode |new mode |(?:dis)?similarity index |(?:rename|copy) (?:from|to) |"
    r"GIT binary patch|\*{15}|\*\*\* [\w./-]+(?:,\d+ \*{4}|\s+(?:"
    + WEEKDAY
    + r"|\d{4}[-/]))|--- \d+,\d+ ----|"
    r"\*\*\* \d+,\d+ \*{4}| \S[^|]*\|  *(?:\d+ [+-]*|Bin(?: .*)?|\d+ \+*-*)[ \t\r]*$|"
    r" +\d+ files? changed|(?:create|delete) mode \d{6} | (?:create|delete) mode \d{6} | rename .*\(\d+%\)|"
    r"\\ No newline at end|(?:Modified|Added|Deleted): \S+/\S+[ \t\r]*$)"
)
CUT = r"^---[ \t\r]*$"
CONTEXT_HUNK = r"^(?:\*{15}|\*\*\* \d+(?:,\d+)? \*{4}|--- \d+(?:,\d+)? ----)"
CONTEXT_LINE = r"^(?:[ !+-] |[ !+-]\t|[!+-]$)"
SHAPE_CODE = (
    r"^[ \t]*(?:#[ \t]*(?:include|define|ifdef|ifndef|endif|undef|pragma)\b|/\*|\*/|//|\} ?(?:else|while|"
    r"catch|;)|"
    r"(?:if|for|while|switch|foreach|elif|elsif) ?\(.*[){;]|else\b ?[{:]?[ \t\r]*$|[,`]-{4}|"
    r"(?:static|struct|const|unsigned|typedef|enum|extern|public|private|protected|virtual|"
    r"inline)\b.*[;{(,)=][ \t\r]*$|"
    r"(?:void|int|char|bool|long|float|double|size_t|u?int[0-9]+_t)[ *]+[A-Za-z0-9_]+[^.]*[;{(,)=][ \t\r]*$|"
    r"(?:def|class) [A-Za-z0-9_]+.*:[ \t\r]*$|from [A-Za-z0-9_.]+ import |"
    r"import [A-Za-z0-9_.]+;?[ \t\r]*$|return\b[^.]*;|"
    r"[a-z][A-Za-z0-9_]*[ \t]*\([^)]*\);?[ \t]*(?:\{[ \t]*)?$|"
    r"[A-Za-z0-9_.>\[\]-]+[ \t]*[-+*/|&:]?=[ \t]*[^= ].*[;,][ \t\r]*$)"
)
SHAPE_MARKUP = (
    r"^[ \t]*(?:<[/!?]?[A-Za-z][A-Za-z0-9_:.-]*(?:/?>| [^<>:@]*/?>| [A-Za-z0-9_:-]+=)|"
    r"[A-Za-z0-9_:.-]+=\"[^\"]*\"|"
    r"[^ \t]+\t[^ \t]+[ \t\r]*$|(?:[A-Za-z0-9_+-]+\.(?:o|c|h|so|a|lo) ?){3,}|"
    r"\[[A-Za-z0-9_][A-Za-z0-9_ .:-]{0,20}\] {1,4}\S|[-=]{2,}\+[-=+]+|\+[-=]{2,}|\|.*\|[ \t\r]*$)"
)
SHAPE_SQL = (
    r"^[ \t]*(?:(?:SELECT|INSERT INTO|UPDATE [A-Za-z0-9_]|DELETE FROM|CREATE (?:OR|TABLE|INDEX|UNIQUE|"
    r"FUNCTION|VIEW|TEMP|RULE|"
    r"TRIGGER|DATABASE|SEQUENCE|TYPE|USER)|DROP (?:TABLE|INDEX|VIEW|FUNCTION)|ALTER (?:TABLE|USER)|"
    r"EXPLAIN|ORDER BY|"
    r"GROUP BY|VALUES ?\(|(?:LEFT |INNER )?JOIN|WHERE|FROM [A-Za-z0-9_]+[ ,;]*$|BEGIN;|COMMIT;)\b|"
    r"(?:select|insert into|delete from|create (?:table|index|function|unique|view)|drop table|"
    r"alter table|explain|"
    r"grant) .*[;,(*]|->  ?[A-Za-z0-9_]|QUERY PLAN|Total runtime: |\([0-9]+ rows?\)|"
    r"(?:NOTICE|ERROR|WARNING|LOG|DEBUG|FATAL|HINT|DETAIL|CONTEXT|STATEMENT|PANIC|INFO):  ?\S)"
)
SHAPE_LOG = (
    r"^(?:[ \t]*(?:\.\.\. [0-9]+ more|[A-Za-z0-9_.$]+(?:Error|Exception)(?::|[ \t\r]*$)|"
    r"at [A-Za-z0-9_.$<>/]+\(|Caused by: |Traceback \(most|File \".*\", line [0-9]+|"
    r"[A-Za-z0-9_.]+\+0x[0-9a-f]+/0x|"
    r"(?:0x)?[0-9a-f]{4,16}:? (?:[0-9a-f]{2,8} ){3}|\[ *[0-9]+\.[0-9]{3,}\]|\[<[0-9a-f]+>\]|"
    r"\? ?[A-Za-z0-9_]+\+0x|"
    r"(?:RIP|RSP|RAX|RDX|RBP|R10|R13|CR2|Call Trace|Modules linked in|Hardware name|Code|CPU):|\^[ \t~]*$|"
    r"[0-9]{4}-[0-9][0-9]-[0-9][0-9][ T][0-9][0-9]:[0-9][0-9]:[0-9][0-9]|"
    r"[A-Z][a-z]{2} +[0-9]+ [0-9][0-9]:[0-9][0-9]:[0-9][0-9] |[0-9][0-9]:[0-9][0-9]:[0-9][0-9][.,][0-9]|"
    r"[$%] [A-Za-z0-9_])|"
    r"#[0-9]+ +(?:0x|[A-Za-z0-9_]+ \()|[A-Za-z0-9_]*[=\-(*'\"^!][#>] |[A-Za-z0-9_.-]{2,12}> (?:select|"
    r"insert|update|create|ls|cd|make|SELECT|psql|\\)|"
    r"\[?[A-Za-z0-9_]+@[A-Za-z0-9_.-]+[ :~][^ ]*\]?[$#] |# [A-Za-z0-9_][A-Za-z0-9_./-]* |"
    r"[A-Za-z0-9_./+-]+\.(?:c|h|cc|cpp|y|l|java|py|pl|go|rs|sh|S):[0-9]+[:,]|"
    r"make(?:\[[0-9]+\])?: |(?:gcc|cc|g\+\+|ld|ar) .*-|In file included|checking (?:for|whether|if) .*\.\.\.|"
    r"[bcdl-][rwxsStT-]{9}[ +.@]|[{}][ \t\r]*$|Content-Type: |[+-]\t|[+-] {2,}\S|[+-][#}{/*]|[+-]$|"
    r"libtool: |configure: )"
)
TAIL = r"(?:[\w)\]\"'}>*][ \t]*;|[){=,][ \t]*\{|\{|\}[;,]?|&&|\|\||\\|\*/)[ \t]*(?:/[*/].*)?$"
PROMPT = r"^[ \t]*(?:[$#%] [a-z./~][A-Za-z0-9_./-]*(?: |\r?$)|[A-Za-z0-9_]*[=\-(*'^!][#>] )"
BULLET = r"^[ \t]*(?:[-*+o•]|\d+[.)])[ \t]+[A-Za-z]"
COLON = r"[:：][ \t\r]*$"
INDENTED = r"^(?:[ \t]{2,}|\t|\| )\S"
CONTINUED = r"^[ \t]+\S"
NEAR_RULE = r"^(?:-{8,}|\s+What +\||--- Comment)"
CONTACT = r"(?:https?://|www\.|\S@\S)"
INSIDE = r"(?:\(cost=\d|rows=\d+ width=|-\+-{2,}|\S  +\| +\S| \| .* \| )"


SHAPES = (SHAPE_CODE, SHAPE_MARKUP, SHAPE_SQL, SHAPE_LOG)
HEAD_PATTERNS = (
    ATTRIBUTION_START,
    ORIGINAL,
    FIELD,
    GIT_FROM,
    NEAR_RULE,
    INDENTED,
    CONTINUED,
    DASHES,
    CUT,
    RULE_LINE,
    PROMPT,
    FOOTER_WORDS,
    BROADCAST,
    TIP,
    DEVICE,
    PGP,
    *SHAPES,
    INSIDE,
)
TAIL_PATTERNS = (COLON, TAIL)


def message_blocks(messages: pa.Table, settings: BlockSettings) -> pa.Table:
    """The blocks of every body, ordered by message and position.

    Columns: those of `schemas.MESSAGE_BLOCKS`. The blocks of one message are contiguous, from byte
    0 to the end of its body; an empty body has none. `inferred` is true for a quote that carries no
    mark (text under an Outlook header, the rest of a line a mailer folded) and for code that is
    known by the shape of its lines only. The kinds are those of the pginbox design (seed 000,
    "Message parsing model"); positions are UTF-8 bytes, characters and lines.
    """
    # The work is Polars and array kernels, which let other threads run while they work.
    with ThreadPoolExecutor(pl.thread_pool_size()) as pool:
        parts = pool.map(
            partial(_blocks, settings=settings), _batches(messages.select(["message_id", "body"]))
        )
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
    lines = _lines(messages)
    if lines.is_empty():
        return MESSAGE_BLOCKS.empty()
    kind, depth, inferred = _Classifier(lines, settings).classify()
    frame = lines.select("m", "bytes", "chars").with_columns(
        pl.Series("kind", kind), pl.Series("quote_depth", depth), pl.Series("inferred", inferred)
    )
    return _run_length(frame, messages)


def _lines(messages: pa.Table) -> pl.DataFrame:
    """One row per line: `m` (row of the message), `text` without line end, `bytes` and `chars` with it."""
    bodies = pl.from_arrow(messages.select(["body"]))
    assert isinstance(bodies, pl.DataFrame)
    text = pl.col("text")
    ended = (pl.col("m") == pl.col("m").shift(-1, fill_value=-1)).cast(pl.Int64)
    return (
        bodies.with_row_index("m")
        .filter(pl.col("body") != "")
        .select(pl.col("m").cast(pl.Int64), pl.col("body").str.split("\n").alias("text"))
        .explode("text")
        .with_columns(
            (text.str.len_bytes().cast(pl.Int64) + ended).alias("bytes"),
            (text.str.len_chars().cast(pl.Int64) + ended).alias("chars"),
        )
        .filter(pl.col("bytes") > 0)
    )


def _run_length(frame: pl.DataFrame, messages: pa.Table) -> pa.Table:
    """Equal neighbours of a line table as blocks with their positions."""
    start = pl.col("m") != pl.col("m").shift(1, fill_value=-1)
    run = pl.struct("m", "kind", "quote_depth", "inferred").rle_id()
    blocks = (
        frame.with_columns(run=run, byte=pl.col("bytes").cum_sum(), line=pl.int_range(1, pl.len() + 1))
        .group_by("run", maintain_order=True)
        .agg(
            pl.col("m", "kind", "quote_depth", "inferred", "byte", "line").last(),
            pl.col("bytes").sum(),
            pl.col("chars").sum().alias("char_length"),
            pl.len().cast(pl.Int64).alias("line_count"),
        )
        .with_columns(
            first=start, start=pl.col("byte") - pl.col("bytes"), line0=pl.col("line") - pl.col("line_count")
        )
        .with_columns(
            byte0=pl.when("first").then("start").forward_fill(),
            line1=pl.when("first").then("line0").forward_fill(),
            index0=pl.when("first").then(pl.int_range(pl.len())).forward_fill(),
        )
    )
    names = pl.Series("kinds", KINDS, dtype=pl.String)
    ids = pl.from_arrow(messages.select(["message_id"]))
    assert isinstance(ids, pl.DataFrame)
    table = blocks.select(
        ids["message_id"].gather(blocks["m"]).alias("message_id"),
        (pl.int_range(pl.len()) - pl.col("index0")).alias("block_index"),
        names.gather(blocks["kind"]).alias("kind"),
        pl.col("quote_depth").cast(pl.Int64),
        "char_length",
        "line_count",
        (pl.col("line0") - pl.col("line1")).alias("start_line"),
        (pl.col("line") - pl.col("line1")).alias("end_line"),
        (pl.col("start") - pl.col("byte0")).alias("byte_start"),
        (pl.col("byte") - pl.col("byte0")).alias("byte_end"),
        "inferred",
    )
    return MESSAGE_BLOCKS.conform(table.to_arrow())


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


def _covered(starts: Rows, ends: Rows, n: int) -> Mask:
    """Rows inside one of the half-open intervals."""
    change = np.zeros(n + 1, dtype=np.int64)
    np.add.at(change, starts, 1)
    np.add.at(change, np.maximum(starts, ends), -1)
    covered: Mask = np.cumsum(change)[:n] > 0
    return covered


class _Classifier:
    """Kinds, depths and the inferred mark of the rows of one line table.

    Every method reads the marks and writes `kind`, `depth` and `inferred` for rows that are still
    author text; what is settled earlier wins.
    """

    def __init__(self, lines: pl.DataFrame, settings: BlockSettings) -> None:
        self.settings = settings
        self.n = n = len(lines)
        self.chars = lines["chars"].to_numpy()
        whole = lines["text"]
        long = np.flatnonzero(self.chars > HEAD_CHARS)
        self.text = self._shortened(whole, long, whole.gather(long).str.head(HEAD_CHARS))
        self.tail = self._shortened(whole, long, whole.gather(long).str.tail(HEAD_CHARS))
        self.m = lines["m"].to_numpy()
        self.first = np.concatenate(([True], self.m[1:] != self.m[:-1]))
        self.message_start = _last_true(self.first)
        self.message_end = _next_true(np.concatenate((self.first[1:], [True]))) + 1
        self.kind = np.full(n, AUTHOR, dtype=np.int8)
        self.depth = np.zeros(n, dtype=np.int32)
        self.inferred = np.zeros(n, dtype=bool)
        self.blank = ~self.text.str.contains(r"\S").to_numpy()
        self.blank[long] = ~whole.gather(long).str.contains(r"\S").to_numpy()
        self.kind[self.blank] = BLANK
        self.marks: dict[str, Mask] = {}

    @staticmethod
    def _shortened(whole: pl.Series, long: Rows, short: pl.Series) -> pl.Series:
        """`whole` with the rows `long` replaced by `short`."""
        if not len(long):
            return whole
        rows = np.arange(len(whole), dtype=np.int64)
        rows[long] = len(whole) + np.arange(len(long), dtype=np.int64)
        return pl.concat([whole, short]).gather(rows)

    def _shifted(self, mask: Mask, by: int) -> Mask:
        """`mask` moved down by `by` rows (up if negative) within each mail, false where nothing comes in."""
        out = np.zeros_like(mask)
        if abs(by) >= self.n:
            return out
        to, source = (slice(by, None), slice(None, -by)) if by > 0 else (slice(None, by), slice(-by, None))
        out[to] = mask[source] & (self.m[source] == self.m[to])
        return out

    def classify(self) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int32], Mask]:
        """The kind, quote depth and inferred mark of every row."""
        self._quotes()
        self._diffs()
        self._initials()
        self._mark()
        self._headers()
        self._signatures()
        if self.settings.unmarked_history:
            self._unmarked_quotes()
        self._code()
        return self.kind, self.depth, self.inferred

    def _matches(self, pattern: str, among: Mask | None = None, tail: bool = False) -> Mask:
        """Rows (of those `among`) whose head, or tail, matches."""
        column = self.tail if tail else self.text
        if among is None:
            return column.str.contains(pattern).to_numpy()
        if pattern in self.marks:
            return self.marks[pattern] & among
        out = np.zeros(self.n, dtype=bool)
        rows = np.flatnonzero(among)
        if len(rows):
            out[rows] = column.gather(rows).str.contains(pattern).to_numpy()
        return out

    def _mark(self) -> None:
        """Matches of all patterns for unquoted text, read in one go over the lines that are still text."""
        rows = np.flatnonzero(self.kind == AUTHOR)
        both = pl.DataFrame({"head": self.text.gather(rows), "tail": self.tail.gather(rows)})
        head = [pl.col("head").str.contains(p).alias(p) for p in HEAD_PATTERNS]
        tail = [pl.col("tail").str.contains(p).alias(p) for p in TAIL_PATTERNS]
        found = both.select(head + tail)
        for pattern in found.columns:
            mask = np.zeros(self.n, dtype=bool)
            mask[rows] = found[pattern].to_numpy()
            self.marks[pattern] = mask

    def _author(self) -> Mask:
        return self.kind == AUTHOR

    def _set(self, rows: Mask, kind: int, inferred: bool = False) -> None:
        self.kind[rows] = kind
        if inferred:
            self.inferred[rows] = True

    def _quotes(self) -> None:
        """Lines with quote marks, and their depth."""
        marked = self._matches(QUOTE_MARK)
        self.supercite_header = self._matches(SUPERCITE_HEADER, marked)
        marked &= ~self.supercite_header
        near = self._shifted(marked, 1) | self._shifted(marked, -1)
        marked &= ~(self._matches(r"^>From ", marked) & ~near)
        marked &= ~self._matches(GNATS, marked)
        python = self._matches(PYTHON_PROMPT, marked)
        plain = np.concatenate(([0], np.cumsum(marked & ~self._starts(">>> "))))
        python &= plain[self.message_end] == plain[self.message_start]
        marked &= ~python
        self.python = python
        rows = np.flatnonzero(marked)
        if len(rows):
            prefix = self.text.gather(rows).str.extract(QUOTE_PREFIX)
            self.depth[rows] = prefix.str.count_matches(">", literal=True).fill_null(1).to_numpy()
            self.kind[rows] = QUOTE
        self._folded_quotes()

    def _initials(self) -> None:
        """Quotes marked with initials (`XY> text`), when a mail has two of the same."""
        rows = np.flatnonzero(self._matches(SUPERCITE, self._author()))
        if not len(rows):
            return
        total = np.concatenate(([0], np.cumsum(self.supercite_header)))
        named = total[self.message_end[rows]] > total[self.message_start[rows]]
        found = pl.DataFrame(
            {
                "row": rows,
                "m": self.m[rows],
                "named": named,
                "name": self.text.gather(rows).str.extract(SUPERCITE),
            }
        ).filter(~pl.col("name").is_in(PROMPT_NAMES))
        kept = found.filter((pl.len().over("m", "name") >= 2) | pl.col("named"))["row"].to_numpy()
        self.kind[kept] = QUOTE
        self.depth[kept] = 1

    def _folded_quotes(self) -> None:
        """The rest of a quoted line that a mailer folded: short, unmarked, right between two quote lines."""
        quote = self.kind == QUOTE
        long = self.chars
        before = self._shifted(quote & (long >= 66), 1)
        same = np.zeros(self.n, dtype=bool)
        same[1:-1] = (self.depth[:-2] == self.depth[2:]) & (self.m[:-2] == self.m[2:])
        rest = self._author() & before & self._shifted(quote, -1) & same & (long <= 24)
        rest = self._matches(r"^[a-z(\"'\d]", rest)
        self.depth[rest] = self.depth[np.flatnonzero(rest) - 1]
        self._set(rest, QUOTE, inferred=True)

    def _diffs(self) -> None:
        """Unified hunks by their counts, context diffs, and the lines that frame them."""
        author = self._author()
        diff = self._matches(DIFF, author)
        hunk = self._matches(HUNK, diff)
        self.diff = diff | self._hunk_bodies(hunk)
        context = self._matches(CONTEXT_HUNK, diff)
        if context.any():
            body = self._matches(CONTEXT_LINE, author) | self.blank
            stop = ~(body | context)
            stop |= self.first
            rows = np.flatnonzero(context).astype(np.int64)
            following = np.minimum(rows + 1, self.n - 1)
            self.diff |= _covered(
                rows, np.minimum(_next_true(stop)[following], self.message_end[rows]), self.n
            )
        cut = self._matches(CUT, author & self._starts("---"))
        for step in (1, 2):
            self.diff |= cut & self._shifted(diff, -step)
        self._binary_patches()
        self.diff &= ~self.blank | self.diff[self._next_kept()]
        self.kind[self.diff & (author | self.blank)] = CODE

    def _hunk_bodies(self, hunk: Mask) -> Mask:
        """Rows of unified hunks, by the line counts in their headers."""
        heads = np.flatnonzero(hunk).astype(np.int64)
        if not len(heads):
            return hunk
        counts = self.text.gather(heads).str.extract_groups(HUNK_COUNTS).struct.unnest()
        old, new = (counts[c].cast(pl.Int64, strict=False).fill_null(1).to_numpy() for c in ("old", "new"))
        minus, plus, note, space, tab = (self._starts(c) for c in ("-", "+", "\\", " ", "\t"))
        plain = space | tab | self.blank
        olds = np.cumsum(plain | minus)
        news = np.cumsum(plain | plus)
        stop = _next_true(~(plain | minus | plus | note))
        first = np.minimum(heads + 1, self.n - 1)
        last = np.maximum(np.searchsorted(olds, olds[heads] + old), np.searchsorted(news, news[heads] + new))
        ends = np.minimum(np.minimum(last + 1, stop[first]), self.message_end[heads])
        return _covered(heads, np.maximum(ends, heads + 1), self.n)

    def _starts(self, prefix: str) -> Mask:
        return self.text.str.starts_with(prefix).to_numpy()

    def _binary_patches(self) -> None:
        """The base-85 lines of a GIT binary patch."""
        heads = np.flatnonzero(self._starts("GIT binary patch") & self.diff).astype(np.int64)
        if not len(heads):
            return
        body = self._matches(r"^(?:literal|delta) \d+|^[A-Za-z][!-~]{5,}$") | self.blank
        following = np.minimum(heads + 1, self.n - 1)
        stop = np.minimum(_next_true(~body)[following], self.message_end[heads])
        self.diff |= _covered(heads, stop, self.n)

    def _next_kept(self) -> Rows:
        """For each row, the next row of the same message that is not blank; its own row if none."""
        following = np.append(_next_true(~self.blank), self.n)[1:]
        inside = following < self.message_end
        return np.where(inside, following, np.arange(self.n))

    def _headers(self) -> None:
        """Reply headers that stand before a quote, Outlook's and git's header blocks."""
        author = self._author()
        quote = self.kind == QUOTE
        next_kept = self._next_kept()
        before_quote = quote[next_kept] & ~quote
        colon = self._matches(COLON, author, tail=True)
        verb = self._matches(VERB, colon, tail=True)
        start = self._matches(ATTRIBUTION_START, author)
        strong = verb & (start | self._two_up(start))
        end = before_quote & (verb | self._matches(ATTRIBUTION, colon))
        dated = self._matches(DATED_START, author & self._shifted(quote, -1))
        self.attribution = strong
        header = self._with_folded_start(end, start) | dated
        header |= self.supercite_header & ~quote
        header |= self._matches(TRACKER, author & self._near_rule())
        self.outlook, fields = self._field_blocks(author)
        self._set((header & author) | (self.supercite_header & ~quote), HEADER)
        self._set(fields, HEADER)

    def _two_up(self, start: Mask) -> Mask:
        """Rows whose attribution starts one or two lines above."""
        return self._shifted(start, 1) | self._shifted(start, 2)

    def _with_folded_start(self, end: Mask, start: Mask) -> Mask:
        """Header ends together with the one or two lines above that they continue."""
        author = self._author()
        one = self._shifted(end & ~start, -1) & author & ~self.blank
        two = self._shifted(one & ~start, -1) & author & start
        one &= start | self._shifted(two, 1)
        joined = self.m == np.append(self.m[1:], -1)
        return end | (one & joined) | (two & joined)

    def _near_rule(self) -> Mask:
        """Rows above a rule or a table of changes, and rows that look like one comment's heading."""
        rule = self._matches(NEAR_RULE, self._author())
        return rule | self._shifted(rule, -1) | self._shifted(rule, -2)

    def _field_blocks(self, author: Mask) -> tuple[Mask, Mask]:
        """Rows of header fields that open an unmarked quote, and all rows of such blocks."""
        original = self._matches(ORIGINAL, author)
        field = self._matches(FIELD, author)
        git = self._matches(GIT_FROM, author)
        run = field | original | git
        continued = self._matches(CONTINUED, author) & self._shifted(field, 1)
        above = self._shifted(field, 1) | self._shifted(field, 2)
        below = self._shifted(field, -1) | self._shifted(field, -2)
        run |= continued | (above & below & author)
        starts = run & (~self._shifted(run, 1) | self.first)
        ends = _next_true(~run | (self.first & ~starts))
        rows = np.flatnonzero(starts).astype(np.int64)
        stop = np.minimum(ends[rows], self.message_end[rows])
        total = np.concatenate(([0], np.cumsum(field)))
        fields = total[stop] - total[rows]
        origin = original[rows] | original[np.maximum(rows - 1, 0)]
        sender = self._matches(FIELD_FROM, field)[rows]
        top = _last_true(~self.blank & self.first)[rows] == rows
        addressed = np.concatenate(([0], np.cumsum(self._matches(FIELD_TO, field))))
        outlook = original[rows] | (sender & (fields >= 3) & (addressed[stop] > addressed[rows]))
        kept = outlook | git[rows] | (sender & top & (fields <= 3)) | (origin & (fields >= 1))
        opening = np.zeros(self.n, dtype=bool)
        opening[rows[outlook & ~top]] = True
        return opening, _covered(rows[kept], stop[kept], self.n) & author

    def _signatures(self) -> None:
        """Signature marks to the end of their section: the next quote, header, diff or message."""
        author = self._author()
        section = (self.kind == QUOTE) | (self.kind == HEADER) | (self.diff & ~self.blank) | self.first
        filled = np.concatenate(([0], np.cumsum(~self.blank)))
        section &= ~self._mottos(author, filled)
        ends = np.append(_next_true(section), self.n)[1:]
        ends = np.minimum(ends, self.message_end)
        footer_word = self._matches(FOOTER_WORDS, author)
        next_word = np.append(_next_true(footer_word), self.n)[1:]
        rows_left = filled[ends] - filled[np.arange(self.n) + 1]
        rule = self._matches(RULE_LINE, author) | self._matches(DASHES, author) | self._matches(CUT, author)
        footer = rule & (next_word <= np.arange(self.n) + 9) & (next_word < ends) & (rows_left <= 40)
        closing = rule & ~self._matches(DASHES, author) & self._shifted(self.blank, 1) & (rows_left <= 8)
        closing &= ends == self.message_end
        behind = np.flatnonzero(closing).astype(np.int64)
        contact = self._matches(CONTACT, author & _covered(behind, ends[behind], self.n))
        footer |= closing & (np.append(_next_true(contact), self.n)[1:] < ends)
        footer |= self._matches(BROADCAST, author)
        next_footer = np.minimum(np.append(_next_true(footer), self.n)[1:], ends)
        own = filled[next_footer] - filled[np.arange(self.n) + 1]
        dashes = (
            self._matches(DASHES, author) & (own <= self.settings.max_signature_lines) & (next_footer == ends)
        )
        dashes |= (
            self._matches(DASHES, author)
            & (own <= self.settings.max_signature_lines)
            & footer[np.minimum(next_footer, self.n - 1)]
        )
        marks = np.flatnonzero((dashes | footer) & ~self.first).astype(np.int64)
        signature = _covered(marks, ends[marks], self.n)
        signature |= self._matches(DEVICE, author) | self._matches(TIP, author) | self._pgp(author)
        signature &= author | self.blank | (self.kind == QUOTE)
        self._set(signature, SIGNATURE)
        self.depth[signature] = 0
        self._trim_blank_end(SIGNATURE)

    def _mottos(self, author: Mask, filled: Rows) -> Mask:
        """Quotes that stand inside a short signature, with no blank line above: a motto, not a reply."""
        following = np.append(np.arange(1, self.n), self.n - 1)
        header = _next_true((self.kind == HEADER) | self._matches(BROADCAST, author))
        ends = np.minimum(np.append(header, self.n)[1:], self.message_end)
        size = filled[ends] - filled[following]
        marks = self._matches(STRICT_DASHES, author) & (size <= self.settings.max_signature_lines)
        rows = np.flatnonzero(marks).astype(np.int64)
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
        armour = self._matches(PGP, author)
        begin = np.flatnonzero(self._matches(PGP_BEGIN, armour)).astype(np.int64)
        signed = self._matches(PGP_SIGNED, armour)
        signed |= self._matches(PGP_HASH, author & self._shifted(signed, 1))
        if not len(begin):
            return signed
        end = np.minimum(_next_true(self._matches(PGP_END, armour))[begin] + 1, self.message_end[begin])
        return signed | _covered(begin, end, self.n)

    def _unmarked_quotes(self) -> None:
        """Text below an Outlook header, or below an attribution at the end of a mail that marks no quotes."""
        author = self._author()
        quote = self.kind == QUOTE
        next_quote = _next_true(quote)
        above = np.concatenate(([0], np.cumsum(author)))
        rows = np.arange(self.n)
        quoteless = np.minimum(next_quote, _next_true(self.diff)) >= self.message_end
        late = self.attribution & author & quoteless & (above[rows] - above[self.message_start] >= 2)
        last_field = self.outlook & ~quote[self._next_kept()]
        opening = np.flatnonzero(late | (last_field & quoteless)).astype(np.int64)
        if not len(opening):
            return
        start = self._matches(ATTRIBUTION_START, author)
        self._set(self._with_folded_start(late, start) & author, HEADER)
        text = _covered(opening, self.message_end[opening], self.n)
        text &= (self.kind == AUTHOR) | (self.kind == CODE)
        self._set(text, QUOTE, inferred=True)
        self.depth[text] = 1

    def _code(self) -> None:
        """Runs of lines that look like code, bridged over blank and indented lines."""
        author = self._author()
        shaped = self.python.copy()
        for pattern in SHAPES:
            shaped |= self._matches(pattern, author)
        ended = self._matches(TAIL, author & ~shaped, tail=True)
        shaped |= ended & ~self._matches(BULLET, ended)
        shaped |= self._matches(INSIDE, author & ~shaped)
        prompt = _last_true(self._matches(PROMPT, author))
        shaped |= (prompt >= 0) & (prompt > _last_true(~author | self.first & ~self._matches(PROMPT, author)))
        code = (shaped & author) | (self.kind == CODE)
        before = self._shifted(code, 1)
        after = self._shifted(code, -1)
        plain = author & ~code
        bridge = plain & before & after
        pair = (
            plain
            & before
            & self._shifted(code, 2)
            & self._shifted(plain & after & self._shifted(code, -2), -1)
        )
        bridge |= pair | self._shifted(pair, 1)
        bridge |= self._matches(INDENTED, author & ~code)
        neutral = bridge | self.blank
        breaker = ~(code | neutral) | self.first
        last_code, next_code = _last_true(code), _next_true(code)
        group = _last_true(breaker)
        inside = (last_code >= group) & (last_code >= 0) & (next_code < self._group_end(breaker))
        inside &= neutral | code
        count = np.concatenate(([0], np.cumsum(code)))
        size = count[self._group_end(breaker)] - count[np.maximum(group, 0)]
        kept = inside & ((size >= self.settings.min_code_lines) | (self.kind == CODE))
        weak = kept & author
        self.kind[kept & (author | self.blank)] = CODE
        self.inferred[weak | (kept & self.blank & (self.kind == CODE) & ~self.diff)] = True
        self.inferred[(self.kind == CODE) & self.diff] = False
        self._one_mark_per_run()

    def _group_end(self, breaker: Mask) -> Rows:
        """For each row, the next breaking row behind it."""
        return np.minimum(np.append(_next_true(breaker), self.n)[1:], self.n)

    def _one_mark_per_run(self) -> None:
        """A run of code is inferred only if no line in it is marked."""
        code = self.kind == CODE
        opening = code & (~self._shifted(code, 1) | self.first)
        run = np.cumsum(opening)
        marked = np.zeros(int(run[-1]) + 1, dtype=bool)
        marked[run[code & ~self.inferred]] = True
        self.inferred[code & marked[run]] = False
