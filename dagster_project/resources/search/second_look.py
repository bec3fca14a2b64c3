"""The reranker of a batch of queries: a table of hits in, the same hits in their new order out."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from dagster_project.resources.arrays.hit_rows import HitRows
from dagster_project.resources.models.rerankers import Reranker
from transforms.mail.subjects import is_reply
from transforms.retrieval import fusion, reranking
from transforms.retrieval.hits import Step, place, unchanged
from transforms.settings.search import RerankSettings, SearchSettings


class SecondLook:
    """How the hits of some queries, numbered from `first`, are reranked: as the settings say, by features, or not."""

    def __init__(
        self, reranker: Reranker | None, queries: Sequence[str], first: int, settings: SearchSettings
    ):
        self.queries, self.first = list(queries), first
        self.reranker = reranker
        if settings.rerank == "off":
            self.reranker = None
        elif settings.rerank == "features":
            self.reranker = Reranker(reranker.settings if reranker else RerankSettings())

    def step(self, hits: pl.DataFrame, rows: HitRows) -> Step:
        """Hits in the order of the reranker, `score` made one scale of its scores and those of the hits behind.

        Only the texts of the hits that the reranker scores are read.
        """
        assert self.reranker is not None
        ranked = hits.with_columns(rank=place())
        top = ranked.filter(pl.col("rank") <= self.reranker.settings.top)
        passages = top.join(_passages(rows, top), on="chunk_no", how="left", maintain_order="left")
        candidates = passages.select(pl.col(name).cast(kind) for name, kind in reranking.CANDIDATES.items())
        diagnostic = [fusion.is_diagnostic(q) for q in self.queries]
        local, scored = (
            frame.with_columns(pl.col("query") - self.first)
            for frame in (ranked.drop(*reranking.RERANKED), candidates)
        )
        reranked = self.reranker.reranked(local, scored, self.queries, diagnostic, len(hits))
        reranked = reranked.with_columns(pl.col("query") + self.first)
        return unchanged(reranking.on_one_scale(reranked).select(hits.columns))


def _passages(rows: HitRows, hits: pl.DataFrame) -> pl.DataFrame:
    """What `reranking.CANDIDATES` adds to hits; windows of conversations are of no time."""
    passages = []
    for number, row in rows.of(hits.get_column("chunk_no")).items():
        at = row["effective_at"] if row["source_kind"] != "conversation" else None
        subject = row["subject"] if row["source_kind"] in ("message", "attachment") else None
        kinds = row["chunk_kind"], row["content_class"]
        passages.append((number, row["title"], row["text_display"], *kinds, at, subject))
    frame = pl.DataFrame(passages, _PASSAGES, orient="row")
    return frame.with_columns(opens=~is_reply(pl.col("subject")).fill_null(True))


_PASSAGES = {
    "chunk_no": pl.Int64,
    **{n: reranking.CANDIDATES[n] for n in ("title", "text", "chunk_kind", "content_class", "effective_at")},
    "subject": pl.String,
}
