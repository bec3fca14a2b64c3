"""public-inbox repositories as a source: real repositories made with git, as public-inbox would."""

import shutil
import subprocess
import tracemalloc
import zlib
from pathlib import Path

import pytest

from dagster_project.composition.objects import make_sources
from dagster_project.sources.git_history import GitFailedError, git
from dagster_project.sources.public_inbox import blobs, inbox_mails
from tests.archives import Workspace
from tests.broken_files import FEBRUARY, Epoch, mail, noisy_git
from tests.cases import some
from transforms.errors import SourceError
from transforms.mail.messages import RawMail


@pytest.fixture
def epoch(workspace: Workspace) -> Epoch:
    configure(workspace)
    return Epoch(workspace.folder / "mail" / "inbox" / "git" / "0.git")


def configure(work: Workspace, **given: str) -> Workspace:
    return work.configure({"name": "dev", "kind": "public_inbox", "path": "mail/inbox", **given})


def held(work: Workspace) -> dict[str, list[bytes]]:
    sources = make_sources(work.settings)
    return {u.key: [m.data for m in sources.mails(u)] for u in sources.discover()}


def test_every_commit_is_a_mail_in_the_partition_of_its_month(workspace: Workspace, epoch: Epoch):
    first = epoch.add(1)
    epoch.add(2, FEBRUARY)
    epoch.add(3)
    assert held(workspace) == {"dev/2004-01": [mail(1), mail(3)], "dev/2004-02": [mail(2)]}
    sources = make_sources(workspace.settings)
    partition = sources.partition("dev/2004-01")
    assert next(iter(sources.mails(partition))) == RawMail(f"inbox/0.git:{first}", mail(1))
    assert partition.list_id == "dev"


@pytest.mark.exhaustive
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
    assert {partition: len(mails) for partition, mails in held(workspace).items()} == expected


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        pytest.param([], [], id="empty"),
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


def test_a_new_commit_changes_its_partition_alone(workspace: Workspace, epoch: Epoch):
    def fingerprints() -> dict[str, str]:
        return {u.key: u.fingerprint for u in make_sources(workspace.settings).discover()}

    epoch.add(1)
    epoch.add(2, FEBRUARY)
    before = fingerprints()
    assert fingerprints() == before
    epoch.add(3, FEBRUARY)
    grown = fingerprints()
    assert {p for p in grown if grown[p] != before[p]} == {"dev/2004-02"}
    epoch.remove(1)
    assert set(fingerprints()) == {"dev/2004-02"}


@pytest.mark.exhaustive
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


def read(work: Workspace) -> tuple[set[bytes], dict[str, str]]:
    """The mails, and by place the code of the reason of what cannot be read."""
    sources = make_sources(work.settings)
    mails = [m for u in sources.discover() for m in sources.mails(u)]
    return (
        {m.data for m in mails if not m.fault},
        {m.place: m.fault.partition(":")[0] for m in mails if m.fault},
    )


@pytest.fixture
def five(epoch: Epoch) -> Epoch:
    """A repository with five mails, one a month after the others."""
    for number in range(1, 5):
        epoch.add(number)
    epoch.add(5, FEBRUARY)
    return epoch


def emptied(path: Path, data: bytes | None) -> None:
    """Give an object other bytes, or none."""
    path.chmod(0o644)
    path.write_bytes(data) if data is not None else path.unlink()


LOSSES = {
    "missing": None,
    "empty": b"",
    "damaged": b"damaged",
    "sound, and another": zlib.compress(b"blob 5\0other"),
    "of another length": zlib.compress(b"blob 9999\0x"),
}
"""What an object of a repository may hold instead of its bytes."""


@pytest.mark.parametrize(
    ("what", "lost", "reason"),
    [
        ("master~2:m", {3}, "object"),
        ("master~2^{tree}", {3}, "object"),
        ("master~2", {1, 2, 3}, "history"),
        ("master~4", {1}, "history"),
        ("master^{tree}", {5}, "object"),
    ],
    ids=["blob", "tree", "commit", "first commit", "last tree"],
)
@pytest.mark.parametrize("name", some(LOSSES))
def test_what_git_lost_is_quarantined_and_all_else_is_read(
    workspace: Workspace, five: Epoch, what: str, lost: set[int], reason: str, name: str
):
    commit = five.git("rev-parse", what.partition(":")[0].partition("^")[0])
    emptied(five.loose(what), LOSSES[name])
    mails, faults = read(workspace)
    assert mails == {mail(n) for n in range(1, 6)} - {mail(n) for n in lost}
    ((place, why),) = faults.items()
    assert place == f"inbox/0.git:{commit}"
    assert why in (f"missing_{reason}", f"damaged_{reason}")


