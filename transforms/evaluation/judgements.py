"""Right answers as an index holds them: which chunks, documents and threads an entry of ground
truth means.
"""

from typing import NamedTuple

import polars as pl

_DOCUMENT, _SECTION, _EXACT = 0, 100, 1000
"""How exactly an entry names its place; a heading adds its depth. The most exact entry decides a
chunk's grade.
"""

LEVELS = ("document", "thread", "chunk")


class Contents(NamedTuple):
    """The contents of an index, as far as entries can name them.

    chunks: chunk_id, doc_id, thread_id, source_kind, byte_start, byte_end (null for attachments).
    documents: doc_id, thread_id of every mail, note and conversation, chunks or not. threads:
    message_id, thread_id of every mail and ghost. nodes: node_id, doc_id, depth, heading_start,
    byte_end. texts: doc_id, text of the documents that passages name. turns: chunk_id, text of
    chunks of neither mail nor document.
    """

    chunks: pl.DataFrame
    documents: pl.DataFrame
    threads: pl.DataFrame
    nodes: pl.DataFrame
    texts: pl.DataFrame
    turns: pl.DataFrame


class Judgements(NamedTuple):
    """The meaning of entries in an index.

    grades: query_id, level (document, thread or chunk), item, grade. entries: query_id, entry,
    topic, status (found, missing or unanswerable), chunk_ids. passages: query_id, doc_id,
    byte_start, byte_end of exact passages.
    """

    grades: pl.DataFrame
    entries: pl.DataFrame
    passages: pl.DataFrame


def judgements(relevance: pl.DataFrame, contents: Contents) -> Judgements:
    """The right answers in an index by the entries of `schemas.EVALUATION_RELEVANCE`.

    A document is as good as its best chunk, a thread as its best document. Where entries of one
    query overlap, the most exact decides: a heading before the document, a deeper heading before a
    higher one, a mail before its thread. An entry that the index does not hold is `missing` and
    stays a right answer that cannot be found; an entry of a kind that the index holds nothing of
    (chat, where no conversation is published) is `unanswerable` and left out.
    """
    entries = relevance.with_columns(pl.col("entry").cast(pl.Int64))
    ranges = _ranges(entries, contents)
    documents = _documents(entries, contents)
    chunks = _chunks(entries, ranges, documents, contents)
    status = _status(entries, ranges, documents, chunks, contents)
    answerable = status.filter(pl.col("status") != "unanswerable").select("query_id", "entry")
    of_documents = _document_grades(entries, documents, chunks, answerable)
    items = pl.concat(
        [_items(chunks, "chunk", "chunk_id"), of_documents, _thread_grades(of_documents, contents)]
    )
    grades = items.group_by("query_id", "level", "item").agg(pl.col("grade").max()).sort(pl.all())
    chunk_ids = chunks.group_by("query_id", "entry").agg(
        pl.col("chunk_id").sort().alias("chunk_ids")
    )
    statuses = status.join(chunk_ids, on=["query_id", "entry"], how="left").sort(
        "query_id", "entry"
    )
    passages = ranges.join(
        entries.filter(form="passage").select("query_id", "entry"), on=["query_id", "entry"]
    )
    return Judgements(
        grades,
        statuses.with_columns(pl.col("chunk_ids").fill_null([])),
        passages.filter(pl.col("grade") > 0)
        .select("query_id", "doc_id", "byte_start", "byte_end")
        .sort(pl.all()),
    )


def _ranges(entries: pl.DataFrame, contents: Contents) -> pl.DataFrame:
    """Bytes of a document that an entry means: query_id, entry, grade, exactness, doc_id,
    byte_start, byte_end.
    """
    columns = ["query_id", "entry", "grade", "exactness", "doc_id", "byte_start", "byte_end"]
    nodes = entries.filter(form="node").join(contents.nodes, left_on="target", right_on="node_id")
    of_nodes = nodes.with_columns(
        exactness=_SECTION + pl.col("depth"), byte_start=pl.col("heading_start")
    )
    passages = entries.filter(form="passage").join(
        contents.texts, left_on="target", right_on="doc_id", suffix="_of"
    )
    rows = [
        (
            row["query_id"],
            row["entry"],
            row["grade"],
            _EXACT,
            row["target"],
            start,
            start + len(passage),
        )
        for row in passages.iter_rows(named=True)
        for passage in [row["text"].encode()]
        for start in [row["text_of"].encode().find(passage)]
        if start >= 0
    ]
    schema = dict.fromkeys(columns, pl.Int64) | {"query_id": pl.String, "doc_id": pl.String}
    exact = pl.DataFrame(rows, schema=schema, orient="row")
    return pl.concat([of_nodes.select(pl.col(c).cast(schema[c]) for c in columns), exact])


