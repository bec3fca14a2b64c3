"""Gates: candidates that are not good enough to be shown for the sake of showing something."""

from __future__ import annotations

import polars as pl

from transforms.retrieval.hits import Step, parted
from transforms.settings.search import SearchSettings


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
