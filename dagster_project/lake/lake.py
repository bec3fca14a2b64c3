"""The lake: one Parquet file per table and partition, written atomically under a declared schema."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from upath import UPath

from assets.partitions import IN_PARTS
from assets.protocols.lake import Loaded, Parts, Staged
from dagster_project.extensions import store_part
from dagster_project.lake.parquet_files import (
    CORRUPT,
    MISSING,
    OTHER_SCHEMA,
    ParquetFooter,
    checked,
    columns_digest,
    is_local,
    read_columns,
    read_footer,
    stored_file,
    verified_hash,
    write_file,
)
from dagster_project.lake.recorded_footers import (
    PARTIAL,
    FooterCopies,
    RecordedFooters,
    recorded_footers,
)
from dagster_project.ledger.ledger import Ledger, ledger_in
from dagster_project.system.durable import sync
from dagster_project.system.locks import require_leases
from dagster_project.system.processes import is_left_over
from transforms.errors import LakeDamageError, SettingsError
from transforms.hashing import parts_hash
from transforms.schemas.registry import partitions_of
from transforms.schemas.table import Table


@dataclass(frozen=True)
class StagedFile:
    """A written file that is not yet visible; `commit` moves it to its place."""

    temporary: Path
    place: UPath
    content_hash: str
    row_count: int
    bytes: int

    def commit(self) -> None:
        """Make the file visible under its name; readers see either the old or the new file, never a
        mixture.
        """
        commit_all([self])


def commit_all(staged: Iterable[Staged]) -> None:
    """Make files visible one after the other; all are durable when the call returns."""
    folders = set()
    for file in staged:
        if not isinstance(file, StagedFile):
            file.commit()
        elif is_local(file.place):
            folders.add(file.temporary.replace(str(file.place)).parent)
        else:
            require_leases()
            file.place.fs.put_file(str(file.temporary), file.place.path)
            file.temporary.unlink()
    sync(folders)


class ParquetLake:
    """Tables as Parquet files below a URI: `<table>/<source>/<partition>.parquet` or
    `<table>.parquet`.

    If a table is stored in parts, `<table>.parquet` has no rows: it lists the parts with their
    hashes. Read without a partition, such a table is the union of its parts.
    """

    def __init__(
        self,
        uri: str,
        tables: Mapping[str, Table],
        copies: Path | None = None,
        ledger: Ledger | None = None,
    ):
        """`copies` is a local folder for copies of the files of a remote lake, a temporary folder
        by default; `ledger` records looks at the lake, by default a file in that folder.
        """
        try:
            # A cached listing would hide files of other processes.
            self.base = UPath(uri) if is_local(UPath(uri)) else UPath(uri, use_listings_cache=False)
            _ = self.base.fs
        except (ImportError, ValueError) as error:
            raise SettingsError(f"storage.lake = {uri!r} cannot be opened: {error}") from error
        self._folder = str(self.base) if is_local(self.base) else None
        self.tables = dict(tables)
        self._columns: dict[str, str] = {}
        self.copies = copies or Path(tempfile.gettempdir()) / "weft-lake"
        self.ledger = ledger or ledger_in(self.copies)
        self._look: Any = None

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """While it lasts, footers and lists of a remote lake are those of its beginning, which a
        few requests bring.

        A lake on this machine is looked at each time, as it is without this. Facts of footers are
        kept for the next run.
        """
        if self._look:
            yield
        elif self._folder:
            yield
            self._footers.keep(lambda place: self.path(place[0], place[1] or None).exists())
        else:
            self._look = store_part("lake_look")(self.base, self._footers)
            try:
                yield
                self._footers.keep(self._look.has)
            finally:
                self._look = None

    def path(self, table: str, partition: str | None = None) -> UPath:
        """The path of a stored table, or of one partition of it."""
        return self.base / _name(table, partition)

    def local(self, table: str, partition: str | None = None) -> Path:
        """The path of the stored table on this machine; FileNotFoundError if it does not exist.

        A remote file is copied once per content.
        """
        if self._folder is not None:
            return Path(self._folder, _name(table, partition))
        return FooterCopies(self.copies).of(self.path(table, partition))

    def stage(
        self,
        table: str,
        partition: str | None,
        data: pa.Table | Iterable[pa.Table],
        *,
        code_version: str,
        inputs: Mapping[str, str],
    ) -> StagedFile:
        """Write `data`, conformed to the table's schema, beside its place; it is durable on return.

        Equal tables have equal content hashes, whatever their inputs were.
        """
        place = self.path(table, partition)
        temporary = FooterCopies(
            Path(str(place.parent)) if is_local(place) else self.copies
        ).temporary()
        content_hash, rows = write_file(temporary, self.tables[table], data, code_version, inputs)
        return StagedFile(temporary, place, content_hash, rows, temporary.stat().st_size)

    def stage_parts(self, table: str, parts: Parts, *, code_version: str) -> StagedFile:
        """Commit the new parts of a table, delete those that are neither new nor retained, and
        stage the list of parts.
        """
        hashes: dict[str, str] = {}
        rows = 0
        new = list(parts.new)
        commit_all([part for _, part in new])
        for name, part in new:
            hashes[name], rows = part.content_hash, rows + part.row_count
        for name in parts.retained:
            if footer := self.footer(table, name):
                hashes[name], rows = footer.content_hash, rows + footer.row_count
        for name in set(self.partitions(table)) - hashes.keys():
            self.discard(table, name)
        listed = self.stage(
            table, None, self.tables[table].empty(), code_version=code_version, inputs=hashes
        )
        return replace(listed, content_hash=_hash_of_parts(sorted(hashes.items())), row_count=rows)

    def footer(self, table: str, partition: str | None = None) -> ParquetFooter | None:
        """The footer of the stored table; None if it does not exist or cannot be read."""
        footer = self._table_footer(table, partition)
        return footer if isinstance(footer, ParquetFooter) else None

    def code_version(self, table: str, partition: str | None = None) -> str | None:
        """Version of the code that wrote a stored file, whatever its columns; None if it cannot be
        read.
        """
        footer = self._any_footer(table, partition)
        return footer.code_version if isinstance(footer, ParquetFooter) else None

    def is_stored(self, table: str, partition: str | None = None) -> bool:
        """True if there is a file of the table, whatever is in it."""
        return (
            self._look.has((table, partition or ""))
            if self._look
            else bool(self.path(table, partition).exists())
        )

    def code_versions(self, table: str) -> list[str]:
        """The versions of the code that made the partitions of a table, sorted; none of a table
        over the whole lake.
        """
        if partitions_of(table) is None:
            return []
        footers = (self.footer(table, partition) for partition in self.partitions(table))
        return sorted({footer.code_version for footer in footers if footer})

    def damage(self, table: str, partition: str | None = None) -> str | None:
        """The fault of a stored file, for a table in parts that of their list; None if it is valid."""
        return footer if isinstance(footer := self._file_footer(table, partition), str) else None

    def _table_footer(self, table: str, partition: str | None) -> ParquetFooter | str:
        """The footer of the stored table, of a table in parts the sum of its parts' footers; or its
        fault.
        """
        footer = self._file_footer(table, partition)
        if isinstance(footer, str) or partition is not None or table not in IN_PARTS:
            return footer
        parts = [self._file_footer(table, part) for part in footer.inputs]
        hashes = [part.content_hash for part in parts if isinstance(part, ParquetFooter)]
        if hashes != list(footer.inputs.values()):
            return "not the list of its parts"
        rows = sum(part.row_count for part in parts if isinstance(part, ParquetFooter))
        return ParquetFooter(_hash_of_parts(footer.inputs.items()), footer.code_version, {}, rows)

    def parts(self, table: str) -> list[str]:
        """The names of the parts of a table that is stored in parts, sorted; LakeDamageError
        without their list.
        """
        footer = self._file_footer(table, None)
        if isinstance(footer, str):
            raise self.unusable(table, None, footer)
        return sorted(footer.inputs)

    def unusable(self, table: str, partition: str | None, fault: str = MISSING) -> LakeDamageError:
        """The error to raise for a stored file with a fault."""
        return LakeDamageError(
            f"{self.path(table, partition)} is {fault}; `weft build` makes it again"
        )

    def require_parts(self, table: str) -> ParquetFooter:
        """The sum of the footers of a table's parts; LakeDamageError unless all are those of their
        list.
        """
        if isinstance(footer := self._table_footer(table, None), str):
            raise self.unusable(table, None, footer)
        return footer

    def _file_footer(self, table: str, partition: str | None) -> ParquetFooter | str:
        footer = self._any_footer(table, partition)
        if isinstance(footer, str):
            return footer
        if table not in self._columns:  # it takes as long as to read a footer
            self._columns[table] = columns_digest(self.tables[table].arrow)
        is_list = partition is None and table in IN_PARTS
        is_declared = footer.columns == self._columns[table] and not (is_list and footer.row_count)
        return footer if is_declared else OTHER_SCHEMA

    def _any_footer(self, table: str, partition: str | None) -> ParquetFooter | str:
        """The footer of a file with any columns, or its fault."""
        if self._look:
            return self._look.footer((table, partition or ""))
        if self._folder is None:
            return read_footer(self.path(table, partition))
        path = f"{self._folder}/{_name(table, partition)}"  # a path object takes longer than the look at the file
        return self._footers.local((table, partition or ""), path)

    @cached_property
    def _footers(self) -> RecordedFooters:
        return recorded_footers(self.ledger)

    def has_tables(self, tables: Sequence[str], partition: str) -> bool:
        """True if a partition of all these tables is stored and can be read."""
        return all(self.footer(table, partition) for table in tables)

    def read(
        self, table: str, partition: str | None = None, columns: Sequence[str] | None = None
    ) -> Loaded:
        """The stored table, or some columns of it.

        FileNotFoundError without a file, LakeDamageError if its content differs from what was
        written, or a part of it is missing.
        """
        if partition is None and table in IN_PARTS:
            footer = self.require_parts(table)
            parts = [self.read(table, part, columns).table for part in self.parts(table)]
            empty = self.tables[table].empty()
            none = empty.select(list(columns)) if columns else empty
            return Loaded(pa.concat_tables(parts or [none]), footer.content_hash)
        path = self.local(table, partition)
        with stored_file(path) as file:
            content_hash = verified_hash(file, path)
            data = pq.ParquetFile(file).read(columns and list(columns))
        declared = self.tables[table]
        return Loaded(data if columns else declared.conform(data), content_hash)

    def verified(self, table: str, partition: str | None) -> Path:
        """`local`, after verifying the content of the file by its hash; LakeDamageError if it is
        corrupt.
        """
        path = self.local(table, partition)
        with stored_file(path) as file:
            verified_hash(file, path)
        return path

    def corrupt_files(self) -> list[tuple[str, str | None]]:
        """Table and partition of the stored files with a valid footer but corrupt content; reads
        the whole lake.
        """
        return [
            place for place in self.places() if self.footer(*place) and self._is_corrupt(*place)
        ]

    def discard_corrupt(self) -> dict[str, str]:
        """Delete the `corrupt_files`, so that the next build makes them again; returns each path
        with its fault.
        """
        corrupt = {str(self.path(*place)): place for place in self.corrupt_files()}
        for place in corrupt.values():
            self.discard(*place)
        return dict.fromkeys(corrupt, CORRUPT)

    def _is_corrupt(self, table: str, partition: str | None) -> bool:
        try:
            self.verified(table, partition)
        except LakeDamageError:
            return True
        except FileNotFoundError:
            pass  # another process has deleted it meanwhile
        return False

    def ids(self, table: str, partition: str) -> set[str]:
        """The first column of a stored table; empty if there is none or it cannot be read."""
        try:
            path = self.path(table, partition)
            with stored_file(path) as file:
                parquet = checked(file)
                first = parquet.schema_arrow.names[0]
                rows = parquet.read(columns=[first], use_threads=is_local(path))
                return set(rows.column(first).to_pylist())
        except (FileNotFoundError, pa.ArrowInvalid, OSError):
            return set()

    def evaluated(self, expression: Callable[..., Any], *tables: pa.Table) -> pa.Table:
        """The rows of a function of Ibis tables, applied to Arrow tables in memory."""
        # It loads Ibis, which a search does without.
        from dagster_project.lake.lake_backend import result_of

        return result_of(expression, *tables)

    def stored(
        self, table: str, columns: Sequence[str], partition: str | None = None
    ) -> pa.Table | None:
        """Columns of a stored table, or of one partition of it; None if it does not exist or is
        corrupt.
        """
        if self.footer(table, partition) is None:
            return None
        parts = self.parts(table) if partition is None and table in IN_PARTS else [partition]
        try:
            tables = [read_columns(self.path(table, part), columns) for part in parts]
        except (pa.ArrowException, OSError):
            return None
        return pa.concat_tables(tables or [self.tables[table].empty().select(list(columns))])

    def intact(
        self, table: str, columns: Sequence[str], partition: str | None = None
    ) -> pa.Table | None:
        """As `stored`, but LakeDamageError if there is a file that cannot be read."""
        rows = self.stored(table, columns, partition)
        if rows is None and self.is_stored(table, partition):
            raise self.unusable(table, partition, self.damage(table, partition) or CORRUPT)
        return rows

    def written_at(self, table: str, partition: str | None = None) -> datetime | None:
        """When the stored file was written; None if it does not exist, or the file system keeps no
        times.
        """
        try:
            modified = self.path(table, partition).stat().st_mtime
        except OSError:
            return None
        return datetime.fromtimestamp(modified, UTC) if modified else None

    def partitions(self, table: str) -> list[str]:
        """The partitions that are stored for a table, sorted."""
        if self._look:
            names = self._look.below(table)
            return sorted(
                name.removesuffix(".parquet") for name in names if name.endswith(".parquet")
            )
        folder = self.base / table
        if not folder.exists():
            return []
        return sorted(
            f"{p.parent.name}/{p.name.removesuffix('.parquet')}"
            for p in folder.glob("*/*.parquet")
            if not p.name.startswith(PARTIAL)
        )

    def places(self) -> list[tuple[str, str | None]]:
        """Table and partition of every stored file; the partition of a whole table is None."""
        whole: list[tuple[str, str | None]] = [
            (t, None) for t in self.tables if self.path(t).exists()
        ]
        return whole + [(table, p) for table in self.tables for p in self.partitions(table)]

    def remove(self, partition: str) -> None:
        """Delete a partition of every table; the first declared, by which partitions are listed,
        last.
        """
        for table in reversed(self.tables):
            self.discard(table, partition)

    def discard(self, table: str, partition: str | None = None) -> None:
        """Delete a table, or a partition of it, so that the next build makes it again."""
        place = self.path(table, partition)
        if not is_local(place):
            require_leases()
        place.unlink(missing_ok=True)
        if not is_local(place):
            FooterCopies(self.copies).drop(place)

    def sweep(self) -> int:
        """Delete the temporary files of killed runs; returns their number.

        To be called while this process stages nothing: temporary files with its own process id
        belong to a killed process that had the same id, as happens in containers.
        """
        count = 0
        if not is_local(self.base):
            FooterCopies(self.copies).sweep()
        for path in Path(self._folder or self.copies).rglob(f"{PARTIAL}*"):
            pid = path.name.removeprefix(PARTIAL).split("-")[0]
            if is_left_over(path, pid):
                path.unlink(missing_ok=True)
                count += 1
        return count


def _name(table: str, partition: str | None) -> str:
    if partition is None:
        return f"{table}.parquet"
    source, _, name = partition.partition("/")
    if not source or not name or {".", ".."} & {source, name} or "/" in name:
        raise ValueError(f"{partition!r} is not a partition: <source>/<partition>")
    return f"{table}/{partition}.parquet"


def _hash_of_parts(hashes: Iterable[tuple[str, str]]) -> str:
    """The content hash of a table in parts, from the names and content hashes of its parts."""
    return parts_hash(text for item in hashes for text in item)
