"""When texts got how far: per build, over rebuilds, and what Dagster is told of it."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster import AssetCheckEvaluation

from dagster_project.composition import make_lake, make_seen_partitions, make_sources
from dagster_project.orchestration.freshness import note_unchanged
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


def test_an_index_that_needs_nothing_stays_fresh(built: Workspace):
    def materializations(instance: dg.DagsterInstance) -> int:
        return len(instance.fetch_materializations(dg.AssetKey("readiness"), limit=10).records)

    settings = built.settings
    with built.instance() as instance:
        note_unchanged(settings, instance)
        assert materializations(instance) == 1, "it was made a moment ago"
        shorter = settings.operations.model_copy(update={"fresh_hours": 1e-9})
        note_unchanged(settings.model_copy(update={"operations": shorter}), instance)
        assert materializations(instance) == 2
        last = instance.get_latest_materialization_event(dg.AssetKey("readiness"))
    assert last and last.asset_materialization and "lag_by_source" in last.asset_materialization.metadata
