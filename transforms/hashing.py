"""The project's content hashes, one function each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def text_hash(text: str) -> str:
    """32 lower-case hex digits of BLAKE2b-128 over the UTF-8 bytes of `text`."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def parts_hash(parts: Iterable[str | bytes]) -> str:
    """Hash of a sequence of texts; the boundaries count, so ("a", "b") differs from ("ab",)."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


def bytes_sha256(data: bytes) -> str:
    """SHA-256 of `data` in lower-case hex."""
    return hashlib.sha256(data).hexdigest()
