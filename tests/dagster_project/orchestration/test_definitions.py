"""Weft under Dagster: definitions, partitions, checks, the schedule, and the instance it ships."""

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import dagster as dg
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage

from assets.partitions import MAIL
from dagster_project.config.settings import Settings
from dagster_project.definitions import build_definitions
from dagster_project.index.publish.operations_history import step_history
from dagster_project.orchestration.names import EVALUATE, REFRESH_NOW, REPORT, SEARCH, WHOLE_LAKE
from dagster_project.orchestration.outcomes import BuildResult
from dagster_project.orchestration.partitions import partition_runs, sync_partitions
from dagster_project.orchestration.sqlite_storage import KeptEngineEventLogStorage
from dagster_project.orchestration.work import Work
from tests.archives import Mail, Workspace, discussion, embedded
from transforms.operations import publish_checks

PARTITIONED = [*MAIL.tables]
JOBS = {
    REPORT,
    EVALUATE,
    SEARCH,
    REFRESH_NOW,
    WHOLE_LAKE,
    "mail_partitions",
}
JANUARY, FEBRUARY, USERS = "dev/2004-01", "dev/2004-02", "users/2004-01"


def test_dagster_loads_the_definitions_of_the_settings_file_it_is_pointed_to(
    built_once: Workspace, monkeypatch: pytest.MonkeyPatch
):
    from dagster_project.definitions import defs

    monkeypatch.setenv("WEFT_CONFIG", str(built_once.config))
    dg.Definitions.validate_loadable(loaded := defs())
    assert {job.name for job in loaded.resolve_all_job_defs()} >= JOBS


@pytest.mark.exhaustive
def test_someone_new_finds_their_way_through_the_definitions(built_once: Workspace):
    definitions = build_definitions(built_once.settings)
    for spec in definitions.resolve_all_asset_specs():
        name = spec.key.path[-1]
        assert spec.description and spec.kinds and spec.owners == ["team:weft"], name
        assert spec.group_name not in (None, "default"), name
        assert spec.tags["weft/scope"] in ("partition", "whole")
        if spec.group_name in ("sources", "published"):  # nothing in the graph makes them
            continue
        (source,) = spec.metadata["dagster/code_references"].code_references
        assert (
            isinstance(source, dg.LocalFileCodeReference) and "/stages/" not in source.file_path
        ), name
        if table := built_once.lake.tables.get(name):
            columns = spec.metadata["dagster/column_schema"].columns
            assert [c.name for c in columns] == table.names and all(c.description for c in columns)
    for job in definitions.resolve_all_job_defs():
        assert job.description or job.name.startswith("__"), job.name


def _materializations(result: dg.ExecuteInProcessResult) -> list[dg.AssetMaterialization]:
    return [
        e.event_specific_data.materialization
        for e in result.all_events
        if e.is_step_materialization
    ]


class Followed(NamedTuple):
    """A workspace built again after one mail came and six grew, and what was seen meanwhile."""

    work: Workspace
    result: BuildResult
    read_before: tuple[int, int]
    """Mails and postings that a reader of the version before still read."""


@pytest.fixture(scope="module")
def followed(built_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    work = built_once.copied(tmp_path_factory.mktemp("followed") / "work")
    work.write("dev/dev.2004-03.mbox", [Mail(600, "A mail that came later.", "News")])
    grown = [
        replace(mail, body=f"{mail.body}\nIt rests at noon.")
        for mail in discussion(0, 6, "compactor")
    ]
    work.write("dev/dev.2004-01.mbox", grown)
    counts = "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM postings)"
    with duckdb.connect(str((work.index / "CURRENT").resolve()), read_only=True) as reader:
        result = work.build()
        return Followed(work, result, reader.execute(counts).fetchone() or (0, 0))


def test_mails_that_come_or_grow_make_their_partitions_and_embed_a_text_each(followed: Followed):
    assert list(followed.result.plan.stale) == [JANUARY, "dev/2004-03"]
    assert embedded(followed.result) == 7
    published = followed.result.published
    assert published and (published["changed_partitions"], published["built_on_previous"]) == (
        2,
        True,
    )


def test_an_index_that_was_updated_finds_what_came_and_what_stays(followed: Followed):
    said = followed.work.weft(
        "search", "--json", '"rests at noon"', "news that came later", "keeps pace source:users"
    )
    found = [
        [hit["doc_id"] for hit in query["hits"]] for query in json.loads(said.stdout)["queries"]
    ]
    assert set(found[0]) == {f"m{n}@example.org" for n in range(6)}
    assert found[1][0] == "m600@example.org"
    assert (
        set(found[2]) <= {f"m{n}@example.org" for n in (*range(200, 206), *range(300, 303))}
        and found[2]
    )


def test_a_reader_keeps_its_version_while_a_new_one_is_published(followed: Followed):
    mails, postings = followed.read_before
    assert mails == 21 and postings > 0
    assert followed.work.column("SELECT count(*) FROM messages") == [22]


def test_the_seconds_of_a_step_are_those_of_its_last_run(followed: Followed):
    with followed.work.instance() as instance:
        ended = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS])
        steps = instance.get_run_step_stats(instance.get_runs(ended, limit=1)[0].run_id)
        last = step_history(instance).last_seconds
    assert {s.step_key: last[s.step_key] for s in steps} == {
        s.step_key: s.end_time - s.start_time for s in steps
    }


