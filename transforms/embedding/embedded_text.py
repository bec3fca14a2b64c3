"""The texts that chunks are embedded by: the additions of a join over the lake to a chunk, and
batches of one size.
"""

import re
from collections.abc import Iterator, Sequence

import ibis
import pyarrow as pa

from transforms.hashing import text_hash
from transforms.mail.threads import threads
from transforms.schemas.chunks import CHUNK_CONTEXT, UNEMBEDDED
from transforms.schemas.table import TEXT, rows_of

_PARENT_CHARS = 800
"""Characters of the answered mail that a short reply without anchor is embedded with."""
_ENOUGH_CHARS = 200
"""Characters of answered text below which the mails above it are added ("Fine with me as well.")."""
_MAILS_ABOVE = 3
"""Mails above the answered one that are added at most."""
_SUBSTANCE = re.compile(r"[^\W_]")
_MANY_BREAKS = re.compile(r"\n{3,}")


def parent_context(
    chunks: ibis.Table, messages: ibis.Table, tree: ibis.Table, quotes: ibis.Table
) -> tuple[pa.Table, pa.Table]:
    """The table `chunk_context` without sentences, and the result of `quotes_moved`, of mail that
    is published.

    `messages` needs message_id and body; `quotes` is `inferred_quotes`.
    """
    requoted_texts = quotes_moved(
        chunks_with_quotes(chunks, quotes).to_pyarrow(),
        quoting_bodies(messages, quotes).to_pyarrow(),
    )
    return chunk_context(parent_texts(chunks, tree).to_pyarrow(), requoted_texts), requoted_texts


def quoting_bodies(messages: ibis.Table, quotes: ibis.Table) -> ibis.Table:
    """Columns message_id and body of the mails that have inferred quotes."""
    # A view, since Ibis takes a join of a join for one chain, which knows no computed columns.
    return messages.view().semi_join(quotes, "message_id").select("message_id", "body")


def parent_texts(chunks: ibis.Table, tree: ibis.Table, chars: int = _PARENT_CHARS) -> ibis.Table:
    """For each chunk that needs its parent and has it in the lake: the text that it answers.

    Columns chunk_id, title, text_lex and context: at most `chars` characters of the authored text
    of the first chunk of the mail above it in `thread_tree`; below `_ENOUGH_CHARS` the mails above
    that one stand before it, oldest first, until there are as many. pginbox, rule 5.
    """
    body = chunks.filter(chunks.attachment_id.isnull())
    openings = body.filter((body.chunk_index == 0) & (body.text_lex.strip() != "")).select(
        opens="doc_id", opening="text_lex", opening_source="source", opening_partition="partition"
    )
    copies = ibis.window(group_by="opens", order_by=["opening_source", "opening_partition"])
    first_texts = openings.mutate(nth=ibis.row_number().over(copies)).filter(lambda t: t.nth == 0)
    parents = tree.select(reply="message_id", answered="parent_id")
    needing = body.filter(body.needs_parent).select("chunk_id", "doc_id", "title", "text_lex")
    answering = needing.join(parents, needing.doc_id == parents.reply)
    replies = answering.join(first_texts, answering.answered == first_texts.opens).select(
        "chunk_id", "title", "text_lex", above="answered", context=lambda t: t.opening.left(chars)
    )
    for _ in range(_MAILS_ABOVE):
        replies = _with_mail_above(replies, parents, first_texts, chars)
    return replies.select("chunk_id", "title", "text_lex", "context").order_by("chunk_id")


def _with_mail_above(
    replies: ibis.Table, parents: ibis.Table, first_texts: ibis.Table, chars: int
) -> ibis.Table:
    """`replies` (chunk_id, title, text_lex, above, context) with the mail above `above` before a
    context that is still too short.
    """
    # Views, since Ibis takes a join of a join for one chain, which knows no computed columns.
    replies = replies.view()
    above = replies.left_join(parents, replies.above == parents.reply)
    above = above.select(*replies.columns, "answered").view()
    both = above.left_join(first_texts, above.answered == first_texts.opens)
    short = (both.context.length() < min(_ENOUGH_CHARS, chars)) & both.opening.notnull()
    longer = both.opening.left(chars - both.context.length()) + "\n\n" + both.context
    return both.select(
        "chunk_id",
        "title",
        "text_lex",
        above="answered",
        context=ibis.ifelse(short, longer, both.context),
    )


