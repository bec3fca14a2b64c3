"""Every mail that was read is given back from its source by its place, and nothing else is."""

import gzip
import lzma
from pathlib import Path

import pytest

from dagster_project.composition.objects import make_sources
from dagster_project.sources.raw_mail import source_mail
from tests.archives import Mail, Workspace, mbox
from tests.broken_files import FEBRUARY, Epoch
from transforms.errors import SourceError
from transforms.mail.messages import read_mail

BODIES = (
    "One.\n",
    "Two.\n\n>From here it is quoted.\n",
    "Ünlike the others.\n" * 3_000,
    "From the start.\n",
)
MAILS = [Mail(number, body) for number, body in enumerate(BODIES)]


def raw_mails(work: Workspace) -> dict[str, dict[str, object]]:
    """The mails of all sources, each with the columns by which it is read again; every one is read
    again.
    """
    sources, rows = make_sources(work.settings), {}
    for partition in sources.discover():
        mails = {mail.place: mail.data for mail in sources.mails(partition)}
        tables = read_mail(
            sources.mails(partition),
            source=partition.source,
            partition=partition.key,
            list_id=partition.list_id,
            settings=work.settings.mail,
        )
        for row in tables.messages.select(
            ["source", "place", "message_id", "raw_bytes"]
        ).to_pylist():
            assert source_mail(work.settings, **row) == mails[row["place"]]
            # A partition stores a mail once for each of its folders, under an id of its own.
            rows[row["message_id"].partition("+")[0]] = row
    return rows


@pytest.mark.parametrize("dialect", ["mboxrd", "mboxo"])
@pytest.mark.parametrize("path", ["mail", "mail/*.mbox*", "mail/one.mbox.gz", "mail/**/*.xz"])
def test_of_archives(workspace: Workspace, path: str, dialect: str):
    workspace.put("mail/below/x", "")
    workspace.write("plain.mbox", MAILS)
    (workspace.folder / "mail" / "one.mbox.gz").write_bytes(gzip.compress(mbox(MAILS)))
    (workspace.folder / "mail" / "below" / "two.mbox.xz").write_bytes(lzma.compress(mbox(MAILS)))
    workspace.configure({"name": "dev", "kind": "mbox", "path": path, "dialect": dialect})
    assert len(raw_mails(workspace)) == len(BODIES)


@pytest.mark.parametrize("kind", ["maildir", "eml"])
def test_of_single_files(workspace: Workspace, kind: str):
    folder = workspace.folder / "mail" / "box"
    for number, mail in enumerate(MAILS):
        place = folder / ("new" if number % 2 else ".Work/cur") / f"{number}.host"
        file = place if kind == "maildir" else place.with_suffix(".eml" if number else ".emlx")
        file.parent.mkdir(parents=True, exist_ok=True)
        data = mbox([mail]).partition(b"\n")[2]
        file.write_bytes(data if file.suffix != ".emlx" else b"%d\n%b<plist/>" % (len(data), data))
    workspace.configure({"name": "mine", "kind": kind, "path": "mail/box"})
    rows = raw_mails(workspace)
    assert len(rows) == len(BODIES)
    if kind == "maildir":
        (folder / "cur").mkdir()
        (folder / "new" / "1.host").rename(folder / "cur" / "1.host:2,S")
        assert b"Two." in source_mail(workspace.settings, **rows["m1@example.org"])


def test_of_a_public_inbox(workspace: Workspace):
    epoch = Epoch(workspace.folder / "mail" / "inbox" / "git" / "0.git")
    epoch.add(1)
    epoch.add(2, FEBRUARY)
    Epoch(epoch.folder.with_name("1.git")).add(3, FEBRUARY)
    workspace.configure({"name": "dev", "kind": "public_inbox", "path": "mail/inbox"})
    rows = raw_mails(workspace)
    assert len(rows) == 3
    with pytest.raises(SourceError, match="no longer at"):
        source_mail(
            workspace.settings, **next(iter(rows.values())) | {"place": "inbox/0.git:" + "0" * 40}
        )


def test_a_mail_that_is_not_there_any_more_is_said(workspace: Workspace):
    file = workspace.write("dev.mbox", MAILS)
    workspace.configure({"name": "dev", "kind": "mbox", "path": "mail/dev.mbox"})
    row = raw_mails(workspace)["m1@example.org"]
    for wrong in (
        {"source": "other"},
        {"place": "../dev.mbox:0"},
        {"place": "none.mbox:0"},
        {"place": "dev.mbox:x"},
    ):
        with pytest.raises(SourceError):
            source_mail(workspace.settings, **row | wrong)
    file.write_bytes(mbox(MAILS[1:]))
    with pytest.raises(SourceError, match=r"no longer at dev\.mbox:\d+"):
        source_mail(workspace.settings, **row)
    Path(file).unlink()
    with pytest.raises(SourceError):
        source_mail(workspace.settings, **row)
