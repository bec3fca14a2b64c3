"""Answers of scheduled searches as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl
import pyarrow as pa

from transforms.schemas.search import SEARCH_RESULTS


@dataclass(frozen=True)
class Answers:
    """Hits of a batch of queries (`schemas.SEARCH_HITS`), a label for each, and the version that
    answered.
    """

    hits: pa.Table
    labels: Sequence[str]
    version: str


def search_results(
    answers: Answers, queries: Sequence[str], search: str, run_id: str, searched_at: datetime
) -> pa.Table:
    """The table `search_results` of one run of a scheduled search, by query and rank."""
    numbered = pl.DataFrame(
        {"query_no": range(len(queries)), "query": list(queries), "label": list(answers.labels)},
        schema={"query_no": pl.Int32, "query": pl.String, "label": pl.String},
    )
    own = ("rank", "chunk_id", "doc_id", "subject", "score", "snippet", "citation", "folded")
    hits = pl.DataFrame(answers.hits.select(["query", *own]))
    rows = (
        hits.rename({"query": "query_no"})
        .join(numbered, on="query_no", maintain_order="left")
        .with_columns(
            search=pl.lit(search),
            run_id=pl.lit(run_id),
            searched_at=pl.lit(searched_at),
            index_version=pl.lit(answers.version),
        )
    )
    return SEARCH_RESULTS.conform(rows.select(SEARCH_RESULTS.names).to_arrow())


def with_others(rows: pa.Table, stored: pa.Table | None, search: str) -> pa.Table:
    """`rows` of a search with the stored rows of all others, by search, query and rank."""
    new = pl.DataFrame(rows)
    if stored is not None:
        others = pl.DataFrame(stored).filter(pl.col("search") != search)
        new = pl.concat([others, new], how="diagonal")
    return SEARCH_RESULTS.conform(new.sort("search", "query_no", "rank").to_arrow())
