"""The work of `weft eval context`: measures of the blocks of conversations whose right answers are
known.
"""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dagster_project.config.settings import Settings
from dagster_project.context.conversation_context import (
    ConversationText,
    context_of,
    read_conversation,
    read_window,
)
from dagster_project.evaluation.evaluate import make_evaluator, required_queries, with_tag
from dagster_project.evaluation.evaluator import contents
from dagster_project.models.static import PackagedTokenCounter
from transforms.context.passages import Passage
from transforms.errors import GroundTruthError
from transforms.evaluation.judgements import judgements
from transforms.evaluation.metrics import BlockMeasures, ShownPassage, block_measures, judged_parts
from transforms.evaluation.quality import bootstrap

_LONGEST_NAME = 1_000
_WINDOWS = "SELECT doc_id FROM conversation_windows"


def measured_blocks(
    settings: Settings, files: Sequence[Path] = (), tag: str | None = None
) -> dict[str, Any]:
    """The measures of each query's block (`conversations`), and their means with intervals
    (`means`).

    The conversation is a window of the index if `query` is its id, a file if it is a path below the
    settings file, else the text itself. GroundTruthError if no query has an answer that the index
    could hold.
    """
    evaluator = make_evaluator(settings, files)
    truth = with_tag(required_queries(evaluator), tag)
    relevance = pl.DataFrame(truth.relevance)
    count = PackagedTokenCounter().counts
    rows = []
    with closing(evaluator.index) as index:
        content = contents(index, relevance)
        parts = judged_parts(relevance, judgements(relevance, content))
        windows = set(index.connection.execute(_WINDOWS).to_arrow_table().column(0).to_pylist())
        for query in truth.queries.to_pylist():
            if query["query_id"] not in parts:
                continue
            result = context_of(settings, _conversation(settings, query["query"], windows), index)
            tokens = count([p.shown[0] for p in result.passages])
            passages = shown_passages(result.passages, content.chunks, tokens)
            measures = block_measures(
                passages,
                parts[query["query_id"]],
                result.manifest["block_tokens"],
                settings.context.budget_tokens,
            )
            rows.append(
                {
                    "id": query["query_id"],
                    "outcome": result.outcome,
                    "parts": len(parts[query["query_id"]]),
                }
                | {name: round(value, 4) for name, value in measures._asdict().items()}
            )
        version = index.manifest["version"]
    if not rows:
        raise GroundTruthError(
            "no query has a right answer of a kind that the index holds: name others with --queries"
        )
    return {"index_version": version, "conversations": rows, "means": _means(rows)}


def _conversation(settings: Settings, question: str, windows: set[str]) -> ConversationText:
    if question in windows:
        return read_window(settings, question)
    if (
        len(question) <= _LONGEST_NAME
        and "\n" not in question
        and (settings.base / question).is_file()
    ):
        return read_conversation(settings, settings.base / question, None)
    return read_conversation(settings, None, question)


def shown_passages(
    passages: Sequence[Passage], chunks: pl.DataFrame, tokens: Sequence[int]
) -> list[ShownPassage]:
    """The passages of a block with the chunks whose bytes they show as a whole, their own among
    them.

    `chunks` has the columns of `Contents.chunks`.
    """
    by_document = chunks.filter(pl.col("doc_id").is_in([passage.doc_id for passage in passages]))
    result = []
    for passage, count in zip(passages, tokens, strict=True):
        _, start, end = passage.shown
        inside = by_document.filter(
            pl.col("doc_id") == passage.doc_id,
            pl.col("byte_start") >= start,
            pl.col("byte_end") <= end,
        )
        others = [] if passage.source_kind == "attachment" else inside["chunk_id"]
        result.append(ShownPassage(frozenset({passage.chunk_id, *others}), count))
    return result


def _means(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean of each measure with its 95 % interval; the ends are null for one conversation."""
    means = []
    for name in BlockMeasures._fields:
        interval = bootstrap(np.array([row[name] for row in rows], dtype=np.float64))
        ends = (interval.low, interval.high) if len(rows) > 1 else (None, None)
        means.append({"measure": name, "mean": interval.mean, "low": ends[0], "high": ends[1]})
    return means
