"""One Parquet file of the lake: written with the hash of its content, read, and verified by that
hash.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from upath import UPath

from assets.protocols.lake import WAITING_BYTES
from dagster_project.system.disk_space import raise_of_machine
from transforms.errors import LakeDamageError
from transforms.hashing import text_hash
from transforms.schemas.table import Table

_ROW_GROUP = 65_536
_CONTENT, _CODE, _INPUTS = b"weft.content_hash", b"weft.code_version", b"weft.inputs"
_FOOTER, _UNSIGNED = b"weft.footer_hash", b"0" * 32
"""The entry with the hash of the footer itself, and the bytes in place of the hash while it is
made.
"""
_TRAILER = 8
"""Bytes at the end of a Parquet file: the length of its footer, and a magic word
(https://parquet.apache.org/docs/file-format/).
"""
_BLOCK = 1 << 20
_DIGEST_BYTES = 16
MISSING = "missing"
"""The fault of a file that does not exist."""
OTHER_SCHEMA = "of another schema"
"""The fault of a file whose columns differ from the declared ones."""
CORRUPT = "damaged inside: its content is not what was written"
"""The fault of a file whose footer is valid, but whose content has another hash than the footer
says.
"""
OTHER_FOOTER = "damaged: its footer is not what was written"
"""The fault of a file whose footer has another hash than it says."""


@dataclass(frozen=True)
class ParquetFooter:
    """The footer of a lake file: content hash, version of the code that wrote it, hashes of its
    inputs, rows, bytes of very long texts that it leaves out for now, digest of its columns.
    """

    content_hash: str
    code_version: str
    inputs: Mapping[str, str]
    row_count: int
    waiting: int = 0
    columns: str = ""


def write_file(
    file: Path,
    declared: Table,
    data: pa.Table | Iterable[pa.Table],
    code_version: str,
    inputs: Mapping[str, str],
) -> tuple[str, int]:
    """Write `data`, conformed to the declared schema, durably; returns the content hash and the
    number of rows.

    Several tables are written one by one. The content hash covers the encoded columns and nothing
    of the file's metadata, so equal tables have equal hashes whatever their inputs were. If writing
    fails, the file is deleted.
    """
    schema, rows = declared.empty().schema.remove_metadata(), 0
    tables = [declared.conform(data)] if isinstance(data, pa.Table) else map(declared.conform, data)
    with ExitStack() as cleanup, file.open("w+b") as raw:
        cleanup.callback(file.unlink, missing_ok=True)
        sink = _HashingSink(raw)
        with pq.ParquetWriter(
            pa.PythonFile(sink, mode="w"),
            schema,
            compression="zstd",
            compression_level=3,
            store_schema=True,
            write_page_checksum=True,
            **_encodings(schema),
        ) as writer:
            for group in _row_groups(tables):
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
                    _FOOTER: _UNSIGNED,
                }
            )
        _sign(raw)
        raw.flush()
        os.fsync(raw.fileno())
        cleanup.pop_all()
    return content_hash, rows


def _sign(file: BinaryIO) -> None:
    """Write the hash of the footer into it: statistics and offsets decide which rows a reader
    finds.
    """
    footer, start = _footer_bytes(file)
    place = _place_of_hash(footer)
    file.seek(start + place)
    file.write(_hash_of_footer(footer, place))


def _footer_bytes(file: pa.NativeFile | BinaryIO) -> tuple[bytes, int]:
    end = file.seek(-_TRAILER, os.SEEK_END)
    start = max(0, end - int.from_bytes(file.read(4), "little"))
    file.seek(start)
    return file.read(end - start), start


def _place_of_hash(footer: bytes) -> int:
    """The byte of a footer where its hash begins; 0 without one. Statistics, which come before, may
    have the name, too.
    """
    name = footer.rfind(_FOOTER)
    return name + len(_FOOTER) + 2 if name >= 0 else 0


def _hash_of_footer(footer: bytes, place: int) -> bytes:
    rest = footer[:place] + _UNSIGNED + footer[place + len(_UNSIGNED) :]
    return blake2b(rest, digest_size=_DIGEST_BYTES).hexdigest().encode()


def _is_signed(file: pa.NativeFile | BinaryIO) -> bool:
    """False if the footer of a file differs from the written one; True for a file of a version that
    wrote no hash of it.
    """
    footer, _ = _footer_bytes(file)
    place = _place_of_hash(footer)
    return not place or footer[place : place + len(_UNSIGNED)] == _hash_of_footer(footer, place)


def read_footer(path: Path | UPath) -> ParquetFooter | str:
    """The footer of a stored file with any columns, or the file's fault."""
    try:
        with stored_file(path) as file:
            parquet = pq.ParquetFile(file)
            if is_local(path) and not _is_signed(file):
                return OTHER_FOOTER
            facts = parquet.metadata.metadata or {}
            if not {_CONTENT, _CODE, _INPUTS} <= facts.keys():
                return "not written by Weft"
            inputs = json.loads(facts[_INPUTS])
            return ParquetFooter(
                content_hash=facts[_CONTENT].decode(),
                code_version=facts[_CODE].decode(),
                waiting=int(inputs.pop(WAITING_BYTES, 0)),
                inputs=inputs,
                row_count=parquet.metadata.num_rows,
                columns=columns_digest(parquet.schema_arrow),
            )
    except FileNotFoundError:
        return MISSING
    except (pa.ArrowException, OSError) as error:
        raise_of_machine(error)
        return f"no whole Parquet file ({str(error).splitlines()[0]})"


def columns_digest(columns: pa.Schema) -> str:
    """A digest of names and types, equal for types that are equal and spelled otherwise."""
    types = f"{columns.types}".replace("<element: ", "<item: ")
    return text_hash(f"{columns.names} {types}")


def read_columns(path: Path | UPath, columns: Iterable[str]) -> pa.Table:
    """Some columns of a stored file; OSError if a page that is read differs from the written one."""
    with stored_file(path) as file:
        return checked(file).read(list(columns), use_threads=is_local(path))


def checked(file: pa.NativeFile | BinaryIO) -> pq.ParquetFile:
    """An opened file; a read of a page that differs from the written one raises OSError."""
    return pq.ParquetFile(file, page_checksum_verification=True)


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Options of the Parquet writer: splitting the bytes of vectors makes files a tenth smaller and
    twice as fast.
    """
    vectors = [f.name for f in schema if pa.types.is_fixed_size_list(f.type)]
    if not vectors:
        return {}
    return {
        "use_dictionary": [name for name in schema.names if name not in vectors],
        "column_encoding": {f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in vectors},
    }


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows of all tables, _ROW_GROUP at a time in one chunk: the file does not depend on how
    tables divide rows.
    """
    pending: list[pa.Table] = []
    for table in tables:
        pending.append(table)
        while (count := sum(part.num_rows for part in pending)) >= _ROW_GROUP:
            rows = pa.concat_tables(pending)
            yield rows.slice(0, _ROW_GROUP).combine_chunks()
            pending = [rows.slice(_ROW_GROUP)] if count > _ROW_GROUP else []
    if any(part.num_rows for part in pending):
        yield pa.concat_tables(pending).combine_chunks()


class _HashingSink(RawIOBase):
    """A writable file that hashes the bytes that pass through it."""

    def __init__(self, raw: Any):
        self.raw = raw
        self.digest = blake2b(digest_size=_DIGEST_BYTES)

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return int(self.raw.write(data))

    def tell(self) -> int:
        return int(self.raw.tell())

    def writable(self) -> bool:
        return True


@contextmanager
def stored_file(path: Path | UPath) -> Iterator[pa.NativeFile | BinaryIO]:
    """Open a file for reading; only one thread may read a file that is not local.

    Arrow's threads release a file late. If it is a Python file object and the interpreter is
    shutting down, the process hangs or aborts (https://github.com/apache/arrow/issues/33975).
    """
    with pa.OSFile(str(path)) if is_local(path) else path.open("rb") as file:
        yield file


def verified_hash(file: pa.NativeFile | BinaryIO, path: Path | UPath) -> str:
    """The content hash in the footer, "" without one; LakeDamageError if the bytes before the
    footer have another.
    """
    expected = (pq.ParquetFile(file).metadata.metadata or {}).get(_CONTENT, b"").decode()
    _, remaining = _footer_bytes(file)
    is_signed = _is_signed(file)
    digest = blake2b(digest_size=_DIGEST_BYTES)
    file.seek(0)
    while remaining > 0 and (block := file.read(min(_BLOCK, remaining))):
        digest.update(block)
        remaining -= len(block)
    if not is_signed or (expected and digest.hexdigest() != expected):
        raise LakeDamageError(f"{path} is {CORRUPT}; `weft build --verify` makes it again")
    return expected


def is_local(path: Path | UPath) -> bool:
    """True for a path in this machine's file system."""
    return not isinstance(path, UPath) or path.protocol in ("", "file", "local")
