"""The configured sources: which partitions their files make, and what is remembered of them."""

import bz2
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dagster_project.composition.objects import make_ledger, make_sources
from dagster_project.sources.reading_files import TooLargeError, bounded
from tests.archives import Mail, Workspace, mbox
from tests.broken_files import PACKERS, UNREADABLE
from transforms.errors import SourceError
from transforms.mail.messages import RawMail


def partitions(work: Workspace) -> dict[str, str | None]:
    return {u.key: u.list_id for u in make_sources(work.settings).discover()}


def mails(work: Workspace, partition: str = "dev/2004-01") -> list[RawMail]:
    sources = make_sources(work.settings)
    return [*sources.mails(sources.partition(partition))]


def source(**given: str) -> dict[str, str]:
    return {"name": "dev", "kind": "mbox", "path": "mail/*", **given}


def test_a_file_of_exactly_as_many_bytes_as_may_be_read_is_read(tmp_path: Path):
    (file := tmp_path / "file").write_bytes(b"ten bytes.")
    assert bounded(file, 10, "the cap") == b"ten bytes."
    with pytest.raises(TooLargeError, match="10 bytes, the cap is 9"):
        bounded(file, 9, "the cap")


@pytest.mark.parametrize(
    ("name", "grain", "partition", "list_id"),
    [
        ("lkml.2004-01.mbox", "month", "dev/lkml.2004-01", "lkml"),
        ("lkml-200401.mbox.gz", "month", "dev/lkml.2004-01", "lkml"),
        ("lkml_2004_01", "month", "dev/lkml.2004-01", "lkml"),
        ("2004-01.mbox", "month", "dev/2004-01", "dev"),
        ("dev.2004-01.mbox", "month", "dev/2004-01", "dev"),
        ("developers.2004-01.mbox", "month", "dev/developers.2004-01", "developers"),
        ("lkml.2004-01.mbox", "year", "dev/lkml.2004", "lkml"),
        ("lkml.2004-01.mbox", "auto", "dev/lkml.2004-01", "lkml"),
        ("lkml.2004-01.mbox", "archive", "dev/lkml.2004-01", "lkml"),
        ("everything.mbox", "month", "dev/everything", "dev"),
        ("lkml.2004-13.mbox", "month", "dev/lkml.2004-13", "dev"),
        ("lkml.20040115.mbox", "month", "dev/lkml.20040115", "dev"),
        ("caf\u00e9 [old] 100%.mbox", "month", "dev/caf%c3%a9%20%5bold%5d%20100%25", "dev"),
        ("a..b.mbox", "month", "dev/a.%2eb", "dev"),
        ("'; DROP.mbox", "month", "dev/%27%3b%20DROP", "dev"),
    ],
)
def test_the_name_of_an_archive_gives_its_partition_and_its_list(
    workspace: Workspace, name: str, grain: str, partition: str, list_id: str
):
    workspace.configure(source(grain=grain)).write(name, [Mail(1)])
    assert partitions(workspace) == {partition: list_id}


def test_a_file_name_that_is_no_utf8_makes_a_partition(workspace: Workspace):
    path = os.fsencode(workspace.folder / "mail") + b"/caf\xe9.mbox"
    Path(os.fsdecode(path)).write_bytes(mbox([Mail(1)]))
    assert partitions(workspace) == {"dev/caf%5cxe9": "dev"}
    assert mails(workspace, "dev/caf%5cxe9")[0].place.startswith("caf\\xe9.mbox")


@pytest.mark.parametrize(
    ("given", "names", "expected"),
    [
        (
            {"list_id": "linux-kernel"},
            "lkml.2004-01.mbox other.mbox",
            {"2004-01": "linux-kernel", "other": "linux-kernel"},
        ),
        (
            {},
            "lkml.2004-01.mbox lkml-2004-01.mbox.1.mbox lkml_200401.mbox",
            {"lkml-2004-01.mbox.1": "dev", "lkml.2004-01": "lkml"},
        ),
        (
            {"grain": "archive"},
            "dev.2004-01.mbox dev-2004-01.mbox 2004-02.mbox dev-2004-03.mbox",
            {"dev.2004-01": "dev", "dev-2004-01": "dev", "2004-02": "dev", "2004-03": "dev"},
        ),
        ({"path": "mail/*/archive.mbox"}, "a/archive.mbox b/archive.mbox", {"archive": "dev"}),
        ({"path": "{folder}/mail/*.mbox"}, "dev.2004-01.mbox", {"2004-01": "dev"}),
    ],
)
def test_archives_share_a_partition_by_list_and_month(
    workspace: Workspace, given: dict[str, str], names: str, expected: dict[str, str]
):
    workspace.configure(
        source(**{key: v.format(folder=workspace.folder) for key, v in given.items()})
    )
    for number, name in enumerate(names.split()):
        workspace.write(name, [Mail(number)])
    assert partitions(workspace) == {f"dev/{name}": list_id for name, list_id in expected.items()}
    assert len({mail.place for p in partitions(workspace) for mail in mails(workspace, p)}) == len(
        names.split()
    )


