"""The publisher and the published file as the assets see them: partitions that the sources have,
tables for checks.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import ibis

from assets.partitions import SOURCE_TYPES
from assets.protocols.lake import Progress
from assets.protocols.search import Readiness
from dagster_project.index.publish import vector_index
from dagster_project.index.publish.publisher import DuckDBPublisher
from dagster_project.index.publish.version_inputs import TABLES_OF_TYPE
from dagster_project.index.publish.versions import current_version, version_of
from dagster_project.sources.file_sources import FileSources
from transforms.schemas.operations import READINESS

_LAG = "SELECT max(lag_p95_seconds) FROM readiness_by_source"


class PartitionPublisher:
    """The publisher as the assets see it: publishes the partitions that the sources have now.

    A partition that was never published waits until all its tables are there. One that left the
    sources leaves the lake.
    """

    def __init__(self, publisher: DuckDBPublisher, sources: FileSources):
        self.publisher, self.sources = publisher, sources

    def publish(self, progress: Progress) -> Mapping[str, Any]:
        """Publish; returns the facts that one looks for first, then the reuse, and the rows of the
        tables.
        """
        start = time.perf_counter()
        lake, current = self.publisher.lake, self.sources.discover()
        with lake.one_look():
            stored = {
                p for source_type in SOURCE_TYPES for p in lake.partitions(source_type.tables[0])
            }
        for key in sorted(stored - {s.key for s in current}):
            lake.remove(key)
        there = self.publisher.published_partitions()
        with lake.one_look():
            partitions = {
                s.key: s.source_type
                for s in current
                if s.key in there or lake.has_tables(TABLES_OF_TYPE[s.source_type], s.key)
            }
            done = self.publisher.publish(partitions, progress)
        with duckdb.connect(str(done.path), read_only=True) as connection:
            facts = dict(connection.execute("FROM manifest").fetchall())
            (lag,) = connection.execute(_LAG).fetchone() or (None,)
        has_index = facts["vector_search"] == vector_index.HNSW
        search = self.publisher.settings.search
        rows = json.loads(facts["rows"])
        return {
            "mails": rows["messages"],
            "documents": rows["documents"],
            "turns": rows["conversations"],
            "chunks": rows["chunks"],
            "changed_partitions": done.changed,
            "time_seconds": round(time.perf_counter() - start, 3),
            "index_bytes": done.path.stat().st_size,
            "lag_p95_seconds": round(lag or 0.0, 3),
            "version": done.version,
            "path": str(done.path),
            "new_version": done.is_new,
            "partitions": done.partitions,
            "built_on_previous": done.reused,
            **({"previous_version_unusable": done.unusable} if done.unusable else {}),
            "vector_search": search.vector_path(rows["chunks"], has_index=has_index),
            **done.mirrored,
            **{f"rows_{name}": count for name, count in done.rows.items()},
        }

    def vector_index(self) -> Mapping[str, Any]:
        """The facts of the index of vectors in the current version, and how well it finds."""
        measured = vector_index.measured(current_version(self.publisher.folder))
        most = self.publisher.settings.index.ann_max_vectors
        return {**measured, "at_most_vectors": most}

    def readiness(self) -> Readiness:
        """The table `readiness` of the current version."""
        return readiness_of(current_version(self.publisher.folder))


def readiness_of(file: Path) -> Readiness:
    """The table `readiness` of a published file."""
    with duckdb.connect(str(file), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows = connection.execute("FROM readiness ORDER BY doc_id, kind").to_arrow_table()
    return Readiness(version_of(file), READINESS.conform(rows))


class PublishedFile:
    """`PublishedTables` over the file that a publisher published last."""

    def __init__(self, publisher: DuckDBPublisher):
        self.publisher = publisher

    @contextmanager
    def open(self) -> Iterator[Mapping[str, ibis.Table]]:
        """The tables of the current version by name; IndexUnavailableError if nothing is published."""
        connection = ibis.duckdb.connect(current_version(self.publisher.folder), read_only=True)
        try:
            yield {name: connection.table(name) for name in connection.list_tables()}
        finally:
            connection.disconnect()
