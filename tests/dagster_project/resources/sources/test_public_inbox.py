"""public-inbox repositories as a source: real repositories made with git, as public-inbox would."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dagster_project.composition import make_sources
from dagster_project.resources.sources.public_inbox import blobs, inbox_mails
from tests.archives import Mail, Workspace
from transforms.errors import SourceError
from transforms.mail.messages import RawMail

JANUARY, FEBRUARY = 1_073_300_000, 1_076_000_000
"""Author times in January and February 2004."""


class Epoch:
    """One bare repository to which mails are added and from which they are removed."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--bare", "--initial-branch=master", str(folder))

    def git(self, *arguments: str, given: bytes = b"", at: int = JANUARY) -> str:
        environment = {
            **os.environ, "GIT_DIR": str(self.folder), "GIT_CONFIG_GLOBAL": os.devnull, "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "c", "GIT_COMMITTER_EMAIL": "c@example.org",
            "GIT_AUTHOR_DATE": f"{at} +0000", "GIT_COMMITTER_DATE": "1700000000 +0000",
        }  # fmt: skip
        done = subprocess.run(
            ["git", *arguments], input=given, env=environment, check=True, stdout=subprocess.PIPE
        )
        return done.stdout.decode().strip()

    def commit(self, files: dict[str, bytes], at: int = JANUARY) -> str:
        """A commit on top whose tree holds these files and nothing else."""
        blobs = {name: self.git("hash-object", "-w", "--stdin", given=data) for name, data in files.items()}
        listing = "".join(f"100644 blob {blob}\t{name}\n" for name, blob in sorted(blobs.items()))
        tree = self.git("mktree", given=listing.encode())
        has_parent = bool(self.git("for-each-ref"))
        parent = ["-p", "refs/heads/master"] if has_parent else []
        commit = self.git("commit-tree", tree, *parent, "-m", "x", at=at)
        self.git("update-ref", "refs/heads/master", commit)
        return commit

    def add(self, number: int, at: int = JANUARY) -> str:
        return self.commit({"m": mail(number)}, at)

    def remove(self, number: int) -> str:
        return self.commit({"d": mail(number)})


def mail(number: int) -> bytes:
    return Mail(number, body=f"mail {number}").text().encode()


@pytest.fixture
def epoch(workspace: Workspace) -> Epoch:
    configure(workspace)
    return Epoch(workspace.folder / "mail" / "inbox" / "git" / "0.git")


def configure(work: Workspace, **given: str) -> Workspace:
    return work.configure({"name": "dev", "kind": "public_inbox", "path": "mail/inbox", **given})


def held(work: Workspace) -> dict[str, list[bytes]]:
    """The mails of every unit."""
    sources = make_sources(work.settings)
    return {u.partition: [m.data for m in sources.mails(u)] for u in sources.discover()}


def test_every_commit_is_a_mail_in_the_unit_of_its_month(workspace: Workspace, epoch: Epoch):
    first = epoch.add(1)
    epoch.add(2, FEBRUARY)
    epoch.add(3)
    assert held(workspace) == {"dev/2004-01": [mail(1), mail(3)], "dev/2004-02": [mail(2)]}
    sources = make_sources(workspace.settings)
    unit = sources.unit("dev/2004-01")
    assert next(iter(sources.mails(unit))) == RawMail(f"inbox/0.git:{first}", mail(1))
    assert unit.list_id == "dev"


@pytest.mark.parametrize(
    ("grain", "expected"),
    [
        ("month", {"dev/2004-01": 1, "dev/2004-02": 2}),
        ("year", {"dev/2004": 3}),
        ("auto", {"dev/2004-01": 1, "dev/2004-02": 2}),
        ("archive", {"dev/0": 2, "dev/1": 1}),
    ],
)
def test_grains(workspace: Workspace, epoch: Epoch, grain: str, expected: dict[str, int]):
    configure(workspace, grain=grain)
    epoch.add(1)
    epoch.add(2, FEBRUARY)
    Epoch(epoch.folder.with_name("1.git")).add(3, FEBRUARY)
    assert {unit: len(mails) for unit, mails in held(workspace).items()} == expected


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        pytest.param([1, 2, -1], [2], id="removed"),
        pytest.param([1, 2, -1, 1], [2, 1], id="added again"),
        pytest.param([1, -1, 1, -1], [], id="removed again"),
        pytest.param([1, 2, -3], [1, 2], id="a removal of nothing"),
        pytest.param([-1, 1], [1], id="a removal before it came"),
        pytest.param([1, 1], [1], id="twice the same"),
    ],
)
def test_removals(workspace: Workspace, epoch: Epoch, changes: list[int], left: list[int]):
    for change in changes:
        epoch.add(change) if change > 0 else epoch.remove(-change)
    assert held(workspace).get("dev/2004-01", []) == [mail(number) for number in left]