def test_the_graph_has_the_assets_of_the_types_that_sources_have(work: Workspace):
    def keys(settings: Settings) -> set[str]:
        graph = build_definitions(settings).resolve_asset_graph()
        return {key.to_user_string() for key in graph.get_all_asset_keys()}

    mail, notes = "messages", "document_nodes"
    work.configure({"name": "notes", "kind": "vault", "path": "notes"})
    of_notes = keys(work.settings)
    assert notes in of_notes and not {mail, "message_chunks", "conversation_chunks"} & of_notes
    work.configure()
    of_mail = keys(work.settings)
    assert mail in of_mail and not {notes, "document_chunks", "conversation_context"} & of_mail


def test_a_run_without_a_partition_says_what_to_add(built: Workspace, instance: dg.DagsterInstance):
    job = build_definitions(built.settings).resolve_job_def("mail_partitions")
    keys = [dg.AssetKey("messages")]
    result = job.execute_in_process(instance=instance, asset_selection=keys, raise_on_error=False)
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    assert "add one, as `--partition dev/2025-01`" in str(failed.step_failure_data.error)


def test_a_materialization_shows_its_rows_first_and_units(built_once: Workspace):
    with built_once.instance() as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey("message_chunks"))
    assert event and event.asset_materialization
    first = [*event.asset_materialization.metadata][:3]
    assert first == ["dagster/partition_row_count", "size_bytes", "time_seconds"]


@pytest.mark.exhaustive
def test_materializations_carry_rows_and_the_publisher_its_counts(followed: Followed):
    with followed.work.instance() as instance:
        threads = instance.get_latest_materialization_event(dg.AssetKey("threads"))
        index = instance.get_latest_materialization_event(dg.AssetKey("search_index"))
    assert threads and threads.asset_materialization
    assert threads.asset_materialization.metadata["dagster/row_count"].value == 5
    assert index and index.asset_materialization
    counts = index.asset_materialization.metadata
    assert (counts["rows_messages"].value, counts["changed_partitions"].value) == (22, 2)
    first = [
        "mails",
        "documents",
        "turns",
        "chunks",
        "changed_partitions",
        "time_seconds",
        "index_bytes",
        "lag_p95_seconds",
    ]
    assert list(counts)[:8] == first and counts["mails"].value == 22


def _of_another_model(work: Workspace) -> None:
    def named(table: pa.Table) -> pa.Table:
        other = pc.replace_substring(table.column("model"), "weft", "another")
        return table.set_column(table.schema.get_field_index("model"), "model", other)

    _with_vectors(work, named)


def _with_vectors(work: Workspace, change: Callable[[pa.Table], pa.Table]) -> None:
    table = work.lake.read("embeddings", USERS).table
    work.lake.stage("embeddings", USERS, change(table), code_version="", inputs={}).commit()


def _without_terms(work: Workspace) -> None:
    terms = work.lake.read("message_terms", USERS).table
    work.lake.stage("message_terms", USERS, terms.slice(0, 0), code_version="", inputs={}).commit()


def _with_a_chunk_twice(work: Workspace) -> None:
    chunks = work.lake.read("message_chunks", USERS).table
    twice = pa.concat_tables([chunks, chunks.slice(0, 1)])
    work.lake.stage("message_chunks", USERS, twice, code_version="", inputs={}).commit()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (
            lambda work: _with_vectors(work, lambda table: table.slice(1)),
            "every_chunk_has_its_vector",
        ),
        (_of_another_model, "vectors_are_of_the_model"),
        (_with_a_chunk_twice, "chunk_ids_are_unique"),
    ],
)
def test_a_broken_rule_stops_the_publish(
    built: Workspace, instance: dg.DagsterInstance, broken, rule: str
):
    before = (built.index / "CURRENT").resolve()
    broken(built)
    result = _run_checks_and_publisher(built, instance)
    failed = {c.check_name for c in result.get_asset_check_evaluations() if not c.passed}
    assert rule in failed
    assert set(publish_checks.PUBLISH_RULES) == {
        c.check_name for c in result.get_asset_check_evaluations()
    }
    assert not result.success
    assert not [m for m in _materializations(result) if m.asset_key == dg.AssetKey("search_index")]
    assert (built.index / "CURRENT").resolve() == before


