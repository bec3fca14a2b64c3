"""Receipts show each byte that was changed and each that is gone, and no receipt stops those after
it.
"""

import json
import os
import shutil
import socket
import stat
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dagster_project.outgoing import receipt_seals
from dagster_project.outgoing import receipts as module
from dagster_project.outgoing.receipt_seals import HEAD_VARIABLE, parsed_heads
from dagster_project.outgoing.receipts import Disclosed, Receipts, Seen, receipt_line
from tests.timing import HUNG
from transforms.errors import ReceiptError, SettingsError


def added(receipts: Receipts, passages: int = 1, place: str = "place") -> str:
    """The hash of a receipt of an answer with so many passages."""
    shown = [Disclosed(f"{place} {n}", f"text {n}", "doc") for n in range(passages)]
    return receipts.add("search", "words", Seen("v"), shown, Counter(phone=1))


def forged(receipts: Receipts, kept: int, *, has_key: bool = False) -> list[bytes]:
    """Three receipts of somebody else who wrote the chain over behind the first `kept`, with the
    stolen key or another.
    """
    other = Receipts(receipts.path.parent / "other")
    other.path.parent.mkdir(parents=True)
    other.path.write_bytes(b"".join(receipts.path.read_bytes().splitlines(keepends=True)[:kept]))
    if has_key:
        shutil.copy(receipts.key.file, other.key.file)
    for _ in range(3 - kept):
        added(other)
    return other.path.read_bytes().splitlines(keepends=True)


def signed(lines: list[bytes], sign: Callable[[str], str]) -> list[bytes]:
    return [receipt_line(r | {"signature": sign(r["signature"])}) for r in map(json.loads, lines)]


