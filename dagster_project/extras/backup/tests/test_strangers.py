"""A snapshot that somebody else wrote, or that is damaged: what a restore refuses, asks, and leaves
out.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dagster_project.extras.backup.restoring import restoration
from dagster_project.extras.backup.snapshots import Backups
from dagster_project.extras.web.tokens import Tokens
from dagster_project.outgoing.receipts import Receipts
from tests.archives import Workspace, two_lists
from transforms.errors import CheckFailedError, SettingsError, WeftError
from transforms.hashing import bytes_sha256

NEW = "99990101T000000.000000Z"
"""The time of a snapshot that tests write: it is the newest."""


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    """Two lists that are not built, with an alert, a token, and a backup in `backup`."""
    work = two_lists(tmp_path / "work").configure(alerts={"command": ["touch", "run"]})
    Tokens(work.settings).new("ann", None, None)
    assert backed_up(work)["outcome"] == "STORED"
    return work


def backed_up(work: Workspace, *more: str) -> dict[str, Any]:
    result = work.weft("backup", place(work), "--json", *more)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def place(work: Workspace) -> str:
    return str(work.folder.parent / "backup")


def restored(work: Workspace, folder: str, *more: str) -> Result:
    return work.weft("backup", place(work), "--restore", str(work.folder.parent / folder), *more)


def content_of(work: Workspace) -> dict[str, Any]:
    (file,) = Path(place(work)).glob("snapshots/2*.json")
    return json.loads(file.read_text())


def planted(work: Workspace, text: bytes, at: str = NEW) -> None:
    """A snapshot with this text, under a name with its hash, beside the files of the backup."""
    snapshots = Path(place(work)) / "snapshots"
    for file in snapshots.glob(f"{NEW}-*"):
        file.unlink()
    (snapshots / f"{at}-{bytes_sha256(text)[:16]}.json").write_bytes(text)


def stored_file(work: Workspace, text: bytes) -> list[object]:
    (Path(place(work)) / "files" / bytes_sha256(text)).write_bytes(text)
    return [bytes_sha256(text), len(text)]


def signed(work: Workspace, **changes: Any) -> bytes:
    """A snapshot of a stranger, with changes in its files."""
    content = content_of(work)
    files = {**content["files"], **changes}
    stranger = Receipts(work.folder.parent / "stranger")
    return json.dumps(stranger.sign({"root": content["root"], "files": files, "at": NEW})).encode()


def test_a_snapshot_of_an_unknown_signer_is_refused_unless_its_key_is_named(
    work: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    key = Backups(place(work)).read().signer
    assert restored(work, "known").exit_code == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other machine"))
    refused = restored(work, "new")
    assert refused.exit_code == 2 and f"add --signed-by {key}" in refused.stderr
    assert not (tmp_path / "new").exists()
    other = restored(work, "new", "--signed-by", "0" * 64)
    assert other.exit_code == 2 and f"is signed by {key}, not by" in other.stderr
    assert restored(work, "new", "--signed-by", key).exit_code == 0
    planted(work, signed(work))
    assert "is signed by" in restored(work, "new", "--signed-by", key).stderr


def test_a_new_key_is_announced_and_the_former_signs_no_snapshot_that_is_known(work: Workspace):
    before = Backups(place(work)).read()
    facts = backed_up(work, "--new-key")
    assert facts["signed_by"] != before.signer
    (receipt,) = Receipts(work.settings.root).read()
    assert receipt["new_key"] == facts["signed_by"]
    assert restored(work, "new").exit_code == 0
    old = restored(work, "old", "--snapshot", before.name)
    assert old.exit_code == 2 and before.signer in old.stderr
    assert (
        restored(work, "old", "--snapshot", before.name, "--signed-by", before.signer).exit_code
        == 0
    )


def test_a_snapshot_of_an_earlier_version_is_restored_on_request(work: Workspace):
    content = content_of(work)
    planted(work, json.dumps({name: content[name] for name in ("root", "files")}).encode())
    refused = restored(work, "new")
    assert refused.exit_code == 2 and "has no signature" in refused.stderr
    assert restored(work, "new", "--signed-by", "unsigned").exit_code == 0
    assert backed_up(work)["outcome"] == "STORED", "the next backup is signed"


def test_a_changed_snapshot_is_not_that_of_its_signer(work: Workspace):
    content = content_of(work)
    content["files"]["settings/labels.tsv"] = ["0" * 64, 0]
    planted(work, json.dumps(content).encode())
    with pytest.raises(CheckFailedError, match="its signature is of another content"):
        plan(work)


def test_an_old_snapshot_under_a_new_name_is_not_the_newest(work: Workspace):
    content = content_of(work)
    planted(work, json.dumps(content).encode())
    with pytest.raises(CheckFailedError, match=f"it is the one of {content['at']}"):
        plan(work)


def test_every_place_outside_of_the_folder_is_listed_before_anything_is_written(work: Workspace):
    elsewhere = work.folder.parent / "elsewhere"
    box = {"kind": "imap", "host": "mail.example.org", "credentials": "BOX"}
    work.configure(
        {"name": "dev", "kind": "mbox", "path": "../mail/*"},
        {"name": "box", "kind": "maildir", "fetch": box},
        storage={"root": str(elsewhere)},
    )
    settings = work.config.read_bytes()
    planted(work, signed(work, **{"settings/weft.toml": stored_file(work, settings)}))
    key = Backups(place(work)).read().signer
    refused = restored(work, "new", "--signed-by", key)
    assert refused.exit_code == 2 and "add --yes" in refused.stderr
    for line in (
        f"{elsewhere}/receipts/key",
        f"storage.root = {elsewhere}",
        "sources.0.path = ../mail/*",
        "sources.1.fetch.host = mail.example.org",
    ):
        assert f"  {line}\n" in refused.stderr
    assert not elsewhere.exists() and not (work.folder.parent / "new").exists()
    assert restored(work, "new", "--signed-by", key, "--yes").exit_code == 0
    assert (elsewhere / "receipts" / "key").exists()


def test_tokens_and_commands_come_back_on_request_alone(work: Workspace):
    facts = json.loads(restored(work, "new", "--json").stdout)
    (token,) = work.settings.root.glob("tokens/*.json")
    assert facts["left_out"] == [f"root/tokens/{token.name}", "[alerts] of weft.toml"]
    new = Workspace(work.folder.parent / "new")
    assert new.settings.alerts.command == () and new.settings.sources == work.settings.sources
    assert Tokens(new.settings).all() == [] and (new.settings.root / "tokens").exists()
    assert restored(work, "new").exit_code == 0, "again, it changes nothing"
    assert restored(work, "all", "--with", "tokens", "--with", "commands").exit_code == 0
    whole = Workspace(work.folder.parent / "all")
    assert whole.settings.alerts == work.settings.alerts
    assert [one.name for one in Tokens(whole.settings).all()] == ["ann"]


@pytest.mark.parametrize("lost", ["nothing", "states", "storage"])
def test_a_revoked_token_never_comes_back(
    work: Workspace, lost: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """Neither from an older snapshot, nor as a copied file; the list is in three places."""
    before, key = Backups(place(work)).read().name, Backups(place(work)).read().signer
    (token,) = work.settings.root.glob("tokens/*.json")
    text = token.read_bytes()
    Tokens(work.settings).revoke("ann")
    token.write_bytes(text)
    assert Tokens(work.settings).all() == []
    token.unlink()
    if lost != "storage":
        backed_up(work)
    if lost == "states":
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other machine"))
    asking = ("--snapshot", before, "--signed-by", key, "--with", "tokens")
    assert restored(work, "new", *asking).exit_code == 0
    new = Workspace(work.folder.parent / "new")
    place_of_copy = new.settings.root / "tokens" / token.name
    assert not place_of_copy.exists()
    place_of_copy.write_bytes(text)
    assert Tokens(new.settings).all() == [] and Tokens(new.settings).named("ann") is None


ODD_NAMES = (
    "root/dagster/dagster.yaml",
    "root/sign-ins/box.json",
    "root/index/CURRENT",
    "root/cache/deep/answers.sqlite",
    "root/cache/../../x.json",
    "root/cache/embeddings/../../x.json",
    "root//cache/x.json",
    "root/cache/.x.json",
    "root/cache/a\n.json",
    f"root/cache/{'x' * 300}.json",
    "root/cache",
    "settings/../weft.toml",
    "settings/other.toml",
    "lake/chunks.parquet",
    "/etc/x.json",
    "",
)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_file_that_no_backup_has_is_refused(work: Workspace, name: str):
    planted(work, signed(work, **{name: stored_file(work, b"{}")}))
    with pytest.raises(CheckFailedError, match="as no backup has"):
        plan(work)


def plan(work: Workspace) -> object:
    key = Backups(place(work)).read().signer
    return restoration(place(work), work.folder.parent / "new", signed_by=key)


def test_a_snapshot_without_settings_is_refused(work: Workspace):
    planted(work, json.dumps({"root": "x", "files": {}}).encode())
    refused = restored(work, "new", "--signed-by", "unsigned")
    assert refused.exit_code == 7 and "has no settings" in refused.stderr


def test_a_file_and_a_folder_of_one_name_are_refused(work: Workspace):
    names = ("root/cache/embeddings/a.b", "root/cache/embeddings/a.b/c.d")
    planted(work, signed(work, **dict.fromkeys(names, stored_file(work, b"{}"))))
    with pytest.raises(CheckFailedError, match="as no backup has"):
        plan(work)


DAMAGE: dict[str, Callable[[dict[str, Any]], object]] = {
    "no object": lambda content: [content],
    "a number": lambda content: 7,
    "no root": lambda content: {"files": content["files"]},
    "root of another type": lambda content: {**content, "root": None},
    "files as a list": lambda content: {**content, "files": list(content["files"])},
    "an entry too short": lambda content: {**content, "files": {"settings/weft.toml": ["0" * 64]}},
    "an entry too long": lambda content: {**content, "files": {"x": ["0" * 64, 1, 2]}},
    "an entry of another type": lambda content: {**content, "files": {"x": 7}},
    "a hash of another type": lambda content: {**content, "files": {"x": [7, 7]}},
    "a hash that is a path": lambda content: {**content, "files": {"x": ["../../etc/passwd", 7]}},
    "a size below zero": lambda content: {**content, "files": {"x": ["0" * 64, -1]}},
    "an unknown key": lambda content: {**content, "more": 1},
    "half of a signature": lambda content: {**content, "signature": content["signature"][:64]},
    "a key of another type": lambda content: {**content, "key": [content["key"]]},
    "a key that is none": lambda content: {**content, "key": "zz"},
}
RAW = {
    "nothing": b"",
    "no JSON": b"{",
    "no UTF-8": b'{"root": "\xff"}',
    "nested": b"[" * 100_000,
    "nested in a value": b'{"root": "x", "files": ' + b'{"a":' * 5_000,
    "half a character": b'{"root": "\\ud800", "files": {}}',
    "a huge number": b'{"root": "x", "files": {"x": ["'
    + b"0" * 64
    + b'", '
    + b"9" * 5_000
    + b"]}}",
}


@pytest.mark.parametrize("kind", [*DAMAGE, *RAW])
def test_damage_of_a_list_is_a_sentence(work: Workspace, kind: str):
    damage = DAMAGE.get(kind)
    planted(work, json.dumps(damage(content_of(work))).encode() if damage else RAW[kind])
    for arguments in (("--restore", str(work.folder.parent / "new")), ("--verify",), ()):
        ended = work.weft("backup", place(work), *arguments)
        assert isinstance(ended.exception, SystemExit), ended.exception
        assert "Traceback" not in ended.output and "snapshot" in ended.output
    assert not (work.folder.parent / "new").exists()


def test_random_damage_of_lists_and_settings_is_a_sentence(work: Workspace):
    """Of 300 changed lists none is restored; of 100 changed settings each is, or is refused."""
    chance, content = random.Random(20261129), json.dumps(content_of(work)).encode()
    for _ in range(300):
        planted(work, damaged(content, chance))
        with pytest.raises(WeftError):
            restoration(place(work), work.folder.parent / "new")
    for _ in range(100):
        text = damaged(work.config.read_bytes(), chance)
        planted(work, signed(work, **{"settings/weft.toml": stored_file(work, text)}))
        try:
            plan(work)
        except SettingsError as error:
            assert ".tmp-" not in str(error)
    assert not (work.folder.parent / "new").exists()


def damaged(text: bytes, chance: random.Random) -> bytes:
    """The text with a few bytes flipped, cut out, or repeated."""
    for _ in range(chance.randint(1, 4)):
        at, length = chance.randrange(len(text) + 1), chance.randint(1, 40)
        odd = bytes([chance.randrange(256)])
        rest = {"flip": odd + text[at + 1 :], "cut": text[at + length :], "twice": text[at:]}
        kind = chance.choice([*rest])
        text = text[:at] + text[at : at + length] * (kind == "twice") + rest[kind]
    return text