def chunks_with_quotes(chunks: ibis.Table, quotes: ibis.Table) -> ibis.Table:
    """The chunks of bodies that hold inferred quotes among their own text, one row per such quote.

    Columns chunk_id, doc_id, text_lex, quote_lex, text_embed, byte_start and byte_end.
    """
    bodies = chunks.filter(chunks.attachment_id.isnull()).select(
        "chunk_id", "doc_id", "text_lex", "quote_lex", "text_embed", "spans"
    )
    chunk_quotes = bodies.join(quotes, bodies.doc_id == quotes.message_id)
    spans = chunk_quotes.mutate(span=chunk_quotes.spans.unnest()).filter(
        lambda t: t.span.role == "own"
    )
    overlap = spans.filter(
        lambda t: (t.span.byte_start < t.byte_end) & (t.span.byte_end > t.byte_start)
    )
    columns = [
        "chunk_id",
        "doc_id",
        "text_lex",
        "quote_lex",
        "text_embed",
        "byte_start",
        "byte_end",
    ]
    return overlap.select(columns).distinct().order_by("chunk_id", "byte_start")


def quotes_moved(chunks_with_quotes: pa.Table, messages: pa.Table) -> pa.Table:
    """Columns chunk_id, text_lex, quote_lex, text_embed and is_quote: chunks with inferred quotes
    as quotes.

    The quoted lines go from `text_lex` to `quote_lex` and leave `text_embed`. A chunk that has
    nothing else (`is_quote`) keeps its `text_embed`. `messages` has the message_id and body of
    each.
    """
    bodies = {name: body.encode() for name, body in rows_of(messages, "message_id", "body")}
    quote_lines: dict[str, set[str]] = {}
    chunks: dict[str, dict[str, str]] = {}
    for row in chunks_with_quotes.to_pylist():
        text = bodies[row["doc_id"]][row["byte_start"] : row["byte_end"]].decode()
        quote_lines.setdefault(row["chunk_id"], set()).update(
            line.strip() for line in text.splitlines()
        )
        chunks[row["chunk_id"]] = row
    rows = []
    for chunk_id, chunk in sorted(chunks.items()):
        lines = quote_lines[chunk_id] - {""}
        own_text, moved_lines = _split_lines(chunk["text_lex"], lines)
        if moved_lines:
            is_quote = not _SUBSTANCE.search(own_text)
            embed = chunk["text_embed"] if is_quote else _split_lines(chunk["text_embed"], lines)[0]
            rows.append(
                (
                    chunk_id,
                    own_text,
                    f"{chunk['quote_lex']}\n{moved_lines}".strip("\n"),
                    embed,
                    is_quote,
                )
            )
    names = ["chunk_id", "text_lex", "quote_lex", "text_embed", "is_quote"]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    kinds = [pa.string(), TEXT, TEXT, TEXT, pa.bool_()]
    return pa.table([pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], names=names)


def _split_lines(text: str, lines: set[str]) -> tuple[str, str]:
    """`text` without the lines of `lines`, and those lines."""
    remaining: list[str] = []
    moved_lines: list[str] = []
    for line in text.split("\n"):
        (moved_lines if line.strip() in lines else remaining).append(line)
    return _MANY_BREAKS.sub("\n\n", "\n".join(remaining)).strip("\n"), "\n".join(moved_lines)


def chunk_context(parents: pa.Table, quotes_moved: pa.Table) -> pa.Table:
    """The `chunk_context` table from the results of `parent_texts` and `quotes_moved`."""
    changed = {r["chunk_id"]: r for r in quotes_moved.to_pylist()}
    rows = {
        i: ("", "quote" if r["is_quote"] else "unquoted", r["text_embed"])
        for i, r in changed.items()
    }
    for row in parents.to_pylist():
        chunk_id, context = row["chunk_id"], row["context"]
        change = changed.get(chunk_id)
        if change is None or not change["is_quote"]:
            reply = change["text_lex"] if change else row["text_lex"]
            kind = "parent_unquoted" if change else "parent"
            subject = f"Subject: {row['title']}\n\n" if row["title"] else ""
            text = f"{subject}In reply to:\n{context.strip()}\n\nReply:\n{reply.strip()}"
            rows[chunk_id] = (context, kind, text)
    return CHUNK_CONTEXT.from_rows(
        [
            dict(
                zip(
                    CHUNK_CONTEXT.names,
                    (chunk_id, *context, "", "", text, text_hash(text)),
                    strict=True,
                )
            )
            for chunk_id, (*context, text) in sorted(rows.items())
        ]
    )