CHANGES: dict[str, tuple[Callable[[list[bytes], Receipts], list[bytes] | None], str]] = {
    "value": (
        lambda lines, _: [lines[0], lines[1].replace(b'"search"', b'"get"'), lines[2]],
        "line 2 of .* not as it was",
    ),
    "blank": (
        lambda lines, _: [lines[0], lines[1].replace(b":", b": ", 1), lines[2]],
        "line 2 of .* not as it was",
    ),
    "key twice": (
        lambda lines, _: [lines[0], lines[1].replace(b"{", b'{"tool":"get",', 1), lines[2]],
        "line 2 of .* not",
    ),
    "blank at the end": (
        lambda lines, _: [*lines[:2], lines[2].replace(b"\n", b" \n")],
        "line 3 of .* not as it was",
    ),
    "taken out": (
        lambda lines, _: [lines[0], lines[2]],
        "line 2 of .* receipt 3: those from 2 to 2 are gone",
    ),
    "twice": (
        lambda lines, _: [*lines[:2], lines[1], lines[2]],
        "line 3 of .* receipt 2, where 3 belongs",
    ),
    "empty line": (lambda lines, _: [lines[0], b"\n", *lines[1:]], "line 2 of .* not as it was"),
    "order": (lambda lines, _: [lines[0], lines[2], lines[1]], "line 2 of .* receipt 3"),
    "first": (lambda lines, _: lines[1:], "line 1 of .* receipt 2: those from 1 to 1 are gone"),
    "cut": (lambda lines, _: lines[:2], "cut off at its end: receipts 3 to 3 are gone"),
    "kill": (lambda lines, _: [*lines[:2], lines[2][:99]], "line 3 of .* ends within a receipt"),
    "emptied": (lambda lines, _: [], "emptied: receipts 1 to 3 are gone"),
    "deleted": (lambda lines, _: None, "deleted: receipts 1 to 3 are gone"),
    "signature": (
        lambda lines, _: signed(lines, lambda text: text[::-1]),
        "line 1 of .* somebody else wrote",
    ),
    "letters": (lambda lines, _: signed(lines, str.upper), "line 1 of .* somebody else wrote"),
    "spliced": (
        lambda lines, kept: [lines[0], *forged(kept, 0)[1:]],
        "line 2 of .* does not follow",
    ),
    "another key": (lambda lines, kept: forged(kept, 1), "line 2 of .* has another key than"),
    "re-signed": (
        lambda lines, kept: forged(kept, 0),
        "receipt 3 is not the one .* with another key; .*key was exchanged",
    ),
    "stolen key": (
        lambda lines, kept: forged(kept, 2, has_key=True),
        "receipt 3 is not the one noted .* over[.]",
    ),
    "key file": (
        lambda lines, kept: kept.key.file.write_text("ab" * 32) and lines,
        "key was exchanged",
    ),
    "open key": (
        lambda lines, kept: kept.key.file.chmod(0o644) or lines,
        "others than the owner can use",
    ),
    "no key": (lambda lines, kept: kept.key.file.unlink() or lines, "key is gone"),
    "notes": (
        lambda lines, kept: kept.heads.file.write_text("[]") and lines,
        "notes of receipts, is damaged",
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_is_named_for_what_it_is(tmp_path: Path, kind: str):
    receipts, (change, named) = Receipts(tmp_path), CHANGES[kind]
    for _ in range(3):
        added(receipts)
    lines = change(receipts.path.read_bytes().splitlines(keepends=True), receipts)
    receipts.path.unlink()
    if lines is not None:
        receipts.path.write_bytes(b"".join(lines))
    with pytest.raises(ReceiptError, match=named):
        list(receipts.read())


def test_files_of_two_writers_are_one_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MOST_BYTES", 4_000)
    with ThreadPoolExecutor(2) as two:
        list(two.map(lambda _: [added(Receipts(tmp_path)) for _ in range(20)], range(2)))
    receipts = Receipts(tmp_path)
    assert [r["number"] for r in receipts.read()] == list(range(1, 41)) and receipts.unknown(
        {}, 40
    ) == []
    reading = receipts.read()
    assert next(reading)["number"] == 1 and receipts.renew_key() and len(list(reading)) == 39
    assert (
        len(receipts.files()) > 5 and max(file.stat().st_size for file in receipts.files()) < 5_000
    )


@pytest.fixture
def shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Receipts:
    """A chain of 40 receipts in files of some five, the oldest dropped."""
    monkeypatch.setattr(module, "_MOST_BYTES", 3_000)
    monkeypatch.setattr(module, "_MOST_FILES", 2)
    with ThreadPoolExecutor(2) as two:
        list(two.map(lambda _: [added(Receipts(tmp_path)) for _ in range(18)], range(2)))
    return Receipts(tmp_path)


def test_the_oldest_are_dropped_by_a_receipt_and_others_verify_on(shortened: Receipts):
    shortened.renew_key()
    first, *others = shortened.read()
    assert len(shortened.files()) == 3 and others[-1]["number"] == first["number"] + len(others)
    dropped = next(r["dropped"] for r in others if "dropped" in r)
    assert dropped["number"] < first["number"] and dropped["key"] == first["key"]
    (reason,) = shortened.unknown(first, others[-1]["number"])
    assert f"receipts 1 to {first['number'] - 1} showed" in reason and first["before"] in reason


@pytest.mark.parametrize(
    ("number", "change", "named"),
    [
        (0, lambda data: None, "line 1 of .*: those from [0-9]+ to [0-9]+ are gone"),
        (1, lambda data: None, "line 1 of .*: those from [0-9]+ to [0-9]+ are gone"),
        (0, lambda data: data.partition(b"\n")[2], "line 1 of .*: those from .* are gone"),
        (
            2,
            lambda data: data.replace(b"dropped", b"Dropped", 1),
            "line 1 of .*receipts.jsonl is not as it was written",
        ),
    ],
)
def test_a_change_of_a_shortened_chain_is_named(
    shortened: Receipts, number: int, change: Callable[[bytes], bytes | None], named: str
):
    file = shortened.files()[number]
    data = change(file.read_bytes())
    file.unlink() if data is None else file.write_bytes(data)
    with pytest.raises(ReceiptError, match=named):
        list(shortened.read())


def test_a_cut_end_stays_known_behind_later_receipts_and_when_it_is_dropped(shortened: Receipts):
    last = shortened.path.read_bytes()
    shortened.path.write_bytes(last[: last.rindex(b"\n", 0, -1) + 1])
    for count, named in (
        (4, "is not the one noted"),
        (30, "cut off or written over before it was dropped"),
    ):
        for _ in range(count):
            added(shortened)
        with pytest.raises(ReceiptError, match=named):
            list(shortened.read())


@pytest.mark.parametrize("name", ["_drop", "_write"])
def test_a_kill_while_files_are_dropped_loses_nothing(
    shortened: Receipts, monkeypatch: pytest.MonkeyPatch, name: str
):
    kept, before = len(list(shortened.read())), shortened.files()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, "_MOST_BYTES", 1)
        patch.setattr(Receipts, name, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        added(shortened)
    assert len(list(shortened.read())) >= kept and before[0].exists()
    added(shortened)
    assert len(shortened.files()) == 3 and not before[0].exists() and list(shortened.read())


def test_a_kill_between_two_writes_is_told_from_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    receipts = Receipts(tmp_path)
    added(receipts)
    noted = receipts.heads.file.read_bytes()
    added(receipts)
    receipts.heads.file.write_bytes(noted)
    assert len(list(receipts.read())) == 2 and "behind receipt 1" in receipts.unknown({}, 2)[0]
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, "put", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        receipts.renew_key()
    assert len(list(receipts.read())) == 3
    added(receipts)
    assert len({r["key"] for r in receipts.read()}) == 2 and not receipts.key.next.exists()
    added(receipts, 650)
    receipts.path.write_bytes(b"".join(receipts.path.read_bytes().splitlines(keepends=True)[:-1]))
    receipts.heads.file.unlink()
    assert "no note" in receipts.unknown({}, 5)[0]
    with pytest.raises(ReceiptError, match="ends within an answer"):
        list(receipts.read())


def test_receipt_key_and_note_are_on_the_disk_when_the_answer_may_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    synced: dict[int, int | dict[str, int]] = {}

    def noted(handle: int, real: Callable[[int], None] = os.fsync) -> None:
        facts = os.fstat(handle)
        is_folder = stat.S_ISDIR(facts.st_mode)
        synced[facts.st_ino] = (
            {e.name: e.inode() for e in os.scandir(handle)} if is_folder else facts.st_size
        )
        real(handle)

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))
    monkeypatch.setattr(os, "fsync", noted)
    receipts = Receipts(tmp_path / "root")
    for change in (added, added, Receipts.renew_key, added):
        change(receipts)
        for file in (receipts.path, receipts.key.file, receipts.heads.file):
            assert synced[file.stat().st_ino] == file.stat().st_size
            for place in (file, *file.parents):
                if tmp_path in place.parents:
                    assert synced[place.parent.stat().st_ino][place.name] == place.stat().st_ino


