"""Parts of a document to the section that holds enough of them (ra)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from transforms.retrieval.hits import Step, best_first, parted, unchanged
from transforms.settings.search import SearchSettings

_SIBLINGS = {"after_elbow": 1, "before_elbow": 2}
"""Children that must be hits at least: as ra, and as its later version."""


class SectionNode(NamedTuple):
    """Where a node is in its document; `sibling_count` counts the children of its parent, itself
    included.
    """

    parent_id: str | None
    depth: int
    sibling_count: int


@dataclass(frozen=True)
class Match:
    """A node that matches: its score, and the matches that it replaces, none if it is one itself."""

    node_id: str
    score: float
    constituents: tuple[Match, ...] = ()

    def leaves(self) -> list[Match]:
        """The matches that were found, in order of their ids."""
        if not self.constituents:
            return [self]
        return sorted(
            (leaf for part in self.constituents for leaf in part.leaves()), key=lambda m: m.node_id
        )


def aggregated(
    matches: Iterable[Match], nodes: Mapping[str, SectionNode], settings: SearchSettings
) -> list[Match]:
    """Matches, one per node, with siblings gathered to their parent, best first, ties by id.

    From the deepest up: where `aggregation_threshold` of a parent's children match, in ra's later
    version two of them, the parent takes their place, and may itself be gathered with its siblings
    then. Last, a match goes into an ancestor that is a match too. A match that replaces others has
    the best of their scores, in the later version the root of the sum of their squares, its own
    included. The order of `matches` makes no difference.
    """
    standing = {match.node_id: match for match in sorted(matches, key=lambda m: m.node_id)}
    deepest = max((nodes[name].depth for name in standing), default=0)
    for depth in range(deepest, 0, -1):
        children: dict[str, list[Match]] = {}
        for name in sorted(standing):
            parent = nodes[name].parent_id
            if nodes[name].depth == depth and parent is not None:
                children.setdefault(parent, []).append(standing[name])
        for parent, siblings in children.items():
            share = len(siblings) / nodes[siblings[0].node_id].sibling_count
            if (
                share >= settings.aggregation_threshold
                and len(siblings) >= _SIBLINGS[settings.aggregation]
            ):
                _gather(standing, parent, siblings, settings)
    for name in sorted(standing, key=lambda n: (-nodes[n].depth, n)):
        above = next((a for a in _ancestors(name, nodes) if a in standing), None)
        if above is not None:
            _gather(standing, above, [standing[name]], settings)
    return sorted(standing.values(), key=lambda m: (-m.score, m.node_id))


def _gather(
    standing: dict[str, Match], parent: str, parts: Sequence[Match], settings: SearchSettings
) -> None:
    """Put the parent in the place of the parts, beside the matches that it replaces already."""
    for part in parts:
        del standing[part.node_id]
    own = standing.get(parent)
    together = [*([own] if own else []), *parts]
    standing[parent] = Match(parent, _score([m.score for m in together], settings), tuple(together))


def _score(scores: Sequence[float], settings: SearchSettings) -> float:
    return max(scores) if settings.aggregation == "after_elbow" else math.hypot(*sorted(scores))


def _ancestors(name: str, nodes: Mapping[str, SectionNode]) -> Iterator[str]:
    """The nodes above, the nearest first."""
    parent = nodes[name].parent_id
    while parent is not None:
        yield parent
        parent = nodes[parent].parent_id


def in_sections(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """Hits, with the fact `path`, gathered by `aggregated`; each section is shown by its best
    chunk, `stands_for` names it.

    Chunks of one node are one match. Hits that are not part of a document stay.
    """
    if hits.is_empty():
        return unchanged(hits)
    paths = hits.get_column("path").drop_nulls().explode().drop_nulls().struct.unnest().unique()
    nodes = {
        name: SectionNode(*rest)
        for name, *rest in paths.select("node_id", *SectionNode._fields).iter_rows()
    }
    with_node = hits.with_columns(node_id=pl.col("path").list.first().struct.field("node_id"))
    rows: list[tuple[int, int, int, float, str | None]] = []
    for (query,), group in with_node.drop_nulls("node_id").group_by("query", maintain_order=True):
        rows += _placed(int(str(query)), group, nodes, settings)
    types = {"query": pl.Int32, "chunk_no": pl.Int64, "_into": pl.Int64, "_score": pl.Float64}
    placed = pl.DataFrame(rows, schema=types | {"_node": pl.String}, orient="row")
    marked = hits.join(
        placed, on=["query", "chunk_no"], how="left", maintain_order="left"
    ).with_columns(
        _into=pl.coalesce("_into", "chunk_no"),
        score=pl.coalesce("_score", "score"),
        stands_for=pl.coalesce("_node", "stands_for"),
    )
    reason = marked.select(pl.format("part of {}", "_node")).to_series()
    into, chunks = (marked.get_column(name).to_numpy() for name in ("_into", "chunk_no"))
    step = parted(marked, into == chunks, reason, into)
    return Step(best_first(step.hits.select(hits.columns)), step.dropped)


def _placed(
    query: int, group: pl.DataFrame, nodes: Mapping[str, SectionNode], settings: SearchSettings
) -> Iterator[tuple[int, int, int, float, str | None]]:
    """For each hit the query, its chunk, the chunk that it goes into, and the score and section, if
    any, of that.
    """
    of_node: dict[str, list[tuple[int, float]]] = {}
    for chunk, score, node in group.select("chunk_no", "score", "node_id").iter_rows():
        of_node.setdefault(node, []).append((chunk, score))
    matches = [
        Match(node, _score([s for _, s in pairs], settings)) for node, pairs in of_node.items()
    ]
    for match in aggregated(matches, nodes, settings):
        pairs = [pair for leaf in match.leaves() for pair in of_node[leaf.node_id]]
        best_chunk = min(pairs, key=lambda pair: (-pair[1], pair[0]))[0]
        section = match.node_id if len(pairs) > 1 else None
        for chunk, _ in pairs:
            yield query, chunk, best_chunk, match.score, section
