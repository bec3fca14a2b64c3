"""Tables of mail to measures of each list: quotes, duplicates, parents, defects, kinds of
discussion.

These are the counts in the evaluation plan of the pginbox design.
"""

from typing import NamedTuple

import ibis
import polars as pl
import pyarrow as pa

from transforms.mail.threads.inferred_quotes import body_lines
from transforms.schemas.operations import CORPUS_MEASURES, MEASURE_COUNTS

BLOCK_COLUMNS = ("message_id", "kind", "quote_depth", "byte_start", "byte_end")
_TEXTS = {"text_lex": False, "quote_lex": True}
"""The texts of a chunk whose lines are compared, and whether they are quoted."""
CHUNK_COLUMNS = (
    *(
        "chunk_id",
        "doc_id",
        "attachment_id",
        "parent_id",
        "chunk_kind",
        "char_count",
        "quote_anchor_chars",
    ),
    *("anchor_source", "has_patch_markers", "needs_parent", *_TEXTS),
)
_LINE_CHARS = 20
"""Characters; shorter lines are never compared."""
_DUPLICATE_SHARE = 0.5
"""Share of a chunk's characters on lines of other mails from which it is a duplicate (pginbox)."""
_MOSTLY_QUOTED_SHARE = 0.8
"""Share of a chunk's characters in its anchor from which it is mostly quoted (pginbox)."""
_SHORT_REPLY_CHARS = 200
"""Authored characters below which a reply is short (pginbox)."""
_LONG_THREAD_MESSAGES = 20
"""Mails from which a thread is a long debate (pginbox)."""
_MANY_ATTACHMENTS = 3
"""Attachments from which a thread is heavy with them (pginbox)."""
_SAMPLED = 100
"""Mails of a bucket with quotes whose text is compared with the mail they answer."""
_OTHER_BLANKS = r"[^\S\n ]+|  +"


class BucketTables(NamedTuple):
    """Tables of the mails of one bucket, each present once but for the blocks of copies, as input
    of `counts_of_bucket`.

    `messages` needs message_id, list_id, defects and body, `blocks` BLOCK_COLUMNS, `chunks`
    CHUNK_COLUMNS, `attachments` message_id, and `tree` message_id, parent_id and thread_id.
    """

    messages: pa.Table
    blocks: pa.Table
    chunks: pa.Table
    attachments: pa.Table
    tree: pa.Table


def compared_lines(chunks: pl.DataFrame, line_chars: int = _LINE_CHARS) -> pl.DataFrame:
    """The longer lines of chunks, by which these are compared with those of other mails of their
    thread.

    Columns `chunk`, `mail`, `thread` and `line`, each a hash of 64 bits, `chars`, and `is_quoted`.
    `chunks` have chunk_id, doc_id, thread_id, text_lex and quote_lex.
    """
    line = pl.col("line").str.strip_chars()
    ids = {"chunk": "chunk_id", "mail": "doc_id", "thread": "thread_id"}
    tables = []
    for column, is_quoted in _TEXTS.items():
        # A whole text at a time, and single spaces left alone: three times as fast as each line by
        # one pattern.
        text = pl.col(column).str.replace_all(_OTHER_BLANKS, " ").str.replace_all("  +", " ")
        tables.append(
            chunks.select(
                line=text.str.split("\n"), **{n: pl.col(id_).hash(seed=0) for n, id_ in ids.items()}
            )
            .explode("line")
            .filter(pl.col("line").str.len_bytes() >= line_chars)
            .with_columns(line=line)
            .with_columns(chars=pl.col("line").str.len_chars(), is_quoted=is_quoted)
            .filter(pl.col("chars") >= line_chars)
            .with_columns(line=pl.col("line").hash(seed=0))
        )
    return pl.concat(tables)


def as_metadata(measured: pa.Table) -> dict[str, float]:
    """The values of `corpus_measures` by name, as `list: measure (detail)`."""
    return {
        f"{r['list_id']}: {r['measure']}" + (f" ({r['detail']})" if r["detail"] else ""): r["value"]
        for r in measured.to_pylist()
    }