def test_a_removal_that_leaves_the_mail_in_the_tree(workspace: Workspace, epoch: Epoch):
    """Other writers than public-inbox let `m` stand beside `d`, and take `d` away to undo it."""
    epoch.add(1)
    epoch.commit({"m": mail(1), "d": mail(1)})
    assert held(workspace) == {}
    epoch.commit({"m": mail(1)})
    assert held(workspace) == {"dev/2004-01": [mail(1)]}


def test_a_removal_reaches_older_epochs(workspace: Workspace, epoch: Epoch):
    epoch.add(1)
    epoch.add(2)
    tenth = Epoch(epoch.folder.with_name("10.git"))
    second = Epoch(epoch.folder.with_name("2.git"))
    second.add(3)
    second.remove(1)
    tenth.add(1)
    tenth.remove(2)
    assert held(workspace) == {"dev/2004-01": [mail(3), mail(1)]}


def test_a_new_commit_changes_its_unit_alone(workspace: Workspace, epoch: Epoch):
    def fingerprints() -> dict[str, str]:
        return {u.partition: u.fingerprint for u in make_sources(workspace.settings).discover()}

    epoch.add(1)
    epoch.add(2, FEBRUARY)
    before = fingerprints()
    assert fingerprints() == before
    epoch.add(3, FEBRUARY)
    grown = fingerprints()
    assert {p for p in grown if grown[p] != before[p]} == {"dev/2004-02"}
    epoch.remove(1)
    assert set(fingerprints()) == {"dev/2004-02"}


def test_a_build_follows_the_repository(workspace: Workspace, epoch: Epoch):
    epoch.add(1)
    epoch.add(2, FEBRUARY)
    epoch.add(3, FEBRUARY)
    epoch.remove(1)
    workspace.build()
    assert ids(workspace) == ["m2@example.org", "m3@example.org"]
    assert workspace.plan().is_empty


def ids(work: Workspace) -> list[str]:
    return work.column("SELECT message_id FROM messages ORDER BY 1")


def test_one_bare_repository_without_epochs(workspace: Workspace):
    configure(workspace, path="mail/one.git", list_id="list", grain="archive")
    Epoch(workspace.folder / "mail" / "one.git").add(1)
    assert held(workspace) == {"dev/0": [mail(1)]}


def test_an_empty_repository_has_no_units(workspace: Workspace, epoch: Epoch):
    assert held(workspace) == {}


def test_other_names_and_kinds_of_entries_are_passed_over(workspace: Workspace, epoch: Epoch):
    epoch.commit({"m": mail(1), "..%2fetc": b"x", "mm": b"y"})
    blob = epoch.git("hash-object", "-w", "--stdin", given=b"/etc/passwd")
    tree = epoch.git("mktree", given=f"120000 blob {blob}\tm\n".encode())
    commit = epoch.git("commit-tree", tree, "-p", "refs/heads/master", "-m", "a link")
    epoch.git("update-ref", "refs/heads/master", commit)
    assert held(workspace) == {"dev/2004-01": [mail(1)]}


def test_a_mail_that_is_too_large_goes_to_quarantine(workspace: Workspace, epoch: Epoch):
    configure(workspace)
    epoch.commit({"m": b"Subject: x\n\n" + b"x" * 3_000_000})
    epoch.add(2)
    mails = inbox_mails(workspace.folder / "mail" / "inbox", "inbox")
    large, small = blobs(mails, 1_000_000)
    assert large.fault and large.fault.startswith("too_large: 3000012 bytes")
    assert small.data == mail(2)


def test_a_repository_whose_configuration_runs_programs_runs_none(
    workspace: Workspace, epoch: Epoch, tmp_path: Path
):
    epoch.add(1)
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    for name in ("core.pager", "core.fsmonitor", "diff.external", "gpg.program", "core.sshCommand"):
        epoch.git("config", name, str(program))
    epoch.git("config", "log.showSignature", "true")
    assert held(workspace) == {"dev/2004-01": [mail(1)]}
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("damage", ["blob", "commit", "no repository", "no folder"])
def test_a_broken_repository_is_named(workspace: Workspace, epoch: Epoch, damage: str):
    commit = epoch.add(1)
    blob = epoch.git("rev-parse", f"{commit}:m")
    if damage == "no folder":
        configure(workspace, path="mail/elsewhere")
    elif damage == "no repository":
        (workspace.folder / "mail" / "plain").mkdir()
        configure(workspace, path="mail/plain")
    else:
        name = blob if damage == "blob" else commit
        path = epoch.folder / "objects" / name[:2] / name[2:]
        path.chmod(0o644)
        path.write_bytes(b"damaged")
    with pytest.raises(SourceError, match=r"mail/(inbox/git/0\.git|elsewhere|plain)"):
        held(workspace)


def test_git_that_is_missing_is_named(workspace: Workspace, epoch: Epoch, monkeypatch: pytest.MonkeyPatch):
    epoch.add(1)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SourceError, match="install git"):
        held(workspace)
