"""The lake: one Parquet file per table and partition, written atomically under a declared schema."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from upath import UPath

from assets.partitions import IN_PARTS
from assets.protocols.lake import Loaded, Parts
from dagster_project.resources.system.processes import is_left_over
from transforms.errors import LakeDamageError, SettingsError
from transforms.hashing import parts_hash
from transforms.schemas.table import Table

_ROW_GROUP = 65_536
_CONTENT, _CODE, _INPUTS = b"weft.content_hash", b"weft.code_version", b"weft.inputs"
_TEMPORARY = ".tmp-"
_TRAILER = 8
"""Bytes at the end of a Parquet file: the length of its footer, and a magic word
(https://parquet.apache.org/docs/file-format/)."""
_BLOCK = 1 << 20
MISSING = "missing"
"""What is wrong with a file that is not there."""
OTHER_SCHEMA = "of another schema"
"""What is wrong with a file whose columns are not those that are declared now."""
SPOILED = "damaged inside: its content is not what was written"
"""What is wrong with a file that has a whole footer, and other bytes before it than it was written with."""


@dataclass(frozen=True)
class Footer:
    """What a lake file says of itself: hash of its content, version of its maker, its inputs' hashes."""

    content_hash: str
    code_version: str
    inputs: Mapping[str, str]
    row_count: int


@dataclass(frozen=True)
class StagedFile:
    """A written file that is not yet at its place; `commit` moves it there."""

    temporary: Path
    place: UPath
    content_hash: str
    row_count: int

    def commit(self) -> None:
        """Make the file visible under its name; readers see the old one or the new one, whole."""
        if is_local(self.place):
            self.temporary.replace(str(self.place))
        else:
            self.place.fs.put_file(str(self.temporary), self.place.path)
            self.temporary.unlink()


class ParquetLake:
    """Tables as Parquet files below a URI: `<table>/<source>/<partition>.parquet` or `<table>.parquet`.

    Of a table that is stored in parts the latter has no rows: it says which parts there are, and their hashes. Without a
    partition, such a table is all of its parts.
    """

    def __init__(self, uri: str, tables: Mapping[str, Table], copies: Path | None = None):
        """`copies` is a folder of this machine for what is read of a lake elsewhere; else a temporary one."""
        try:
            # A listing that is kept would hide what other processes write.
            self.base = UPath(uri) if is_local(UPath(uri)) else UPath(uri, use_listings_cache=False)
            _ = self.base.fs
        except (ImportError, ValueError) as error:
            raise SettingsError(f"storage.lake = {uri!r} cannot be opened: {error}") from error
        self.tables = dict(tables)
        self.copies = copies or Path(tempfile.gettempdir()) / "weft-lake"

    def path(self, table: str, partition: str | None = None) -> UPath:
        """Where a table, or one partition of it, is kept."""
        if partition is None:
            return self.base / f"{table}.parquet"
        source, _, partition = partition.partition("/")
        if not source or not partition or {".", ".."} & {source, partition} or "/" in partition:
            raise ValueError(f"{partition!r} is no partition: <source>/<partition>")
        return self.base / table / source / f"{partition}.parquet"

    def local(self, table: str, partition: str | None = None) -> Path:
        """A file of this machine that holds the stored table; FileNotFoundError if there is none.

        What lies elsewhere is copied once per content: DuckDB asks a remote file system for the same facts hundreds
        of times.
        """
        place = self.path(table, partition)
        if is_local(place):
            return Path(str(place))
        known = self._copies_of(place)
        copy = self.copies / f"{known}{place.fs.ukey(place.path)}.parquet"
        if not copy.exists():
            self.copies.mkdir(parents=True, exist_ok=True)
            temporary = self.copies / f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(6)}"
            place.fs.get_file(place.path, str(temporary))
            temporary.replace(copy)
        return copy

    def _copies_of(self, place: UPath) -> str:
        """How the names of all copies of a remote file begin."""
        return f"{blake2b(str(place).encode(), digest_size=12).hexdigest()}-"

    def stage(
        self,
        table: str,
        partition: str | None,
        data: pa.Table | Iterable[pa.Table],
        *,
        code_version: str,
        inputs: Mapping[str, str],
    ) -> StagedFile:
        """`data` conformed to the table's schema and written beside its place, durable on return.

        Tables that come one by one are written one by one. The content hash covers the encoded columns and nothing
        of the file's metadata, so equal tables have equal hashes whatever they were made from.
        """
        place = self.path(table, partition)
        declared, rows = self.tables[table], 0
        schema = declared.empty().schema.remove_metadata()
        given = [declared.conform(data)] if isinstance(data, pa.Table) else map(declared.conform, data)
        temporary = self._temporary_for(place)
        with _removed_on_fault(temporary), temporary.open("wb") as raw:
            sink = _HashingSink(raw)
            writer = pq.ParquetWriter(
                pa.PythonFile(sink, mode="w"),
                schema,
                compression="zstd",
                store_schema=True,
                **_encodings(schema),
            )
            for group in _row_groups(given):
                writer.write_table(group.replace_schema_metadata(None), _ROW_GROUP)
                rows += group.num_rows
            if not rows:
                writer.write_table(schema.empty_table(), _ROW_GROUP)
            content_hash = sink.digest.hexdigest()
            writer.add_key_value_metadata(
                {
                    _CONTENT: content_hash,
                    _CODE: code_version,
                    _INPUTS: json.dumps(dict(sorted(inputs.items()))),
                }
            )
            writer.close()
            raw.flush()
            os.fsync(raw.fileno())
        return StagedFile(temporary, place, content_hash, rows)

    def stage_parts(self, table: str, parts: Parts, *, code_version: str) -> StagedFile:
        """The list of the parts of a table, written beside its place, when they are at theirs and others are gone."""
        hashes: dict[str, str] = {}
        rows = 0
        for part, inputs, data in parts.made:
            made = self.stage(table, part, data, code_version=code_version, inputs=inputs)
            made.commit()
            hashes[part], rows = made.content_hash, rows + made.row_count
        for part in parts.kept:
            if footer := self.footer(table, part):
                hashes[part], rows = footer.content_hash, rows + footer.row_count
        for part in set(self.partitions(table)) - hashes.keys():
            self._delete(table, part)
        listed = self.stage(table, None, self.tables[table].empty(), code_version=code_version, inputs=hashes)
        told = (text for item in sorted(hashes.items()) for text in item)
        return replace(listed, content_hash=parts_hash(told), row_count=rows)

    def footer(self, table: str, partition: str | None = None) -> Footer | None:
        """What the stored file says of itself; None if there is none or it cannot be read."""
        found = self._examined(table, partition)
        return found if isinstance(found, Footer) else None

    def code_version(self, table: str, partition: str | None = None) -> str | None:
        """Version of the code that wrote a stored file, whatever its columns; None if it cannot be read."""
        try:
            with opened(self.path(table, partition)) as file:
                metadata = pq.ParquetFile(file).metadata.metadata or {}
        except (pa.ArrowException, OSError):
            return None
        return metadata[_CODE].decode() if _CODE in metadata else None

    def damage(self, table: str, partition: str | None = None) -> str | None:
        """What is wrong with a stored file; None if it is whole. Of a table in parts it is the list of these."""
        found = self._examined_file(table, partition)
        return found if isinstance(found, str) else None

    def _examined(self, table: str, partition: str | None) -> Footer | str:
        """What the stored table says of itself, or what is wrong with it."""
        found = self._examined_file(table, partition)
        if isinstance(found, str) or partition is not None or table not in IN_PARTS:
            return found
        parts = [self._examined_file(table, part) for part in found.inputs]
        hashes = [part.content_hash for part in parts if isinstance(part, Footer)]
        if hashes != list(found.inputs.values()):
            return "not the list of its parts"
        told = (text for item in found.inputs.items() for text in item)
        rows = sum(part.row_count for part in parts if isinstance(part, Footer))
        return Footer(parts_hash(told), found.code_version, {}, rows)

    def parts(self, table: str) -> list[str]:
        """The names of the parts of a table that is stored in parts, sorted; none if it cannot be read."""
        found = self._examined_file(table, None)
        return [] if isinstance(found, str) else sorted(found.inputs)

    def _stored_as(self, table: str, partition: str | None) -> Sequence[str | None]:
        """The partitions under which the rows of a table, or of one partition of it, are stored."""
        return self.parts(table) if partition is None and table in IN_PARTS else [partition]

    def _examined_file(self, table: str, partition: str | None) -> Footer | str:
        """What the stored file says of itself, or what is wrong with it."""
        try:
            with opened(self.path(table, partition)) as file:
                parquet = pq.ParquetFile(file)
                metadata, rows = parquet.metadata.metadata or {}, parquet.metadata.num_rows
                columns = parquet.schema_arrow
        except FileNotFoundError:
            return MISSING
        except (pa.ArrowException, OSError) as error:
            return f"no whole Parquet file ({str(error).splitlines()[0]})"
        declared = self.tables[table].arrow
        is_list = partition is None and table in IN_PARTS
        if columns.names != declared.names or columns.types != declared.types or (is_list and rows):
            return OTHER_SCHEMA
        if not {_CONTENT, _CODE, _INPUTS} <= metadata.keys():
            return "not written by Weft"
        return Footer(
            metadata[_CONTENT].decode(), metadata[_CODE].decode(), json.loads(metadata[_INPUTS]), rows
        )

    def has_tables(self, tables: Sequence[str], partition: str) -> bool:
        """True if a partition of all these tables is stored and can be read."""
        return all(self.footer(table, partition) for table in tables)

    def read(self, table: str, partition: str | None = None, columns: Sequence[str] | None = None) -> Loaded:
        """The stored table, or some columns of it.

        FileNotFoundError if there is none, LakeDamageError if its content is not what was written.
        """
        if partition is None and table in IN_PARTS and (footer := self.footer(table)):
            read = [self.read(table, part).table for part in self.parts(table)]
            return Loaded(pa.concat_tables(read or [self.tables[table].empty()]), footer.content_hash)
        path = self.local(table, partition)
        with opened(path) as file:
            content_hash = _verified_hash(file, path)
            data = pq.ParquetFile(file).read(columns and list(columns))
        declared = self.tables[table]
        return Loaded(data if columns else declared.conform(data), content_hash)

    def verified(self, table: str, partition: str | None) -> Path:
        """`local` for a file whose content is what was written; LakeDamageError for another."""
        path = self.local(table, partition)
        with opened(path) as file:
            _verified_hash(file, path)
        return path

    def spoiled(self) -> list[tuple[str, str | None]]:
        """Table and partition of the stored files with a whole footer whose content is not what was written.

        Reads every byte of the lake.
        """
        return [place for place in self.places() if self.footer(*place) and self._is_spoiled(*place)]

    def discard_spoiled(self) -> dict[str, str]:
        """Delete what `spoiled` finds, so that the next build makes it again; by path, what was wrong with it."""
        found = {str(self.path(*place)): place for place in self.spoiled()}
        for place in found.values():
            self._delete(*place)
        return dict.fromkeys(found, SPOILED)

    def _is_spoiled(self, table: str, partition: str | None) -> bool:
        try:
            self.verified(table, partition)
        except LakeDamageError:
            return True
        except FileNotFoundError:
            pass  # removed meanwhile
        return False

    def ids(self, table: str, partition: str) -> set[str]:
        """The first column of a stored table; empty if there is none or it cannot be read."""
        try:
            path = self.path(table, partition)
            with opened(path) as file:
                parquet = pq.ParquetFile(file)
                first = parquet.schema_arrow.names[0]
                read = parquet.read(columns=[first], use_threads=is_local(path))
                return set(read.column(first).to_pylist())
        except (FileNotFoundError, pa.ArrowInvalid, OSError):
            return set()

    def stored(self, table: str, columns: Sequence[str], partition: str | None = None) -> pa.Table | None:
        """Columns of a stored table, or of one partition of it; None if there is none or it is damaged."""
        if self.footer(table, partition) is None:
            return None
        try:
            read = [self._columns_of(table, columns, part) for part in self._stored_as(table, partition)]
        except (pa.ArrowException, OSError):
            return None
        return pa.concat_tables(read or [self.tables[table].empty().select(list(columns))])

    def _columns_of(self, table: str, columns: Sequence[str], partition: str | None) -> pa.Table:
        path = self.path(table, partition)
        with opened(path) as file:
            return pq.ParquetFile(file).read(list(columns), use_threads=is_local(path))

    def written_at(self, table: str, partition: str | None = None) -> datetime | None:
        """When the stored file was written; None if there is none, or the file system keeps no times."""
        try:
            changed = self.path(table, partition).stat().st_mtime
        except OSError:
            return None
        return datetime.fromtimestamp(changed, UTC) if changed else None

    def partitions(self, table: str) -> list[str]:
        """The partitions that are stored for a table, sorted."""
        folder = self.base / table
        if not folder.exists():
            return []
        return sorted(
            f"{p.parent.name}/{p.name.removesuffix('.parquet')}"
            for p in folder.glob("*/*.parquet")
            if not p.name.startswith(_TEMPORARY)
        )

    def places(self) -> list[tuple[str, str | None]]:
        """Table and partition of every stored file; the partition of a whole table is None."""
        whole: list[tuple[str, str | None]] = [
            (table, None) for table in self.tables if self.path(table).exists()
        ]
        return whole + [(table, p) for table in self.tables for p in self.partitions(table)]

    def discard(self, table: str) -> None:
        """Delete a table without partitions, so that the next build makes it again."""
        self._delete(table, None)

    def remove(self, partition: str) -> None:
        """Delete a partition of every table; the first declared, by which partitions are listed, last."""
        self.remove_tables(list(reversed(self.tables)), partition)

    def remove_tables(self, tables: Sequence[str], partition: str) -> None:
        """Delete a partition of some tables."""
        for table in tables:
            self._delete(table, partition)

    def _delete(self, table: str, partition: str | None) -> None:
        place = self.path(table, partition)
        place.unlink(missing_ok=True)
        if not is_local(place):
            for copy in self.copies.glob(f"{self._copies_of(place)}*"):
                copy.unlink(missing_ok=True)

    def sweep(self) -> int:
        """Delete what killed runs left beside its place; returns the number of files.

        To be called while this process stages nothing: files under its own process id are those of
        a killed process that had the same one, as happens in containers.
        """
        count = 0
        if not is_local(self.base):
            self._sweep_copies()
        for path in (Path(str(self.base)) if is_local(self.base) else self.copies).rglob(f"{_TEMPORARY}*"):
            pid = path.name.removeprefix(_TEMPORARY).split("-")[0]
            if is_left_over(pid):
                path.unlink(missing_ok=True)
                count += 1
        return count

    def _sweep_copies(self) -> None:
        """Delete the copies of remote files that a later copy of the same file has replaced."""
        latest: dict[str, Path] = {}
        for copy in sorted(self.copies.glob("*.parquet"), key=lambda p: p.stat().st_mtime_ns):
            of = copy.name.partition("-")[0]
            if of in latest:
                latest[of].unlink(missing_ok=True)
            latest[of] = copy

    def _temporary_for(self, place: UPath) -> Path:
        name = f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(6)}"
        folder = Path(str(place.parent)) if is_local(place) else self.copies
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Vectors are written byte by byte of their numbers: a tenth smaller, and written and read twice as fast."""
    vectors = [f.name for f in schema if pa.types.is_fixed_size_list(f.type)]
    if not vectors:
        return {}
    return {
        "use_dictionary": [name for name in schema.names if name not in vectors],
        "column_encoding": {f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in vectors},
    }


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Rows as they come, _ROW_GROUP at a time, each in one piece: however they came, they are written alike."""
    left: list[pa.Table] = []
    for table in tables:
        left.append(table)
        while (count := sum(part.num_rows for part in left)) >= _ROW_GROUP:
            whole = pa.concat_tables(left)
            yield whole.slice(0, _ROW_GROUP).combine_chunks()
            left = [whole.slice(_ROW_GROUP)] if count > _ROW_GROUP else []
    if any(part.num_rows for part in left):
        yield pa.concat_tables(left).combine_chunks()