def quoted_sample(blocks: pl.DataFrame, tree: pl.DataFrame) -> pl.DataFrame:
    """Columns message_id and parent_id: the mails whose quotes are compared, the same ones each
    time.

    `blocks` are quotes of depth 1. Taken are, in the order of a hash of their ids, _SAMPLED mails
    that have one and whose parent is in the bucket.
    """
    return (
        tree.filter(pl.col("parent_id").is_in(tree["message_id"].implode()))
        .select("message_id", "parent_id")
        .join(blocks.select("message_id").unique(), on="message_id", how="semi")
        .sort(pl.col("message_id").hash(seed=0), "message_id")
        .head(_SAMPLED)
        .sort("message_id")
    )


def quoted_lines(pairs: pl.DataFrame, bodies: pa.Table, blocks: pl.DataFrame) -> pl.DataFrame:
    """Columns message_id, lines and matching: quoted lines of depth 1, and those that the parent's
    body contains.

    `bodies` has message_id and body of the mails of `pairs` and their parents; `blocks` are quotes
    of depth 1. Lines are compared without blanks, line ends and quote marks, so that rewrapped text
    matches; lines below _LINE_CHARS characters do not count.
    """
    ids = pl.DataFrame(bodies.select(["message_id"])).with_row_index("row").cast({"row": pl.Int64})
    quotes = blocks.join(ids, on="message_id").select(
        "row", block_start="byte_start", block_end="byte_end"
    )
    inside = (
        body_lines(bodies.column("body").combine_chunks())
        .sort("row", "byte_start")
        .join_asof(
            quotes.sort("row", "block_start"),
            left_on="byte_start",
            right_on="block_start",
            by="row",
            check_sortedness=False,
        )
        .filter(pl.col("byte_start") < pl.col("block_end"))
    )
    quotes_of_parents = (
        inside.join(ids, on="row")
        .join(pairs, on="message_id")
        .select("message_id", "parent_id", "line")
    )
    return _matching_lines(quotes_of_parents, "message_id", bodies)


def anchors_in_parent(pairs: pl.DataFrame, bodies: pa.Table, chunks: pl.DataFrame) -> pl.DataFrame:
    """Columns chunk_id, lines and matching: as `quoted_lines`, of the anchors of chunks of `pairs`.

    `chunks` needs chunk_id, doc_id, anchor_source and quote_lex.
    """
    quoting = chunks.filter(anchor_source="quote").select("chunk_id", "doc_id", "quote_lex")
    anchored = quoting.join(pairs, left_on="doc_id", right_on="message_id")
    lines = anchored.select(
        "chunk_id", "parent_id", line=pl.col("quote_lex").str.split("\n")
    ).explode("line")
    return _matching_lines(lines, "chunk_id", bodies)


def _matching_lines(lines: pl.DataFrame, key: str, bodies: pa.Table) -> pl.DataFrame:
    """The number of lines and of those in the body of `parent_id`, by `key`."""
    plain = lines.with_columns(line=pl.col("line").str.replace_all(r"[\s>]+", "")).filter(
        pl.col("line").str.len_chars() >= _LINE_CHARS
    )
    ids = pl.DataFrame({"message_id": plain["parent_id"].unique()})
    parents = pl.DataFrame(bodies).join(ids, on="message_id", how="semi")
    squeezed = parents.select("message_id", pl.col("body").str.replace_all(r"[\s>]+", ""))
    text_of = dict(squeezed.iter_rows())
    matching = [
        line in text_of[parent] for parent, line in plain.select("parent_id", "line").iter_rows()
    ]
    return (
        plain.with_columns(matching=pl.Series(matching, dtype=pl.Boolean))
        .group_by(key)
        .agg(lines=pl.len(), matching=pl.col("matching").sum())
        .sort(key)
    )


