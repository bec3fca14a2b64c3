"""References in the text of mails to other mails: trailers, archive URLs, Message-IDs, commit
titles.
"""

import re

import ibis
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from transforms.mail.headers import patch_subjects
from transforms.schemas.mail import MESSAGE_REFERENCES
from transforms.schemas.relations import LINKS
from transforms.toml_file import patterns

_GAP = b"\n\n"
_URL = re.compile(rb"https?://[!#-;=?-_a-~]+")
_ANGLED = re.compile(rb"<[!-;=?-~]+@[!-;=?-~]+>")
_TITLE = re.compile(rb"\(\"[^\n\"][^\n]*(?:\n[^\n]+)?\"\)|\('[^\n'][^\n]*(?:\n[^\n]+)?'\)")
_COMMIT_BEFORE = re.compile(
    rb"(?<![0-9a-zA-Z])([0-9a-f]{7,40})[,:]?(?:[ \t]{1,9}|[ \t]{0,9}\n[ \t>|]{0,9})\Z"
)
_COMMIT_CHARS = 64

_PATTERNS = patterns(__name__, "patterns.toml")
_TRAILERS = _PATTERNS["trailers"]
_ID_TRAILERS = ["in-reply-to", "message-id", "prerequisite-message-id", "references"]
_COMMIT_TRAILERS = ["fixes", "stable-dep-of"]
_QUOTED = r"^\s*[>|]"
_ARCHIVES = rf"(?i)^https?://(?:{_PATTERNS['archives']})"
_WRAPPED = r"[?&](?:url|u|q)=(https?(?:%3A|:)[^&]+)"
_IN_PATH = r"^https?://[^/?#]*/(?:[^?#]*/)?([^/?#]+(?:@|%40)[^/?#]+)"
_BEHIND_SHORT = r"^https?://[^/?#]+/(?:r|m|message-id|message-id/(?:flat|raw))/([^?#@]+@[^/?#]+)"
_IN_QUERY = r"[?&][\w-]+=([^&#]+(?:@|%40)[^&#]+)"
_ID = r"^<?[^@\s<>]{2,}@[^@\s<>]{2,}>?$"
_PERCENT = {f"%{code:02X}": chr(code) for code in range(0x21, 0x7F)}
_PERCENT |= {name.lower(): char for name, char in _PERCENT.items()}


def message_references(messages: pa.Table) -> pa.Table:
    """The `message_references` table of mails with message_id, source, partition and body.

    It looks for URLs that hold a Message-ID (percent-encoded or inside of another URL, too),
    Message-IDs in angle brackets, and commits with their title, as in `Fixes: 0123abc ("title")`.
    A reference behind a trailer's name is of that kind.
    """
    spans = pl.concat(_candidates(messages.column("body")), how="diagonal")
    prefix = pl.col("prefix")
    trailer = prefix.str.extract(rf"(?i)^\s*({_TRAILERS}):", 1).str.to_lowercase()
    names_mail = (
        pl.col("is_archive")
        | ((pl.col("form") == "mention") & trailer.is_in(_ID_TRAILERS))
        | ((pl.col("form") == "commit") & trailer.is_in(_COMMIT_TRAILERS))
    )
    rows = (
        spans.with_columns(
            kind=pl.when(prefix.str.contains(_QUOTED))
            .then(pl.lit("quoted"))
            .otherwise(pl.coalesce(trailer, "form")),
            is_explicit=names_mail.fill_null(False),
        )
        .filter(pl.col("named_id").is_not_null() | pl.col("named_title").is_not_null())
        .sort("row", "byte_start")
    )
    of_mail = {
        n: messages.column(n).take(rows["row"].to_arrow())
        for n in ("message_id", "source", "partition")
    }
    columns = rows.drop("row", "prefix", "form", "is_archive").to_arrow()
    table = pa.table({**of_mail, **{n: columns[n] for n in columns.column_names}})
    return MESSAGE_REFERENCES.conform(table.select(MESSAGE_REFERENCES.names))


def _candidates(bodies: pa.ChunkedArray) -> list[pl.DataFrame]:
    """All references of `bodies`, with the line before each in `prefix`; one frame per form."""
    texts = pc.cast(bodies, pa.large_binary()).to_pylist()
    data = _GAP.join(texts)
    starts = np.cumsum([0, *(len(t) + len(_GAP) for t in texts)])[:-1].astype(np.int64)
    ends = starts + np.array([len(t) for t in texts], dtype=np.int64)
    lines = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")) + 1

    def frame(spans: list[tuple[int, int]], form: str) -> pl.DataFrame:
        begin, end = np.array(spans, dtype=np.int64).reshape(-1, 2).T
        row = np.searchsorted(starts, begin, side="right") - 1
        above = np.searchsorted(lines, begin, side="right") - 1
        line = np.maximum(starts[row], lines[above] if len(lines) else 0)
        return pl.DataFrame(
            {
                "row": row,
                "byte_start": begin - starts[row],
                "byte_end": end - starts[row],
                "target": [data[a:b].decode() for a, b in zip(begin, end, strict=True)],
                "prefix": [data[a:b].decode() for a, b in zip(line, begin, strict=True)],
                "form": [form] * len(begin),
            },
            schema_overrides={"target": pl.String, "prefix": pl.String, "form": pl.String},
        ).filter(pl.Series(end <= ends[row], dtype=pl.Boolean))

    return [
        _named_by_url(frame([m.span() for m in _URL.finditer(data)], "url")),
        _named_by_id(frame([m.span() for m in _ANGLED.finditer(data)], "mention")),
        _named_by_title(frame(_commits(data), "commit")),
    ]