def test_partitions_of_two_lists_never_share_a_name(workspace: Workspace):
    workspace.configure(source(grain="year"))
    workspace.write("lkml.2004.mbox", [Mail(1)])
    workspace.write("lkml.2004-05.mbox", [Mail(2)])
    found = partitions(workspace)
    assert sorted(filter(None, found.values())) == ["dev", "lkml"]
    assert sum(len(mails(workspace, p)) for p in found) == 2


def test_signs_of_a_pattern_in_a_folder_name_are_taken_as_they_are(tmp_path: Path):
    work = Workspace(tmp_path / "my [old] mail?").configure()
    work.write("dev.2004-01.mbox", [Mail(1)])
    assert partitions(work) == {"dev/2004-01": "dev"}


def test_with_grain_auto_years_before_the_youngest_are_one_partition_each(workspace: Workspace):
    workspace.configure(source(grain="auto", path=f"{workspace.folder}/mail/*.mbox"))
    for number, name in enumerate(
        ("a.2002-03", "a.2003-02", "a.2003-12", "b.2003-12", "a.2004-01", "rest")
    ):
        workspace.write(f"{name}.mbox", [Mail(number)])
    before = ["dev/a.2002", "dev/a.2003", "dev/b.2003"]
    assert sorted(partitions(workspace)) == sorted([*before, "dev/a.2004-01", "dev/rest"])
    workspace.write("a.2005-01.mbox", [Mail(9)])
    assert sorted(partitions(workspace)) == sorted(
        [*before, "dev/a.2004", "dev/a.2005-01", "dev/rest"]
    )


@pytest.mark.parametrize(
    ("grain", "expected"),
    [
        ("month", ["dev/2004-01", "dev/2004-02", "dev/undated"]),
        ("year", ["dev/2004", "dev/undated"]),
        ("auto", ["dev/all"]),
        ("archive", ["dev/all"]),
    ],
)
@pytest.mark.parametrize(("kind", "path"), [("maildir", "box"), ("eml", "box")])
def test_single_mails_are_put_together_by_their_date(
    workspace: Workspace, kind: str, path: str, grain: str, expected: list[str]
):
    workspace.configure(source(kind=kind, path=f"mail/{path}", grain=grain))
    for folder in ("cur", "new", "tmp"):
        (workspace.folder / "mail" / "box" / folder).mkdir(parents=True)
    ending = ".eml" if kind == "eml" else ""
    for number, folder in ((1, "cur"), (24 * 30, "new")):
        workspace.write(f"box/{folder}/{number}{ending}", Mail(number).text().encode())
    workspace.write(f"box/cur/undated{ending}", b"From: a@example.org\nSubject: x\n\nbody\n")
    workspace.write("box/cur/.hidden.eml", b"")
    assert list(partitions(workspace)) == expected


def test_any_changed_byte_changes_the_fingerprint_of_its_partition_alone(workspace: Workspace):
    workspace.write("dev.2004-01.mbox", [Mail(1)])
    path = workspace.write("dev.2004-02.mbox", [Mail(2)])
    before = {u.key: u.fingerprint for u in make_sources(workspace.settings).discover()}
    path.write_bytes(path.read_bytes().replace(b"quick", b"quack"))
    after = {u.key: u.fingerprint for u in make_sources(workspace.settings).discover()}
    assert {p for p in before if before[p] != after[p]} == {"dev/2004-02"}


def test_renaming_a_file_and_another_dialect_change_the_fingerprint(workspace: Workspace):
    def fingerprint() -> str:
        (partition,) = make_sources(workspace.settings).discover()
        return partition.fingerprint

    path = workspace.write("dev.2004-01.mbox", [Mail(1)])
    seen = {fingerprint()}
    path.rename(path.with_name("dev-2004-01.mbox"))
    seen.add(fingerprint())
    workspace.configure(source(dialect="mboxo"))
    seen.add(fingerprint())
    workspace.configure(source(list_id="other"))
    assert len(seen | {fingerprint()}) == 4


def test_a_file_that_did_not_change_is_not_read_again(workspace: Workspace):
    workspace.write("dev.2004-01.mbox", [Mail(1)])
    (read,) = make_sources(workspace.settings).discover()
    ledger = make_ledger(workspace.settings)
    ((key, (state, _, month)),) = ledger.rows("files").items()
    assert b"dev" not in ledger.file.read_bytes()
    ledger.record("files", {key: (state, "recorded", month)})
    (partition,) = make_sources(workspace.settings).discover()
    assert partition.fingerprint != read.fingerprint