def counts_of_bucket(tables: BucketTables) -> pa.Table:
    """The `measure_counts` of the mails of one bucket, by their key, so that equal mails give equal
    bytes.
    """
    lists = pl.DataFrame(tables.messages.select(["message_id", "list_id"])).with_columns(
        pl.col("list_id").fill_null("")
    )
    tree, stored = pl.DataFrame(tables.tree), pl.DataFrame(tables.chunks)
    blocks = (
        pl.DataFrame(tables.blocks.select(BLOCK_COLUMNS))
        .filter(kind="quote", quote_depth=1)
        .unique()
    )
    chunks = (
        stored.filter(pl.col("attachment_id").is_null())
        .join(lists, left_on="doc_id", right_on="message_id")
        .join(
            tree.select(doc_id="message_id", answers="parent_id", thread_id="thread_id"),
            on="doc_id",
        )
        .with_columns(
            authored_chars=pl.col("text_lex").str.len_chars(),
            has_parent=pl.col("answers").is_in(tree["message_id"].implode()).fill_null(False),
        )
    )
    pairs, bodies = quoted_sample(blocks, tree), tables.messages.select(["message_id", "body"])
    quoted = quoted_lines(pairs, bodies, blocks).join(lists, on="message_id")
    anchors = anchors_in_parent(pairs, bodies, chunks).join(
        chunks.select("chunk_id", "list_id"), on="chunk_id"
    )
    shares = [
        *_chunk_measures(chunks),
        *_duplicates(chunks),
        *_mail_measures(chunks, stored["doc_id"], lists),
        *_thread_measures(tree, pl.DataFrame(tables.attachments), lists),
        _share("quoted_lines_in_parent", quoted, "matching", "lines"),
        _share("anchors_in_parent", anchors, pl.col("matching") * 2 >= pl.col("lines")),
        _defects(tables.messages, lists),
    ]
    counted = [f.with_columns(pl.col("numerator", "denominator").cast(pl.Int64)) for f in shares]
    rows = pl.concat(counted, how="diagonal")
    return MEASURE_COUNTS.conform(
        rows.sort(MEASURE_COUNTS.key).select(MEASURE_COUNTS.names).to_arrow()
    )


def corpus_measures(counts: ibis.Table) -> ibis.Table:
    """The `corpus_measures` of the `measure_counts` of all buckets."""
    sums = counts.group_by(CORPUS_MEASURES.key).agg(
        numerator=counts.numerator.sum(), denominator=counts.denominator.sum()
    )
    # A bucket in which no mail has a defect has no row of it, and its mails count all the same.
    total = sums.denominator.max(where=sums.measure == "mails_without_chunk").over(
        group_by="list_id"
    )
    whole = ibis.ifelse(sums.measure == "parse_defects", total, sums.denominator)
    measured = sums.mutate(denominator=whole).mutate(
        value=lambda t: (t.numerator / t.denominator.nullif(0)).fill_null(0.0)
    )
    return measured.select(CORPUS_MEASURES.names).order_by(CORPUS_MEASURES.key)


_ONE = pl.col("list_id").is_not_null().cast(pl.Int64)
"""1 for each row, so that a sum counts rows."""


def _share(
    measure: str, frame: pl.DataFrame, numerator: str | pl.Expr, denominator: str | pl.Expr = _ONE
) -> pl.DataFrame:
    """One row per list: the sums of two columns or expressions."""
    numbers = [pl.col(e) if isinstance(e, str) else e for e in (numerator, denominator)]
    sums = frame.group_by("list_id").agg(numerator=numbers[0].sum(), denominator=numbers[1].sum())
    return sums.with_columns(measure=pl.lit(measure), detail=pl.lit(""))


