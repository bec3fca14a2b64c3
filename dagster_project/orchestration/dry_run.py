"""The work of a build before it begins, with reasons, sizes, and the time by the rates of earlier
runs.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import dagster as dg

from assets.partitions import CHUNKS_OF, MAIL
from assets.protocols.sources import SourcePartition
from dagster_project.composition.objects import make_lake, make_sources
from dagster_project.config.settings import Settings
from dagster_project.index.publish.operations_history import StepHistory, step_history
from dagster_project.lake.lake import ParquetLake
from dagster_project.models.embedders import make_embedder
from dagster_project.orchestration.asset_graph import make_assets
from dagster_project.orchestration.plan import Plan, make_plan

_CHARS_OF_TOKEN = 4
_SAMPLED_PARTITIONS = 8
_LONG = CHUNKS_OF[MAIL.name]
"""The table that may leave out very long texts."""


@dataclass(frozen=True)
class Piece:
    """A partition that would be made again: why, which tables, the rows they are expected to have,
    the source's bytes.
    """

    partition: str
    why: str
    tables: tuple[str, ...]
    rows: Mapping[str, int]
    bytes: int


@dataclass(frozen=True)
class Outlook:
    """The work of a build now. Figures are estimates; None where no earlier run says.

    `broken` are sources that cannot be read, with the reason. With `is_full` the index is made from
    the lake alone, because the published one has another layout, tokenizer or model. `texts` have
    no vector, or may have another one after the build: at most so many are embedded.
    `waiting_bytes` is of very long texts.
    """

    partitions: int
    pieces: tuple[Piece, ...]
    removed: tuple[str, ...]
    whole: Mapping[str, str]
    publishes: bool
    slow: tuple[str, ...]
    waiting_bytes: int
    damaged: Mapping[str, str]
    broken: Mapping[str, str]
    is_full: bool
    texts: int
    tokens: int
    price_usd: float
    seconds: float | None
    seconds_by_step: Mapping[str, float] = field(default_factory=dict)

    @property
    def reasons(self) -> dict[str, int]:
        """Partitions by why they would be made again."""
        return dict(Counter(piece.why for piece in self.pieces).most_common())

    def as_json(self) -> dict[str, Any]:
        """The output of `weft plan --json`."""
        outcome = (
            "BUILD" if self.pieces or self.removed or self.publishes or self.slow else "NOTHING"
        )
        return {"outcome": outcome, "reasons": self.reasons, **asdict(self)}


def outlook(settings: Settings, instance: dg.DagsterInstance) -> Outlook:
    """The work of `weft build` now, without fetching; it makes, embeds and requests nothing."""
    lake, sources = make_lake(settings), make_sources(settings)
    plan = make_plan(settings, sources, lake)
    sizes = {u.key: sources.bytes_of(u) for u in plan.partitions}
    guess = _Rows(lake, plan.partitions, sizes)
    pieces = tuple(
        Piece(p, plan.reasons[p], tables, {t: guess.of(t, p) for t in tables}, sizes[p])
        for p, tables in plan.stale.items()
    )
    texts, tokens = _texts(plan, pieces, lake)
    embedder = make_embedder(settings.embedding, settings.gemini, settings.safety)
    history = step_history(instance)
    steps = _seconds(settings, pieces, plan.publish, texts, history)
    times = [seconds for seconds in steps.values() if seconds is not None]
    return Outlook(
        partitions=len(plan.partitions),
        pieces=pieces,
        removed=plan.vanished,
        whole=plan.whole_reasons,
        publishes=plan.publish,
        slow=tuple(sorted(plan.slow)),
        waiting_bytes=sum(f.waiting for p in plan.slow if (f := lake.footer(_LONG, p))),
        damaged=plan.damaged,
        broken=plan.broken,
        is_full=plan.is_full,
        texts=texts,
        tokens=tokens,
        price_usd=round(tokens * embedder.price / 1e6, 4),
        seconds=round(sum(times), 1) if times and history.last_seconds else None,
        seconds_by_step={name: round(s, 1) for name, s in sorted(steps.items()) if s is not None},
    )


class _Rows:
    """How many rows a table of a partition may have: those of now, or by the bytes of its source
    where it is new.
    """

    def __init__(
        self, lake: ParquetLake, partitions: Iterable[SourcePartition], sizes: Mapping[str, int]
    ):
        self.lake, self.sizes = lake, sizes
        self.source_types = {u.key: u.source_type for u in partitions}
        self._rates: dict[tuple[str, str], float] = {}

    def of(self, table: str, partition: str) -> int:
        """The rows of now; for a partition that is not there yet, by the rows per byte of others of
        its source type.
        """
        if footer := self.lake.footer(table, partition):
            return footer.row_count
        return round(self._rate(table, self.source_types[partition]) * self.sizes[partition])

    def _rate(self, table: str, source_type: str) -> float:
        if (table, source_type) not in self._rates:
            own = {
                p for p, kind in self.source_types.items() if kind == source_type and self.sizes[p]
            }
            sample = _sample([p for p in self.lake.partitions(table) if p in own])
            rows = sum(f.row_count for p in sample if (f := self.lake.footer(table, p)))
            self._rates[table, source_type] = rows / max(sum(self.sizes[p] for p in sample), 1)
        return self._rates[table, source_type]


def _sample(partitions: Sequence[str]) -> Sequence[str]:
    return partitions[:: max(1, len(partitions) // _SAMPLED_PARTITIONS)][:_SAMPLED_PARTITIONS]


def _texts(plan: Plan, pieces: Iterable[Piece], lake: ParquetLake) -> tuple[int, int]:
    """How many texts may be embedded, and their tokens by the mean length of stored ones."""
    source_types = {u.key: u.source_type for u in plan.partitions}
    stored = lake.footer("embeddings")
    if "embeddings" in plan.whole_reasons and stored:
        count = stored.row_count
    else:
        count = sum(piece.rows.get(CHUNKS_OF[source_types[piece.partition]], 0) for piece in pieces)
    chars: list[int] = []
    for table in CHUNKS_OF.values():
        for partition in _sample(lake.partitions(table)):
            column = lake.stored(table, ["char_count"], partition)
            chars += [] if column is None else column.column(0).to_pylist()
    mean = sum(chars) / len(chars) if chars else 0.0
    return count, round(count * mean / _CHARS_OF_TOKEN)


def _seconds(
    settings: Settings, pieces: Iterable[Piece], publishes: bool, texts: int, history: StepHistory
) -> dict[str, float | None]:
    """By step the seconds that it would take: by rows for partitions, as the last time for tables
    over the whole lake.
    """
    rows: Counter[str] = Counter()
    for piece in pieces:
        rows.update(piece.rows)
    seconds: dict[str, float | None] = {}
    for definition in make_assets(settings):
        tables = {key.path[-1] for key in definition.keys}
        name = definition.node_def.name
        if definition.partitions_def is None:
            if publishes and name == "embeddings":
                seconds[name] = history.embedding_seconds(texts)
            elif publishes and name in history.last_seconds:
                seconds[name] = history.last_seconds[name]
        elif count := sum(rows[table] for table in tables):
            rate = history.rates.get(name)
            seconds[name] = count / rate if rate else None
    return seconds
