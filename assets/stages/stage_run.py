"""A stage at work: the tables that it makes of its inputs, and of a partition staged in the lake. Imports no Dagster."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ibis
import pyarrow as pa

from assets.protocols.engine import MadeTable
from assets.protocols.lake import Lake, Partitions, Staged
from assets.protocols.sources import Sources
from assets.stages.buckets import OfBucket
from assets.stages.declaration import Made, SettingsOf, Stage


@dataclass(frozen=True)
class Present:
    """A partition of the tables of a stage as the lake has it; `is_current` if made by this code from these inputs."""

    lake: Lake
    partition: str
    is_current: bool

    def rows(self, table: str, columns: Sequence[str]) -> pa.Table | None:
        """Some columns of a table; None if it is missing or damaged."""
        return self.lake.stored(table, columns, self.partition)


@dataclass(frozen=True)
class StageRun:
    """A stage with the settings of a run and its resources; `sources` if it reads them."""

    stage: Stage
    settings: SettingsOf | None
    lake: Lake
    resources: Mapping[str, Any] = field(default_factory=dict)
    sources: Sources | None = None

    @property
    def code_version(self) -> str:
        """The version by which its tables are compared."""
        return self.stage.code_version(self.settings)

    def make(
        self,
        inputs: Sequence[Any],
        partition: str | None = None,
        bucket: str | None = None,
        present: Present | None = None,
    ) -> Made:
        """The tables of the stage from `inputs`, under the settings of the partition's source, or of one bucket."""
        settings = self.settings
        if partition and isinstance(settings, Mapping):
            settings = settings[partition.partition("/")[0]]
        args = [*inputs] if settings is None else [*inputs, settings]
        resources = self.resources
        if bucket and "lake" in resources:
            resources = {**resources, "lake": OfBucket(self.lake, bucket)}
        result = self.stage.make(*args, **resources, **({"present": present} if present else {}))
        if isinstance(result, Made):
            return result
        return Made([result] if isinstance(result, pa.Table | ibis.Table) else result)

    def stage_partition(
        self, partition: str, readers: Sequence[Partitions], selected: Collection[str]
    ) -> Iterator[tuple[MadeTable, Staged, pa.Table]]:
        """Make the tables of one partition and stage those `selected`: the facts of each, its file and its rows.

        `readers` read the inputs of the stage.
        """
        start, stage = time.perf_counter(), self.stage
        if stage.reads_sources:
            assert self.sources
            result = self.make([self.sources, self.sources.partition(partition)])
            # After making: a file that changes while it is read gives its partition another fingerprint.
            hashes = compared = {"partition": self.sources.partition(partition).fingerprint}
        else:
            loaded = {reader.table: reader.read(partition, stage.columns) for reader in readers}
            hashes = {table: part.content_hash for table, part in loaded.items()}
            versions = dict(hashes)
            if stage.asks_index:
                versions["search_index"] = self.resources["index"].facts["index_version"]
            compared = {table: versions[table] for table in stage.compared_inputs()}
            present = self._present(partition, compared) if stage.needs.present else None
            result = self.make([part.table for part in loaded.values()], partition, present=present)
        counted = next(
            (name for name, table in stage.schemas.items() if table.key == ("chunk_id",)), None
        )
        for name, data in zip(stage.outputs, result.tables, strict=True):
            if name not in selected:
                continue
            counts = (
                _id_changes(self.lake, name, partition, data)
                if name == counted
                else result.metadata
            )
            inputs = {**compared, **result.inputs}
            file = self.lake.stage(
                name, partition, data, code_version=self.code_version, inputs=inputs
            )
            figures = figures_of(file, start) | {
                "dagster/partition_row_count": file.row_count,
                **counts,
            }
            content_hash, rows = file.content_hash, file.row_count
            yield (
                MadeTable(name, content_hash, rows, self.code_version, hashes, figures),
                file,
                data,
            )

    def _present(self, partition: str, inputs: Mapping[str, str]) -> Present:
        footers = [self.lake.footer(name, partition) for name in self.stage.outputs]
        now = (self.code_version, inputs)
        return Present(
            self.lake, partition, all(f and (f.code_version, f.made_of) == now for f in footers)
        )


def figures_of(staged: Staged, start: float) -> dict[str, Any]:
    """Figures of a staged file to show beside its rows, and the seconds since `start`."""
    return {
        "content_hash": staged.content_hash,
        "bytes": staged.bytes,
        "seconds": round(time.perf_counter() - start, 3),
    }


def _id_changes(lake: Lake, table: str, partition: str, data: pa.Table) -> dict[str, int]:
    before, now = lake.ids(table, partition), set(data.column(0).to_pylist())
    return {"added": len(now - before), "kept": len(now & before), "removed": len(before - now)}