@pytest.mark.parametrize("place", ["folder", "command", "syslog"])
def test_a_second_place_shows_a_chain_that_was_written_over_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
):
    states, sent, root = tmp_path / "states", tmp_path / "sent", tmp_path / "root"
    monkeypatch.setenv("XDG_STATE_HOME", str(states))
    monkeypatch.setattr(receipt_seals, "_SECONDS", HUNG)
    with (
        TemporaryDirectory(dir="/tmp") as short,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log,
    ):
        log.bind(f"{short}/log")
        log.settimeout(HUNG)
        monkeypatch.setattr(
            receipt_seals, "_LOGGER", (*receipt_seals._LOGGER, f"--socket={short}/log")
        )
        named = {"folder": str(tmp_path / "elsewhere"), "command": f"command:sh -c 'cat >> {sent}'"}
        monkeypatch.setenv(HEAD_VARIABLE, named.get(place, place))
        receipts = Receipts(root)
        hashes = [added(receipts) for _ in range(2)]
        if place == "syslog":
            sent.write_bytes(log.recv(65_536) + b"\n" + log.recv(65_536))
    heads = parsed_heads((receipts.heads.file if place == "folder" else sent).read_text(), sent)
    assert [r["hash"] for r in receipts.read(heads)] == hashes and receipts.unknown({}, 2) == []
    monkeypatch.delenv(HEAD_VARIABLE)
    receipts.path.unlink()
    shutil.rmtree(states, ignore_errors=True)
    with pytest.raises(ReceiptError, match="receipts 1 to 2 are gone"):
        list(Receipts(root).read(heads))
    for _ in range(3):
        added(Receipts(root))
    assert len(list(Receipts(root).read())) == 3
    with pytest.raises(ReceiptError, match="receipt 2 is not the one noted"):
        list(Receipts(root).read(heads))


@pytest.mark.parametrize(
    ("command", "seconds", "why"),
    [
        ("false", HUNG, "false ended with exit code 1"),
        ("no-such-program -x", HUNG, "no-such-program: No such file or directory"),
        ("sleep 60", 0.1, "sleep: no end in 0.1 s"),
    ],
)
def test_a_head_that_cannot_be_sent_stops_no_answer_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, seconds: float, why: str
):
    monkeypatch.setattr(receipt_seals, "_SECONDS", seconds)
    monkeypatch.setenv(HEAD_VARIABLE, f"command:{command}")
    added(receipts := Receipts(tmp_path))
    assert why in receipts.unknown({}, 1)[0]
    added(receipts)
    assert "could not be sent in the last 60 s" in receipts.unknown({}, 2)[0]
    monkeypatch.setenv(HEAD_VARIABLE, "")
    added(Receipts(tmp_path))
    assert (
        Receipts(tmp_path).unknown({}, 3) == [] and "was not set then" in receipts.unknown({}, 3)[0]
    )


@pytest.mark.parametrize("place", ["syslogs", "command:", "command:'", "here", "/root/notes"])
def test_a_second_place_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch, place: str):
    monkeypatch.setenv(HEAD_VARIABLE, place)
    with pytest.raises(SettingsError, match="WEFT_RECEIPTS_HEAD names no place"):
        Receipts(Path("/root"))


def test_an_answer_with_many_long_places_stops_no_later_one(tmp_path: Path):
    receipts = Receipts(tmp_path)
    added(receipts, 650, "m" * 2_000)
    added(receipts)
    first, second, third = receipts.read()
    assert [
        (r.get("part"), r.get("parts"), len(r["passages"])) for r in (first, second, third)
    ] == [
        (1, 2, 500),
        (2, 2, 150),
        (None, None, 1),
    ]
    assert first["masked"] == {"phone": 1} and second["masked"] == {}
    assert max(map(len, receipts.path.read_bytes().splitlines())) < 1 << 20
    assert len({passage["place"] for r in (first, second) for passage in r["passages"]}) == 650


@pytest.mark.parametrize(
    "bad", [b"none\n", b"[]\n", b"x" * (3 << 20) + b"\n", b"\0" * 99 + b"\n", b"\n"]
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
