"""A build publishes what the sources hold, and does no more than what changed asks for."""

import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from dagster_project.composition import objects
from dagster_project.index.files.arrays import FIRST, folder_of
from dagster_project.index.publish.full_build import IndexBuild
from dagster_project.orchestration import asset_graph
from dagster_project.system import code
from dagster_project.system.code import Code, Fingerprints
from tests.archives import Mail, Workspace, differences, discussion, lake_hashes, rebuilt
from tests.timing import HUNG

MAIL = ("messages", "attachments", "quarantine")
CHUNKS = ("message_chunks", "message_exclusions", "message_terms")
REFERENCES = ("message_references", "message_trailers", "address_uses")
JANUARY, FEBRUARY = "dev/dev.2004-01.mbox", "dev/dev.2004-02.mbox"
USERS = "users/users.2004-01.mbox"


def contents(index: Path) -> dict[str, int]:
    """Inode and time of every file that is published or left over."""
    return {p.name: p.lstat().st_mtime_ns for p in index.iterdir()}


def test_the_first_build_publishes_every_mail_once(built_once: Workspace):
    assert built_once.sql("SELECT count(*), count(DISTINCT message_id) FROM messages") == [(21, 21)]
    counts = {"memberships": 24, "threads": 4, "chunks": 21, "embeddings": 21, "chunk_lengths": 21}
    assert {name: built_once.sql(f"SELECT count(*) FROM {name}")[0][0] for name in counts} == counts


def test_the_published_file_explains_itself(built_once: Workspace):
    bare = built_once.sql(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL"
    )
    assert bare == []


@pytest.mark.exhaustive
def test_a_second_build_of_files_that_are_written_again_runs_nothing_and_embeds_nothing(
    built: Workspace,
):
    before = contents(built.index)
    for path in (built.folder / "mail").rglob("*.mbox"):
        path.write_bytes(path.read_bytes())
    with built.instance() as instance:
        runs = instance.get_runs_count()
    told: list[str] = []
    result = built.build(tell=lambda stage, partition, rows: told.append(stage))
    assert result.as_json()["outcome"] == "UNCHANGED"
    assert told == []
    assert contents(built.index) == before
    with built.instance() as instance:
        assert instance.get_runs_count() == runs


NEWS = "The release is planned for the first week of May.\nPlease test the candidate on your own machines."
PLANS = "The planner keeps statistics of every column.\nThey are made again whenever a tenth of the rows changed."


def _mails_links_and_quotes_turn_up(work: Workspace) -> None:
    both = Mail(120, headers=["Cc: Pat Hill <p1@example.org>, Pat Hill <p2@example.org>"])
    log, collector = discussion(100, 6, "write-ahead log"), discussion(300, 3, "garbage collector")
    work.write(FEBRUARY, [*log, *collector, both])
    work.write(
        "dev/dev.2004-03.mbox",
        [Mail(800, "Link: https://lore.kernel.org/r/m200@example.org", "there")],
    )
    work.write("dev/dev.2004-04.mbox", [Mail(900, "Agreed.", "Re: plans", reply_to=901)])
    for number, (text, month) in {810: (NEWS, 5), 820: (PLANS, 7)}.items():
        reply = Mail(
            number + 1,
            f"I will.\n\n{text}",
            f"Re: s{number}",
            reply_to=number,
            sender="bob@example.org",
        )
        work.write(f"dev/dev.2004-{month:02}.mbox", [Mail(number, text, f"s{number}")])
        work.write(f"dev/dev.2004-{month + 1:02}.mbox", [reply])


def _a_parent_comes_late_and_a_quote_loses_its_own(work: Workspace) -> None:
    work.write("dev/dev.2004-07.mbox", [Mail(820, "Nothing of it.", "s820")])
    work.write(
        "dev/dev.2004-09.mbox", [Mail(901, "The plans are to release in May.", "plans"), Mail(902)]
    )


