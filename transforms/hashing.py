"""The project's content hashes, one function each."""

import hashlib
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pyarrow as pa


def text_hash(text: str) -> str:
    """32 lower-case hex digits of BLAKE2b-128 over the UTF-8 bytes of `text`."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def parts_hash(parts: Iterable[str | bytes]) -> str:
    """Hash of a sequence of texts; the boundaries count.

    >>> parts_hash(["a", "b"]) == parts_hash(["ab"])
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


def bytes_sha256(data: bytes) -> str:
    """SHA-256 of `data` in lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def text_hashes(texts: pa.Array | pa.ChunkedArray) -> list[str]:
    """`text_hash` of every text of an Arrow column without nulls, read from its buffer."""
    hashes: list[str] = []
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    for chunk in chunks:
        flat = chunk.cast(pa.large_string())
        if not len(flat):
            continue
        offsets = np.frombuffer(flat.buffers()[1], dtype=np.int64)[flat.offset :][
            : len(flat) + 1
        ].tolist()
        data = memoryview(flat.buffers()[2] or b"")
        hashes.extend(
            hashlib.blake2b(data[a:b], digest_size=16).hexdigest() for a, b in pairwise(offsets)
        )
    return hashes
