"""Receipts show each byte that was changed, and no receipt stops those after it."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dagster_project.outgoing.receipts import GENESIS, Disclosed, Receipts, Seen
from transforms.errors import ReceiptError
from transforms.hashing import bytes_sha256


def added(receipts: Receipts, passages: int = 1, place: str = "place") -> str:
    """The hash of a receipt of an answer with so many passages."""
    shown = [Disclosed(f"{place} {n}", f"text {n}", "doc") for n in range(passages)]
    return receipts.add("search", "words", Seen("v"), shown, Counter(phone=1))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda lines: [lines[0], lines[1].replace(b'"search"', b'"get"'), *lines[2:]], 2),
        (lambda lines: [lines[0], lines[1].replace(b":", b": ", 1), *lines[2:]], 2),
        (lambda lines: [lines[0], lines[1].replace(b"{", b'{"tool":"get",', 1), *lines[2:]], 2),
        (lambda lines: [*lines[:2], lines[2].replace(b"\n", b" \n")], 3),
        (lambda lines: [lines[0], lines[2]], 2),
        (lambda lines: [*lines[:2], lines[1], lines[2]], 3),
        (lambda lines: [*lines[:1], b"\n", *lines[1:]], 2),
        (lambda lines: [lines[0], lines[2], lines[1]], 2),
        (lambda lines: lines[1:], 1),
    ],
    ids=[
        "value", "blank", "key twice", "blank at the end", "taken out", "twice", "empty line", "order", "first",
    ],
)  # fmt: skip
def test_a_changed_byte_is_named_with_its_line(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], line: int
):
    receipts = Receipts(tmp_path)
    for _ in range(3):
        added(receipts)
    lines = receipts.path.read_bytes().splitlines(keepends=True)
    receipts.path.write_bytes(b"".join(change(lines)))
    with pytest.raises(ReceiptError, match=f"line {line} of "):
        list(receipts.read())


def test_each_receipt_counts_those_before_it_so_that_a_cut_end_can_be_known(tmp_path: Path):
    receipts = Receipts(tmp_path)
    hashes = [added(receipts) for _ in range(3)]
    assert [(r["number"], r["hash"]) for r in receipts.read()] == list(enumerate(hashes, 1))
    receipts.path.write_bytes(b"".join(receipts.path.read_bytes().splitlines(keepends=True)[:1]))
    another = added(receipts)
    assert [r["number"] for r in receipts.read()] == [1, 2]
    assert another != hashes[1], "whoever noted the second receipt knows that it is gone"


def test_an_answer_with_many_long_places_stops_no_later_one(tmp_path: Path):
    receipts = Receipts(tmp_path)
    added(receipts, 650, "m" * 2_000)
    added(receipts)
    first, second, third = receipts.read()
    assert [(r.get("part"), r.get("parts"), len(r["passages"])) for r in (first, second, third)] == [
        (1, 2, 500), (2, 2, 150), (None, None, 1),
    ]  # fmt: skip
    assert first["masked"] == {"phone": 1} and second["masked"] == {}
    assert max(map(len, receipts.path.read_bytes().splitlines())) < 1 << 20
    assert len({passage["place"] for r in (first, second) for passage in r["passages"]}) == 650


@pytest.mark.parametrize(
    "bad", [b"no receipt\n", b"[]\n", b"x" * (3 << 20) + b"\n", b"\0" * 99 + b"\n", b"\n"]
)
def test_a_bad_line_stops_no_later_answer_and_is_named(tmp_path: Path, bad: bytes):
    receipts = Receipts(tmp_path)
    added(receipts)
    with receipts.path.open("ab") as file:
        file.write(bad)
    added(receipts)
    added(receipts)
    lines = receipts.path.read_bytes().splitlines(keepends=True)
    assert [json.loads(line)["number"] for line in (lines[0], *lines[-2:])] == [1, 3, 4]
    with pytest.raises(ReceiptError, match="line 2 of "):
        list(receipts.read())


def test_receipts_without_numbers_are_continued(tmp_path: Path):
    receipts = Receipts(tmp_path)
    receipts.path.parent.mkdir()
    before = GENESIS
    for at in ("one", "two"):
        content = {"at": at, "before": before, "passages": [{"place": "p" * (2 << 20)}]}
        before = bytes_sha256(_line(content))
        with receipts.path.open("ab") as file:
            file.write(_line({**content, "hash": before}))
    added(receipts)
    assert [r.get("number") for r in receipts.read()] == [None, None, 3]


def _line(content: dict[str, object]) -> bytes:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
