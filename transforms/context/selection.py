"""From the candidates of conversations to their context: the tables behind the last two assets, and
one block.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from transforms.context import block
from transforms.context import candidates as steps
from transforms.context.passages import Passage, related_posts
from transforms.conversations.windows import without_headers
from transforms.hashing import bytes_sha256
from transforms.schemas.conversations import CONVERSATION_CONTEXT, CONVERSATION_DOCUMENTS
from transforms.settings.conversations import ContextSettings
from transforms.text.passages import CountTokens

_EQUAL_SIMILARITY = 0.95
"""Cosine from which, with dedup_strategy = "semantic", texts are equal."""
_FURTHER = 0.5
"""Share of its score that counts of a further passage of a mail, and again of each behind it."""
_PASSAGE_TOKENS = 10
"""Tokens of a small passage, such as a turn in a stretch of a chat."""
_PASSAGE_CHARS = 400
"""Characters of a passage in the block of related posts (egregora)."""
NO_HITS, CONTEXT = "NO_HITS", "CONTEXT"
WEAK, BEHIND = "evidence", "dedup"
"""Why the first candidate of a query is in no block, if the block did not decide: too little bears
it out, or another of its document replaces it.
"""

Vectors = Callable[[Sequence[str]], Mapping[str, np.ndarray]]


def window_queries(
    windows: pl.DataFrame, chunks: pl.DataFrame, settings: ContextSettings
) -> pl.DataFrame:
    """The queries of all windows (`window_id`, `query`, `text`) from `conversation_markdown` and
    the query chunks.
    """
    plain = settings.ask_with == "said"
    window_texts = windows.select("doc_id", "message_count", text="markdown")
    if plain:
        window_texts = window_texts.with_columns(
            pl.col("text").map_elements(without_headers, return_dtype=pl.String)
        )
    texts = chunks.select(
        "doc_id", "chunk_index", "token_count", text="text_query" if plain else "text"
    )
    return steps.strategy_queries(window_texts, texts, settings)


def most_passages(settings: ContextSettings) -> int:
    """How many passages a block may hold at most."""
    return max(settings.top_k, settings.budget_tokens // _PASSAGE_TOKENS)


def window_documents(
    candidates: pl.DataFrame, settings: ContextSettings, vectors: Vectors
) -> pl.DataFrame:
    """The table `conversation_documents` of candidates that may be shown: dedup, then the order of
    the context.

    Documents that only fill come behind those that cover a query. If the settings fill the budget,
    chunks compete in place of documents, as many as a block may hold. `vectors` gets only the chunks
    whose likeness the settings want to know.
    """
    candidates = shown_candidates(candidates)
    if settings.fills_budget:
        ordered = _competing(candidates, settings)
    else:
        ordered = steps.order_documents(
            candidates.filter(~pl.col("fills")),
            _of_documents(candidates, settings, vectors),
            settings,
        )
    documents = candidates.select("chunk_id", "document_id").unique("chunk_id")
    query_counts = candidates.group_by(
        "window_id", pl.coalesce("document_id", "chunk_id").alias("_document")
    ).agg(found_by=pl.col("query").n_unique().cast(pl.Int64))
    return (
        ordered.drop("document_id")
        .join(documents, on="chunk_id", how="left", maintain_order="left")
        .with_columns(_document=pl.coalesce("document_id", "chunk_id"))
        .join(query_counts, on=["window_id", "_document"], how="left", maintain_order="left")
        .sort("window_id", "place")
        .select(CONVERSATION_DOCUMENTS.names)
    )


def _competing(candidates: pl.DataFrame, settings: ContextSettings) -> pl.DataFrame:
    """Every chunk for itself, as many as a block may hold; further ones of a mail count half as much
    each, as one says what the mail is about.
    """
    units = candidates.with_columns(document_id=pl.lit(None, pl.String))
    of_mail = pl.int_range(pl.len()).over("window_id", "document_id")
    is_mail = pl.col("source_kind").is_in(["message", "attachment"])
    shares = (
        candidates.sort("score", "chunk_id", descending=[True, False])
        .unique(["window_id", "chunk_id"], keep="first", maintain_order=True)
        .select(
            "window_id", "chunk_id", share=pl.when(is_mail).then(_FURTHER**of_mail).otherwise(1.0)
        )
    )
    units = units.join(shares, on=["window_id", "chunk_id"], maintain_order="left")
    units = units.with_columns(score=pl.col("score") * pl.col("share")).drop("share")
    ordered = steps.order_documents(
        units.filter(~pl.col("fills")), steps.deduplicate(units), settings
    )
    return ordered.filter(pl.col("place") <= most_passages(settings))


def _of_documents(
    candidates: pl.DataFrame, settings: ContextSettings, vectors: Vectors
) -> pl.DataFrame:
    """The chunks of each document that `dedup_strategy` leaves (egregora)."""
    if settings.dedup_strategy == "none":
        return steps.deduplicate(candidates.with_columns(document_id=pl.lit(None, pl.String)))
    if settings.dedup_strategy == "document":
        return steps.deduplicate(candidates, settings.dedup_max_per_doc or 1)
    selected = steps.deduplicate(candidates, n=len(candidates) or 1)
    likeness = vectors(selected.get_column("chunk_id").to_list())
    return steps.drop_similar(selected, likeness, _EQUAL_SIMILARITY)


def shown_candidates(candidates: pl.DataFrame) -> pl.DataFrame:
    """The candidates that may be shown: those with rank 0 are there to say why they are not."""
    return candidates.filter(pl.col("rank") > 0)


class Retrieval(NamedTuple):
    """The results of the queries of windows.

    queries: window_id, query and text; candidates and documents: `schemas.CONVERSATION_CANDIDATES`
    and `schemas.CONVERSATION_DOCUMENTS`; passages: by chunk_id those of the documents.
    """

    queries: pl.DataFrame
    candidates: pl.DataFrame
    documents: pl.DataFrame
    passages: Mapping[str, Passage]


def window_context(
    windows: Sequence[str],
    retrieval: Retrieval,
    facts: Mapping[str, Any],
    count: CountTokens,
    settings: ContextSettings,
) -> pa.Table:
    """The table `conversation_context`: a row for each of `windows`, also for one without queries."""
    rows = []
    for window in sorted(windows):
        of_window = pl.col("window_id") == window
        queries = retrieval.queries.filter(of_window).sort("query")
        candidates = retrieval.candidates.filter(of_window)
        documents = retrieval.documents.filter(of_window).sort("place")
        ordered = scored_passages(documents, retrieval.passages)
        compilation = block.compile_block(
            ordered, settings.budget_tokens, count, expand=settings.expand
        )
        best = ordered[: settings.top_k]
        question = "\x00".join(queries.get_column("text"))
        known = {**facts, "queries": query_coverage(queries, candidates, compilation)}
        manifest = context_manifest(compilation, question, known, settings)
        rows.append(
            {
                "window_id": window,
                "index_version": facts["index_version"],
                "outcome": CONTEXT if best else NO_HITS,
                "query_count": len(queries),
                "result_count": len(shown_candidates(candidates)),
                "document_count": len(documents),
                "final_count": len(best),
                "block": related_posts(best, _PASSAGE_CHARS),
                "records": [_record(p) for p in best],
                "compiled": compilation.block,
                "manifest": json.dumps(manifest, sort_keys=True),
            }
        )
    return CONVERSATION_CONTEXT.from_rows(rows)


def scored_passages(documents: pl.DataFrame, passages: Mapping[str, Passage]) -> list[Passage]:
    """The passages of documents in their order, with their scores."""
    return [
        replace(passages[chunk], similarity=similarity, score=score)
        for chunk, similarity, score in documents.select(
            "chunk_id", "similarity", "score"
        ).iter_rows()
    ]


def context_manifest(
    compilation: block.CompiledBlock,
    question: str,
    facts: Mapping[str, Any],
    settings: ContextSettings,
) -> dict[str, Any]:
    """The manifest of a compiled block, with all that it depends on."""
    return block.manifest(
        compilation,
        {
            **facts,
            "settings": settings.model_dump(mode="json"),
            "budget_tokens": settings.budget_tokens,
            "question_sha256": bytes_sha256(question.encode()),
        },
    )


def query_coverage(
    queries: pl.DataFrame, candidates: pl.DataFrame, compilation: block.CompiledBlock
) -> list[dict[str, Any]]:
    """A record of each query of one window: the hash of its text, the numbers of its passages, and
    their best evidence.

    With its `first` candidate, and the reason if the block does not show that.
    """
    number = {passage.chunk_id: n for n, passage in enumerate(compilation.chosen, 1)}
    reasons = {omission.passage.chunk_id: omission.reason for omission in compilation.dropped}
    rows = []
    for query, text in queries.select("query", "text").iter_rows():
        of_query = candidates.filter(pl.col("query") == query).sort("rank")
        own = of_query.filter(pl.col("chunk_id").is_in(list(number)))
        first = None
        for chunk, rank, evidence in (
            of_query.select("chunk_id", "rank", "evidence").head(1).iter_rows()
        ):
            why = reasons.get(chunk, BEHIND) if rank else f"{WEAK}: {evidence:.2f} is too little"
            first = {"chunk_id": chunk, "reason": None if chunk in number else why}
        best = own.get_column("evidence").max()
        rows.append(
            {
                "query": query,
                "text_sha256": bytes_sha256(text.encode()),
                "passages": sorted(number[chunk] for chunk in own.get_column("chunk_id")),
                "evidence": None if best is None else round(float(best), 6),  # type: ignore[arg-type]
                "first": first,
            }
        )
    return rows


def _record(passage: Passage) -> dict[str, Any]:
    return {
        "chunk_id": passage.chunk_id,
        "document_id": passage.doc_id,
        "place": passage.place,
        "title": passage.title,
        "date": passage.date,
        "similarity": passage.similarity,
        "byte_start": passage.start,
        "byte_end": passage.end,
        "text": passage.text,
    }