def test_a_damaged_pack_costs_what_is_damaged(workspace: Workspace, five: Epoch):
    five.git("repack", "-adq", "--depth=0")
    (pack,) = (five.folder / "objects" / "pack").glob("*.pack")
    data = bytearray(pack.read_bytes())
    at = next(i for i in range(len(data) - 40, 0, -1) if data[i : i + 2] == b"x\x9c")
    data[at + 4 : at + 20] = bytes(16)
    emptied(pack, bytes(data))
    mails, faults = read(workspace)
    assert len(mails) + len(faults) >= 4
    assert faults
    assert mails <= {mail(n) for n in range(1, 6)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("damage", ["missing", "damaged late"])
def test_a_mail_that_is_there_again_is_read_again(workspace: Workspace, epoch: Epoch, damage: str):
    """What is missing when it is looked for, and what turns out to be damaged only when it is read."""
    large = b"".join(mail(n) for n in range(9, 60))
    epoch.add(1)
    epoch.commit({"m": large})
    path = epoch.loose("master:m")
    sound = path.read_bytes()
    emptied(path, None if damage == "missing" else sound[: len(sound) - 20])
    workspace.build()
    quarantined = "SELECT split_part(reason, ':', 1) FROM quarantine"
    assert workspace.column(quarantined) == [f"{damage.split()[0]}_object"]
    if damage == "missing":
        assert workspace.plan().is_empty
    path.unlink(missing_ok=True)
    path.write_bytes(sound)
    workspace.build()
    assert workspace.column(quarantined) == []
    assert ids(workspace) == ["m1@example.org", "m9@example.org"]


def test_a_shallow_clone_says_where_it_begins(workspace: Workspace, five: Epoch):
    origin = five.folder.rename(workspace.folder / "origin.git")
    url = f"file://{origin}"
    subprocess.run(
        ["git", "clone", "--quiet", "--mirror", "--depth=2", url, str(five.folder)], check=True
    )
    mails, faults = read(workspace)
    assert mails == {mail(4), mail(5)}
    assert list(faults.values()) == ["missing_history"]


@pytest.mark.parametrize("filter_", ["blob:none", "tree:0"])
def test_a_partial_clone_is_named_and_nothing_is_fetched(
    workspace: Workspace, five: Epoch, filter_: str
):
    origin = five.folder.rename(workspace.folder / "origin.git")
    Epoch.git(five, "--git-dir", str(origin), "config", "uploadpack.allowFilter", "true")
    Epoch.git(five, "--git-dir", str(origin), "config", "uploadpack.allowAnySHA1InWant", "true")
    url = f"file://{origin}"
    clone = ["git", "clone", "--quiet", "--mirror", f"--filter={filter_}", url, str(five.folder)]
    subprocess.run(clone, check=True)
    before = sorted(p.name for p in five.folder.rglob("*"))
    with pytest.raises(SourceError, match=r"0\.git .*(partial clone|tree .* is missing)"):
        read(workspace)
    assert sorted(p.name for p in five.folder.rglob("*")) == before
    Epoch.git(five, "fetch", "--quiet", url, five_blob(origin))
    mails, faults = (
        read(workspace) if filter_ == "blob:none" else ({mail(5)}, {"": "missing_object"})
    )
    assert mails == {mail(5)}
    assert set(faults.values()) == {"missing_object"}


def five_blob(origin: Path) -> str:
    asked = ["git", "--git-dir", str(origin), "rev-parse", "master:m"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(
    "head", ["ref: refs/heads/nowhere\n", "detached", "ref: refs/heads/master\n"]
)
def test_a_head_to_nowhere_and_a_dangling_branch_lose_nothing(
    workspace: Workspace, five: Epoch, head: str
):
    if head.startswith("ref: refs/heads/master"):
        (five.folder / "refs/heads/dangling").write_text("1234567890" * 4 + "\n")
    detached = five.git("rev-parse", "master~2") + "\n"
    (five.folder / "HEAD").write_text(detached if head == "detached" else head)
    assert read(workspace) == ({mail(n) for n in range(1, 6)}, {})


@pytest.mark.parametrize(
    "damage",
    [
        "only blob",
        "newest commit",
        "all trees",
        "no branch",
        "damaged branch",
        "no objects",
        "no repository",
        "no folder",
    ],
)
def test_a_repository_that_gives_nothing_is_named(workspace: Workspace, epoch: Epoch, damage: str):
    epoch.add(1)
    if damage == "no folder":
        configure(workspace, path="mail/elsewhere")
    elif damage == "no repository":
        (workspace.folder / "mail" / "plain").mkdir()
        configure(workspace, path="mail/plain")
    elif damage == "no branch":
        (epoch.folder / "refs/heads/master").unlink()
    elif damage == "damaged branch":
        epoch.git("update-ref", "refs/heads/other", "master")
        (epoch.folder / "refs/heads/master").write_text("damaged")
    elif damage == "no objects":
        shutil.rmtree(epoch.folder / "objects")
        (epoch.folder / "objects").mkdir()
    else:
        what = {"only blob": "master:m", "newest commit": "master", "all trees": "master^{tree}"}[
            damage
        ]
        emptied(epoch.loose(what), None)
    with pytest.raises(SourceError, match=r"mail/(inbox/git/0\.git|elsewhere|plain)"):
        held(workspace)


def test_git_that_is_missing_is_named(
    workspace: Workspace, epoch: Epoch, monkeypatch: pytest.MonkeyPatch
):
    epoch.add(1)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SourceError, match="install git"):
        held(workspace)


@pytest.mark.exhaustive
@pytest.mark.parametrize("code", [0, 128])
def test_of_what_git_says_without_end_little_is_kept(
    epoch: Epoch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
):
    noisy_git(tmp_path / "bin", monkeypatch, code)
    tracemalloc.start()
    try:
        if code:
            with pytest.raises(GitFailedError, match="git rev-list says: warning: xxx"):
                git(epoch.folder, "rev-list", stdin=bytes(1 << 20))
        else:
            assert git(epoch.folder, "rev-list", stdin=bytes(1 << 20)) == b"printed"
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
