"""Which ids a published version has, so that a query that is none costs no scan."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np

_CHUNK_ID = re.compile("[0-9a-f]{16,}")
_KEY_DIGITS = 16


class KnownIds(NamedTuple):
    """The `id_hash` of every mail, document, window and section, and the keys of all chunks; both ascend."""

    hashes: np.ndarray
    chunk_keys: np.ndarray

    def may_have(self, name: str) -> bool:
        """False if nothing has this id."""
        if _CHUNK_ID.fullmatch(name) and _holds(self.chunk_keys, int(name[:_KEY_DIGITS], 16)):
            return True
        return _holds(self.hashes, id_hash(name))


def id_hash(name: str) -> int:
    """The lower half of the MD5 hash of an id, as DuckDB's `md5_number_lower` gives it."""
    return int.from_bytes(hashlib.md5(name.encode(), usedforsecurity=False).digest()[8:], "little")


def write_id_hashes(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Write the hashes of `KnownIds`; its keys are an array of chunks."""
    np.save(folder / "ids.npy", np.sort(connection.execute(_HASHES).fetchnumpy()["hash"]).astype(np.uint64))


def _holds(ascending: np.ndarray, value: int) -> bool:
    place = int(np.searchsorted(ascending, np.uint64(value)))
    return place < len(ascending) and int(ascending[place]) == value


_HASHES = " UNION ALL ".join(
    f"SELECT md5_number_lower({name}) AS hash FROM {table}"
    for table, name in {
        "messages": "message_id", "documents": "doc_id", "conversation_windows": "doc_id", "nodes": "node_id",
    }.items()
)  # fmt: skip
