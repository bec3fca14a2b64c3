"""Receipts of disclosures: one line of JSON for up to `_MOST_PASSAGES` passages, chained by hashes.

Each line has its number and the hash of the line before it. So the chain shows a line that was changed by a byte, taken out
between others or put in. It does not show lines that were cut off at the end, nor a chain that somebody wrote over from a
line on to the end: to know of these, keep the number and the hash of the last receipt elsewhere, and compare."""

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
GENESIS = "0" * 64
"""The hash of the receipt before the first."""
_MOST_PASSAGES = 500
_MOST_PLACE = 1_000
"""Characters of a place as JSON; a longer one is named by its hash, so that no line has more than a megabyte."""
_READ_BACK = 1 << 20
"""Bytes that are read from the end for the last receipt, doubled until it is there."""


class Disclosed(NamedTuple):
    """A text that an answer showed: its place, with bytes where it is a part, and its document."""

    place: str
    text: str
    doc_id: str


class Seen(NamedTuple):
    """The view that an answer was made from: the version of the index, and the name of the lens; None is all of it."""

    version: str
    lens: str | None = None


class Receipts:
    """The receipts below the folder of a storage."""

    def __init__(self, root: Path):
        self.path = root / FOLDER / FILE

    def add(self, tool: str, query: str, view: Seen, texts: Sequence[Disclosed], masked: Counter[str]) -> str:
        """Append the receipt of one answer and return its hash; ReceiptError if that is impossible.

        It has the SHA-256 of the question and of the shown texts, not the texts. An answer with many passages has a receipt
        for each part of them."""
        content = {
            "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
            "tool": tool,
            "asked_sha256": bytes_sha256(query.encode("utf-8", "replace")),
            "index_version": view.version,
            "lens": view.lens,
            "masked": dict(sorted(masked.items())),
        }
        passages = [_passage(passage) for passage in texts]
        parts = [passages[n : n + _MOST_PASSAGES] for n in range(0, len(passages), _MOST_PASSAGES)] or [[]]
        lines = []
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
                count, before = _end(file)
                for part, of_part in enumerate(parts, 1):
                    numbered = {"number": count + part, "before": before, "passages": of_part}
                    receipt = content | numbered | ({"part": part, "parts": len(parts)} if parts[1:] else {})
                    before = _hashed(receipt)
                    lines.append(_line({**receipt, "hash": before}))
                    content["masked"] = {}
                file.write(b"".join(lines))
        except OSError as error:
            raise ReceiptError(
                f"no receipt can be written to {self.path} ({error.strerror}), so nothing is answered: make the folder "
                "writable, or set `receipts = false` in [mcp]"
            ) from error
        return before

    def read(self) -> Iterator[dict[str, Any]]:
        """The receipts, oldest first; ReceiptError names the first line at which the chain is broken."""
        before = GENESIS
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                receipt = _read(line)
                # Receipts of earlier versions have no number.
                if receipt is None or receipt["before"] != before or receipt.get("number", number) != number:
                    raise ReceiptError(
                        f"line {number} of {self.path} is not as it was written, or a line before it is gone"
                    )
                before = receipt["hash"]
                yield receipt


def _passage(passage: Disclosed) -> dict[str, Any]:
    text, place = passage.text.encode(), passage.place
    if len(json.dumps(place)) > _MOST_PLACE:
        place = f"sha256:{bytes_sha256(place.encode('utf-8', 'replace'))}"
    return {"place": place, "bytes": len(text), "sha256": bytes_sha256(text)}


def _end(file: BinaryIO) -> tuple[int, str]:
    """The number of lines, and the hash that the next receipt names as the one before.

    That is the hash of the last receipt; of a line that is not a receipt the hash of its bytes, which `read` then names. A
    line that a kill cut off is removed: its answer was never given."""
    size, read_back, whole = file.seek(0, 2), _READ_BACK, b""
    while True:
        file.seek(max(0, size - read_back))
        end = file.read()
        whole = end[: end.rfind(b"\n") + 1]
        if whole[:-1].find(b"\n") >= 0 or len(end) == size:
            break
        read_back *= 2
    file.truncate(size - len(end) + len(whole))
    if not whole:
        return 0, GENESIS
    last = whole[:-1].rpartition(b"\n")[2] + b"\n"
    receipt = _read(last)
    if receipt is not None and isinstance(receipt.get("number"), int):
        return receipt["number"], receipt["hash"]
    file.seek(0)
    return sum(1 for _ in file), receipt["hash"] if receipt else bytes_sha256(last)


def _read(line: bytes) -> dict[str, Any] | None:
    """The receipt in a line; None unless its bytes are those that were written."""
    try:
        receipt = json.loads(line)
        hashed = receipt.pop("hash")
        is_whole = _hashed(receipt) == hashed and _line({**receipt, "hash": hashed}) == line
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return {**receipt, "hash": hashed} if is_whole and "before" in receipt else None


def _hashed(content: Mapping[str, Any]) -> str:
    return bytes_sha256(_line(content))


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
