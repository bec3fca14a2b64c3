"""Exports of chat programs on disk: which there are, how they are named, and what zips may do."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from dagster_project.config.settings import ConversationSourceSettings, Settings
from dagster_project.context.conversation_context import read_conversation
from dagster_project.sources.chat_exports import Export, ExportReader, chat_names, exports_at
from tests.format_files import zipped
from transforms.conversations.exports import Chat
from transforms.errors import ChatFormatError
from transforms.settings.conversations import ConversationSettings
from transforms.settings.mail import MailSettings, ThreadSettings

WHATSAPP = b"27.03.25, 18:02 - Ada: from WhatsApp\n"
USERS = json.dumps([{"id": "U1", "real_name": "Ada Lovelace"}]).encode()
DAY = json.dumps([{"ts": "1736937000.1", "user": "U1", "text": "from Slack"}]).encode()
CHANNEL = {
    "timestamp": "2025-01-15T10:30:00+00:00",
    "author": {"id": "1", "name": "ada"},
    "content": "from Discord",
}
DISCORD = json.dumps({"channel": {"name": "general"}, "messages": [CHANNEL]}).encode()
CSV = b"timestamp,author,message\n2025-01-15 10:30,ada,from a table\n"
CAPS = ConversationSettings(max_chat_bytes=20 << 20)


def encrypted(data: bytes) -> bytes:
    """The zip with the mark of encryption in its directory and before its first member."""
    local, central = data.index(b"PK\x03\x04"), data.index(b"PK\x01\x02")
    marked = bytearray(data)
    marked[local + 6] |= 1
    marked[central + 8] |= 1
    return bytes(marked)


def damaged(data: bytes) -> bytes:
    """The zip with one bit of its first member turned."""
    at = data.index(b"_chat.txt") + len(b"_chat.txt") + 12
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def chats(place: Path, format_: str = "auto") -> list[Chat]:
    source = ConversationSourceSettings.model_validate(
        {"name": "chat", "kind": "conversation", "path": str(place), "format": format_}
    )
    found = [
        (str(p.relative_to(place.parent)), f, files) for p, f, files in exports_at(place, source)
    ]
    names = chat_names([(name, f) for name, f, _ in found])
    reader = ExportReader(CAPS, MailSettings(), ThreadSettings())
    exports = [
        Export(source, n, c, f, files, "") for c, (n, f, files) in zip(names, found, strict=True)
    ]
    return [chat for export in exports for chat in reader.chats(export)]


def faults(place: Path) -> dict[str, str]:
    """Code of the reason of every place that cannot be read."""
    return {f.place: f.reason.partition(":")[0] for chat in chats(place) for f in chat.faults}


SLACK = {
    "users.json": USERS,
    "channels.json": b"[]",
    "general/2025-01-15.json": DAY,
    "random/2025-01-15.json": DAY,
}


@pytest.mark.parametrize(
    ("members", "format_", "said"),
    [
        ({"_chat.txt": WHATSAPP, "IMG-1.jpg": b"x"}, "auto", {"x": "from WhatsApp"}),
        (
            {"__MACOSX/._chat.txt": b"\x00\x05", "_chat.txt": WHATSAPP},
            "auto",
            {"x": "from WhatsApp"},
        ),
        (
            {"WhatsApp Chat with Ada.txt": WHATSAPP, "a.txt": b"a note", "a.json": b"{}"},
            "auto",
            {"x": "from WhatsApp"},
        ),
        (SLACK, "auto", {"x/general": "from Slack", "x/random": "from Slack"}),
        (
            {f"Acme export/{n}": d for n, d in SLACK.items()},
            "slack",
            {"x/general": "from Slack", "x/random": "from Slack"},
        ),
        (
            {"general/2025-01-15.json": DAY, "channels.json": b"[]"},
            "auto",
            {"x/general": "from Slack"},
        ),
        (
            {"one.json": DISCORD, "sub/two.json": DISCORD},
            "auto",
            {"x/one": "from Discord", "x/sub/two": "from Discord"},
        ),
        ({"one.json": DISCORD, "rows.csv": CSV}, "table", {"x/rows": "from a table"}),
        ({"rows.csv": CSV}, "auto", {"x/rows": "from a table"}),
    ],
)
def test_a_zip_is_what_its_members_say(
    tmp_path: Path, members: dict[str, bytes], format_: str, said: dict[str, str]
):
    written(tmp_path / "in", {"x.zip": zipped(members)})
    assert {
        c.name.removeprefix("in/"): c.entries[0].text for c in chats(tmp_path / "in", format_)
    } == said


@pytest.mark.parametrize(
    ("data", "format_", "reason"),
    [
        (b"PK no zip at all", "auto", "no_zip"),
        (zipped({"_chat.txt": WHATSAPP})[:-30], "auto", "no_zip"),
        (damaged(zipped({"_chat.txt": WHATSAPP * 99})), "auto", "no_zip"),
        (zipped({"../../etc/evil.txt": WHATSAPP}), "auto", "path_traversal"),
        (zipped({"_chat.txt": WHATSAPP, "/etc/passwd": b"x"}), "auto", "path_traversal"),
        (zipped({"..\\evil.json": DISCORD}), "auto", "path_traversal"),
        (zipped({"c:\\evil.json": DISCORD}), "auto", "path_traversal"),
        (encrypted(zipped({"_chat.txt": WHATSAPP})), "auto", "encrypted"),
        (zipped({"_chat.txt": bytes(19 << 20)}), "auto", "too_large"),
        (zipped({"picture.jpg": b"x"}), "auto", "no_chat"),
        (zipped({}), "auto", "no_chat"),
        (zipped({"one.json": DISCORD}), "slack", "no_chat"),
        (zipped({"inner.zip": zipped({"_chat.txt": WHATSAPP})}), "auto", "no_chat"),
    ],
)
def test_a_zip_that_is_no_export_is_refused_with_the_reason(
    tmp_path: Path, data: bytes, format_: str, reason: str
):
    written(tmp_path / "in", {"x.zip": data})
    with pytest.raises(ChatFormatError, match=f"^{reason}: "):
        chats(tmp_path / "in", format_)


def test_a_zip_reads_as_the_folder_it_was_made_of(tmp_path: Path):
    folder = written(tmp_path / "a" / "export", SLACK)
    written(tmp_path / "b", {"export.zip": zipped(SLACK)})
    unpacked = chats(tmp_path / "a")
    assert [c.entries for c in unpacked] == [c.entries for c in chats(tmp_path / "b")]
    assert chats(folder) == chats(tmp_path / "a" / "export")
    assert [c.name for c in unpacked] == ["a/export/general", "a/export/random"]


def test_no_two_exports_of_a_source_make_one_chat(tmp_path: Path):
    files = {
        f"{n}{suffix}": WHATSAPP
        for n in ("x", "WhatsApp Chat with x")
        for suffix in (".txt", ".text")
    }
    zips = {"x.zip": zipped({"_chat.txt": WHATSAPP}), "export.zip": zipped(SLACK)}
    written(tmp_path / "in", files | zips | {f"export/{n}": d for n, d in SLACK.items()})
    names = [c.name for c in chats(tmp_path / "in")]
    assert len(names) == len(set(names)) == 7


@pytest.mark.parametrize(
    ("configured", "asked", "shown"),
    [
        (None, None, "18:02"),
        (None, "Asia/Tokyo", "09:02"),
        ("America/New_York", None, "22:02"),
        ("America/New_York", "Asia/Tokyo", "09:02"),
    ],
)
def test_times_are_in_the_zone_asked_for_else_in_that_of_the_source(
    tmp_path: Path, configured: str | None, asked: str | None, shown: str
):
    written(tmp_path / "chats", {"x.txt": WHATSAPP})
    source = {
        "name": "chat",
        "kind": "conversation",
        "path": "chats",
        "timezone": configured,
        "pseudonyms": False,
    }
    settings = Settings.model_validate({"sources": [source] if configured else []}).model_copy(
        update={"base": tmp_path}
    )
    given = read_conversation(settings, tmp_path / "chats" / "x.txt", None, asked)
    assert f"**Timestamp:** 2025-03-27 {shown}\n" in given.markdown
    assert list(given.asker.own) == (["chat:x@0001"] if configured else [])


@pytest.mark.exhaustive
@pytest.mark.parametrize("packed", [True, False], ids=["zip", "folder"])
@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("users.json", b"{", "no_json"),
        ("general/2025-01-16.json", b"[1, {]", "no_json"),
        ("general/2025-01-16.json", b" " * (21 << 20), "too_large"),
    ],
)
def test_one_broken_file_of_a_slack_export_costs_no_other(
    tmp_path: Path, packed: bool, name: str, data: bytes, reason: str
):
    members = {**SLACK, name: data}
    written(tmp_path / "in", {"x.zip": zipped(members)} if packed else members)
    assert [e.text for chat in chats(tmp_path / "in") for e in chat.entries] == ["from Slack"] * 2
    assert set(faults(tmp_path / "in").values()) == {reason}


@pytest.mark.parametrize(
    "name",
    ["x.rs", "Makefile", "notes.rst", "page.html", "package.json", "x.jsonl", "x.csv", "x.mbox"],
)
def test_any_text_wants_context_as_it_stands(tmp_path: Path, name: str):
    text = "// Where is the lock?\nfn main() {}\n"
    (tmp_path / name).write_text(text)
    given = read_conversation(Settings(sources=()), tmp_path / name, None)
    assert (given.markdown, given.messages) == (text, 1)


@pytest.mark.parametrize(("name", "data"), [("x.rs", b"\xff\x00\xfe"), ("x.zip", b"PK")])
def test_a_file_that_is_neither_text_nor_export_is_refused(tmp_path: Path, name: str, data: bytes):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ChatFormatError, match=name):
        read_conversation(Settings(sources=()), tmp_path / name, None)


@pytest.mark.parametrize(("first", "reason"), [(DISCORD, "duplicate"), (b"{", "no_chat")])
def test_a_file_of_a_zip_that_is_not_read_leaves_the_others(
    tmp_path: Path, first: bytes, reason: str
):
    name = b"one.json" if reason == "duplicate" else b"two.json"
    data = zipped({"one.json": first, "two.json": DISCORD}).replace(b"two.json", name)
    written(tmp_path / "in", {"x.zip": data})
    read = [(chat.title, e.text) for chat in chats(tmp_path / "in") for e in chat.entries]
    assert read == [("general", "from Discord")]
    assert [*faults(tmp_path / "in").values()] == [reason]


@pytest.mark.parametrize(
    "change",
    [
        {"author": "ada"},
        {"mentions": [1, None, {"id": []}]},
        {"mentions": "all"},
        {"type": {}},
        {"content": [1]},
        {"timestamp": "0001-01-01T00:00:00+14:00"},
        {"timestamp": 1e300},
    ],
)
def test_a_message_in_another_form_costs_no_other(tmp_path: Path, change: dict[str, object]):
    data = json.dumps({"channel": ["x"], "messages": [CHANNEL, {**CHANNEL, **change}]}).encode()
    written(tmp_path / "in", {"one.json": data})
    (chat,) = chats(tmp_path / "in")
    assert chat.entries[0].text == "from Discord"
    assert len(chat.entries) + len(chat.faults) == 2


def test_a_name_that_is_only_a_prefix_and_a_dot_stops_nothing():
    assert (
        chat_names([("in/WhatsApp Chat with ..zip", "zip"), ("in/a.txt", "whatsapp")])[1] == "in/a"
    )


@pytest.mark.exhaustive
def test_exports_a_thousand_folders_deep_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(1100):
        Path("d").mkdir()
        os.chdir("d")
    Path("one.json").write_bytes(DISCORD)
    monkeypatch.chdir(tmp_path)
    found = chats(tmp_path / "d")
    subprocess.run(["rm", "-rf", "d"], check=True)  # shutil cannot
    assert [e.text for chat in found for e in chat.entries] == ["from Discord"]