def _chunk_measures(bodies: pl.DataFrame) -> list[pl.DataFrame]:
    needing = bodies.filter("needs_parent")
    anchored = pl.col("anchor_source") == "quote"
    mostly = pl.col("quote_anchor_chars") >= _MOSTLY_QUOTED_SHARE * pl.col("char_count")
    return [
        _share("quote_share_of_chunks", bodies, "quote_anchor_chars", "char_count"),
        _share("mostly_quoted_chunks", bodies, mostly),
        _share("chunks_that_need_their_parent", bodies, "needs_parent"),
        _share("needed_parents_found", needing, "has_parent"),
        _share("anchored_replies", bodies.filter(pl.col("parent_id").is_not_null()), anchored),
    ]


def _duplicates(bodies: pl.DataFrame) -> list[pl.DataFrame]:
    """Chunks most of whose text is in other mails of their thread: by their own text, and by all
    they show.
    """
    lines = compared_lines(bodies)
    lists = bodies.select("list_id", chunk=pl.col("chunk_id").hash(seed=0))
    return [
        _share(measure, _repeated(compared).join(lists, on="chunk"), "is_duplicate")
        for measure, compared in (
            ("near_duplicate_chunks", lines),
            ("near_duplicate_authored", lines.filter(~pl.col("is_quoted"))),
        )
    ]


def _repeated(lines: pl.DataFrame) -> pl.DataFrame:
    """Columns chunk and is_duplicate, for chunks that have lines to compare."""
    alone = pl.col("mail").min() == pl.col("mail").max()
    shared = lines.group_by("thread", "line").agg(is_shared=~alone)
    repeated = pl.col("chars").filter("is_shared").sum() >= _DUPLICATE_SHARE * pl.col("chars").sum()
    return lines.join(shared, on=["thread", "line"]).group_by("chunk").agg(is_duplicate=repeated)


def _mail_measures(
    bodies: pl.DataFrame, chunked: pl.Series, lists: pl.DataFrame
) -> list[pl.DataFrame]:
    pairs = pl.col("chunk_kind").is_in(["quote_reply_pair", "review_pair"])
    mails = bodies.group_by("list_id", "doc_id").agg(
        authored=pl.col("authored_chars").sum(),
        is_reply=pairs.any(),
        is_review=((pl.col("chunk_kind") == "review_pair") & pl.col("has_patch_markers")).any(),
    )
    short = pl.col("is_reply") & (pl.col("authored") < _SHORT_REPLY_CHARS)
    return [
        _share("short_replies", mails.filter("is_reply"), short),
        _share("patch_reviews", mails, "is_review"),
        _share("mails_without_chunk", lists, ~pl.col("message_id").is_in(chunked.implode())),
    ]


def _thread_measures(
    tree: pl.DataFrame, attachments: pl.DataFrame, lists: pl.DataFrame
) -> list[pl.DataFrame]:
    attached = attachments.group_by("message_id").agg(attached=pl.len())
    threads = (
        tree.join(lists, on="message_id")
        .join(attached, on="message_id", how="left")
        .group_by("list_id", "thread_id")
        .agg(size=pl.len(), attached=pl.col("attached").sum())
    )
    return [
        _share("long_debates", threads, pl.col("size") >= _LONG_THREAD_MESSAGES),
        _share("attachment_heavy_threads", threads, pl.col("attached") >= _MANY_ATTACHMENTS),
    ]


def _defects(messages: pa.Table, lists: pl.DataFrame) -> pl.DataFrame:
    """One row per list and kind of defect: the mails that have it, of all of the list."""
    kinds = (
        pl.DataFrame(messages.select(["message_id", "defects"]))
        .explode("defects")
        .drop_nulls("defects")
    )
    kinds = kinds.with_columns(detail=pl.col("defects").str.extract(r"^([^:]+)")).unique(
        ["message_id", "detail"]
    )
    totals = lists.group_by("list_id").agg(denominator=pl.len())
    return (
        kinds.join(lists, on="message_id")
        .group_by("list_id", "detail")
        .agg(numerator=pl.len())
        .join(totals, on="list_id")
        .with_columns(measure=pl.lit("parse_defects"))
    )
