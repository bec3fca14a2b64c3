"""`import weft` in a program: the records of /api, what a lens shows, and faults with their remedy."""

import inspect
import json
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import weft
from dagster_project.outgoing.receipts import Receipts
from tests.archives import Mail, Workspace
from tests.pages import pages
from transforms import errors

QUESTION = "page cache flush"
NOTE = "# Torn pages\n\nSee https://notes.example.org/torn. Write to ann@example.org: checksums detect torn pages.\n"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A list with a thread, a note, and lenses of the list."""
    work = Workspace(tmp_path_factory.mktemp("office") / "work")
    work.put("notes/torn.md", NOTE)
    work.configure(
        {"name": "dev", "kind": "mbox", "path": "mail/*.mbox", "list_id": "dev"},
        {"name": "notes", "kind": "vault", "path": "notes"},
        **{
            "lenses.list": {"where": "source:dev"},
            "lenses.few": {"where": "source:dev", "tokens": 20},
        },
    )
    work.write(
        "dev.mbox",
        [
            Mail(1, "When is the page cache flushed to the disk?\n", "Page cache"),
            Mail(
                2,
                "The page cache is flushed by a checkpoint (https://docs.example.org/a_(b)).\n",
                "Re: Page cache",
                1,
                "Grace Hopper <grace@example.org>",
            ),
        ],
    )
    result = weft.build(work.folder)
    assert result.is_new and result.partitions and not result.faults
    return work


def test_all_names_are_documented_and_typed():
    public = [getattr(weft, name) for name in weft.__all__]
    methods = [m for name, m in vars(weft.Index).items() if name[0] != "_"]
    assert [thing for thing in (*public, *methods) if not inspect.getdoc(thing)] == []
    functions = [weft.open, weft.build, *filter(inspect.isfunction, methods)]
    untyped = [
        (function.__name__, parameter.name)
        for function in functions
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self" and parameter.annotation is parameter.empty
    ]
    assert untyped == [] and Path(weft.__file__).with_name("py.typed").exists()


@pytest.mark.parametrize("lens", [None, "list"])
def test_records_are_those_of_the_api(office: Workspace, lens: str | None):
    conditions = {"list": "dev", "since": "2000", "author": "grace"}
    with weft.open(office.config, lens=lens) as index, pages(office.settings, lens=lens) as client:
        hits = index.search(QUESTION, limit=1, **conditions)
        (hit,) = hits.hits
        same = {
            "/api/search": hits,
            "/api/ask": index.ask(QUESTION, **conditions),
            "/api/get": index.get(hit.citation),
            "/api/context": index.context(QUESTION, 64, where="kind:message"),
            "/api/thread": index.thread(hit.thread_id or "", QUESTION),
            "/api/sources": index.sources(),
        }
        of_address = {name.replace("author", "from"): text for name, text in conditions.items()}
        asked: dict[str, dict[str, Any]] = {
            "/api/search": {"q": QUESTION, "limit": 1, **of_address},
            "/api/ask": {"q": QUESTION, **of_address},
            "/api/get": {"id": hit.citation},
            "/api/context": {"text": QUESTION, "budget_tokens": 64, "where": "kind:message"},
            "/api/thread": {"id": hit.thread_id, "q": QUESTION},
            "/api/sources": {},
        }
        for path, record in same.items():
            answer = client.get(path, params=asked[path]).json()
            assert answer == json.loads(record.model_dump_json()), path
        assert hit.score == round(hit.score, 4)
        assert index.person(hit.author or "").people[0].mails == 1
        assert index.verify(hit.citation).citations[0].links
        near = index.similar("m1@example.org", 1).hits
        assert [hit.doc_id for hit in near] == ["m2@example.org"]


def test_rows_come_as_polars_arrow_and_a_relation(office: Workspace):
    with weft.open(office.folder) as index:
        relation = index.sql(
            "SELECT message_id FROM messages WHERE message_id > $least ORDER BY 1", least="m1"
        )
        assert relation.fetchall() == [("m1@example.org",), ("m2@example.org",)]
        assert isinstance(relation.pl(), pl.DataFrame)
        assert isinstance(relation.to_arrow_table(), pa.Table)
        assert len(index.sql("FROM search_semantic('cache', 2)").fetchall()) == 2
        assert index.sql("SELECT lake_text(body) FROM stored_messages").fetchall()


def test_threads_share_an_index(office: Workspace):
    found: list[str] = []
    with weft.open(office.folder) as index:
        threads = [
            Thread(target=lambda: found.append(index.search(QUESTION).hits[0].doc_id))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 4 and len(set(found)) == 1


def test_an_index_stays_at_its_version_while_another_is_built(office: Workspace, tmp_path: Path):
    work = office.copied(tmp_path / "work")
    with weft.open(work.folder) as before:
        work.put("notes/new.md", "# Zeppelin\n\nA zeppelin has no page cache.\n")
        steps: list[str] = []
        result = weft.build(work.folder, on_step=lambda stage, *_: steps.append(stage))
        with weft.open(work.folder) as after:
            assert after.version == result.version != before.version
            assert after.search("zeppelin").hits and not before.search("zeppelin").hits
        assert steps and not weft.build(work.folder).is_new


def test_a_lens_shows_its_part_leaves_receipts_and_counts(office: Workspace):
    receipts = Receipts(office.settings.root)
    before = len(list(receipts.read()))
    with weft.open(office.folder, lens="list") as index:
        assert index.search("torn checksum").hits == []
        assert index.search(QUESTION).hits
        assert index.sql("SELECT count(*) FROM documents").fetchall() == [(0,)]
        assert index.sql("SELECT url FROM urls").fetchall() == [("https://docs.example.org/a_(b)",)]
        with pytest.raises(weft.QueryError, match="unmasked shows what a lens may hide"):
            index.context(QUESTION, unmasked=True)
    left = list(receipts.read())[before:]
    assert [(r["tool"], r["lens"]) for r in left] == [("weft.search", "list")] * 2
    with weft.open(office.folder, lens="few") as index:
        with pytest.raises(errors.DisclosureLimitError):
            index.get("m1@example.org")
            index.get("m2@example.org")
            index.get(index.search(QUESTION).hits[0].thread_id or "")
        with pytest.raises(weft.QueryError, match="masks or bounds texts"):
            index.sql("FROM messages")


FAULTS = [
    ({"query": "cache", "since": "last week"}, "since takes dates such as 2024"),
    (
        {"query": "cache", "sender": "ann"},
        "a search has no condition 'sender'; it takes list, author",
    ),
    ({"query": "cache", "kind": "mails"}, "kind takes message, attachment"),
    ({"query": "cache", "limit": 2_000}, "limit is 2000, and this server gives 1000 at most"),
    ({"query": "cache", "list": "nowhere"}, "no mailing list is called 'nowhere'"),
]


@pytest.mark.parametrize(("asked", "why"), FAULTS)
def test_a_fault_is_a_sentence(office: Workspace, asked: dict[str, Any], why: str):
    with weft.open(office.folder) as index, pytest.raises(weft.QueryError, match=why):
        index.search(**asked)


def test_statements_that_change_something_or_leave_the_index_are_refused(
    office: Workspace, tmp_path: Path
):
    with weft.open(office.folder) as index:
        for statement in (
            "DROP TABLE messages",
            "SELECT 1; SELECT 2",
            "",
            f"FROM '{tmp_path}/a.csv'",
        ):
            with pytest.raises(weft.WeftError):
                index.sql(statement).fetchall()


def test_what_is_not_there_is_said(office: Workspace, tmp_path: Path):
    with weft.open(office.folder) as index, pytest.raises(weft.UnknownIdError, match="nearest"):
        index.get("notes:torn.m")
    with pytest.raises(weft.SettingsError, match="no settings file"):
        weft.open(tmp_path)
    with pytest.raises(weft.SettingsError, match="no lens is called 'nosuch'"):
        weft.open(office.folder, lens="nosuch")
    empty = Workspace(tmp_path / "empty").configure()
    with pytest.raises(weft.IndexUnavailableError, match="weft build"):
        weft.open(empty.folder)


def kinds_of(kind: type[errors.WeftError]) -> list[type[errors.WeftError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in kinds_of(child))]


def test_each_kind_of_fault_has_its_remedy():
    own = [kind for kind in kinds_of(errors.WeftError)[1:] if kind.__module__ == errors.__name__]
    remedy = errors.WeftError.remedy
    assert [kind.__name__ for kind in own if kind.remedy == remedy] == []
