"""What is forgotten is in no byte of what Weft keeps, whatever ends the erasing; and it does not
come back.
"""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from upath import UPath

from dagster_project.cli import forget
from dagster_project.composition.objects import make_sources
from dagster_project.lake.forgotten import FILE, Forgotten
from dagster_project.orchestration.upkeep.forget import find
from tests.archives import Mail, Workspace, embedded, two_lists
from tests.broken_files import PACKERS
from tests.format_files import docx, paragraph
from tests.library import BIRDS, SECRET
from tests.processes import Command, weft
from transforms.errors import LakeDamageError, SourceError, UnknownIdError
from transforms.mail.messages import RawMail, id_and_author, read_mail
from transforms.settings.mail import MailSettings

CHAT = "Robert-of-the-harbour-office"
NOTE = "an heirloom astrolabe lies wrapped in oilcloth beneath the third cellar step"
SOURCES = (
    {"name": "dev", "kind": "mbox", "path": "mail/dev/*"},
    {"name": "users", "kind": "mbox", "path": "mail/users/*"},
    {"name": "notes", "kind": "tree", "path": "notes"},
    {"name": "chat", "kind": "conversation", "path": "chat/*"},
)


def texts(root: Path) -> Iterator[tuple[Path, bytes]]:
    """The bytes of every file of a storage, and of what is compressed the texts in it."""
    for file in (p for p in root.rglob("*") if p.is_file() and not p.is_symlink()):
        data = file.read_bytes()
        yield file, data
        if file.suffix == ".parquet":
            yield file, str(pq.read_table(file).to_pylist()).encode()
        elif file.suffix == ".duckdb":
            with duckdb.connect(str(file), read_only=True) as connection:
                for (table,) in connection.execute(
                    "SELECT table_name FROM duckdb_tables()"
                ).fetchall():
                    yield file, str(connection.execute(f'FROM "{table}"').fetchall()).encode()
        elif "documents" in file.parts:
            yield file, zlib.decompress(data)


def holding(work: Workspace, text: str) -> set[str]:
    """The files of a storage that hold a piece of 20 bytes of a text."""
    pieces = [text[i : i + 20].encode() for i in range(0, len(text) - 19, 7)]
    found = (
        (str(f.relative_to(work.settings.root)), data) for f, data in texts(work.settings.root)
    )
    return {name for name, data in found if any(piece in name.encode() + data for piece in pieces)}