def test_a_partition_whose_files_are_gone_is_named(workspace: Workspace):
    workspace.write("dev.2004-01.mbox", [Mail(1)])
    with pytest.raises(SourceError, match="dev/2004-02"):
        make_sources(workspace.settings).partition("dev/2004-02")


def test_a_file_that_vanishes_while_it_is_read_goes_to_quarantine(workspace: Workspace):
    path = workspace.write("dev.2004-01.mbox", [Mail(1)])
    sources = make_sources(workspace.settings)
    partition = sources.partition("dev/2004-01")
    path.unlink()
    (mail,) = sources.mails(partition)
    assert mail.fault and mail.fault.startswith("unreadable")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_goes_to_quarantine(workspace: Workspace):
    workspace.write("dev.2004-01.mbox", [Mail(1)]).chmod(0)
    (mail,) = mails(workspace)
    assert mail.fault == "unreadable: no permission to read the file"


@pytest.mark.parametrize("put", UNREADABLE)
@pytest.mark.parametrize(
    ("given", "sound", "odd"),
    [
        ({}, "dev.2004-01.mbox", "dev.2004-02.mbox"),
        ({}, "dev.2004-01.mbox", "dev.2004-02.mbox.xz"),
        ({"kind": "eml", "path": "mail"}, "a/1.eml", "a/2.eml"),
        ({"kind": "maildir", "path": "mail"}, "cur/1", "cur/2"),
    ],
)
def test_whatever_lies_where_mail_does_all_else_is_read(
    workspace: Workspace, put: Callable[[Path], None], given: dict[str, str], sound: str, odd: str
):
    workspace.configure(source(**given))
    workspace.write(sound, [Mail(1)] if sound.endswith("mbox") else Mail(1).text().encode())
    put(workspace.folder / "mail" / odd)
    sources = make_sources(workspace.settings)
    read = [m for partition in sources.discover() for m in sources.mails(partition)]
    assert [m.data.strip() for m in read if not m.fault] == [Mail(1).text().encode().strip()]
    assert [m.place for m in read if m.fault] == [odd]
    size = sum(map(sources.bytes_of, sources.discover()))
    assert size >= (workspace.folder / "mail" / sound).stat().st_size


@pytest.mark.parametrize("ending", [".gz", ".xz", ".bz2"])
@pytest.mark.parametrize(
    ("damage", "read", "reason"),
    [
        (lambda one, two: one + two, 2, None),
        (lambda one, two: one + bytes(512), 1, None),
        (lambda one, two: one + bytes(512) + two, 2, None),
        (lambda one, two: one + b"garbage" * 9, 1, "broken_archive"),
        (lambda one, two: one + two[:1] + b"?" + two[2:], 1, "broken_archive"),
        (lambda one, two: one + two[:-3], 2, "truncated_archive"),
        (lambda one, two: b"garbage" * 9, 0, "broken_archive"),
    ],
    ids=[
        "two members",
        "padded",
        "padded between",
        "garbage behind",
        "broken member",
        "cut",
        "garbage",
    ],
)
def test_what_stands_before_the_break_of_an_archive_is_read_and_the_rest_is_named(
    workspace: Workspace,
    ending: str,
    damage: Callable[[bytes, bytes], bytes],
    read: int,
    reason: str | None,
):
    one, two = (PACKERS[ending](mbox([Mail(number)])) for number in (1, 2))
    workspace.write(f"dev.2004-01.mbox{ending}", damage(one, two))
    faults = [mail.fault for mail in mails(workspace)]
    assert faults.count(None) == read
    assert [fault.partition(":")[0] for fault in faults if fault] == ([reason] if reason else [])


def test_an_archive_of_xz_that_asks_for_gigabytes_is_named(workspace: Workspace):
    packed = lzma.compress(mbox([Mail(1)]), format=lzma.FORMAT_ALONE)
    workspace.write(
        "dev.2004-01.mbox.xz", packed[:1] + (1 << 30).to_bytes(4, "little") + packed[5:]
    )
    (mail,) = mails(workspace)
    assert mail.fault == "broken_archive: Memory usage limit exceeded"


@pytest.mark.exhaustive
def test_a_name_that_is_too_long_for_a_partition_is_cut(workspace: Workspace):
    workspace.write("\u00e9" * 120 + ".mbox", [Mail(1)])
    workspace.write("\u00e9" * 119 + "e.mbox", [Mail(2)])
    found = partitions(workspace)
    assert len(found) == 2 and max(map(len, found)) < 160
    workspace.build()
    assert workspace.column("SELECT count(*) FROM messages") == [2]


