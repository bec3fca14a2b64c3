"""When texts got how far: per build, over rebuilds, and what Dagster is told of it."""

import os
import shutil
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from dagster import AssetCheckEvaluation

from assets.sources import source_key
from dagster_project.composition.objects import make_lake, make_seen_partitions, make_sources
from dagster_project.index.search.completeness import Completeness, of_sources
from dagster_project.orchestration.freshness import ASSET, CHECK, OF_SOURCE, report_freshness
from dagster_project.orchestration.partitions import planned
from tests.archives import Mail, Workspace, discussion
from transforms.schemas.mail import MESSAGES

TIMES = "seen_at, parsed_at, chunked_at, embedded_at, published_at"
ALL = f"SELECT doc_id, {TIMES}, lag_seconds FROM readiness ORDER BY doc_id"


def test_a_text_is_seen_parsed_chunked_embedded_and_published_in_that_order(built_once: Workspace):
    rows = built_once.sql(f"SELECT {TIMES} FROM readiness WHERE is_searchable")
    assert len(rows) > 10
    for row in rows:
        assert list(row) == sorted(row)
        assert datetime.now(UTC) - row[0] < timedelta(hours=1)


def last_lag_check(work: Workspace) -> AssetCheckEvaluation:
    with work.instance() as instance:
        key = dg.AssetCheckKey(dg.AssetKey("readiness"), "new_texts_are_searchable_in_time")
        record = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)[0]
    assert record.event and record.event.dagster_event
    return record.event.dagster_event.asset_check_evaluation_data


@pytest.mark.exhaustive
def test_texts_that_come_and_change_begin_anew_and_all_times_outlive_the_index(built: Workspace):
    assert last_lag_check(built).passed
    before = {row[0]: row[1:] for row in built.sql(ALL)}
    changed = Mail(0, "The question was put in other words.", "compactor")
    built.write("dev/dev.2004-01.mbox", [changed, *discussion(0, 6, "compactor")[1:]])
    late = Mail(900, "A late remark on logs.")
    built.write("dev/dev.2004-02.mbox", [*discussion(100, 6, "write-ahead log"), late])
    sources = [{"name": s.name, "kind": s.kind, "path": s.path} for s in built.settings.sources]
    built.configure(*sources, operations={"max_lag_minutes": 1e-6}).build()
    after = {row[0]: row[1:] for row in built.sql(ALL)}
    assert {k for k in after if after[k] != before.get(k)} == {"m0@example.org", "m900@example.org"}
    assert after["m900@example.org"][0] > max(row[4] for row in before.values())
    check = last_lag_check(built)
    assert (check.passed, set(check.metadata["late_sources"].value)) == (False, {"dev"})
    shutil.rmtree(built.index)
    built.build()
    assert {row[0]: row[1:] for row in built.sql(ALL)} == after


def test_a_statement_names_what_is_unread_and_sources_that_are_not_seen(workspace: Workspace):
    workspace.write("dev.2004-01.mbox", [Mail(1)])
    seen, lake = make_seen_partitions(workspace.settings), make_lake(workspace.settings)
    waiting = make_sources(workspace.settings).discover()
    seen.note(waiting, lake, ["dev", "users", "new"], ["new"])
    first = of_sources(workspace.settings.root, None)
    seen.note(waiting, lake, ["dev", "users", "new"], ["new", "users"])
    now = of_sources(workspace.settings.root, None)
    assert now["unread"] == {"dev": 1} and now["looked_at"] > first["looked_at"]
    assert now["not_seen"] == {"users": first["looked_at"], "new": None}
    assert of_sources(workspace.settings.root, now["looked_at"])["unread"] == {}
    counts = dict.fromkeys(("mails", "documents", "turns"), 1)
    statement = Completeness(
        published_at=first["looked_at"],
        **counts,
        held=counts | {"mails": 2},
        set_aside={},
        **dict.fromkeys(("without_text", "waiting", "without_vector"), 0),
        **now,
    )
    said = statement.lacking(["the second look"]).line()
    words = (
        "1 of 2 mails, 1 documents",
        "1 unread (dev)",
        "users not seen since",
        "without the second",
        "new never seen",
    )
    assert [name for name in words if name not in said] == []


