"""Receipts of what was disclosed: one line of JSON for each answer, each with the hash of the one before it.

A line that was changed, or taken out between others, breaks the chain. What was cut off at its end does not: who must
know of that keeps the last hash elsewhere.
"""

from __future__ import annotations

import fcntl
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from transforms.errors import ReceiptError
from transforms.hashing import bytes_sha256

FOLDER, FILE = "receipts", "receipts.jsonl"
FIRST = "0" * 64
"""What stands in the first receipt for the hash of the one before."""
_LAST_BYTES = 1 << 20


class Disclosed(NamedTuple):
    """A text that an answer showed: what it stands in, and its bytes there where it is a part; and the document it is of."""

    place: str
    text: str
    doc_id: str


class Seen(NamedTuple):
    """What an answer was made from: the version of the index, and the name of the lens; None is all of it."""

    version: str
    lens: str | None = None


class Receipts:
    """The receipts below the folder of a storage."""

    def __init__(self, root: Path):
        self.path = root / FOLDER / FILE

    def add(self, tool: str, asked: str, seen: Seen, shown: Sequence[Disclosed], masked: Counter[str]) -> str:
        """Append the receipt of one answer and return its hash; ReceiptError if that is impossible.

        Neither what was asked nor what was shown is in it, but their SHA-256.
        """
        content = {
            "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
            "tool": tool,
            "asked_sha256": bytes_sha256(asked.encode("utf-8", "replace")),
            "index_version": seen.version,
            "lens": seen.lens,
            "passages": [
                {
                    "place": passage.place,
                    "bytes": len(passage.text.encode()),
                    "sha256": bytes_sha256(passage.text.encode()),
                }
                for passage in shown
            ],
            "masked": dict(sorted(masked.items())),
        }
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
                before = _last(file, self.path)
                hashed = _hashed({**content, "before": before})
                file.write(_line({**content, "before": before, "hash": hashed}))
        except OSError as error:
            raise ReceiptError(
                f"no receipt can be written to {self.path} ({error.strerror}), so nothing is answered: make the folder "
                "writable, or set `receipts = false` in [mcp]"
            ) from error
        return hashed

    def read(self) -> Iterator[dict[str, Any]]:
        """The receipts, oldest first; ReceiptError names the first line at which the chain is broken."""
        before = FIRST
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    receipt = json.loads(line)
                    hashed = receipt.pop("hash")
                    is_whole = receipt["before"] == before and _hashed(receipt) == hashed
                except (ValueError, KeyError, TypeError, AttributeError):
                    is_whole = False
                if not is_whole:
                    raise ReceiptError(
                        f"line {number} of {self.path} is not as it was written, or a line before it is gone"
                    )
                before = hashed
                yield {**receipt, "hash": hashed}


def _last(file: BinaryIO, path: Path) -> str:
    """The hash of the last receipt. A line that a kill cut off goes: its answer was never given."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _LAST_BYTES))
    end = file.read()
    whole = end[: end.rfind(b"\n") + 1]
    file.truncate(size - len(end) + len(whole))
    if not whole and len(end) == size:
        return FIRST
    try:
        return str(json.loads(whole[:-1].rpartition(b"\n")[2])["hash"])
    except (ValueError, KeyError, TypeError) as error:
        raise ReceiptError(
            f"the last line of {path} is no receipt: look at it, and move the file away to begin another"
        ) from error


def _hashed(content: Mapping[str, Any]) -> str:
    return bytes_sha256(_line(content))


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
