"""Tables of mail to measures of each list: quotes, duplicates, parents, defects, kinds of discussion.

These are the counts in the evaluation plan of the pginbox design.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import ibis
import polars as pl
import pyarrow as pa

from transforms.mail.threads.inferred_quotes import body_lines
from transforms.mail.threads.threads import canonical
from transforms.schemas.operations import CORPUS_MEASURES

VERSION = "2"

MESSAGE_COLUMNS = ("message_id", "list_id", "defects")
BODY_COLUMNS = (
    "chunk_id", "doc_id", "parent_id", "chunk_kind", "char_count", "quote_anchor_chars", "anchor_source",
    "has_patch_markers", "needs_parent",
)  # fmt: skip
_TEXTS = {"text_lex": False, "quote_lex": True}
"""The texts of a chunk whose lines are compared, and whether they are quoted."""
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
_SAMPLED = 5_000
"""Mails with quotes whose text is compared with the mail they answer."""
_CHUNKS_AT_ONCE = 20_000
_OTHER_BLANKS = r"[^\S\n ]+|  +"


class MailTables(NamedTuple):
    """Tables of mails that are each present once, as input of `corpus_measures`.

    `messages` needs MESSAGE_COLUMNS, `bodies` is `body_chunks`, `lines` is `compared_lines`; `chunked` has the doc_id
    of each mail that has chunks; `tree` and `context` are `thread_tree` and `chunk_context`; `attachments` needs
    message_id.
    """

    messages: pa.Table
    bodies: pa.Table
    chunked: pa.Table
    lines: pl.DataFrame
    tree: pa.Table
    context: pa.Table
    attachments: pa.Table


class LakeTables(NamedTuple):
    """The stored tables behind the measures: messages, blocks, chunks and attachments of every copy of a mail."""

    messages: ibis.Table
    memberships: ibis.Table
    blocks: ibis.Table
    chunks: ibis.Table
    attachments: ibis.Table
    tree: ibis.Table
    context: ibis.Table


def measures_of_lake(lake: LakeTables) -> pa.Table:
    """The result of `corpus_measures`, a mail with several copies counted once."""

    def once(table: ibis.Table, columns: Sequence[str], key: str = "message_id") -> ibis.Table:
        return canonical(table.select("source", "partition", *columns), lake.memberships, key)

    tree = lake.tree.to_pyarrow()
    blocks = quote_blocks(lake.blocks)
    pairs = quoted_sample(blocks, tree)
    bodies = compared_bodies(once(lake.messages, ("message_id", "body")), pairs).to_pyarrow()
    body = lake.chunks.filter(lake.chunks.attachment_id.isnull())
    texts = once(body, ("chunk_id", "doc_id", *_TEXTS), "doc_id")
    mail = MailTables(
        once(lake.messages, MESSAGE_COLUMNS).to_pyarrow(),
        once(body_chunks(body), (*BODY_COLUMNS, "authored_chars"), "doc_id").to_pyarrow(),
        once(lake.chunks, ("doc_id",), "doc_id").select("doc_id").distinct().to_pyarrow(),
        compared_lines(texts.to_pyarrow_batches(chunk_size=_CHUNKS_AT_ONCE)),
        tree,
        lake.context.select("chunk_id", "context_kind").to_pyarrow(),
        once(lake.attachments, ("message_id",)).to_pyarrow(),
    )
    anchored = body.filter(body.anchor_source == "quote").semi_join(
        ibis.memtable(pairs.select(doc_id="message_id").to_arrow()), "doc_id"
    )
    anchors = once(anchored, ("chunk_id", "doc_id", "anchor_source", "quote_lex"), "doc_id").to_pyarrow()
    quoted = quoted_lines(pairs, bodies, blocks)
    return corpus_measures(mail, quoted, anchors_in_parent(pairs, bodies, anchors))


def body_chunks(chunks: ibis.Table) -> ibis.Table:
    """The chunks of bodies without their texts: BODY_COLUMNS and authored_chars, what is beside these left as it is."""
    bodies = chunks.filter(chunks.attachment_id.isnull())
    return bodies.mutate(authored_chars=bodies.text_lex.length()).drop(*_TEXTS)


def compared_lines(bodies: Iterable[pa.RecordBatch], line_chars: int = _LINE_CHARS) -> pl.DataFrame:
    """The longer lines of chunks, some of these in memory at a time: what is needed to find them again elsewhere.

    Columns `chunk`, `mail` and `line`, each a hash of 64 bits, `chars`, and `is_quoted`. `bodies` have chunk_id,
    doc_id, text_lex and quote_lex.
    """
    line = pl.col("line").str.strip_chars()
    hashed = {"chunk": pl.col("chunk_id").hash(seed=0), "mail": pl.col("doc_id").hash(seed=0)}
    none = {
        "chunk": pl.UInt64,
        "mail": pl.UInt64,
        "line": pl.UInt64,
        "chars": pl.UInt32,
        "is_quoted": pl.Boolean,
    }
    tables = [pl.DataFrame(schema=none)]
    for batch in bodies:
        frame = pl.DataFrame(batch)
        for column, is_quoted in _TEXTS.items():
            # A whole text at a time, and single spaces left alone: three times as fast as each line by one pattern.
            text = pl.col(column).str.replace_all(_OTHER_BLANKS, " ").str.replace_all("  +", " ")
            tables.append(
                frame.select(**hashed, line=text.str.split("\n"))
                .explode("line")
                .filter(pl.col("line").str.len_bytes() >= line_chars)
                .with_columns(line=line)
                .with_columns(chars=pl.col("line").str.len_chars(), is_quoted=is_quoted)
                .filter(pl.col("chars") >= line_chars)
                .with_columns(line=pl.col("line").hash(seed=0))
            )
    return pl.concat(tables)


def quote_blocks(blocks: ibis.Table) -> pl.DataFrame:
    """Columns message_id, byte_start and byte_end of the quotes of depth 1, those of copies once."""
    quotes = blocks.filter((blocks.kind == "quote") & (blocks.quote_depth == 1))
    return pl.DataFrame(quotes.select("message_id", "byte_start", "byte_end").distinct().to_pyarrow())


def compared_bodies(messages: ibis.Table, pairs: pl.DataFrame) -> ibis.Table:
    """Columns message_id and body of the mails of `quoted_sample` and of those they answer."""
    ids = pl.concat([pairs["message_id"], pairs["parent_id"].alias("message_id")]).unique()
    ids_table = ibis.memtable(ids.to_frame().to_arrow())
    # A view, since Ibis takes a join of what is a join already for one chain, which knows no computed columns.
    return messages.view().semi_join(ids_table, "message_id").select("message_id", "body")


def as_metadata(measured: pa.Table) -> dict[str, float]:
    """The values of `corpus_measures` by name, as `list: measure (detail)`."""
    return {
        f"{r['list_id']}: {r['measure']}" + (f" ({r['detail']})" if r["detail"] else ""): r["value"]
        for r in measured.to_pylist()
    }


def quoted_sample(blocks: pl.DataFrame, tree: pa.Table) -> pl.DataFrame:
    """Columns message_id and parent_id: the mails whose quotes are compared, the same ones each time.

    `blocks` is the result of `quote_blocks`. Taken are, in the order of a hash of their ids, `sampled`
    mails with quotes of depth 1 whose parent is in the lake.
    """
    ghosts = pl.DataFrame(tree.select(["message_id", "is_ghost"])).filter("is_ghost")
    parents = pl.DataFrame(tree.select(["message_id", "parent_id"])).drop_nulls()
    present = parents.join(ghosts, left_on="parent_id", right_on="message_id", how="anti")
    return (
        present.join(blocks.select("message_id").unique(), on="message_id", how="semi")
        .sort(pl.col("message_id").hash(seed=0), "message_id")
        .head(_SAMPLED)
        .sort("message_id")
    )


def quoted_lines(pairs: pl.DataFrame, bodies: pa.Table, blocks: pl.DataFrame) -> pl.DataFrame:
    """Columns message_id, lines and matching: quoted lines of depth 1, and those that the parent's body contains.

    `bodies` has message_id and body of the mails of `pairs` and their parents; `blocks` is the
    result of `quote_blocks`. Lines are compared without blanks, line ends and quote marks, so that
    rewrapped text matches; lines below _LINE_CHARS characters do not count.
    """
    ids = pl.DataFrame(bodies.select(["message_id"])).with_row_index("row").cast({"row": pl.Int64})
    quotes = blocks.join(ids, on="message_id").select("row", block_start="byte_start", block_end="byte_end")
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
        inside.join(ids, on="row").join(pairs, on="message_id").select("message_id", "parent_id", "line")
    )
    return _matching_lines(quotes_of_parents, "message_id", bodies)


def anchors_in_parent(pairs: pl.DataFrame, bodies: pa.Table, chunks: pa.Table) -> pl.DataFrame:
    """Columns chunk_id, lines and matching: as `quoted_lines`, of the anchors of chunks of `pairs`.

    `chunks` needs chunk_id, doc_id, anchor_source and quote_lex.
    """
    frame = pl.DataFrame(chunks.select(["chunk_id", "doc_id", "anchor_source", "quote_lex"]))
    anchored = frame.filter(pl.col("anchor_source") == "quote").join(
        pairs, left_on="doc_id", right_on="message_id"
    )
    lines = anchored.select("chunk_id", "parent_id", line=pl.col("quote_lex").str.split("\n")).explode("line")
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
    matching = [line in text_of[parent] for parent, line in plain.select("parent_id", "line").iter_rows()]
    return (
        plain.with_columns(matching=pl.Series(matching, dtype=pl.Boolean))
        .group_by(key)
        .agg(lines=pl.len(), matching=pl.col("matching").sum())
        .sort(key)
    )


def corpus_measures(tables: MailTables, quoted: pl.DataFrame, anchors: pl.DataFrame) -> pa.Table:
    """The `corpus_measures` table; `quoted` is from `quoted_lines`, `anchors` from `anchors_in_parent`."""
    lists = pl.DataFrame(tables.messages.select(["message_id", "list_id"])).with_columns(
        pl.col("list_id").fill_null("")
    )
    chunks = pl.DataFrame(tables.bodies).join(lists, left_on="doc_id", right_on="message_id")
    chunked = pl.DataFrame(tables.chunked)["doc_id"]
    shares = [
        *_chunk_measures(chunks, pl.DataFrame(tables.context)),
        *_duplicates(chunks, tables.lines),
        *_mail_measures(chunks, chunked, lists),
        *_thread_measures(tables, lists),
        _share("quoted_lines_in_parent", quoted.join(lists, on="message_id"), "matching", "lines"),
        _share(
            "anchors_in_parent",
            anchors.join(chunks.select("chunk_id", "list_id"), on="chunk_id"),
            pl.col("matching") * 2 >= pl.col("lines"),
            _one(),
        ),
        _defects(tables.messages, lists),
    ]
    rows = pl.concat([f.with_columns(pl.col("numerator", "denominator").cast(pl.Int64)) for f in shares])
    value = (pl.col("numerator") / pl.col("denominator")).fill_nan(0.0)
    table = rows.with_columns(value=value).sort("list_id", "measure", "detail")
    return CORPUS_MEASURES.conform(table.select(CORPUS_MEASURES.names).to_arrow())


def _share(
    measure: str, frame: pl.DataFrame, numerator: str | pl.Expr, denominator: str | pl.Expr
) -> pl.DataFrame:
    """One row per list: the sums of two columns or expressions."""
    numbers = [pl.col(e) if isinstance(e, str) else e for e in (numerator, denominator)]
    return (
        frame.group_by("list_id")
        .agg(numerator=numbers[0].sum(), denominator=numbers[1].sum())
        .select(
            "list_id",
            pl.lit(measure).alias("measure"),
            pl.lit("").alias("detail"),
            "numerator",
            "denominator",
        )
    )


def _chunk_measures(bodies: pl.DataFrame, context: pl.DataFrame) -> list[pl.DataFrame]:
    needing = bodies.filter("needs_parent").with_columns(
        has_parent=pl.col("chunk_id").is_in(
            context.filter(pl.col("context_kind").str.starts_with("parent"))["chunk_id"].implode()
        )
    )
    anchored = pl.col("anchor_source") == "quote"
    mostly = pl.col("quote_anchor_chars") >= _MOSTLY_QUOTED_SHARE * pl.col("char_count")
    return [
        _share("quote_share_of_chunks", bodies, "quote_anchor_chars", "char_count"),
        _share("mostly_quoted_chunks", bodies, mostly, _one()),
        _share("chunks_that_need_their_parent", bodies, "needs_parent", _one()),
        _share("needed_parents_found", needing, "has_parent", _one()),
        _share("anchored_replies", bodies.filter(pl.col("parent_id").is_not_null()), anchored, _one()),
    ]


def _one() -> pl.Expr:
    """1 for each row, so that a sum counts rows."""
    return pl.col("list_id").is_not_null().cast(pl.Int64)


def _duplicates(bodies: pl.DataFrame, lines: pl.DataFrame) -> list[pl.DataFrame]:
    """Chunks most of whose text stands in other mails too: by their own text, and by all they show."""
    lists = bodies.select("list_id", chunk=pl.col("chunk_id").hash(seed=0))
    return [
        _share(measure, _repeated(compared).join(lists, on="chunk"), "is_duplicate", _one())
        for measure, compared in (
            ("near_duplicate_chunks", lines),
            ("near_duplicate_authored", lines.filter(~pl.col("is_quoted"))),
        )
    ]


def _repeated(lines: pl.DataFrame) -> pl.DataFrame:
    """Columns chunk and is_duplicate, for chunks that have lines to compare."""
    alone = pl.col("mail").min() == pl.col("mail").max()
    shared = lines.group_by("line").agg(is_shared=~alone)
    repeated = pl.col("chars").filter("is_shared").sum() >= _DUPLICATE_SHARE * pl.col("chars").sum()
    return lines.join(shared, on="line").group_by("chunk").agg(is_duplicate=repeated)


def _mail_measures(bodies: pl.DataFrame, chunked: pl.Series, lists: pl.DataFrame) -> list[pl.DataFrame]:
    pairs = pl.col("chunk_kind").is_in(["quote_reply_pair", "review_pair"])
    mails = bodies.group_by("list_id", "doc_id").agg(
        authored=pl.col("authored_chars").sum(),
        is_reply=pairs.any(),
        is_review=((pl.col("chunk_kind") == "review_pair") & pl.col("has_patch_markers")).any(),
    )
    short = pl.col("is_reply") & (pl.col("authored") < _SHORT_REPLY_CHARS)
    return [
        _share("short_replies", mails.filter("is_reply"), short, _one()),
        _share("patch_reviews", mails, "is_review", _one()),
        _share("mails_without_chunk", lists, ~pl.col("message_id").is_in(chunked.implode()), _one()),
    ]


def _thread_measures(tables: MailTables, lists: pl.DataFrame) -> list[pl.DataFrame]:
    attached = (
        pl.DataFrame(tables.attachments.select(["message_id"])).group_by("message_id").agg(attached=pl.len())
    )
    tree = pl.DataFrame(tables.tree.select(["message_id", "thread_id", "is_ghost"])).filter(
        ~pl.col("is_ghost")
    )
    threads = (
        tree.join(lists, on="message_id")
        .join(attached, on="message_id", how="left")
        .group_by("list_id", "thread_id")
        .agg(size=pl.len(), attached=pl.col("attached").sum())
    )
    return [
        _share("long_debates", threads, pl.col("size") >= _LONG_THREAD_MESSAGES, _one()),
        _share("attachment_heavy_threads", threads, pl.col("attached") >= _MANY_ATTACHMENTS, _one()),
    ]


def _defects(messages: pa.Table, lists: pl.DataFrame) -> pl.DataFrame:
    """One row per list and kind of defect: the mails that have it, of all of the list."""
    kinds = pl.DataFrame(messages.select(["message_id", "defects"])).explode("defects").drop_nulls("defects")
    kinds = kinds.with_columns(detail=pl.col("defects").str.extract(r"^([^:]+)")).unique(
        ["message_id", "detail"]
    )
    totals = lists.group_by("list_id").agg(denominator=pl.len())
    return (
        kinds.join(lists, on="message_id")
        .group_by("list_id", "detail")
        .agg(numerator=pl.len())
        .join(totals, on="list_id")
        .select("list_id", pl.lit("parse_defects").alias("measure"), "detail", "numerator", "denominator")
    )