def with_secrets(folder: Path) -> Workspace:
    """Two lists, notes and a chat, each with a secret; not built."""
    work = two_lists(folder)
    work.configure(*SOURCES, graph={"enabled": True}, lenses={"all": "source:dev OR source:notes"})
    work.write("dev/dev.2004-03.mbox", BIRDS)
    work.put("notes/place.md", f"# The place\n\n{NOTE}.\n")
    work.put("notes/other.md", "# Other\n\nNothing of interest stands in this file at all.\n")
    said = f"12/31/23, 10:00 - Ann: What of {SECRET}?\n12/31/23, 10:05 - Bob: Ask about {NOTE}.\n"
    work.put(f"chat/WhatsApp Chat with {CHAT}.txt", said)
    return work


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The same built, evaluated and asked for context; for reading only."""
    work = with_secrets(tmp_path_factory.mktemp("forget") / "work")
    work.build()
    query = '{id: a, query: cormorants, relevant: [{message: "m800@example.org"}]}'
    queries = work.put("queries.yaml", f"queries:\n- {query}\n")
    evaluated = weft(work.folder, "eval", "run", "--queries", queries, "--config", work.config)
    assert evaluated.code == 0, evaluated.err
    question = work.put("question.txt", f"Where are {SECRET}?")
    assert (
        weft(work.folder, "context", question, "--lens", "all", "--config", work.config).code == 0
    )
    return work


def test_the_list_of_what_was_forgotten_holds_no_name(tmp_path: Path):
    forgotten = Forgotten(UPath(tmp_path))
    forgotten.begin([("address", "Ada@Example.org"), ("mail", "m1@example.org")])
    again = Forgotten(UPath(tmp_path))
    assert again.unfinished
    assert again.has("address", "ada@example.ORG")
    assert not again.has("mail", "ada@example.org") and not again.has("mail", None)
    assert "example" not in (tmp_path / FILE).read_text()
    again.finish()
    assert not Forgotten(UPath(tmp_path)).unfinished
    altered = (tmp_path / FILE).read_text().replace("false", "true")
    for damaged in ("{}", altered):
        (tmp_path / FILE).write_text(damaged)
        with pytest.raises(LakeDamageError, match="restore it"):
            Forgotten(UPath(tmp_path))


@pytest.mark.parametrize(
    "head",
    [
        "From: Ada <Ada@example.org>\nMessage-ID: <m1@example.org>\n",
        "From ada Mon Jan  5 10:00:00 2004\nFrom: ada@example.org\nMessage-ID: <m1@example.org>\n",
        "From: ada@example.org\nSubject: without an id\n",
        "Message-ID: <m1@\n example.org>\nFrom: =?utf-8?q?Ada?= <ada@example.org>\n",
    ],
)
def test_what_is_compared_is_what_the_tables_have(head: str):
    mail = RawMail("place", f"{head}\nA body of some words.\n".encode())
    tables = read_mail([mail], source="dev", partition="p", list_id=None, settings=MailSettings())
    (row,) = tables.messages.to_pylist()
    assert id_and_author(mail) == (row["message_id"], row["from_addr"])


def test_names_stand_for_mails_people_notes_chats_and_sources(library: Workspace):
    mail = find(library.settings, ["<m800@example.org>"])
    assert (mail.mails, mail.partitions, mail.quoted_by) == (
        1,
        ("dev/2004-05",),
        ("m801@example.org",),
    )
    assert find(library.settings, ["ADA@example.org"]).mails > 3
    assert find(library.settings, ["notes:Compaction.md"]).documents == 1
    (chat,) = library.lake.partitions("conversations")
    ids = library.lake.read("conversations", chat).table
    for name in (ids["conversation_id"][0].as_py(), ids["doc_id"][0].as_py(), "chat"):
        assert find(library.settings, [name]).partitions == (chat,)
    with pytest.raises(UnknownIdError, match="no mail, author, document, chat or source"):
        find(library.settings, ["nobody@example.org"])


@pytest.mark.exhaustive
def test_nothing_is_forgotten_of_a_source_that_cannot_be_read(made: Workspace):
    (made.folder / "mail" / "dev").rename(made.folder / "away")
    with pytest.raises(SourceError, match="nothing is forgotten before"):
        find(made.settings, ["m800@example.org"])


def test_sources_give_forgotten_mails_and_notes_as_faults_alone(workspace: Workspace):
    made = with_secrets(workspace.folder)
    Forgotten(made.lake.base).begin([("mail", "m800@example.org"), ("document", "notes:place.md")])
    sources = make_sources(made.settings)
    parts = {p.key: p for p in sources.discover()}
    faults = [m.fault for m in sources.mails(parts["dev/2004-03"]) if not m.data]
    faults += [
        f.fault
        for p in parts.values()
        if p.source == "notes"
        for f in sources.files(p)
        if not f.data
    ]
    assert [f and f.partition(":")[0] for f in faults] == ["forgotten", "forgotten"]


def test_no_reading_of_a_forgotten_page_event_or_file_is_kept(workspace: Workspace):
    samples = Path(__file__).parents[3] / "transforms"
    calendar = (samples / "formats/files/team.ics").read_bytes()
    files = {
        "wiki/pages.xml": (samples / "documents/files/werkstatt.xml").read_bytes(),
        "notes/team.ics": calendar,
        "notes/plan.docx": docx(paragraph(SECRET)),
    }
    workspace.configure(
        *(
            {"name": name, "kind": kind, "path": name}
            for name, kind in (("wiki", "wiki"), ("notes", "tree"))
        )
    )
    for name, data in files.items():
        workspace.put(name, "").write_bytes(data)
    names = [
        "wiki:Werkstatt/Drehtür.mediawiki",
        "notes:team/weekly-7@example.org.ics",
        "notes:plan.docx",
    ]
    Forgotten(workspace.lake.base).begin([("document", name) for name in names])

    def forgotten() -> set[str]:
        sources = make_sources(workspace.settings)
        read = [(p, file) for p in sources.discover() for file in sources.files(p)]
        return {
            f"{p.source}:{f.path}" for p, f in read if f.fault and f.fault.startswith("forgotten: ")
        }

    assert forgotten() == set(names)
    texts = ("Hersteller: [[Angelwerk (Firma)|", "Gauges first, then repairs", SECRET)
    assert [holding(workspace, text) for text in texts] == [set()] * 3
    alone = calendar.partition(b"BEGIN:VEVENT\nDTSTART;VALUE=DATE")[0] + b"END:VCALENDAR\n"
    workspace.put("notes/team.ics", "").write_bytes(alone)
    assert forgotten() == {*names[::2], "notes:team.ics"}


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_fetched_archives_are_written_without_what_is_forgotten(tmp_path: Path, suffix: str):
    remote = {
        "kind": "http",
        "url": "http://127.0.0.1:1/{year}-{month:02}.mbox",
        "since": "2004-01",
    }
    source = {"name": "far", "kind": "mbox", "path": "*", "fetch": remote}
    work = Workspace(tmp_path / "work").configure(source)
    mails = [Mail(1, "The first."), Mail(2, f"{SECRET}."), Mail(3, "The last.")]
    archive = work.put(f"state/sources/far/far.2004-01.mbox{suffix}", "")
    data = "".join(f"From a Mon Jan  5 10:00:00 2004\n{m.text()}\n" for m in mails).encode()
    archive.write_bytes(PACKERS[suffix](data))
    Forgotten(work.lake.base).begin([("mail", "m2@example.org")])
    make_sources(work.settings).cut_fetched({"far/2004-01"})
    sources = make_sources(work.settings)
    (partition,) = sources.discover()
    ids = [identity and identity[0] for identity in map(id_and_author, sources.mails(partition))]
    assert ids == ["m1@example.org", "m3@example.org"]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_nothing_is_erased_where_nobody_can_be_asked(
    built_once: Workspace, options: tuple[str, ...]
):
    done = built_once.weft("forget", "m0@example.org", *options)
    assert done.exit_code == 2 and "add --yes" in done.stderr
    assert built_once.weft("get", "m0@example.org").exit_code == 0


@pytest.mark.exhaustive
def test_no_piece_is_left_and_nothing_comes_back(made: Workspace):
    folders = {file.partition("/")[0] for file in holding(made, SECRET)}
    assert folders == {"dagster", "eval", "index", "lake", "lenses"}
    assert len(holding(made, NOTE)) > 5 < len(holding(made, CHAT))
    (made.folder / "notes" / "place.md").unlink()
    made.build()
    assert holding(made, NOTE), "what is deleted stays in versions and history"
    names = ("m800@example.org", "m801@example.org", "chat")
    done = weft(made.folder, "forget", *names, "--yes", "--json", "--config", made.config)
    assert done.code == 0, done.err
    assert (done.told["left_out"], done.told["held_by"]) == ({"chat": 0, "dev": 2}, [])
    assert [holding(made, text) for text in (SECRET, NOTE)] == [set()] * 2
    assert {file.partition("/")[0] for file in holding(made, CHAT)} == {"eval"}, (
        "as the report says"
    )
    assert weft(made.folder, "search", "compactor", "--config", made.config).code == 0
    again = made.build()
    assert made.plan().is_empty and {name.partition("/")[0] for name in holding(made, CHAT)} == {
        "eval"
    }
    assert (embedded(again), again.left_out) == (0, {"chat": 0, "dev": 2})
    made.write(
        "dev/dev.2004-04.mbox", [Mail(800, f"{SECRET}.", "birds"), Mail(802, "Another mail.")]
    )
    assert made.build().left_out == {"chat": 0, "dev": 3}
    assert holding(made, SECRET) == set()
    assert made.column("SELECT count(*) FROM messages WHERE message_id = 'm802@example.org'") == [1]


@pytest.mark.exhaustive
def test_it_says_who_holds_the_text_and_when_nobody_does(
    built: Workspace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(forget, "_PATIENCE", 0.0)
    with (built.index / "CURRENT").resolve().open("rb"):
        held = built.weft("forget", "m0@example.org", "--yes")
    assert held.exit_code == 0 and f"\n  {os.getpid()} " in held.stdout, held.output
    free = built.weft("forget", "m1@example.org", "--yes")
    assert "No program of this user holds the text any more." in free.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", ["*/lake/threads.parquet", "*/index/CURRENT"])
def test_whatever_ends_it_the_next_build_finishes_it(made: Workspace, step: str):
    names = ("m800@example.org", "m801@example.org", "chat")
    arguments = ("forget", *names, "--yes", "--json", "--config", made.config)
    assert Command(made.folder, *arguments, dies_at=step).has_died()
    assert Forgotten(made.lake.base).unfinished
    assert "not erased everywhere" in weft(made.folder, "doctor", "--config", made.config).out
    made.build()
    assert not Forgotten(made.lake.base).unfinished
    assert holding(made, SECRET) == set()
    assert made.plan().is_empty
