"""A backup brings back what no build can make again: key, receipts, tokens, searches, and answers
that were paid for.
"""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dagster_project.extras.backup.restoring import restoration
from dagster_project.extras.backup.snapshots import Backups, back_up
from dagster_project.models.answer_cache import SQLiteAnswerCache
from dagster_project.outgoing.receipts import Receipts, Seen
from tests.archives import Workspace, two_lists
from tests.gemini_loopback import Loopback
from transforms.errors import CheckFailedError, ServiceError, SettingsError

CHAT = "12/31/23, 10:00 - Ann: What merges the runs?\n12/31/23, 10:05 - Bob: The compactor merges them.\n"
SOURCES = (
    {"name": "dev", "kind": "mbox", "path": "mail/dev/*"},
    {"name": "chat", "kind": "conversation", "path": "chat/*"},
)


@pytest.fixture
def paid(tmp_path: Path, gemini: Loopback) -> Workspace:
    """Mail and a chat, with vectors and sentences of a service, built; with a receipt and a token."""
    gemini.reply = lambda prompt: json.dumps(
        {"sentences": ["About it."] * len(json.loads(prompt)["chunks"])}
    )
    work = two_lists(tmp_path / "work").configure(
        *SOURCES, embedding={"model": "gemini", "dimensions": 768}, sentences={"kind": "gemini"}
    )
    work.put("chat/WhatsApp Chat with Ann.txt", CHAT)
    work.build()
    erased = work.weft("forget", "m0@example.org", "--yes")
    assert erased.exit_code == 0, erased.output
    work.put("searches/own.json", "{}")
    Receipts(work.settings.root).add("search", "compactor", Seen("1"), [], {})
    assert work.weft("search", "compactor").exit_code == 0
    return work


def stored(work: Workspace, place: Path | str, *more: str) -> dict:
    result = work.weft("backup", str(place), "--json", *more)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def hits(work: Workspace) -> object:
    return json.loads(work.weft("search", "compactor", "--json").stdout)["queries"]


def test_a_restored_workspace_answers_the_same_and_pays_nothing(
    paid: Workspace, gemini: Loopback, tmp_path: Path
):
    place = tmp_path / "backup"
    first = stored(paid, place)
    assert first["outcome"] == "STORED" and first["new_files"] == first["files"] > 8
    assert stored(paid, place) == first | {"outcome": "UNCHANGED", "new_files": 0, "new_bytes": 0}
    assert {p.stat().st_mode & 0o077 for p in [place, *place.rglob("*")]} == {0}
    new = Workspace(tmp_path / "new" / "copy")
    for folder in ("mail", "chat"):
        shutil.copytree(paid.folder / folder, new.folder / folder, dirs_exist_ok=True)
    restoring = ("backup", str(place), "--restore", str(new.folder))
    assert paid.weft(*restoring).exit_code == 0
    asked = dict(gemini.asked)
    new.build()
    assert dict(gemini.asked) == asked
    assert hits(new) == hits(paid)
    for rows in ("doc_id, text_display FROM chunks", "text_embed FROM chunk_context"):
        assert new.sql(f"SELECT {rows} ORDER BY ALL") == paid.sql(f"SELECT {rows} ORDER BY ALL")
    assert new.column("SELECT count(*) FROM messages WHERE message_id = 'm0@example.org'") == [0]
    assert len(list(Receipts(new.settings.root).read())) == 1
    assert (new.folder / "searches" / "own.json").read_text() == "{}"
    assert paid.weft(*restoring).exit_code == 0, "again, it changes nothing"
    new.put("state/sessions/one.jsonl", "other")
    paid.put("state/sessions/one.jsonl", "turn")
    stored(paid, place)
    again = paid.weft(*restoring)
    assert again.exit_code == 2 and "one.jsonl has another content" in again.stderr


def test_only_changed_files_are_stored_again_and_old_snapshots_go(built: Workspace, tmp_path: Path):
    place = tmp_path / "backup"
    stored(built, place)
    for text in "abc":
        built.put("state/sessions/one.jsonl", text)
        facts = stored(built, place, "--keep", "2")
        assert (facts["new_files"], facts["new_bytes"]) == (1, 1)
    rows = json.loads(built.weft("backup", str(place), "--verify", "--json").stdout)
    assert len(rows) == 2 and rows[-1]["snapshot"] == facts["snapshot"]
    assert {row["signed_by"] for row in rows} == {facts["signed_by"]}
    assert sorted(p.read_text() for p in (place / "files").glob("*") if p.stat().st_size == 1) == [
        "b",
        "c",
    ]
    restoration(str(place), tmp_path / "new", rows[0]["snapshot"]).write()
    assert (tmp_path / "new" / "state" / "sessions" / "one.jsonl").read_text() == "b"
    other = two_lists(tmp_path / "other")
    with pytest.raises(SettingsError, match="give another folder"):
        back_up(other.settings, other.config, str(place), 10)


def test_damage_of_a_backup_is_named_and_never_restored(built: Workspace, tmp_path: Path):
    place = tmp_path / "backup"
    facts = stored(built, place)
    (changed,) = (
        p for p in (place / "files").glob("*") if p.read_bytes() == built.config.read_bytes()
    )
    changed.write_text("[storage]")
    with pytest.raises(
        CheckFailedError, match=rf"1 of {facts['files']} files .*settings/weft.toml"
    ):
        Backups(str(place)).verified()
    with pytest.raises(CheckFailedError, match="restore another snapshot"):
        restoration(str(place), tmp_path / "new").write()
    assert not (tmp_path / "new" / "weft.toml").exists()
    assert stored(built, place)["new_files"] == 1, "of another size, it is stored again"
    (snapshot,) = (place / "snapshots").glob("*")
    snapshot.write_text(snapshot.read_text().replace("root/", "root/../"))
    with pytest.raises(CheckFailedError, match="is not what was written: delete it"):
        restoration(str(place), tmp_path / "new").write()


def test_answers_are_copied_whole_while_a_process_writes(built: Workspace, tmp_path: Path):
    cache = SQLiteAnswerCache(built.settings.root / "cache" / "answers.sqlite")
    cache.store({f"model/{n}": "x" * 99 for n in range(2_000)})
    with closing(sqlite3.connect(cache.path)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM answers")
        back_up(built.settings, built.config, str(tmp_path / "backup"), 1)
        writer.rollback()
    restoration(str(tmp_path / "backup"), tmp_path / "new").write()
    copy = SQLiteAnswerCache(tmp_path / "new" / "state" / "cache" / "answers.sqlite")
    assert copy.verify() == [] and copy.all_keys() == cache.all_keys()


def test_a_backup_on_an_object_store_is_restored_from_it(built: Workspace, s3: Any, tmp_path: Path):
    with pytest.raises(ServiceError, match="check place and key"):
        back_up(built.settings, built.config, "s3://none/backup", 10)
    s3.create_bucket(Bucket="weft-backup")
    first, place = stored(built, "s3://weft-backup/mine"), "s3://weft-backup/mine"
    assert stored(built, place)["new_files"] == 0
    (row,) = Backups(place).verified()
    assert (row["files"], row["snapshot"]) == (first["files"], first["snapshot"])
    assert restoration(place, tmp_path / "new").write() == first["files"]
    assert (tmp_path / "new" / "weft.toml").read_bytes() == built.config.read_bytes()
