"""Hits that one hit stands for: chunks of a document, mails of a thread, equal texts, quotes, revisions of a patch."""

from __future__ import annotations

import polars as pl

from transforms.retrieval.hits import DROPPED, Step, best_first, parted, unchanged
from transforms.settings.search import SearchSettings


def best_of_documents(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """The best `per_document` hits of each document; without that setting one of a mail and all others."""
    group = ("query", "document")
    best = pl.col("chunk_no").first().over(group)
    return parted(
        hits, stays(settings.per_document, *group), pl.lit("a better hit of the same document"), best
    )


def stays(per_document: int | None, *group: str) -> pl.Expr:
    """True of the rows, best first, that a document may show; of `is_mail` too, if `per_document` is None."""
    nth = pl.int_range(pl.len()).over(group)
    return (nth < 1) | ~pl.col("is_mail") if per_document is None else nth < per_document


def latest_first(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """Hits, with the facts REVISION; the postings of one patch exchange their scores, so that later ones stand higher."""
    if hits.get_column("revision").null_count() == hits.height:
        return unchanged(hits)
    later = pl.int_range(pl.len()).sort_by(
        "is_latest", "version", descending=True, nulls_last=True, maintain_order=True
    )
    exchanged = pl.col("score").sort(descending=True).gather(later.arg_sort()).over("query", "revision")
    is_patch = pl.col("revision").is_not_null()
    return unchanged(best_first(hits.with_columns(pl.when(is_patch).then(exchanged).otherwise("score"))))


def best_of_threads(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """The best hit of each thread."""
    best = pl.col("chunk_no").first().over("query", "thread")
    return parted(hits, pl.col("chunk_no") == best, pl.lit("a better hit of the same thread"), best)


def unlike(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """Hits, with the facts ORIGIN and REVISION, without those that say again what another hit of the query says.

    A chunk that is nothing but an unmarked quote goes into a hit of the mail it repeats; equal texts
    into the best one; of the postings of a patch the latest among the hits stays. What stays has the
    best score of what it stands for. Lists that lack the original keep the copy.
    """
    if hits.is_empty():
        return Step(hits, pl.DataFrame(schema=DROPPED))
    dropped = []
    quoted = hits.select("query", quoted_from="doc_id", _into="chunk_no").unique(
        ["query", "quoted_from"], keep="first", maintain_order=True
    )
    marked = hits.join(quoted, on=["query", "quoted_from"], how="left", maintain_order="left")
    step = _gathered(marked, pl.coalesce("_into", "chunk_no"), "repeats the mail it answers")
    dropped.append(step.dropped)
    first = pl.col("chunk_no").first().over("query", "checksum")
    step = _gathered(
        step.hits, pl.when(pl.col("checksum").is_null()).then("chunk_no").otherwise(first), "the same text"
    )
    dropped.append(step.dropped)
    latest = (
        pl.col("chunk_no")
        .sort_by("is_latest", "version", descending=True, nulls_last=True, maintain_order=True)
        .first()
        .over("query", "revision")
    )
    newest = pl.when(pl.col("revision").is_null()).then("chunk_no").otherwise(latest)
    step = _gathered(step.hits, newest, "an earlier posting of the same patch")
    dropped.append(step.dropped)
    return Step(best_first(step.hits.select(hits.columns)), pl.concat(dropped))


def _gathered(hits: pl.DataFrame, into: pl.Expr, reason: str) -> Step:
    """The hits that go into themselves, each with the best score of those that go into it."""
    marked = hits.with_columns(_into=into)
    marked = marked.with_columns(
        pl.col("score", "rerank_score").max().over("query", "_into"),
        pl.col("rank_before").min().over("query", "_into"),
    )
    return parted(marked, pl.col("_into") == pl.col("chunk_no"), pl.lit(reason), pl.col("_into"))