@pytest.mark.exhaustive
def test_what_comes_bit_by_bit_is_published_as_if_it_had_come_at_once(
    built: Workspace, tmp_path: Path
):
    for change in (_mails_links_and_quotes_turn_up, _a_parent_comes_late_and_a_quote_loses_its_own):
        change(built)
        result = built.build()
        assert (result.published or {})["built_on_previous"] == (
            change is _mails_links_and_quotes_turn_up
        )
        senders = (
            "SELECT DISTINCT person_id FROM messages WHERE partition = 'dev/2004-01' ORDER BY ALL"
        )
        assert built.column(senders) == [f"{name}@example.org" for name in ("ada", "p0", "p1")]
    assert differences(built.index, rebuilt(built, tmp_path / "full").index) == {}
    counts = """SELECT text_tf, quote_tf FROM postings JOIN terms USING (term_id) JOIN chunks USING (chunk_key)
      WHERE term = 'candid' AND doc_id = 'm811@example.org'"""
    assert built.sql(counts) == [(0, 1)], "an unmarked quote is searched as a quote"
    kinds = dict(
        built.sql(
            "SELECT doc_id, context_kind FROM chunk_context JOIN chunks USING (chunk_id) WHERE doc_id LIKE 'm8%'"
        )
    )
    assert kinds["m811@example.org"] in ("unquoted", "parent_unquoted")
    assert kinds.get("m821@example.org") not in ("unquoted", "parent_unquoted")


@pytest.mark.exhaustive
def test_removed_and_changed_mails_are_published_as_by_a_full_build(
    built: Workspace, tmp_path: Path
):
    """The context of short replies, canonical copies and the target of a link go; ids get other
    texts and times.
    """
    compactor = discussion(0, 6, "compactor")
    changed = Mail(3, "I was wrong: it stops.", "Re: compactor", reply_to=0)
    built.write(JANUARY, [*compactor[1:3], changed, *compactor[4:]])
    (built.folder / "mail" / FEBRUARY).unlink()
    built.write(USERS, discussion(300, 3, "garbage collector"))
    built.write(
        "users/users.2004-03.mbox",
        [
            *discussion(700, 4, "replica"),
            Mail(2, "Not what the other archive says.", "Re: compactor"),
            Mail(4, compactor[4].body, "Re: compactor", at=Mail(99).at),
        ],
    )
    built.write(
        "dev/dev.2004-03.mbox",
        [Mail(800, "See https://lore.kernel.org/r/m200@example.org", "gone")],
    )
    result = built.build()
    assert result.plan.vanished == ("dev/2004-02",)
    assert result.published and not result.published["built_on_previous"]
    assert differences(built.index, rebuilt(built, tmp_path / "full").index) == {}
    left = ["dev/2004-01", "dev/2004-03", "users/2004-01", "users/2004-03"]
    assert built.column("SELECT DISTINCT partition FROM blocks ORDER BY 1") == left
    assert not list(built.settings.root.rglob("dev.2004-02.parquet"))
    with built.instance() as instance:
        assert sorted(instance.get_dynamic_partitions("mail")) == left


@pytest.mark.exhaustive
def test_all_is_made_anew_once_enough_came(built: Workspace):
    with duckdb.connect(str((built.index / "CURRENT").resolve())) as connection:
        connection.execute(
            "UPDATE manifest SET value = '10000000' WHERE key = 'postings_since_rebuild'"
        )
    built.write("dev/dev.2004-03.mbox", [Mail(800, "One more.", "more")])
    result = built.build()
    assert result.published and not result.published["built_on_previous"]
    assert "previous_version_unusable" not in result.published
    since = "SELECT value FROM manifest WHERE key = 'postings_since_rebuild'"
    assert built.column(since) == ["0"]


@pytest.mark.exhaustive
def test_arrays_that_are_gone_or_damaged_are_made_of_a_file_that_is_out_of_order(
    built: Workspace, tmp_path: Path
):
    built.write("dev/dev.2004-03.mbox", [Mail(800, "Aardvarks among compactors.", "more")])
    result = built.build()
    assert result.published and result.published["built_on_previous"]
    before = Path(shutil.copytree(built.index, tmp_path / "index", symlinks=True))
    shutil.rmtree(folder_of((built.index / "CURRENT").resolve()))
    assert differences(built.index, before) == {}
    (folder_of((built.index / "CURRENT").resolve()) / FIRST / "starts.npy").write_bytes(b"")
    built.write("dev/dev.2004-04.mbox", [Mail(810, "Two aardvarks among compactors.", "more")])
    result = built.build()
    assert result.published and "damaged" in result.published["previous_version_unusable"]
    assert built.column("SELECT count(*) FROM search_text('aardvark')") == [2]


