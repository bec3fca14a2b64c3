"""A workspace of a bit of everything, which tests that only read share: mail, odd archives, notes,
documents and a chat.
"""

import bz2
import gzip
from pathlib import Path

from tests.archives import Mail, Workspace, discussion, mbox
from tests.timing import HUNG

MAIL = {"name": "dev", "kind": "mbox", "path": "mail/dev.*"}
ODD = {"name": "odd", "kind": "mbox", "path": "mail/odd/*", "grain": "year", "list_id": "odd"}
NOTES = {"name": "notes", "kind": "vault", "path": "notes"}
DOCS = {"name": "docs", "kind": "tree", "path": "docs", "grain": "folder"}
JOURNAL = {"name": "journal", "kind": "vault", "path": "journal"}
CHAT = {"name": "chat", "kind": "conversation", "path": "chat/*"}
SOURCES = (MAIL, ODD, NOTES, DOCS, JOURNAL, CHAT)
SECTIONS = {
    "index": {"ann_max_vectors": 9999},
    "mail": {"max_archive_bytes": 4 << 20, "max_message_bytes": 1 << 20},
    "mcp": {"max_seconds": HUNG},
}

COMPACTION = """---
title: Compaction
aliases: [merging]
tags: [storage, engine]
---
How sorted runs become one.

## Levels

Each level holds ten times the data of the one above it. See [[Snapshots#Reading]] and [[Nowhere]].

## Pauses

A pause longer than a second is a fault: the writer waits for the merge of two neighbouring runs.
"""
SNAPSHOTS = """# Snapshots

A snapshot is a number. Taking one costs nothing.

## Reading

A reader sees what was committed before its number, and [compaction](Compaction.md#pauses) keeps it.

## Dropping

Old versions go once no [reader](#reading) holds a number below theirs.
"""
GUIDE = """# Guide

Start with [the reference](../reference/options.md).

## First steps

Open a store, write a key, read it back.
"""
OPTIONS = (
    "# Options\n\n## cache_size\n\nBytes that the block cache may hold, 64 MiB unless it is set.\n"
)
MANUAL = "# Manual\n\nHow the store works.\n\n## Repair\n\nRun the checker on a copy of the store first.\n"
FILES = {
    "notes/Compaction.md": COMPACTION,
    "notes/Ideas/Snapshots.md": SNAPSHOTS,
    "notes/.obsidian/app.json": "{}",
    "docs/guide/index.md": GUIDE,
    "docs/reference/options.md": OPTIONS,
    "docs/manual.md": MANUAL,
    "docs/old/manual.md": MANUAL.replace("Manual", "Old manual"),
    "journal/Monday.md": "A day without any pause.",
    "chat/WhatsApp Chat with Bob.txt": "12/31/23, 10:00 - Ann: Where do the herons nest?\n"
    "12/31/23, 10:05 - Bob: Behind the mill, in the old alders.\n",
}

SECRET = "the cormorants of Lake Baringo are counted by lantern light every March"
BIRDS = [
    Mail(800, f"{SECRET}.", "birds", sender="ada@example.org"),
    Mail(
        801,
        f"> {SECRET}\n\nWe keep a net, too.",
        "Re: birds",
        reply_to=800,
        sender="eve@example.org",
    ),
]
"""A mail, and one by somebody else that quotes it."""
ATTACHED = ["MIME-Version: 1.0", 'Content-Type: multipart/mixed; boundary="x"']
TABLE = (
    "--x\nContent-Type: text/plain; charset=utf-8\n\nThe na\u00efve table of segments is attached.\n"
    "--x\nContent-Type: text/csv\nContent-Disposition: attachment; filename=segments.csv\n\n"
    "segment;bytes\none;4096\n\n--x--"
)
ONLY_DASHES = (
    "--x\nContent-Type: text/plain\n\nhello there\n"
    "--x\nContent-Type: text/plain\nContent-Disposition: attachment\n\n-----\n--x--"
)
NESTED = "\n".join(">" * depth + " deeper and deeper" for depth in range(100, 10_001, 100))


def library(folder: Path) -> Workspace:
    """The workspace; not built."""
    work = Workspace(folder).configure(*SOURCES, **SECTIONS)
    table = Mail(50, TABLE, "Segments", headers=ATTACHED)
    work.write("dev.2004-01.mbox", [*discussion(0, 4, "compactor"), table])
    work.write("dev.2004-05.mbox", BIRDS)
    for name, text in FILES.items():
        work.put(name, text)
    write_odd_archives(work)
    return work


def write_odd_archives(work: Workspace) -> None:
    """One of everything that can be wrong with an archive, below mail/odd/."""
    good = mbox(discussion(310, 60, "write-ahead log"))
    packed = gzip.compress(good, mtime=0)
    huge = [Mail(400, "x" * 79 + "\n"), Mail(401, ("line " * 15 + "\n") * 20_000)]
    (work.folder / "mail" / "odd" / "folder.mbox").mkdir(parents=True)
    for name, mails in {
        "empty.mbox": b"",
        "broken.mbox.gz": packed[: len(packed) * 9 // 10],
        "nothing.mbox.gz": b"",
        "false.mbox.gz": good,
        "packed.mbox.bz2": bz2.compress(mbox([Mail(300, "Packed by bzip2.", "Packed")])),
        "picture.mbox": b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(range(256)) * 40,
        "huge.mbox": huge,
        "bomb.mbox.gz": gzip.compress(bytes(5 << 20), mtime=0),
        "nested.mbox": [Mail(500, f"I agree with all of it.\n{NESTED}", "Nested")],
        "dashes.mbox": [Mail(700, ONLY_DASHES, "", headers=ATTACHED)],
        "caf\u00e9 [old].mbox": [Mail(600, "A file with an odd name.", "Odd")],
    }.items():
        work.write(f"odd/{name}", mails)
