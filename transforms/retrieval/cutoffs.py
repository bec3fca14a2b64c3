"""Where a list ends: at a cosine that says nothing, or where the scores fall so steeply that the
rest is noise.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl

from transforms.retrieval.hits import Step, parted, places
from transforms.settings.search import SearchSettings


def elbow(scores: Sequence[float], cutoff: float, maximum: int) -> int:
    """How many of the scores, best first, stand before the elbow, `maximum` at most (the ra design,
    phase 2).

    The list ends before the first score that is below `cutoff` times the one before it; a score at
    exactly that share stays. It ends before the first score that is not above 0, too. A list of one
    is never cut.
    """
    falls = (
        n for n, score in enumerate(scores) if score <= 0 or (n and score < cutoff * scores[n - 1])
    )
    return min(next(falls, len(scores)) if len(scores) > 1 else len(scores), maximum)


def before_elbow(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """The hits of each query before the elbow of their scores."""
    count = np.zeros(len(hits), np.int32)
    for _, rows in hits.with_row_index("row").group_by("query", maintain_order=True):
        size = elbow(rows["score"].to_list(), settings.cutoff_ratio or 0.0, settings.max_results)
        count[rows["row"].to_numpy()] = size
    reason = pl.Series([f"behind the elbow after {size}" for size in count], dtype=pl.String)
    return parted(hits, places(hits) <= count, reason)


def near_enough(hits: pl.DataFrame, column: str, least: float) -> Step:
    """Hits that reach `least` in a column, such as the cosine (the SecondBrain design §5) or the
    evidence.

    Hits of the lexical search pass: the text has their words, whatever the model makes of them.
    """
    name = "cosine" if column == "vector_score" else column
    reason = pl.format(
        "{} {} is below {}", pl.lit(name), pl.col(column).round(3), pl.lit(round(least, 3))
    )
    table = hits.select(
        keeps=(pl.col(column) >= least) | pl.col("lexical_rank").is_not_null(), reason=reason
    )
    return parted(hits, table.get_column("keeps").to_numpy(), table.get_column("reason"))


def near_or_first(hits: pl.DataFrame, least: float, first: int) -> np.ndarray:
    """The places of the hits (`pipeline.RANKED`) whose evidence is `least` or more, and of the first
    of each query; those of a list have no evidence.
    """
    evidence, rank = (hits.get_column(name).to_numpy() for name in ("evidence", "rank"))
    return np.flatnonzero((evidence >= least) | (rank <= first) | np.isnan(evidence))
