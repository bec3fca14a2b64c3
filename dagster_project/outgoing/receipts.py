"""Receipts of disclosures: one line of JSON for up to `_MOST_PASSAGES` passages, chained by hashes
and signed.

Each line has its number, the hash of the line before it, its own hash, and the signature of that.
So the chain shows a line that was changed by a byte, taken out between others, put in or signed by
somebody else. The notes of `Heads` show lines that were cut off at the end, and a chain that
somebody wrote over. A file that is begun while there are more than `_MOST_FILES` begins with a
receipt of the numbers that are dropped with the oldest files, and the hash of the last.
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from io import BytesIO
from itertools import chain
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, NamedTuple

from dagster_project.outgoing.receipt_seals import (
    HEAD_VARIABLE,
    Heads,
    ReceiptKey,
    hash_of,
    is_place,
    is_signed,
    public,
    receipt_line,
    sealed,
)
from dagster_project.system.disk_space import may_be_written
from dagster_project.system.durable import put, remove, sync
from dagster_project.system.locks import alone
from transforms.errors import ReceiptError
from transforms.hashing import bytes_sha256

FOLDER, FILE = "receipts", "receipts.jsonl"
ASKER = ContextVar[str | None]("ASKER", default=None)
"""The name of the token with which a person asks; None is whoever runs the server."""
GENESIS = "0" * 64
"""The hash of the receipt before the first."""
_MOST_PASSAGES = 500
_MOST_PLACE = 1_000
"""Characters of a place as JSON; a longer one is named by its hash, so that no line has more than a
megabyte.
"""
_MOST_BYTES = 64 << 20
"""Bytes after which a file is set aside, named after the number of its last receipt; the next
continues its chain.
"""
_MOST_FILES = 15
"""Files that were set aside, some 700,000 answers in a gigabyte, before the oldest is dropped."""


class Disclosed(NamedTuple):
    """A text that an answer showed: its place, with bytes where it is a part, and its document."""

    place: str
    text: str
    doc_id: str


class Seen(NamedTuple):
    """The view that an answer was made from: the version of the index, and the name of the lens;
    None is all of it.
    """

    version: str
    lens: str | None = None


class Receipts:
    """The receipts below the folder of a storage."""

    def __init__(self, root: Path):
        self.path = root / FOLDER / FILE
        self.key, self.heads = ReceiptKey(self.path.parent), Heads(root)

    def add(
        self, tool: str, query: str, view: Seen, texts: Sequence[Disclosed], masked: Counter[str]
    ) -> str:
        """Append the receipt of one answer and return its hash; ReceiptError if that is impossible.

        It has the SHA-256 of the question and of the shown texts, not the texts. An answer with
        many passages has a receipt for each part of them.
        """
        content = {
            "tool": tool,
            "asked_sha256": bytes_sha256(query.encode("utf-8", "replace")),
            "index_version": view.version,
            "lens": view.lens,
            "masked": dict(sorted(masked.items())),
        } | ({"asker": asker} if (asker := ASKER.get()) else {})
        passages = [_passage(passage) for passage in texts]
        parts = [
            passages[n : n + _MOST_PASSAGES] for n in range(0, len(passages), _MOST_PASSAGES)
        ] or [[]]
        contents = [content | {"passages": part} for part in parts]
        for number, part in enumerate(contents if parts[1:] else [], 1):
            part |= {"part": number, "parts": len(parts)} | ({"masked": {}} if number > 1 else {})
        return self._append(contents)

    def renew_key(self) -> str:
        """Sign with a new key from now on, which a receipt with the former signature announces; its
        hash.
        """
        return self._append([{"tool": "new key", "passages": [], "masked": {}}], is_new_key=True)

    def sign(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """`content` with the public key that signs receipts now, sealed by it; ReceiptError if the
        key is damaged.
        """
        with self.locked():
            key = self.key.current(self._end()[2].get("new_key"))
        return sealed({**content, "key": public(key)}, key)

    def files(self) -> list[Path]:
        """The files of the chain, oldest first."""
        return sorted(self.path.parent.glob("receipts*.jsonl"))

    def _append(self, contents: Sequence[dict[str, Any]], *, is_new_key: bool = False) -> str:
        try:
            with self.locked():
                count, before, last = self._end()
                key = self.key.current(last.get("new_key"))
                more = {"new_key": self.key.make_next()} if is_new_key else dict[str, str]()
                more |= {"at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}", "key": public(key)}
                receipt, lines = {"hash": before}, b""
                opening = [] if is_new_key else self._begin_file(count)
                for number, content in enumerate([*opening, *contents], count + 1):
                    receipt = content | more | {"number": number, "before": receipt["hash"]}
                    receipt = sealed(receipt, key)
                    lines += receipt_line(receipt)
                self._write(lines)
                if is_new_key:
                    put(self.key.next, self.key.file)
                self._note(receipt, before)
                self._drop()
                return receipt["hash"]
        except OSError as error:
            raise ReceiptError(
                f"no receipt can be written to {self.path} ({error.strerror}), so nothing is answered: make the folder "
                "writable, or set `receipts = false` in [mcp]"
            ) from error

    def locked(self) -> AbstractContextManager[None]:
        """A context in which nobody else appends a receipt."""
        return alone(self.path.parent / ".lock")

    def _size(self) -> int:
        return sum(path.stat().st_size for path in self.files())

    def _begin_file(self, count: int) -> list[dict[str, Any]]:
        """Set a full file aside; the receipt that the next begins with, if the oldest are to be
        dropped.
        """
        if self.path.exists() and self.path.stat().st_size >= _MOST_BYTES:
            put(self.path, self.path.with_name(f"receipts-{count:012}.jsonl"))
        oldest = self.files()[:-_MOST_FILES]
        if self.path.exists() or not oldest or not (last := _read(_last_line(oldest[-1]))):
            return []
        dropped = {name: last[name] for name in ("number", "hash")}
        dropped["key"] = last.get("new_key", last.get("key"))
        return [{"tool": "dropped", "passages": [], "masked": {}, "dropped": dropped}]

    def _write(self, lines: bytes) -> None:
        is_new = not self.path.exists()
        with self.path.open("ab") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync([self.path.parent])

    def _drop(self) -> None:
        """Delete the files whose last receipt is one that a later file begins with as dropped."""
        if oldest := (files := self.files())[: -_MOST_FILES - 1]:
            hashes = {end["hash"] for end in _dropped(files)}
            ends = [(_read(_last_line(path)) or {}).get("hash") in hashes for path in oldest]
            remove(path for n, path in enumerate(oldest) if any(ends[n:]))

    def _note(self, receipt: Mapping[str, Any], before: str) -> None:
        """Note the head. Where that is impossible, `unknown` names the receipts without a note."""
        with suppress(OSError, ReceiptError):
            heads, files = self.heads.read(), self.files()
            last, dropped = heads[-1] if heads else {"hash": before}, _dropped(files)[-1:]
            noted = f'"hash":"{last["hash"]}"'.encode()
            is_continued = last["hash"] == before or any(
                last["number"] <= end["number"] for end in dropped
            )
            is_continued = is_continued or any(noted in path.read_bytes() for path in files)
            self.heads.note({**receipt, "dropped": dropped}, heads, is_continued=is_continued)

    def _end(self) -> tuple[int, str, dict[str, Any]]:
        """The number of receipts, the hash that the next one names as the one before, and the last
        one.

        That is the hash of the last receipt; of any other line the hash of its bytes, which `read`
        then names.
        """
        for path in reversed(self.files()):
            if last := _last_line(path):
                receipt, files = _read(last) or {}, self.files()
                if not (number := receipt.get("number")):
                    number = (
                        sum(p.read_bytes().count(b"\n") for p in files)
                        + _start(files, ())["number"]
                    )
                return number, receipt.get("hash", bytes_sha256(last)), receipt
        return 0, GENESIS, {}

    def read(self, others: Sequence[Mapping[str, Any]] = ()) -> Iterator[dict[str, Any]]:
        """The receipts, oldest first; ReceiptError names the first line at which the chain is
        broken.

        The first may be one behind those that were dropped. Behind the last one ReceiptError names
        each difference from the notes of its head, from `others` of another place, and from its
        key.
        """
        has_writers = self.path.parent.exists() and may_be_written(self.path.parent)
        lock = self.locked if has_writers else nullcontext
        with ExitStack() as opened:
            with lock():
                heads, size = self.heads.read(), self._size()
                files = [opened.enter_context(path.open("rb")) for path in self.files()]
                last = _start(self.files(), heads)
            rest, number, before = size, last["number"], last["hash"]
            faults = [
                f"receipt {head['number']}, noted at {head.get('at')}, was cut off or written over before it was dropped"
                for head in heads[:-1]  # the last alone may be of a receipt that others continue
                if head["number"] <= number
            ]
            noted = defaultdict[int, list[Mapping[str, Any]]](list)
            for head in (*heads, *others):
                noted[head["number"]].append(head)
            for file in files:
                text = file.read(rest)
                rest -= len(text)
                for at, line in enumerate(BytesIO(text), 1):
                    number, receipt = number + 1, _read(line) or {}
                    if fault := _fault(line, receipt, number, before, last):
                        raise ReceiptError(
                            "; ".join([f"line {at} of {file.name} {fault}", *faults])
                        )
                    before, last = receipt["hash"], receipt
                    faults += _differences(receipt, noted.get(number, ()))
                    yield receipt
        if (most := max(noted, default=0)) > number:
            faults.append(f"{self._loss()}: receipts {number + 1} to {most} are gone")
        elif expected := last.get("new_key", last.get("key")):
            with lock():
                faults += self.key.faults(expected) if self._size() == size else []
        if last.get("part") != last.get("parts"):
            faults.append(
                f"{self.path} ends within an answer: a kill, or its last parts were cut off"
            )
        if faults:
            raise ReceiptError(
                f"{'; '.join(faults)}. {self.heads.file} {'and --heads have' if others else 'has'} the notes"
            )

    def _loss(self) -> str:
        """How the newest file lost receipts, in words."""
        if not self.path.exists():
            return f"{self.path} was deleted"
        if self.path.stat().st_size:
            return f"{self.path} has lines cut off at its end"
        return f"{self.path} was emptied"

    def unknown(self, first: Mapping[str, Any], count: int) -> list[str]:
        """The reasons why a whole chain from a receipt to that of number `count` may not be all."""
        reasons = []
        if first and first["before"] != GENESIS:
            dropped = f"receipts 1 to {first['number'] - 1} showed: they were dropped, the last has"
            reasons.append(f"what {dropped} the hash {first['before']}")
        if not (heads := self.heads.read()):
            reasons.append(f"whether the end was cut off: {self.heads.file} has no note of it")
        elif heads[-1]["number"] < count:
            reasons.append(
                f"whether the end was cut off behind receipt {heads[-1]['number']}, the last note"
            )
        elif "not_sent" in heads[-1] or self.heads.command and "sent" not in heads[-1]:
            why = heads[-1].get("not_sent", f"{HEAD_VARIABLE} was not set then")
            reasons.append(
                f"what the second place has of receipt {count}: its head was not sent ({why})"
            )
        return reasons


def _first(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return _read(file.readline()) or {}


def _dropped(files: Sequence[Path]) -> list[dict[str, Any]]:
    """The last dropped receipts (`number`, `hash`, and the `key` behind it) that files begin with,
    oldest first.
    """
    return [
        one["dropped"]
        for one in map(_first, files)
        if is_place(one.get("dropped")) and is_signed(one)
    ]


def _start(files: Sequence[Path], heads: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The last dropped receipt, as `_dropped`, that the first file follows; number 0 if none is
    dropped.
    """
    noted = chain.from_iterable(head.get("dropped", ()) for head in heads)
    ends = [{"number": 0, "hash": GENESIS}, *_dropped(files), *noted]
    before = _first(files[0]).get("before") if files else None
    return next(
        (end for end in ends if end["hash"] == before), max(ends, key=lambda end: end["number"])
    )


