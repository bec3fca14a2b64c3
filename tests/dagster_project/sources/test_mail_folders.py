"""Small folders of mail share partitions: few for few mails, the same in any order, and a mail in
two folders stays in both.
"""

import random
from contextlib import closing
from pathlib import Path

import pytest

from dagster_project.index.search.filters import Filters
from dagster_project.index.search.opened_index import open_index
from dagster_project.sources.mail_places import FolderFile, shared_partitions
from tests.archives import Mail, Workspace, differences, rebuilt
from transforms.settings.search import LensSettings

OLD = [FolderFile("Inbox", "2019-03", 600), FolderFile("Sent", "2019-04", 300)]
YOUNG = [FolderFile("Inbox", "2024-05", 90), FolderFile("Sent", "2024-06", 80)]
LISTS = "SELECT list_id FROM memberships WHERE message_id = '{}' ORDER BY ALL"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([OLD[0], YOUNG[0]], ["all"] * 2, id="few mails are one partition"),
        pytest.param(
            [*OLD, *YOUNG],
            ["earlier", "earlier", "2024", "2024"],
            id="new mail leaves the others alone",
        ),
        pytest.param(
            [FolderFile("Inbox", "2019-03", 700), FolderFile("Inbox", "2019-04", 300), YOUNG[0]],
            ["Inbox.2019", "Inbox.2019", "2024"],
            id="a year of many mails has its own",
        ),
        pytest.param(
            [FolderFile("", "2024-03", 700), FolderFile("", "2024-04", 300), YOUNG[1]],
            ["2024-03", "2024-04", "2024"],
            id="the youngest by month",
        ),
        pytest.param(
            [FolderFile("Inbox", None, 2_000), FolderFile("Old/Work", None, 3), OLD[0]],
            ["Inbox.undated", "earlier", "2019"],
            id="mails without a date are old",
        ),
        pytest.param(
            [FolderFile("Inbox", None, 2_000), FolderFile("Old/Work", None, 3)],
            ["Inbox", "folders"],
            id="files of folders have no month",
        ),
    ],
)
def test_partitions_are_few_for_few_mails(files: list[FolderFile], expected: list[str]):
    assert shared_partitions(files) == expected


def test_small_folders_are_dealt_alike_in_any_order():
    files = [
        FolderFile(f"Folder{n % 68}", f"20{10 + n % 15}-0{1 + n % 9}", 1) for n in range(1_702)
    ]
    partitions = dict(zip(files, shared_partitions(files), strict=True))
    assert {*partitions.values()} == {"2024", "earlier-000-of-2", "earlier-001-of-2"}
    mixed = random.Random(1).sample(files, len(files))
    assert dict(zip(mixed, shared_partitions(mixed), strict=True)) == partitions


@pytest.fixture
def folders(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Folders of a Maildir, built; the first mail is in three of them, in one with other words."""
    monkeypatch.setattr("dagster_project.sources.mail_places._MAILS_OF_PART", 20)
    workspace.configure({"name": "dev", "kind": "maildir", "path": "mail"})
    for number in range(1, 6):
        put(workspace, f".Work{number}/cur/{number}", number)
    put(workspace, ".Keep/cur/1", 1)
    put(workspace, ".Sent/cur/1", 1, "Another one runs.")
    workspace.build()
    return workspace


def put(workspace: Workspace, place: str, number: int, body: str = "") -> None:
    """Write a mail of its own words into a folder."""
    mail = Mail(number, body or f"The fox number {number} jumps.", f"Foxes {number}")
    workspace.write(place, mail.text().encode())


def test_a_mail_in_two_folders_of_a_partition_is_in_both(folders: Workspace):
    assert folders.column("SELECT DISTINCT partition FROM messages") == ["dev/all"]
    assert folders.column("SELECT count(*) FROM messages") == [6]
    assert folders.column("FROM quarantine") == []
    assert folders.column("SELECT DISTINCT defects FROM messages") == [[], ["message_id_reused"]]
    ids = folders.column("SELECT message_id FROM messages WHERE subject = 'Foxes 1' ORDER BY ALL")
    assert [folders.column(LISTS.format(ident)) for ident in ids] in (
        [["dev/Keep", "dev/Work1"], ["dev/Sent"]],
        [["dev/Sent"], ["dev/Keep", "dev/Work1"]],
    )
    assert folders.column("SELECT count(*) FROM memberships WHERE is_canonical") == [6]
    hits = folders.weft("search", "--json", "fox number 1 jumps", "--list", "dev/Work1")
    assert hits.exit_code == 0 and '"list_id": "dev/Work1"' in hits.stdout


def test_a_lens_on_one_folder_shows_no_other_of_its_partition(folders: Workspace):
    settings = folders.settings.model_copy(
        update={"lenses": {"work": LensSettings(where="l:dev/Work1")}}
    )
    with closing(open_index(settings, lens="work")) as index:
        ask = index.connection.execute
        assert ask("SELECT message_id, list_id FROM memberships").fetchall() == [
            ("m1@example.org", "dev/Work1")
        ]
        assert ask("SELECT subject, partition FROM messages").fetchall() == [("Foxes 1", "dev/all")]
        hits = index.search(["fox number 1 jumps"], Filters(), 5).hits
    assert hits.column("doc_id").to_pylist() == ["m1@example.org"]


def test_growth_over_the_size_of_a_partition_and_back_equals_a_full_rebuild(
    folders: Workspace, tmp_path: Path
):
    assert not folders.plan().stale
    put(folders, ".Work2/cur/7", 7)
    assert list(folders.build().plan.stale) == ["dev/all"]
    for number in range(8, 30):
        put(folders, f".Work{number}/cur/{number}", number)
    result = folders.build()
    assert result.plan.vanished == ("dev/all",)
    assert list(result.plan.stale) == ["dev/2004-000-of-2", "dev/2004-001-of-2"]
    assert differences(folders.index, rebuilt(folders, tmp_path / "grown").index) == {}
    for place in folders.folder.glob("mail/.Work*/cur/*"):
        if int(place.name) > 5:
            place.unlink()
    folders.build()
    assert folders.column("SELECT DISTINCT partition FROM messages") == ["dev/all"]
    assert differences(folders.index, rebuilt(folders, tmp_path / "shrunk").index) == {}