def _documents(entries: pl.DataFrame, contents: Contents) -> pl.DataFrame:
    """Whole documents that an entry means: query_id, entry, grade, exactness, doc_id."""
    by_name = entries.filter(pl.col("form").is_in(["message", "document"])).with_columns(
        exactness=pl.when(form="message").then(_SECTION).otherwise(_DOCUMENT),
        doc_id=pl.col("target"),
    )
    threads = (
        entries.filter(form="thread")
        .join(contents.threads, left_on="target", right_on="message_id")
        .join(contents.documents, on="thread_id")
        .with_columns(exactness=pl.lit(_DOCUMENT))
    )
    columns = ["query_id", "entry", "grade", pl.col("exactness").cast(pl.Int64), "doc_id"]
    doc_ids = contents.documents.select("doc_id")
    return pl.concat([by_name.join(doc_ids, on="doc_id").select(columns), threads.select(columns)])


def _chunks(
    entries: pl.DataFrame, ranges: pl.DataFrame, documents: pl.DataFrame, contents: Contents
) -> pl.DataFrame:
    """Chunks that an entry decides: query_id, entry, grade, chunk_id, doc_id, thread_id."""
    columns = ["query_id", "entry", "grade", "exactness", "chunk_id", "doc_id", "thread_id"]
    overlapping = ranges.join(contents.chunks, on="doc_id", suffix="_of").filter(
        (pl.col("byte_start_of") < pl.col("byte_end"))
        & (pl.col("byte_start") < pl.col("byte_end_of"))
    )
    of_documents = documents.join(contents.chunks, on="doc_id")
    exact = entries.filter(form="chunk").join(
        contents.chunks, left_on="target", right_on="chunk_id"
    )
    chats = entries.filter(form="chat").join(contents.turns, how="cross", suffix="_of")
    turns = chats.filter(pl.col("text_of").str.contains(pl.col("text"), literal=True)).join(
        contents.chunks, on="chunk_id"
    )
    exactly = pl.lit(_EXACT, dtype=pl.Int64).alias("exactness")
    matches = pl.concat(
        [
            overlapping.select(columns),
            of_documents.select(columns),
            exact.with_columns(exactly, chunk_id=pl.col("target")).select(columns),
            turns.with_columns(exactly).select(columns),
        ]
    )
    return matches.filter(
        pl.col("exactness") == pl.col("exactness").max().over("query_id", "chunk_id")
    )


def _status(
    entries: pl.DataFrame,
    ranges: pl.DataFrame,
    documents: pl.DataFrame,
    chunks: pl.DataFrame,
    contents: Contents,
) -> pl.DataFrame:
    """query_id, entry, form, target, text, grade, topic, status of each entry."""
    key = ["query_id", "entry"]
    resolved = (
        pl.concat([t.select(key) for t in (ranges, documents, chunks)])
        .unique()
        .with_columns(is_found=True)
    )
    no_chat = pl.lit("unanswerable" if contents.turns.is_empty() else "missing")
    status = (
        pl.when("is_found")
        .then(pl.lit("found"))
        .when(pl.col("form") == "chat")
        .then(no_chat)
        .otherwise(pl.lit("missing"))
    )
    statuses = entries.join(resolved, on=key, how="left").with_columns(
        pl.col("is_found").fill_null(False)
    )
    return statuses.with_columns(status=status).drop("is_found")


def _document_grades(
    entries: pl.DataFrame, documents: pl.DataFrame, chunks: pl.DataFrame, answerable: pl.DataFrame
) -> pl.DataFrame:
    """Documents by their chunks, by name where they have none, and those that are not there."""
    key = ["query_id", "doc_id"]
    is_exact = pl.col("exactness") == pl.col("exactness").max().over("query_id", "doc_id")
    chunkless = documents.filter(is_exact).join(chunks.select(key).unique(), on=key, how="anti")
    # The document that an entry names; a chat turn that is nowhere has its text for a name.
    node = pl.when(form="node").then(pl.col("target").str.split("#").list.first())
    targets = entries.join(answerable, on=["query_id", "entry"]).with_columns(
        doc_id=node.otherwise(pl.coalesce("target", "text"))
    )
    resolved = pl.concat([d.select("query_id", "entry") for d in (documents, chunks)]).unique()
    absent = targets.join(resolved, on=["query_id", "entry"], how="anti")
    # A message without chunks may be decided by another entry that names it more exactly.
    absent = absent.join(documents.select(key).unique(), on=key, how="anti")
    return pl.concat([_items(frame, "document", "doc_id") for frame in (chunks, chunkless, absent)])


def _thread_grades(graded: pl.DataFrame, contents: Contents) -> pl.DataFrame:
    """Threads by their documents; a document outside of mail, and a missing one, is its own thread."""
    graded = graded.rename({"item": "doc_id"})
    with_thread = graded.join(contents.documents, on="doc_id", how="left").join(
        contents.threads.rename({"message_id": "doc_id", "thread_id": "ghost_thread"}),
        on="doc_id",
        how="left",
    )
    threads = with_thread.with_columns(thread_id=pl.coalesce("thread_id", "ghost_thread", "doc_id"))
    return _items(threads, "thread", "thread_id")


def _items(frame: pl.DataFrame, level: str, column: str) -> pl.DataFrame:
    return frame.select(
        "query_id", pl.lit(level).alias("level"), pl.col(column).alias("item"), "grade"
    )