def test_what_is_written_beside_a_failure_is_ended_and_the_file_goes(
    built: Workspace, monkeypatch: pytest.MonkeyPatch
):
    settings = built.settings
    publisher = objects.make_publisher(settings, objects.make_lake(settings))
    source_types = {u.key: u.source_type for u in objects.make_sources(settings).discover()}
    shutil.rmtree(built.index)
    writing, ended = threading.Event(), []

    def writes_long(build: IndexBuild, connection: duckdb.DuckDBPyConnection) -> None:
        writing.set()
        try:
            connection.execute(
                "SELECT count(*) FROM range(99999) a, range(99999) b WHERE a.range <> b.range"
            )
        except duckdb.InterruptException:
            ended.append("interrupted")

    def fails(build: IndexBuild) -> None:
        assert writing.wait(HUNG)
        raise OSError("no more")

    with monkeypatch.context() as patched:
        patched.setattr(IndexBuild, "_create_tables", writes_long)
        patched.setattr(IndexBuild, "_posting_files", fails)
        with pytest.raises(OSError, match="no more"):
            publisher.publish(source_types)
    assert ended == ["interrupted"]
    assert [p.name for p in built.index.iterdir()] == [".lock"]
    assert publisher.publish(source_types).is_new


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("sections", "remade"),
    [
        ({"chunks": {"message_chars": 40}}, CHUNKS),
        ({"terms": {"stemmer": "porter"}}, ("message_terms",)),
        ({"mail": {"max_message_bytes": 300}}, (*MAIL, "message_blocks", *CHUNKS, *REFERENCES)),
        ({"index": {"keep_versions": 1}}, ()),
        ({"search": {"limit": 3}}, None),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, Mapping) else "",
)
def test_a_setting_remakes_the_tables_that_depend_on_it(
    built: Workspace, sections: dict[str, dict[str, object]], remade: tuple[str, ...] | None
):
    sources = [{"name": s.name, "kind": s.kind, "path": s.path} for s in built.settings.sources]
    plan = built.configure(*sources, **sections).plan()
    assert {t for tables in plan.stale.values() for t in tables} == set(remade or ())
    assert plan.publish is (remade is not None)


@pytest.mark.exhaustive
def test_a_build_after_a_change_of_settings_and_of_the_code_equals_a_full_one(
    built: Workspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
):
    tomorrow = Code(
        lambda path: path.read_bytes().replace(b"def patch_series(", b"def patch_series(*_, ")
    )
    fingerprints = Fingerprints(tmp_path / "code.json", tomorrow)
    monkeypatch.setattr(code, "_fingerprints", lambda: fingerprints)
    for remembered in (asset_graph._assets_of, asset_graph._stages_of):
        remembered.cache_clear()
        request.addfinalizer(remembered.cache_clear)
    plan = built.plan()
    assert plan.publish and not plan.stale
    sources = [{"name": s.name, "kind": s.kind, "path": s.path} for s in built.settings.sources]
    built.configure(*sources, chunks={"message_chars": 40}, terms={"stemmer": "porter"})
    result = built.build()
    assert "messages" not in result.stages
    assert differences(built.index, rebuilt(built, tmp_path / "full").index) == {}
    assert built.plan().is_empty


@pytest.mark.exhaustive
def test_with_grain_auto_a_year_that_ends_is_put_together_and_taken_apart_again(tmp_path: Path):
    """A list that grows over New Year, and loses what came then: incremental equals full each time."""
    work = Workspace(tmp_path / "work").configure(
        {"name": "dev", "kind": "mbox", "path": "mail/*", "grain": "auto"}
    )
    work.write("dev.2003-11.mbox", discussion(0, 3, "compactor"))
    work.write("dev.2003-12.mbox", discussion(10, 3, "planner"))
    assert list(work.build().plan.stale) == ["dev/2003-11", "dev/2003-12"]
    december = work.copied(tmp_path / "december")

    came = work.write(
        "dev.2004-01.mbox", [Mail(20, "A happy new year.", "Re: planner", reply_to=10)]
    )
    plan = work.build().plan
    assert (list(plan.stale), plan.vanished) == (
        ["dev/2003", "dev/2004-01"],
        ("dev/2003-11", "dev/2003-12"),
    )
    assert differences(work.index, rebuilt(work, tmp_path / "january").index) == {}

    came.unlink()
    plan = work.build().plan
    assert (list(plan.stale), plan.vanished) == (
        ["dev/2003-11", "dev/2003-12"],
        ("dev/2003", "dev/2004-01"),
    )
    assert differences(work.index, december.index) == {}
    assert lake_hashes(work) == lake_hashes(december)