def _passage(passage: Disclosed) -> dict[str, Any]:
    text, place = passage.text.encode(), passage.place
    if len(json.dumps(place)) > _MOST_PLACE:
        place = f"sha256:{bytes_sha256(place.encode('utf-8', 'replace'))}"
    return {"place": place, "bytes": len(text), "sha256": bytes_sha256(text)}


def _last_line(path: Path) -> bytes:
    """The last whole line. One that a kill cut off is removed: its answer was never given."""
    if not path.stat().st_size:
        return b""
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as text:
        end = text.rfind(b"\n") + 1
        last = text[text.rfind(b"\n", 0, max(0, end - 1)) + 1 : end]
    os.truncate(path, end)
    return last


def _read(line: bytes) -> dict[str, Any] | None:
    """The receipt in a line; None unless its bytes are those that were written."""
    try:
        receipt = json.loads(line)
        is_whole = hash_of(receipt) == receipt["hash"] and receipt_line(receipt) == line
        is_whole = is_whole and "before" in receipt and isinstance(receipt["number"], int)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return receipt if is_whole else None


def _differences(receipt: Mapping[str, Any], heads: Iterable[Mapping[str, Any]]) -> list[str]:
    """How a receipt differs from the notes of its head."""
    number, key = receipt["number"], receipt.get("key")
    return [
        f"receipt {number} is not the one noted at {head.get('at')}: the chain was written over"
        + ("" if head.get("key") == key else ", and signed with another key")
        for head in heads
        if head["hash"] != receipt["hash"]
    ]


def _fault(
    line: bytes, receipt: Mapping[str, Any], number: int, before: str, last: Mapping[str, Any]
) -> str | None:
    """The reason why a line is not the receipt of this number behind `last`, whose hash is
    `before`.
    """
    if not line.endswith(b"\n"):
        return "ends within a receipt: a kill interrupted it, or it was cut off; the next answer removes the line"
    if not receipt:
        return "is not as it was written"
    own, key = receipt["number"], last.get("new_key", last.get("key"))
    if own > number:
        return f"is receipt {own}: those from {number} to {own - 1} are gone"
    if own < number:
        return f"is receipt {own}, where {number} belongs: it stands twice, or out of its order"
    if receipt["before"] != before:
        return f"does not follow the line before it: one of both was written over (receipt {own})"
    if key and receipt.get("key") != key:
        return f"has another key than the receipts before it, {receipt.get('key')}, and none announced it"
    if not is_signed(receipt):
        return "has no signature of its key: somebody else wrote it"
    return None