def test_what_waits_was_seen_when_its_first_change_was(workspace: Workspace):
    archive = workspace.write("dev.2004-01.mbox", [Mail(1)])
    seen, lake = make_seen_partitions(workspace.settings), make_lake(workspace.settings)

    def noted() -> datetime:
        seen.note(make_sources(workspace.settings).discover(), lake)
        (time,) = seen.times().values()
        return time

    first = noted()
    archive.write_bytes(archive.read_bytes() * 2)
    assert noted() == first
    (partition,) = make_sources(workspace.settings).discover()
    made = {"code_version": "", "inputs": {"partition": partition.fingerprint}}
    lake.stage("messages", partition.key, MESSAGES.empty(), **made).commit()
    assert noted() == first
    os.truncate(archive, archive.stat().st_size // 2)
    assert noted() > first


def test_the_view_has_the_percentiles_of_each_source(built_once: Workspace):
    rows = built_once.sql(
        "SELECT source, texts, lag_p50_seconds, lag_p95_seconds, lag_max_seconds FROM readiness_by_source"
    )
    assert [row[0] for row in rows] == ["dev", "users"]
    for _, texts, *lags in rows:
        assert texts > 0
        assert lags == sorted(lags) and lags[0] > 0


def freshness(
    work: Workspace, instance: dg.DagsterInstance, **operations: float
) -> tuple[bool, dict[str, float]]:
    """Whether a look at the sources finds the index fresh, as Dagster shows it, and its figures."""
    changed = work.settings.operations.model_copy(update=operations)
    settings = work.settings.model_copy(update={"operations": changed})
    report_freshness(settings, instance, planned(settings, instance))
    key = dg.AssetCheckKey(dg.AssetKey(ASSET), CHECK)
    (record,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    assert (found := record.evaluation)
    return found.passed, {name: float(value.value) for name, value in found.metadata.items()}


@pytest.mark.exhaustive
def test_an_index_is_fresh_unless_a_change_waits_too_long(built: Workspace):
    with built.instance() as instance:
        assert freshness(built, instance)[0], "nothing waits"
        built.write("dev/dev.2004-03.mbox", [Mail(900)])
        assert freshness(built, instance) == (
            True,
            {"waiting_partitions": 1.0, "longest_hours": 0.0, "unreadable_sources": 0.0},
        )
        assert not freshness(built, instance, max_lag_minutes=1e-9)[0]
        (built.folder / "mail/users/users.2004-01.mbox").unlink()
        passed, figures = freshness(built, instance)
        assert passed and figures["unreadable_sources"] == 1.0, "its run fails and tells of it"

        def passes(source: str) -> list[bool]:
            key = dg.AssetCheckKey(source_key(source), OF_SOURCE)
            found = instance.event_log_storage.get_asset_check_execution_history(key, limit=9)
            return [record.evaluation.passed for record in reversed(found) if record.evaluation]

        assert passes("dev") == [True, True, False, True], "an outcome that stays is stored once"
        assert passes("users") == [True, False]


@pytest.mark.exhaustive
def test_each_publish_says_whether_the_index_is_fresh(built: Workspace):
    built.write("dev/dev.2004-03.mbox", [Mail(900)])
    built.build()
    with built.instance() as instance:
        key = dg.AssetCheckKey(dg.AssetKey(ASSET), CHECK)
        runs = {
            r.run_id
            for r in instance.event_log_storage.get_asset_check_execution_history(key, limit=9)
        }
        last = instance.get_latest_materialization_event(dg.AssetKey(ASSET))
    assert last and last.run_id in runs