def _commits(data: bytes) -> list[tuple[int, int]]:
    """Where a commit's hash and title stand, `0123abc ("title")`."""
    spans = []
    for title in _TITLE.finditer(data):
        before = data[max(0, title.start() - _COMMIT_CHARS) : title.start()]
        commit = _COMMIT_BEFORE.search(before)
        if commit is not None:
            spans.append((title.start() - len(before) + commit.start(1), title.end()))
    return spans


def _named_by_url(urls: pl.DataFrame) -> pl.DataFrame:
    """URLs, without the marks that end a sentence, with the Message-ID in their path or query."""
    target = pl.col("target").str.strip_chars_end(".,;:!?*'_)]}|")
    cut = pl.col("target").str.len_bytes() - target.str.len_bytes()
    inner = target.str.extract(_WRAPPED, 1).str.replace_many(_PERCENT)
    url = pl.coalesce(inner, target).str.replace("#/", "/", literal=True)
    message_id = pl.coalesce(
        url.str.extract(where, 1) for where in (_BEHIND_SHORT, _IN_PATH, _IN_QUERY)
    )
    return urls.with_columns(
        target=target,
        byte_end=pl.col("byte_end") - cut,
        named_id=_message_id(message_id.str.replace_many(_PERCENT)),
        text=pl.lit(""),
        is_archive=url.str.contains(_ARCHIVES),
    )


def _named_by_id(angled: pl.DataFrame) -> pl.DataFrame:
    """Texts in angle brackets that may be a Message-ID: they hold a digit, as few addresses do."""
    may_be = pl.col("target").str.contains(r"\d.*@") & ~pl.col("target").str.contains(
        "://", literal=True
    )
    return angled.with_columns(
        named_id=pl.when(may_be).then(_message_id(pl.col("target"))),
        text=pl.lit(""),
        is_archive=pl.lit(False),
    )


def _named_by_title(commits: pl.DataFrame) -> pl.DataFrame:
    """Commits with their titles, which may be broken over two lines."""
    title = (
        pl.col("target")
        .str.extract(r"(?s)\([\"'](.*)[\"']\)$", 1)
        .str.replace_all(r"\n[\s>|]*", " ")
        .str.replace_all(r"\s+", " ")
        .str.strip_chars()
    )
    return commits.with_columns(
        text=title, named_title=title.str.to_lowercase(), is_archive=pl.lit(False)
    )


def _message_id(text: pl.Expr) -> pl.Expr:
    return pl.when(text.str.contains(_ID)).then(text.str.strip_chars("<>"))


def titled_mails(messages: pa.Table) -> pa.Table:
    """Columns message_id, effective_at and title: mails with the title of the patch, but of replies
    and cover letters.
    """
    frame = pl.DataFrame(messages.select(["message_id", "subject", "effective_at"]))
    is_patch = pl.col("is_patch") & ~pl.col("is_reply") & (pl.col("part").fill_null(1) > 0)
    title = patch_subjects(frame["subject"]).select(pl.when(is_patch).then("title").alias("title"))
    return frame.drop("subject").with_columns(title).to_arrow()


def message_links(references: ibis.Table, mails: ibis.Table) -> ibis.Table:
    """The `links` table of mails: where each reference leads.

    `references` are those of the published mails, `mails` are `titled_mails`. A title leads to the
    last patch mail of that title that is older than the mail that names it. An implicit reference
    that leads nowhere is left out.
    """
    # A view, since Ibis takes a join of a join for one chain, which knows no computed columns.
    references = references.view()
    times = mails.select("message_id", written_at="effective_at")
    patches = mails.select("effective_at", named_title="title", by_title="message_id")
    titled = references.join(times, "message_id").join(patches, "named_title")
    # Not a condition of the join: DuckDB joined by the time alone, each mail with each.
    patch = ibis.struct({"at": titled.effective_at, "by_title": titled.by_title})
    latest = patch.max(where=titled.effective_at < titled.written_at)
    by_title = titled.group_by("message_id", "byte_start").agg(by_title=latest["by_title"])
    by_id = mails.select(named_id="message_id", by_id="message_id")
    linked = references.left_join(by_id, "named_id").drop("named_id_right")
    linked = linked.left_join(by_title, ["message_id", "byte_start"])
    rows = linked.mutate(
        from_id="message_id",
        source_kind=ibis.literal("message"),
        to_id=ibis.coalesce(linked.by_id, linked.by_title),
    )
    return (
        rows.filter(rows.is_explicit | rows.to_id.notnull())
        .select(LINKS.names)
        .order_by("from_id", "byte_start")
    )