def lists(workspace: Workspace) -> dict[str, str | None]:
    """The list of each partition of a workspace, and how many mails it has."""
    found = make_sources(workspace.settings)
    return {u.key: f"{u.list_id}: {len(list(found.mails(u)))}" for u in found.discover()}


def test_folders_of_a_maildir_are_lists_and_loose_mails_are_read(workspace: Workspace):
    workspace.configure(source(kind="maildir", path="mail/box", grain="month"))
    workspace.write("box/Inbox/cur/0", Mail(1).text().encode())
    assert lists(workspace) == {"dev/Inbox.2004-01": "dev/Inbox: 1"}
    own = "cur/1:2,S .Sent/new/2 .Work.Doors/cur/3 Nested/Deep/cur/4 .Entw&APw-rfe/cur/5 loose Nested/6"
    for number, place in enumerate(own.split()):
        workspace.write(f"box/{place}", Mail(number).text().encode())
    workspace.write("box/dovecot-uidlist", b"3 V1 N2\n")
    workspace.write("box/.Sent/tmp/7", Mail(7).text().encode())
    assert lists(workspace) == {
        "dev/2004-01": "dev: 2",
        "dev/Inbox.2004-01": "dev/Inbox: 1",
        "dev/Entw%c3%bcrfe.2004-01": "dev/Entwürfe: 1",
        "dev/Nested%2fDeep.2004-01": "dev/Nested/Deep: 1",
        "dev/Nested.2004-01": "dev/Nested: 1",
        "dev/Sent.2004-01": "dev/Sent: 1",
        "dev/Work%2fDoors.2004-01": "dev/Work/Doors: 1",
    }


def test_folders_of_thunderbird_are_lists_and_deleted_mails_are_left_out(workspace: Workspace):
    workspace.configure(source(kind="mbox", path="mail/Local Folders", grain="month"))
    inbox = workspace.write("Local Folders/Inbox", [Mail(1), Mail(2)])
    inbox.write_bytes(
        inbox.read_bytes().replace(b"\nSubject:", b"\nX-Mozilla-Status: 0009\nSubject:", 1)
    )
    workspace.write("Local Folders/Inbox.sbd/Doors", [Mail(3)])
    workspace.write("Local Folders/Inbox.msf", b"// <!-- <mdb:mork:z v=1.4/> -->")
    of_folders = {"dev/Inbox": "dev/Inbox: 1", "dev/Inbox%2fDoors": "dev/Inbox/Doors: 1"}
    assert lists(workspace) == of_folders
    workspace.write("Local Folders/gauges.2004-01.mbox", [Mail(4)])  # a month of a list
    assert lists(workspace) == {**of_folders, "dev/gauges.2004-01": "gauges: 1"}


def test_mails_of_apple_mail_are_read_by_their_count(workspace: Workspace):
    workspace.configure(source(kind="eml", path="mail/V10"))
    mail = Mail(1).text().encode()
    plist = b'<?xml version="1.0" encoding="UTF-8"?>\n<plist version="1.0"><dict/></plist>\n'
    workspace.write(
        "V10/A1/INBOX.mbox/B2/Data/Messages/7.emlx", b"%d      \n" % len(mail) + mail + plist
    )
    found = make_sources(workspace.settings)
    (partition,) = found.discover()
    assert partition.key == "dev/all"
    assert [(raw.list_id, raw.data) for raw in found.mails(partition)] == [("dev/INBOX", mail)]


def test_a_wiki_is_read_page_by_page_and_a_broken_export_up_to_its_break(workspace: Workspace):
    workspace.configure({"name": "wiki", "kind": "wiki", "path": "mail"})
    export = (Path(__file__).parents[2] / "transforms/documents/files/werkstatt.xml").read_bytes()
    workspace.write("old/pages.xml.bz2", bz2.compress(export.replace(b"Werkstatt<", b"Hof<"))[:-9])
    workspace.write("new.xml", export[:-400])
    workspace.write("notes.md", b"# Notes")
    sources = make_sources(workspace.settings)
    (partition,) = sources.discover()
    files = {file.path: file for file in sources.files(partition)}
    door = files["Werkstatt/Drehtür.mediawiki"].converted
    assert door and (door.fields or {})["aliases"] == ["Karusselltür"] and "notes.md" in files
    faults = {path: str(file.fault).partition(":")[0] for path, file in files.items() if file.fault}
    assert faults["new.xml"] == "broken_xml" and faults["old/pages.xml.bz2"] == "truncated_archive"