@contextmanager
def _removed_on_fault(path: Path) -> Iterator[None]:
    """Delete a file whose writing fails."""
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _content_digest() -> blake2b:
    """The hash by which contents of lake files are told apart, of nothing yet."""
    return blake2b(digest_size=16)


class _HashingSink:
    """A writable file that hashes what passes through it."""

    def __init__(self, raw: Any):
        self.raw = raw
        self.digest = _content_digest()
        self.closed = False

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return int(self.raw.write(data))

    def tell(self) -> int:
        return int(self.raw.tell())

    def flush(self) -> None:
        self.raw.flush()

    def close(self) -> None:
        self.closed = True


@contextmanager
def opened(path: Path | UPath) -> Iterator[pa.NativeFile | BinaryIO]:
    """A file for reading; one that is not local may be read by one thread only.

    The threads of Arrow let go of a file late. If it is one of Python's, and Python is about to end, the process hangs
    or is aborted instead (https://github.com/apache/arrow/issues/33975).
    """
    with pa.OSFile(str(path)) if is_local(path) else path.open("rb") as file:
        yield file


def _verified_hash(file: pa.NativeFile | BinaryIO, path: Path | UPath) -> str:
    """The content hash in the footer; LakeDamageError if the bytes before the footer have another. Without one, ""."""
    told = (pq.ParquetFile(file).metadata.metadata or {}).get(_CONTENT, b"").decode()
    left = file.seek(-_TRAILER, os.SEEK_END)
    left -= int.from_bytes(file.read(4), "little")
    digest = _content_digest()
    file.seek(0)
    while left > 0 and (block := file.read(min(_BLOCK, left))):
        digest.update(block)
        left -= len(block)
    if told and digest.hexdigest() != told:
        raise LakeDamageError(f"{path} is {SPOILED}; `weft build --verify` makes it again")
    return told


def is_local(path: Path | UPath) -> bool:
    """True for a place in this machine's file system."""
    return not isinstance(path, UPath) or path.protocol in ("", "file", "local")
