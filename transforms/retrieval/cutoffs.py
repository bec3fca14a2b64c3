"""Where a list ends: at a cosine that says nothing, or where the scores fall so steeply that the rest is noise."""

from collections.abc import Sequence

import polars as pl

from transforms.retrieval.hits import Step, parted, places
from transforms.settings.search import SearchSettings


def elbow(scores: Sequence[float], cutoff: float, maximum: int) -> int:
    """How many of the scores, best first, stand before the elbow, `maximum` at most (the ra design, phase 2).

    The list ends before the first score that is below `cutoff` times the one before it; a score at
    exactly that share stays. It ends before the first score that is not above 0, too. A list of one is
    never cut.
    """
    if len(scores) < 2:
        return min(len(scores), maximum)
    if scores[0] <= 0:
        return 0
    for place_, (score, following) in enumerate(zip(scores, scores[1:], strict=False), 1):
        if following <= 0 or following < cutoff * score:
            return min(place_, maximum)
    return min(len(scores), maximum)


def before_elbow(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """The hits of each query before the elbow of their scores."""
    counts = pl.DataFrame(
        [
            (query, elbow(group["score"].to_list(), settings.cutoff_ratio, settings.max_results))
            for (query,), group in hits.group_by("query", maintain_order=True)
        ],
        schema={"query": pl.Int32, "_count": pl.Int32},
        orient="row",
    )
    joined = hits.join(counts, on="query", how="left", maintain_order="left")
    reason = joined.select(pl.format("behind the elbow after {}", "_count")).to_series()
    step = parted(joined, places(joined) <= joined.get_column("_count").to_numpy(), reason)
    return Step(step.hits.drop("_count"), step.dropped)


def similar_enough(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """Hits whose cosine reaches `similarity_threshold` (the SecondBrain design §5).

    What the lexical search found passes: its words stand in the text, whatever the model makes of them.
    """
    threshold = settings.similarity_threshold
    assert threshold is not None
    similar = pl.col("vector_score") >= threshold
    reason = pl.format("cosine {} is below {}", pl.col("vector_score").round(3), pl.lit(threshold))
    found = hits.select(keeps=similar | pl.col("lexical_rank").is_not_null(), reason=reason)
    return parted(hits, found.get_column("keeps").to_numpy(), found.get_column("reason"))
