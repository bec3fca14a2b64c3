"""The reader of texts that stay in the lake, loaded for the published files that have such texts."""

import os
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import md5
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from duckdb.func import PythonUDFType
from duckdb.sqltypes import VARCHAR
from upath import UPath

from dagster_project.lake.parquet_files import checked, is_local, stored_file
from dagster_project.lake.text_references import DIGITS, MARK, TEXTS
from transforms.errors import IndexUnavailableError

_CACHED_BYTES = 64 << 20
_FILES_AT_ONCE = 8


def place_from(file: Path, lake: UPath) -> str:
    """The place of a lake as the manifest of a published file says it."""
    return os.path.relpath(str(lake), file.parent) if is_local(lake) else str(lake)


class _Reference(NamedTuple):
    """The place of a text: table, column, partition, the id of its row, and the beginning of its
    MD5 hash.
    """

    table: str
    column: str
    partition: str
    id: str
    digest: str


class LakeTexts:
    """Reads the texts that references name. A text that the lake no longer has is empty: the next
    publish leaves it out.
    """

    def __init__(self, lake: str):
        self.lake = UPath(lake)
        self._cached: OrderedDict[str, str] = OrderedDict()
        self._bytes, self._lock = 0, threading.Lock()

    def add_function(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Let the statements of a connection call `lake_text`."""

        def lake_text(references: pa.Array) -> pa.Array:
            return pa.array(self.of(references.to_pylist()), pa.string())

        connection.create_function(
            "lake_text", lake_text, [VARCHAR], VARCHAR, type=PythonUDFType.ARROW
        )

    def of(self, values: Sequence[str | None]) -> list[str | None]:
        """The texts that values refer to; a value that is not a reference is returned unchanged.

        IndexUnavailableError if the lake cannot be read.
        """
        references = {value for value in values if value and value.startswith(MARK)}
        with self._lock:
            by_value = {value: self._cached[value] for value in references & self._cached.keys()}
        by_file: dict[tuple[str, str, str], dict[_Reference, str]] = defaultdict(dict)
        for value in references - by_value.keys():
            reference = _Reference(*value[1:].split(MARK))
            by_file[reference[:3]][reference] = value
        with ThreadPoolExecutor(_FILES_AT_ONCE) as threads:
            for texts in threads.map(self._read, by_file.values()):
                by_value |= texts
                self._remember(texts)
        return [by_value.get(value, "") if value in references else value for value in values]

    def _read(self, references: Mapping[_Reference, str]) -> dict[str, str]:
        """The texts that references to a column of one file name, by reference; none that is
        another by now.
        """
        table, column, partition, _, _ = next(iter(references))
        source, _, name = partition.partition("/")
        path = self.lake.joinpath(table, source, f"{name}.parquet")
        try:
            with (
                stored_file(path) if is_local(path) else path.open("rb", cache_type="none") as file
            ):
                rows = list(
                    _rows(checked(file), {reference.id for reference in references}, column)
                )
        except FileNotFoundError as error:
            if self.lake.exists():
                return {}
            raise IndexUnavailableError(
                f"{self.lake}, where the texts of this index are, is not there: bring it back, or see that this machine "
                "sees it"
            ) from error
        except (OSError, pa.ArrowException) as error:
            raise IndexUnavailableError(
                f"{path} of the lake, where the texts of this index are, cannot be read ({error}): look at its rights "
                "and at the store; `weft build` makes a damaged file again"
            ) from error
        result = {}
        for id_, text in rows:
            digest = md5(text.encode(), usedforsecurity=False).hexdigest()[:DIGITS]
            if value := references.get(_Reference(table, column, partition, id_, digest)):
                result[value] = text
        return result

    def _remember(self, texts: Mapping[str, str]) -> None:
        with self._lock:
            for value, text in texts.items():
                self._bytes += len(text) if value not in self._cached else 0
                self._cached[value] = text
            while self._bytes > _CACHED_BYTES:
                _, text = self._cached.popitem(last=False)
                self._bytes -= len(text)


def _rows(file: pq.ParquetFile, ids: set[str], column: str) -> Iterator[tuple[str, str]]:
    """Id and text of the rows with these ids, of the row groups that may have them; ids stand in
    the first column.
    """
    key = next(
        k for k, columns in TEXTS.values() if column in columns and k in file.schema_arrow.names
    )
    place, least, most = file.schema_arrow.names.index(key), min(ids), max(ids)
    for group in range(file.num_row_groups):
        limits = file.metadata.row_group(group).column(place).statistics
        if limits and limits.has_min_max and (limits.max < least or limits.min > most):
            continue
        rows = file.read_row_group(group, [key, column], use_threads=False)
        rows = rows.filter(pc.is_in(rows.column(key), pa.array(sorted(ids))))
        yield from zip(rows.column(key).to_pylist(), rows.column(column).to_pylist(), strict=True)
