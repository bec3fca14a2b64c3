"""The figures of the operations report, from Dagster's history, the published file and the cache."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg
import duckdb
import polars as pl

from dagster_project.index.publish.publisher import DuckDBPublisher
from dagster_project.index.publish.versions import current_version, version_of
from dagster_project.models.embedding_cache import SQLiteEmbeddingCache
from transforms.operations.figures import (
    BLOCKS,
    HISTORY,
    INDEX_BYTES,
    LAGS,
    LIVE_SHARE,
    MONTHS,
    QUARANTINE,
    REUSE,
    SIZES,
    STAGE_RATES,
    Figures,
)

_RUNS = 20
EMBEDDINGS = "embeddings"
_TELLING_TEXTS = 10
_MATERIALIZATIONS = 100
_SHOWN = {"readiness": LAGS, "embeddings": (REUSE, LIVE_SHARE), "search_index": (INDEX_BYTES,)}
_COUNTED = {
    QUARANTINE: "SELECT reason_code AS name, count(*) AS rows FROM quarantine "
    "GROUP BY ALL ORDER BY rows DESC, name",
    BLOCKS: "SELECT kind AS name, count(*) AS rows FROM blocks GROUP BY ALL ORDER BY rows DESC, name",
    SIZES: "SELECT format('{:,}', pow(2, ceil(log2(greatest(char_count, 64))))::BIGINT AS size) AS name, count(*) AS rows "
    "FROM chunks GROUP BY size ORDER BY size",
    MONTHS: "SELECT strftime(effective_at, '%Y-%m') AS name, count(*) AS rows FROM messages "
    "WHERE effective_at IS NOT NULL GROUP BY ALL ORDER BY name",
}
"""For each title of `Figures.counts` the query that counts it in the published file."""


@dataclass(frozen=True)
class StepHistory:
    """The times of the steps of the last runs: rows per second, seconds of the last time, texts
    embedded per second.
    """

    rates: Mapping[str, float]
    last_seconds: Mapping[str, float]
    texts_per_second: float | None

    def embedding_seconds(self, texts: int) -> float | None:
        """Seconds of embedding so many texts; None if no run embedded enough to tell."""
        if not texts:
            return self.last_seconds.get(EMBEDDINGS, 0.0)
        return texts / self.texts_per_second if self.texts_per_second else None


def step_history(instance: dg.DagsterInstance) -> StepHistory:
    """The rates of the last runs that ended well."""
    rows: Counter[str] = Counter()
    seconds: dict[str, float] = {}
    last: dict[str, float] = {}
    embedded: list[tuple[int, float]] = []
    for step, written, took, texts in _steps(instance):
        last.setdefault(step, took)
        rows[step] += written
        seconds[step] = seconds.get(step, 0.0) + took
        if step == EMBEDDINGS:
            embedded.append((texts, took))
    rates = {step: rows[step] / seconds[step] for step in rows if rows[step]}
    most = max(embedded, default=(0, 1.0))
    return StepHistory(rates, last, most[0] / most[1] if most[0] >= _TELLING_TEXTS else None)


def _steps(instance: dg.DagsterInstance) -> Iterator[tuple[str, int, float, int]]:
    """Step, rows written, seconds, and texts embedded by its run, of each step of the last runs
    that ended well.
    """
    ended = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS])
    for run in instance.get_runs(filters=ended, limit=_RUNS):
        rows, texts = _materialized(instance, run.run_id)
        for step in instance.get_run_step_stats(run.run_id):
            if step.start_time and step.end_time:
                took = max(step.end_time - step.start_time, 1e-3)
                yield step.step_key, rows[step.step_key], took, texts


def _materialized(instance: dg.DagsterInstance, run_id: str) -> tuple[Counter[str], int]:
    """Rows that each step of a run wrote in all its tables, and the texts that it embedded."""
    rows: Counter[str] = Counter()
    embedded = 0
    for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION):
        event = entry.dagster_event
        if event and event.step_key and entry.asset_materialization:
            metadata = entry.asset_materialization.metadata
            count = metadata.get("dagster/partition_row_count") or metadata.get("dagster/row_count")
            rows[event.step_key] += int(str(count.value)) if count else 0
            if "embedded" in metadata:
                embedded = int(str(metadata["embedded"].value))
    return rows, embedded


class DagsterHistory:
    """`OperationsHistory` over an instance, of the last runs that ended well."""

    def __init__(self, publisher: DuckDBPublisher, cache: SQLiteEmbeddingCache):
        self.publisher, self.cache = publisher, cache

    def figures(self, instance: dg.DagsterInstance) -> Figures:
        """The figures of now; IndexUnavailableError if nothing is published."""
        current = current_version(self.publisher.folder)
        with duckdb.connect(str(current), read_only=True) as connection:
            counted = {title: connection.execute(query).pl() for title, query in _COUNTED.items()}
            counts = connection.execute(
                "SELECT sum(texts)::BIGINT, sum(searchable)::BIGINT, max(last_published_at) FROM readiness_by_source"
            ).fetchone() or (0, 0, None)
        folder = sum(p.stat().st_size for p in self.publisher.folder.glob("weft-*.duckdb"))
        facts = {
            "version": version_of(current),
            "texts, and those that search finds": f"{counts[0] or 0:,}, {counts[1] or 0:,}",
            "last new text published": f"{counts[2]:%Y-%m-%d %H:%M} UTC" if counts[2] else "never",
            "index, and all versions on disk": f"{_mib(current.stat().st_size)}, {_mib(folder)}",
            "cached vectors": f"{sum(h.count for h in self.cache.stats()):,}",
        }
        stages = [(step, rows, seconds) for step, rows, seconds, _ in _steps(instance) if rows]
        return Figures(
            pl.DataFrame(stages, STAGE_RATES, orient="row"),
            pl.DataFrame(list(_history(instance)), HISTORY, orient="row"),
            counted,
            facts,
        )


def _history(instance: dg.DagsterInstance) -> Iterator[tuple[datetime, str, float]]:
    """Time, name and value of the figures that the report draws over time."""
    for asset, names in _SHOWN.items():
        for record in instance.fetch_materializations(
            dg.AssetKey(asset), limit=_MATERIALIZATIONS
        ).records:
            materialization = record.asset_materialization
            metadata = materialization.metadata if materialization else {}
            for name in names:
                if name in metadata and isinstance(value := metadata[name].value, int | float):
                    yield datetime.fromtimestamp(record.timestamp, UTC), name, float(value)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MiB"
