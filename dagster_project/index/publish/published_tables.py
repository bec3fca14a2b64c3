"""The tables of the published file as Ibis tables, for the checks on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import ibis

from dagster_project.index.publish.publisher import DuckDBPublisher
from transforms.errors import IndexUnavailableError


class PublishedFile:
    """`PublishedTables` over the file that a publisher published last."""

    def __init__(self, publisher: DuckDBPublisher):
        self.publisher = publisher

    @contextmanager
    def open(self) -> Iterator[Mapping[str, ibis.Table]]:
        """The tables of the current version by name; IndexUnavailableError if nothing is published."""
        current = self.publisher.current()
        if current is None:
            raise IndexUnavailableError("nothing is published; run `weft build`")
        connection = ibis.duckdb.connect(current, read_only=True)
        try:
            yield {name: connection.table(name) for name in connection.list_tables()}
        finally:
            connection.disconnect()
