"""The parts of the table `embeddings`, one for each partition: which are stale, and how they are
filled in groups.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

import ibis
import pyarrow as pa

from assets import embedding
from assets.protocols.lake import Lake, Progress, Staged
from assets.protocols.models import Embedder, EmbeddingCache
from assets.stages.buckets import fingerprints, sized_groups
from transforms.embedding import vectors
from transforms.embedding.embedded_text import texts_by_partition

RETAINED = "retained_ratio"
"""The figure that says which share of the texts with a vector before were not embedded again."""
_HASHES_AT_ONCE = 1 << 20
"""Hashes of texts in memory at once, some 110 bytes each; the cache is looked through once for so
many.
"""


@dataclass
class EmbeddingTotals:
    """The sums of runs over one group of texts after the other; only the hashes of refused texts
    stay.

    `retained` texts have their vectors in parts of the table that stay as they are; `before` texts
    of the groups had one, and `again` counts those of them that were embedded once more.
    """

    retained: int
    texts: int = 0
    with_vector: int = 0
    embedded: int = 0
    before: int = 0
    again: int = 0
    tokens: int = 0
    calls: int = 0
    dollars: float = 0.0
    truncated: int = 0
    paid_twice: int = 0
    held: int = 0
    finds: Counter[str] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict)

    def add(self, report: embedding.EmbeddingReport, with_vector: int, before: Set[str]) -> None:
        """Add a run after which `with_vector` of its texts have a vector; `before` are those that
        had one in their parts.
        """
        self.texts += report.texts
        self.with_vector += with_vector
        self.embedded += len(report.embedded)
        self.before += len(before)
        self.again += sum(report.sent_as.get(name, name) in report.embedded for name in before)
        self.tokens, self.calls = self.tokens + report.tokens, self.calls + report.calls
        self.dollars += report.tokens * report.dollars_per_million / 1e6
        self.truncated, self.held = self.truncated + report.truncated, self.held + report.held
        self.paid_twice += len(report.unfinished)
        self.finds += report.finds
        self.refused |= report.refused

    @property
    def reuse(self) -> float:
        """Share of the texts with a vector before that were not embedded again; 1 if there were
        none.
        """
        return 1 - self.again / (self.before + self.retained) if self.before else 1.0

    def metadata(self) -> dict[str, int | float]:
        """The figures that are shown with the asset."""
        texts = self.texts + self.retained
        return {
            "texts": texts,
            "embedded": self.embedded,
            "reuse_ratio": round(1 - self.embedded / texts, 6) if texts else 1.0,
            RETAINED: round(self.reuse, 6),
            "calls": self.calls,
            "tokens": self.tokens,
            "truncated_texts": self.truncated,
            "estimated_cost_usd": round(self.dollars, 6),
            **{f"screened_{kind}": count for kind, count in sorted(self.finds.items())},
            **({"held_back_texts": self.held} if self.held else {}),
            **({"refused_texts": len(self.refused)} if self.refused else {}),
            **({embedding.PAID_TWICE: self.paid_twice} if self.paid_twice else {}),
        }


class VectorParts:
    """The parts of the table `embeddings`: those that are up to date, and the stale ones.

    A text belongs to the first partition that has it. A part is up to date if this code version
    made it and it has the vector of each of its texts; a part that lacks refused texts is checked
    again by each run.
    """

    def __init__(self, texts: ibis.Table, lake: Lake, code_version: str):
        """`texts` has the partition and text_hash of all that is published."""
        self.lake, self.code_version = lake, code_version
        self._texts = texts_by_partition(texts).cache()
        self._inputs: dict[str, Mapping[str, str]] = {}
        self._rows: dict[str, int] = {}
        self.retained: list[str] = []
        self.retained_rows = 0
        hashed = self._texts.select("partition", row=self._texts.text_hash.hash())
        for name, rows, text_hashes in fingerprints(hashed, ["partition"]):
            self._inputs[name], self._rows[name] = {"texts": text_hashes}, rows
            stored = lake.footer("embeddings", name)
            now = (code_version, self._inputs[name], rows)
            if stored and (stored.code_version, stored.inputs, stored.row_count) == now:
                self.retained.append(name)
                self.retained_rows += rows

    def groups(self) -> list[list[str]]:
        """The stale partitions in groups whose hashes fit into memory."""
        return sized_groups(
            sorted(self._inputs.keys() - set(self.retained)), self._rows, _HASHES_AT_ONCE
        )

    def hashes_of(self, group: Sequence[str]) -> pa.Table:
        """Columns partition and text_hash of the texts of some parts, sorted."""
        texts = self._texts.filter(self._texts.partition.isin(group))
        return texts.order_by("partition", "text_hash").to_pyarrow()

    def texts_before(self, group: Sequence[str], model: str) -> set[str]:
        """The hashes of texts that had a vector of `model` in some parts."""
        columns = ["text_hash", "model"]
        stored = (self.lake.stored("embeddings", columns, name) for name in group)
        return set().union(*(vectors.embedded_hashes(table, model) for table in stored))

    def filled(
        self, group: Sequence[str], table: embedding.StoredVectors, model: str, dimensions: int
    ) -> Iterator[tuple[str, Staged]]:
        """The parts of a group; `table` has the vectors of its `hashes_of`."""
        first = 0
        for name in group:
            end = first + self._rows[name]
            data = (
                vectors.embeddings(rows, model, dimensions) for rows in table.between(first, end)
            )
            made_of = {"code_version": self.code_version, "inputs": self._inputs[name]}
            yield name, self.lake.stage("embeddings", name, data, **made_of)
            first = end


def filled_parts(
    parts: VectorParts,
    texts_of: Callable[[Sequence[str]], ibis.Table],
    embedder: Embedder,
    cache: EmbeddingCache,
    progress: Progress,
) -> tuple[list[tuple[str, Staged]], EmbeddingTotals]:
    """The stale parts with their vectors, and the report; `texts_of` gives the texts of some
    partitions (text_hash, text).

    BudgetError before the first call if a paid model would need more tokens for all of them than
    its budget.
    """
    totals, stale = EmbeddingTotals(parts.retained_rows), parts.groups()
    if len(stale) > 1:
        every = (_with_hashes(texts_of(group), parts.hashes_of(group)) for group in stale)
        embedding.require_budget(every, embedder, cache)
    staged: list[tuple[str, Staged]] = []
    for group in stale:
        hashes = parts.hashes_of(group)
        names = hashes.column("text_hash").to_pylist()
        texts = _with_hashes(texts_of(group), hashes)
        stored, report = embedding.vectors_of(texts, names, embedder, cache, progress)
        totals.add(report, stored.count, parts.texts_before(group, embedder.model))
        staged += parts.filled(group, stored, embedder.model, embedder.dimensions)
    return staged, totals


def _with_hashes(texts: ibis.Table, hashes: pa.Table) -> ibis.Table:
    return texts.filter(texts.text_hash.isin(ibis.memtable(hashes.select(["text_hash"])).text_hash))
