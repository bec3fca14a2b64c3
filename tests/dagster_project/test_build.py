"""A build publishes what the sources hold, and does no more than what changed asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dagster_project import composition
from tests.archives import Mail, Workspace, differences, discussion, embedded, mbox, rebuilt

MAIL = ("messages", "attachments", "quarantine")
CHUNKS = ("message_chunks", "message_exclusions", "slow_queue", "message_terms")
REFERENCES = ("message_references",)
JANUARY, FEBRUARY = "dev/dev.2004-01.mbox", "dev/dev.2004-02.mbox"
USERS = "users/users.2004-01.mbox"
DEV_UNITS = ["dev/dev.2004-01", "dev/dev.2004-02"]


def contents(index: Path) -> dict[str, int]:
    """Inode and time of every file that is published or left over."""
    return {p.name: p.lstat().st_mtime_ns for p in index.iterdir()}


def test_the_first_build_publishes_every_mail_once(built_once: Workspace):
    assert built_once.sql("SELECT count(*), count(DISTINCT message_id) FROM messages") == [(21, 21)]
    assert built_once.sql("SELECT count(*) FROM memberships") == [(24,)]
    assert built_once.sql("SELECT count(*) FROM threads") == [(4,)]
    counts = "SELECT (SELECT count(*) FROM chunks), (SELECT count(*) FROM embeddings), (SELECT count(*) FROM chunk_lengths)"
    assert built_once.sql(counts) == [(21, 21, 21)]


def test_the_published_file_explains_itself(built_once: Workspace):
    bare = built_once.sql(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL"
    )
    assert bare == []


def test_a_second_build_runs_nothing_and_embeds_nothing(built: Workspace):
    before = contents(built.index)
    with built.instance() as instance:
        runs = instance.get_runs_count()
    told: list[str] = []
    result = built.build(tell=lambda stage, partition, rows: told.append(stage))
    assert result.as_json()["outcome"] == "UNCHANGED"
    assert told == []
    assert contents(built.index) == before
    with built.instance() as instance:
        assert instance.get_runs_count() == runs


def test_touching_files_without_changing_them_runs_nothing(built: Workspace):
    for path in (built.folder / "mail").rglob("*.mbox"):
        path.write_bytes(path.read_bytes())
    assert built.plan().is_empty


def test_mail_added_to_a_month_makes_one_unit_again_and_embeds_only_new_texts(built: Workspace):
    path = built.folder / "mail" / FEBRUARY
    path.write_bytes(
        path.read_bytes() + mbox([Mail(110, "One more thing about checkpoints.", "Checkpoints")])
    )
    result = built.build()
    assert list(result.plan.stale) == ["dev/dev.2004-02"]
    assert embedded(result) == 1
    assert result.published and result.published["changed_partitions"] == 1
    assert built.column("SELECT count(*) FROM messages") == [22]


def test_removing_a_file_removes_its_mail_from_the_lake_and_the_index(built: Workspace):
    (built.folder / "mail" / USERS).unlink()
    built.write("users/users.2004-02.mbox", [Mail(400, "Still here.", "Still here")])
    result = built.build()
    assert result.plan.vanished == ("users/users.2004-01",)
    for table in ("messages", "chunks", "blocks", "memberships"):
        assert built.column(
            f"SELECT DISTINCT source || '/' || unit FROM {table} ORDER BY 1"
            if table in ("messages", "chunks", "memberships")
            else f"SELECT DISTINCT partition FROM {table} ORDER BY 1"
        ) == [*DEV_UNITS, "users/users.2004-02"]
    assert not list(built.settings.root.rglob("users.2004-01.parquet"))
    with built.instance() as instance:
        assert sorted(instance.get_dynamic_partitions("units")) == [*DEV_UNITS, "users/users.2004-02"]


def test_a_source_taken_out_of_the_settings_leaves_the_index(built: Workspace):
    built.configure({"name": "dev", "kind": "mbox", "path": "mail/dev/*"})
    assert built.build().plan.vanished == ("users/users.2004-01",)
    assert built.column("SELECT DISTINCT source FROM memberships") == ["dev"]


def _mails_and_a_link_turn_up(work: Workspace) -> None:
    work.write(
        FEBRUARY,
        [*discussion(100, 6, "write-ahead log"), *discussion(300, 3, "garbage collector"), Mail(120)],
    )
    work.write(
        "dev/dev.2004-03.mbox", [Mail(800, "Link: https://lore.kernel.org/r/m200@example.org", "there")]
    )


def _remove_the_canonical_copies(work: Workspace) -> None:
    (work.folder / "mail" / FEBRUARY).unlink()


def _change_one_mail(work: Workspace) -> None:
    mails = discussion(0, 6, "compactor")
    work.write(
        JANUARY, [*mails[:3], Mail(3, "I was wrong: it stops.", "Re: compactor", reply_to=0), *mails[4:]]
    )


def _parent_comes_late(work: Workspace) -> None:
    work.write("dev/dev.2004-03.mbox", [Mail(900, "Agreed.", "Re: news", reply_to=901)])
    work.build()
    work.write(
        "dev/dev.2004-04.mbox", [Mail(901, "The release is planned for the first week of May.", "news")]
    )


def _context_goes_and_an_id_has_other_content(work: Workspace) -> None:
    mails = discussion(0, 6, "compactor")
    work.write(JANUARY, mails[1:])
    work.write("users/users.2004-03.mbox", [Mail(2, "Not what the other archive says.", "Re: compactor")])


def _same_id_and_text_at_another_time(work: Workspace) -> None:
    work.write(
        "users/users.2004-03.mbox",
        [Mail(2, discussion(0, 6, "compactor")[2].body, "Re: compactor", at=Mail(99).at)],
    )


def _what_is_linked_goes_away(work: Workspace) -> None:
    (work.folder / "mail" / USERS).unlink()
    work.write("users/users.2004-03.mbox", [Mail(700)])
    work.write("dev/dev.2004-03.mbox", [Mail(800, "See https://lore.kernel.org/r/m200@example.org", "gone")])


NEWS = "The release is planned for the first week of May.\nPlease test the candidate on your own machines."
APRIL = "dev/dev.2004-04.mbox"


def _unmarked_quote(work: Workspace) -> None:
    work.write("dev/dev.2004-03.mbox", [Mail(810, NEWS, "news")])
    work.write(APRIL, [Mail(811, f"I will.\n\n{NEWS}", "Re: news", reply_to=810, sender="bob@example.org")])


def _unmarked_quote_stays(work: Workspace) -> None:
    _unmarked_quote(work)
    work.build()
    work.write("dev/dev.2004-05.mbox", [Mail(812)])


def _unmarked_quote_loses_its_parent(work: Workspace) -> None:
    _unmarked_quote(work)
    work.build()
    work.write("dev/dev.2004-03.mbox", [Mail(810, "Nothing of it.", "news")])


def _everything_at_once(work: Workspace) -> None:
    _change_one_mail(work)
    (work.folder / "mail" / USERS).unlink()
    work.write("users/users.2004-03.mbox", [*discussion(700, 4, "replica"), *discussion(0, 6, "compactor")])


@pytest.mark.parametrize(
    "change",
    [
        _mails_and_a_link_turn_up,
        _remove_the_canonical_copies,
        _parent_comes_late,
        _context_goes_and_an_id_has_other_content,
        _what_is_linked_goes_away,
        _unmarked_quote_stays,
        _unmarked_quote_loses_its_parent,
        _everything_at_once,
        _same_id_and_text_at_another_time,
    ],
)
def test_an_incremental_build_equals_a_full_one(
    built: Workspace, tmp_path: Path, change: Callable[[Workspace], None]
):
    change(built)
    result = built.build()
    assert result.published and result.published["built_on_previous"]
    assert differences(built.index, rebuilt(built, tmp_path / "full").index) == {}


def test_an_unmarked_quote_is_searched_as_a_quote(built: Workspace):
    _unmarked_quote(built)
    built.build()
    counts = """SELECT text_tf, quote_tf FROM postings JOIN terms USING (term_id) JOIN chunks USING (chunk_no)
      WHERE term = 'candid' AND doc_id = 'm811@example.org'"""
    assert built.sql(counts) == [(0, 1)]
    kinds = "SELECT context_kind FROM chunk_context JOIN chunks USING (chunk_id) WHERE doc_id = 'm811@example.org'"
    assert built.column(kinds)[0] in ("unquoted", "parent_unquoted")


@pytest.mark.parametrize(
    ("sections", "remade"),
    [
        ({"chunks": {"message_chars": 40, "overlap_chars": 10}}, CHUNKS),
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


def test_a_build_after_a_change_of_settings_equals_a_full_one(built: Workspace, tmp_path: Path):
    sources = [{"name": s.name, "kind": s.kind, "path": s.path} for s in built.settings.sources]
    built.configure(*sources, chunks={"message_chars": 40, "overlap_chars": 10}, terms={"stemmer": "porter"})
    result = built.build()
    assert "messages" not in result.stages
    assert differences(built.index, rebuilt(built, tmp_path / "full").index) == {}
    assert built.plan().is_empty


def test_what_a_newer_version_of_the_code_makes_otherwise_is_made_again(
    built: Workspace, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    monkeypatch.setattr("transforms.threads.VERSION", "of tomorrow")
    remembered = composition._assets_of
    remembered.cache_clear()
    request.addfinalizer(remembered.cache_clear)
    assert built.plan().publish
    built.build()
    assert built.plan().is_empty
