"""Rows of SQL as a new file: Parquet, CSV, JSON lines, or the mails that they name as mbox."""

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from dagster_project.system.durable import put, sync
from transforms.errors import QueryError

ENDINGS = (".parquet", ".csv", ".jsonl", ".mbox")
_AT_ONCE = 5_000
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters with which a cell begins that spreadsheets may run as a formula."""


def refuse(file: Path) -> None:
    """QueryError for a file that is there already, or has another ending than `ENDINGS` or no
    folder.
    """
    if file.suffix not in ENDINGS:
        raise QueryError(f"{file}: the file must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")
    if file.exists():
        raise QueryError(f"{file} is there already; name a new file, or remove it")
    if not file.parent.is_dir():
        raise QueryError(f"{file}: the folder {file.parent} is not there; make it first")


def write_rows(rows: pa.Table, file: Path, mails: Callable[[list[str]], Iterator[bytes]]) -> int:
    """Write a result to a new file, complete or not at all; returns the number of its rows or
    mails.

    `mails` yields the mails of some ids as entries of mbox. QueryError if two columns have one
    name, or if the rows of an mbox have no text `message_id`.
    """
    names = rows.column_names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise QueryError(f"two columns are named {twice[0]}: give one of them another name by AS")
    aside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with aside.open("xb") as stream:
            count = _written(rows, stream, file.suffix, mails)
        sync([aside])
        put(aside, file)
    finally:
        aside.unlink(missing_ok=True)
    return count


def _written(
    rows: pa.Table, stream: IO[bytes], suffix: str, mails: Callable[[list[str]], Iterator[bytes]]
) -> int:
    if suffix == ".parquet":
        pq.write_table(rows, stream)
    elif suffix == ".mbox":
        if "message_id" not in rows.column_names or not pa.types.is_string(
            rows.schema.field("message_id").type
        ):
            raise QueryError(
                "an mbox is made of the column message_id: let the statement select it"
            )
        ids = [name for name in dict.fromkeys(rows["message_id"].to_pylist()) if name is not None]
        return sum(bool(stream.write(mail)) for mail in mails(ids))
    elif suffix == ".csv":
        stream.write(_line_of_csv(rows.column_names))
        for batch in rows.to_batches(_AT_ONCE):
            stream.writelines(_line_of_csv(row.values()) for row in batch.to_pylist())
    else:
        for batch in rows.to_batches(_AT_ONCE):
            stream.writelines(_json(row).encode() + b"\n" for row in batch.to_pylist())
    return rows.num_rows


_json = partial(json.dumps, default=str, ensure_ascii=False)


def _line_of_csv(values: Iterable[object]) -> bytes:
    """A row as CSV: lists as JSON, and a text that begins as a formula behind an apostrophe."""
    line = io.StringIO()
    texts = (_json(value) if isinstance(value, list | dict) else value for value in values)
    csv.writer(line, lineterminator="\n").writerow(
        f"'{text}" if isinstance(text, str) and text.startswith(_FORMULA) else text
        for text in texts
    )
    return line.getvalue().encode()