def published_chunks(
    message_chunks: ibis.Table,
    document_chunks: ibis.Table,
    conversation_chunks: ibis.Table,
    memberships: ibis.Table,
) -> ibis.Table:
    """The chunks of all source types that are published: of mail those of the canonical copies.

    The columns are those of `message_chunks`: `source`, `partition`, `doc_id` and as many others as
    are needed.
    """
    return threads.canonical(message_chunks, memberships, "doc_id").union(
        *(
            chunks.select(message_chunks.columns)
            for chunks in (document_chunks, conversation_chunks)
        )
    )


def texts_to_embed(chunks: ibis.Table, context: ibis.Table) -> ibis.Table:
    """Columns partition, text_hash and text, one row per chunk that has one: the text it is
    embedded by.
    """
    context_texts = context.select("chunk_id", context_hash="checksum", context_text="text_embed")
    # By its hash: to look whether the text itself is empty would read the texts of all chunks,
    # whatever is asked of them.
    own_texts = chunks.filter(chunks.checksum != UNEMBEDDED).select(
        "chunk_id", "partition", "checksum", "text_embed"
    )
    return own_texts.left_join(context_texts, own_texts.chunk_id == context_texts.chunk_id).select(
        "partition",
        text_hash=lambda t: ibis.coalesce(t.context_hash, t.checksum),
        text=lambda t: ibis.coalesce(t.context_text, t.text_embed),
    )


def embedded_chunks(
    document_chunks: ibis.Table, context: ibis.Table, embeddings: ibis.Table
) -> ibis.Table:
    """The chunks of documents with their vectors, ordered by document and position.

    Columns chunk_id, doc_id, chunk_index, heading_path, text_display and vector.
    """
    vectors = embeddings.select("text_hash", "vector")
    # A view, since Ibis takes a join of a join for one chain, which knows no computed columns.
    joined = document_chunks.view().left_join(
        context.select("chunk_id", context_hash="checksum"), "chunk_id"
    )
    hashed = joined.mutate(hashed=ibis.coalesce(joined.context_hash, joined.checksum))
    return (
        hashed.join(vectors, hashed.hashed == vectors.text_hash)
        .select("chunk_id", "doc_id", "chunk_index", "heading_path", "text_display", "vector")
        .order_by("doc_id", "chunk_index")
    )


def texts_by_partition(texts: ibis.Table) -> ibis.Table:
    """Columns text_hash and partition: each of `texts` (partition, text_hash) once, in the first
    that has it.
    """
    return texts.group_by("text_hash").agg(partition=texts.partition.min())


def batches(texts: ibis.Table, hashes: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
    """The rows of `texts` (text_hash, text) with one of `hashes`, one per hash, `size` a batch, the
    last fewer.
    """
    if not hashes:
        return
    requested = ibis.memtable(pa.table({"text_hash": pa.array(hashes, pa.string())}))
    rows_to_embed = texts.filter(texts.text_hash.isin(requested.text_hash)).select(
        "text_hash", "text"
    )
    waiting: list[pa.RecordBatch] = []
    earlier: set[str] = set()
    for batch in rows_to_embed.to_pyarrow_batches(chunk_size=size):
        waiting.append(_unseen(batch, earlier))
        if sum(b.num_rows for b in waiting) < size:
            continue
        # The engine hands out batches of any size: those of full size are cut from their sum.
        rows = pa.concat_batches(waiting)
        full_rows = rows.num_rows - rows.num_rows % size
        yield from (rows.slice(start, size) for start in range(0, full_rows, size))
        waiting = [rows.slice(full_rows)]
    last = pa.concat_batches(waiting) if waiting else None
    if last is not None and last.num_rows:
        yield last


def _unseen(batch: pa.RecordBatch, earlier: set[str]) -> pa.RecordBatch:
    """The rows whose hash is not in `earlier`, to which they are added: to group all texts would
    hold all of them.
    """
    rows = []
    for row, name in enumerate(batch.column("text_hash").to_pylist()):
        if name not in earlier:
            earlier.add(name)
            rows.append(row)
    return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows, pa.int64()))