def test_a_chunk_without_terms_stops_the_publish(built: Workspace, instance: dg.DagsterInstance):
    (built.index / "CURRENT").unlink()
    _without_terms(built)
    result = _run_checks_and_publisher(built, instance)
    assert not result.success
    (failed,) = (e for e in result.all_events if e.is_step_failure)
    assert "break the rule that a chunk has terms" in str(failed.step_failure_data.error)
    assert not (built.index / "CURRENT").exists()


def _run_checks_and_publisher(
    work: Workspace, instance: dg.DagsterInstance
) -> dg.ExecuteInProcessResult:
    definitions = build_definitions(work.settings)
    rules = [
        dg.AssetCheckKey(dg.AssetKey("embeddings"), name) for name in publish_checks.PUBLISH_RULES
    ]
    publish = dg.AssetSelection.assets("search_index") | dg.AssetSelection.checks(*rules)
    job = dg.define_asset_job(
        "publish_only", selection=publish, executor_def=dg.in_process_executor
    )
    merged = dg.Definitions.merge(definitions, dg.Definitions(jobs=[job]))
    return merged.resolve_job_def("publish_only").execute_in_process(
        instance=instance, raise_on_error=False
    )


def test_the_shipped_instance_keeps_its_engines_and_limits(
    built: Workspace, instance: dg.DagsterInstance
):
    assert isinstance(instance.event_log_storage, KeptEngineEventLogStorage)
    assert not instance.telemetry_enabled
    assert instance.get_concurrency_config().pool_config.default_pool_limit == 1
    assert instance.run_monitoring_enabled


@pytest.mark.exhaustive
def test_dagsters_own_event_log_reads_what_the_kept_engines_wrote(
    built: Workspace, instance: dg.DagsterInstance
):
    (run, *_) = instance.get_runs(limit=1)
    stock = SqliteEventLogStorage(str(built.settings.root / "dagster" / "history" / "runs"))
    stock.register_instance(instance)
    ours = [(e.timestamp, e.message) for e in instance.all_logs(run.run_id)]
    assert ours
    assert [(e.timestamp, e.message) for e in stock.get_logs_for_run(run.run_id)] == ours
    assert stock.has_asset_key(dg.AssetKey("messages"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("run", ["first", "second"])
def test_the_file_of_a_run_is_made_as_dagster_makes_it(tmp_path: Path, run: str):
    def declared(storage: SqliteEventLogStorage) -> list[tuple[str, ...]]:
        with storage.run_connection("first"):
            pass
        with (
            storage.run_connection(run),
            closing(sqlite3.connect(storage.path_for_shard(run))) as opened,
        ):
            (mode,) = opened.execute("PRAGMA journal_mode").fetchone()
            revision = opened.execute("SELECT version_num FROM alembic_version").fetchall()
            return [
                (mode,),
                *revision,
                *sorted(opened.execute("SELECT type, name, sql FROM sqlite_master")),
            ]

    ours, stock = tmp_path / "ours", tmp_path / "stock"
    assert declared(KeptEngineEventLogStorage(str(ours))) == declared(
        SqliteEventLogStorage(str(stock))
    )
    assert {p.name for p in ours.glob("*.db")} == {p.name for p in stock.glob("*.db")}


@pytest.mark.exhaustive
def test_an_opened_instance_leaves_the_environment_as_it_was(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    with workspace.instance():
        assert os.environ["DAGSTER_HOME"] == str(workspace.settings.root / "dagster")
    assert "DAGSTER_HOME" not in os.environ
    monkeypatch.setenv("DAGSTER_HOME", str(workspace.folder / "home"))
    with workspace.instance() as instance:
        assert instance.root_directory == str(workspace.folder / "home")
    assert os.environ["DAGSTER_HOME"] == str(workspace.folder / "home")


@pytest.mark.exhaustive
def test_runs_are_made_of_neighbours_with_equal_needs(workspace: Workspace):
    for month in range(1, 6):
        workspace.write(f"dev.2004-0{month}.mbox", discussion(month * 10, 2, "compactor"))
    plan = workspace.plan()
    with workspace.instance() as instance:
        sync_partitions(instance, plan.partitions)
        tables = tuple(plan.stale["dev/2004-01"])
        assert set(tables) == set(PARTITIONED)
        assert partition_runs(instance, plan.stale) == [Work(tables, "dev/2004-01", "dev/2004-05")]
        assert partition_runs(instance, plan.stale, limit=3) == [
            Work(tables, "dev/2004-01", "dev/2004-03"),
            Work(tables, "dev/2004-04", "dev/2004-05"),
        ]
