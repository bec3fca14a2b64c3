"""Forgotten texts, as hashes in a file of the lake: builds leave them out, whatever the sources
hold.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from upath import UPath

from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.parquet_files import is_local
from dagster_project.system.durable import write_durably
from dagster_project.system.locks import require_leases
from transforms.errors import LakeDamageError
from transforms.hashing import bytes_sha256

FILE = "forgotten.json"
FORGOTTEN = "forgotten"
"""The beginning of the reason of a row of `quarantine`, if the source holds a forgotten text."""
Kind = Literal["mail", "address", "document", "partition", "source"]


class Forgotten:
    """The list of forgotten things. It is in the lake, because every maker of partitions reads
    that.

    While it is `unfinished`, an earlier version, a cache or the history may still hold forgotten
    texts. A person who knows an address can try out its hash; names are in none of them.
    """

    def __init__(self, base: UPath):
        self._place = base / FILE
        content = self._read()
        self.hashes: frozenset[str] = frozenset(content["sha256"])
        self.unfinished: bool = content["unfinished"]

    def has(self, kind: Kind, name: str | None) -> bool:
        """True if the thing with this name was forgotten."""
        return bool(self.hashes) and name is not None and _hash(kind, name) in self.hashes

    def begin(self, names: Iterable[tuple[Kind, str]]) -> None:
        """Note names to forget, and that they are not forgotten yet; durable when the call returns."""
        self._write(self.hashes | {_hash(kind, name) for kind, name in names}, unfinished=True)

    def finish(self) -> None:
        """Note that nothing holds it any more."""
        self._write(self.hashes, unfinished=False)

    def _write(self, hashes: frozenset[str], *, unfinished: bool) -> None:
        self.hashes, self.unfinished = hashes, unfinished
        content = {"unfinished": unfinished, "sha256": sorted(hashes)}
        text = json.dumps({**content, "checksum": _checksum(content)}, indent=1)
        if not is_local(self._place):
            require_leases()
            self._place.write_text(text)
            return
        place = Path(str(self._place))
        write_durably(place, text, place.with_name(f".tmp-{os.getpid()}-{FILE}"))

    def _read(self) -> dict[str, Any]:
        try:
            stored = json.loads(self._place.read_text())
            content = {
                "unfinished": bool(stored["unfinished"]),
                "sha256": [str(h) for h in stored["sha256"]],
            }
            # An earlier version wrote two entries.
            if len(stored) > len(content) and stored["checksum"] != _checksum(content):
                raise ValueError("its checksum is another")
            return content
        except FileNotFoundError:
            return {"sha256": [], "unfinished": False}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LakeDamageError(
                f"{self._place} is not the list of forgotten names: restore it from a backup, or delete it and forget "
                "again those that must not come back"
            ) from error


def _checksum(content: Mapping[str, Any]) -> str:
    return bytes_sha256(json.dumps(content, sort_keys=True).encode())


def partitions_with(lake: ParquetLake, forgotten: Forgotten) -> Iterator[str]:
    """The partitions of mail and of documents whose tables hold forgotten texts."""
    names: dict[str, tuple[tuple[Kind, str], ...]] = {
        "messages": (
            ("mail", "message_id"),
            ("mail", "header_message_id"),
            ("address", "from_addr"),
        ),
        "documents": (("document", "doc_id"),),
    }
    for table, columns in names.items():
        for partition in lake.partitions(table):
            rows = lake.stored(table, [column for _, column in columns], partition)
            if rows and any(
                forgotten.has(kind, name)
                for kind, column in columns
                for name in rows.column(column).unique().to_pylist()
            ):
                yield partition


def _hash(kind: Kind, name: str) -> str:
    return bytes_sha256(
        f"{kind}:{name.lower() if kind == 'address' else name}".encode("utf-8", "replace")
    )
