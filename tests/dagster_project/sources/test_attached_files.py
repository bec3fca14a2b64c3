"""Files attached in chats are read from where their exports hold them, and those that are not there
cost nothing.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dagster_project.config.settings import Settings
from dagster_project.ledger.ledger import ledger_in
from dagster_project.sources.chats import ChatFiles
from tests.archives import Workspace
from tests.broken_files import UNREADABLE
from tests.dagster_project.builds.test_conversations import CHAT, configure, write
from tests.dagster_project.sources.test_chat_exports import written
from tests.format_files import Text, docx, paragraph, pdf, zipped
from tests.pages import pages
from transforms.formats.converted import Converted
from transforms.formats.read import read_format
from transforms.hashing import bytes_sha256

PLAN = pdf([[Text("The first page")], [Text("The sluice opens at noon")]])
WORD = docx(paragraph("The weir holds"))
WHATSAPP = (
    b"27.03.25, 18:02 - Ada: Plan.pdf (file attached)\n27.03.25, 18:03 - Ada: IMG-1.jpg (file attached)\n"
    b"27.03.25, 18:04 - Ada: gone.pdf (file attached)\n27.03.25, 18:05 - Ada: ../../outside.pdf (file attached)\n"
)
FILE = {"id": "F1", "name": "plan.pdf", "mimetype": "application/pdf"}
SLACK = json.dumps([{"ts": "1736937000.1", "user": "U1", "text": "see", "files": [FILE]}]).encode()
SENT = {
    "id": 1,
    "type": "message",
    "date_unixtime": "1736937000",
    "from": "Ada",
    "file": "files/weir.docx",
}
TELEGRAM = json.dumps({"type": "personal_chat", "messages": [SENT]}).encode()
SHARED = {"fileName": "plan.pdf", "url": "g_Files/plan-1.pdf"}
POST = {
    "timestamp": "2025-01-15T10:30:00+00:00",
    "author": {"id": "1", "name": "ada"},
    "attachments": [SHARED],
}
DISCORD = json.dumps({"channel": {"name": "general"}, "messages": [POST]}).encode()
TRIP = {
    "trip/_chat.txt": WHATSAPP,
    "trip/Plan.pdf": PLAN,
    "trip/IMG-1.jpg": b"\xff\xd8\xff",
    "outside.pdf": PLAN,
}
READ, NO_FILE = "2 pages", "missing"


def opened(folder: Path) -> tuple[ChatFiles, Any]:
    """The chats of a folder, and their one source."""
    settings = Settings.model_validate(
        {
            "storage": {"root": str(folder.parent / "state")},
            "sources": [{"name": "chat", "kind": "conversation", "path": str(folder)}],
        }
    )
    return ChatFiles(settings, ledger_in(folder.parent)), settings.sources[0]


def digest(path: Path) -> str:
    return bytes_sha256(path.read_bytes())


def convert(data: bytes, kind: str, *, keep: bool) -> Converted:
    return read_format(data, kind)


def test_another_title_of_a_chat_changes_its_windows(tmp_path: Path):
    export = tmp_path / "chat" / "general.json"
    prints = set()
    for title in ("general", "general", "harbour"):
        written(export.parent, {export.name: DISCORD.replace(b"general", title.encode())})
        chats, source = opened(export.parent)
        prints |= {partition.fingerprint for partition in chats.partitions(source, digest)}
    assert len(prints) == 2


@pytest.mark.parametrize(
    ("file", "partition"), [("chat.json", "chat/0001"), ("general.json", "chat/general.0001")]
)
def test_a_chat_called_as_its_source_gives_a_partition_the_window_alone(
    tmp_path: Path, file: str, partition: str
):
    chats, source = opened(written(tmp_path / "chat", {file: DISCORD}))
    listed = chats.partitions(source, digest)
    assert [one.key for one in listed] == [partition]
    assert [len(chats.window(one, convert)[0]) for one in listed] == [1]


def rows_of_files(folder: Path) -> list[dict[str, Any]]:
    """The rows of the files that messages name."""
    chats, source = opened(folder)
    return [
        row
        for partition in chats.partitions(source, digest)
        for row in chats.window(partition, convert)[1].to_pylist()
    ]


def files_of(folder: Path) -> dict[str, str]:
    """Of each file that messages name its pages, or why it has no text."""
    rows = rows_of_files(folder)
    pages = {r["filename"]: f"{len(r['page_starts'] or ())} pages" for r in rows if r["text"]}
    return pages | {r["filename"]: r["reason"].partition(":")[0] for r in rows if r["reason"]}


@pytest.mark.parametrize(
    ("members", "found"),
    [
        (TRIP, {"Plan.pdf": READ, "IMG-1.jpg": "binary", "gone.pdf": NO_FILE}),
        (
            {"trip.zip": zipped({"_chat.txt": WHATSAPP, "Plan.pdf": PLAN})},
            {"Plan.pdf": READ, "IMG-1.jpg": NO_FILE, "gone.pdf": NO_FILE},
        ),
        (
            {
                "s/users.json": b"[]",
                "s/general/2025-01-15.json": SLACK,
                "s/__uploads/F1/plan.pdf": PLAN,
            },
            {"plan.pdf": READ},
        ),
        (
            {
                "s.zip": zipped(
                    {
                        "s/users.json": b"[]",
                        "s/a/2025-01-15.json": SLACK,
                        "s/a/attachments/F1-plan.pdf": PLAN,
                    }
                )
            },
            {"plan.pdf": READ},
        ),
        ({"s/users.json": b"[]", "s/general/2025-01-15.json": SLACK}, {"plan.pdf": NO_FILE}),
        ({"t/result.json": TELEGRAM, "t/files/weir.docx": WORD}, {"weir.docx": "0 pages"}),
        ({"d/g.json": DISCORD, "d/g_Files/plan-1.pdf": PLAN}, {"plan.pdf": READ}),
        (
            {"d/g.json": DISCORD, "d/g_Files/plan-1.pdf": b"%PDF-1.7 broken"},
            {"plan.pdf": "unreadable"},
        ),
    ],
    ids=["whatsapp", "zip", "slack", "slack zip", "slack alone", "telegram", "discord", "broken"],
)
def test_a_file_is_read_where_the_export_holds_it(
    tmp_path: Path, members: Mapping[str, bytes], found: Mapping[str, str]
):
    assert files_of(written(tmp_path / "in", members)) == found


@pytest.mark.parametrize("put", UNREADABLE)
def test_whatever_lies_where_a_named_file_should_be_costs_no_chat(
    tmp_path: Path, put: Callable[[Path], None]
):
    folder = written(tmp_path / "in", {"trip/_chat.txt": WHATSAPP})
    put(folder / "trip" / "Plan.pdf")
    assert files_of(folder).keys() == {"Plan.pdf", "IMG-1.jpg", "gone.pdf"}
    chats, _ = opened(folder)
    (export,) = chats.exports_of(folder / "trip" / "_chat.txt")
    assert export.chat == "trip/_chat"


@pytest.mark.parametrize("in_zip", [False, True])
def test_a_file_that_is_not_read_has_its_size_too(tmp_path: Path, in_zip: bool):
    members = {name.removeprefix("trip/"): data for name, data in TRIP.items()}
    members["Plan.pdf"] = b"%PDF-1.7 broken"
    held = {"trip.zip": zipped(members)} if in_zip else members
    rows = rows_of_files(written(tmp_path / "in", held))
    sizes = {row["filename"]: row["byte_count"] for row in rows}
    assert sizes == {"Plan.pdf": 15, "IMG-1.jpg": 3, "gone.pdf": 0}


def test_a_file_that_comes_later_makes_its_window_anew_and_no_other(tmp_path: Path):
    folder = written(tmp_path / "in", {"a/_chat.txt": WHATSAPP, "b/_chat.txt": WHATSAPP})
    before, again, after = [], [], []
    for prints, comes in ((before, b""), (again, PLAN), (after, b"")):
        chats, source = opened(folder)
        prints += [p.fingerprint for p in chats.partitions(source, digest)]
        if comes:
            written(folder, {"a/Plan.pdf": comes})
    assert before == again
    assert [a == b for a, b in zip(again, after, strict=True)] == [False, True]


@pytest.mark.exhaustive
def test_a_pdf_in_a_chat_is_found_with_its_page(tmp_path: Path):
    work = Workspace(tmp_path / "work")
    configure(work, CHAT)
    for name, data in {
        **TRIP,
        "trip/_chat.txt": WHATSAPP + b"27.03.25, 18:09 - Ada: at last\n",
    }.items():
        write(work, f"chats/{name}", data)
    work.build()
    hit = json.loads(work.weft("search", "sluice opens noon", "--json").output)["queries"][0][
        "hits"
    ][0]
    assert (hit["source_kind"], hit["filename"], hit["page"]) == ("attachment", "Plan.pdf", 2)
    assert "attached file Plan.pdf" in work.weft("search", "sluice opens noon").output
    assert "sluice" in work.weft("get", hit["citation"]).output
    with pages(work.settings) as client:
        page = client.get(f"/a/{hit['attachment_id']}")
    assert not list(work.folder.glob("state/cache/documents/*/*"))
    assert page.status_code == 200 and "sluice" in page.text and "/c/" in page.text
