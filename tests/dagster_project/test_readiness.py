"""When texts got how far: per build, over rebuilds, and what Dagster is told of it."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from dagster_project.composition import make_lake, make_seen_units, make_sources
from dagster_project.freshness import note_unchanged
from tests.archives import Mail, Workspace, discussion

TIMES = "seen_at, parsed_at, chunked_at, embedded_at, published_at"
ALL = f"SELECT doc_id, {TIMES}, lag_seconds FROM readiness ORDER BY doc_id"


def test_a_text_is_seen_parsed_chunked_embedded_and_published_in_that_order(built_once: Workspace):
    rows = built_once.sql(f"SELECT {TIMES} FROM readiness WHERE is_searchable")
    assert len(rows) > 10
    for row in rows:
        assert list(row) == sorted(row)
        assert datetime.now(UTC) - row[0] < timedelta(hours=1)


def test_only_new_texts_get_new_times(built: Workspace):
    before = {row[0]: row[1:] for row in built.sql(ALL)}
    built.write(
        "dev/dev.2004-02.mbox", [*discussion(100, 6, "write-ahead log"), Mail(900, "A late remark on logs.")]
    )
    built.build()
    after = {row[0]: row[1:] for row in built.sql(ALL)}
    assert set(after) - set(before) == {"m900@example.org"}
    assert {k: after[k] for k in before if k in after} == {k: before[k] for k in before if k in after}
    assert after["m900@example.org"][0] > max(row[4] for row in before.values())


def test_times_outlive_the_index(built: Workspace):
    before = built.sql(ALL)
    shutil.rmtree(built.index)
    built.build()
    assert built.sql(ALL) == before


def test_a_text_that_changes_begins_anew(built: Workspace):
    before = {row[0]: row[1:] for row in built.sql(ALL)}
    changed = [
        Mail(0, "The question was put in other words.", "compactor"),
        *discussion(0, 6, "compactor")[1:],
    ]
    built.write("dev/dev.2004-01.mbox", changed)
    built.build()
    after = {row[0]: row[1:] for row in built.sql(ALL)}
    assert {k for k in before if after[k] != before[k]} == {"m0@example.org"}


def test_what_waits_was_seen_when_its_first_change_was(workspace: Workspace):
    archive = workspace.write("dev.2004-01.mbox", [Mail(1)])
    seen, lake = make_seen_units(workspace.settings), make_lake(workspace.settings)

    def noted() -> datetime:
        seen.note(make_sources(workspace.settings).discover(), lake)
        (time,) = seen.times().values()
        return time

    first = noted()
    archive.write_bytes(archive.read_bytes() * 2)
    assert noted() == first
    workspace.build()
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


@pytest.mark.parametrize(("bound", "passes"), [(120.0, True), (1e-6, False)])
def test_the_check_says_which_source_is_late(workspace: Workspace, bound: float, passes: bool):
    workspace.configure(operations={"max_lag_minutes": bound})
    workspace.write("dev.2004-01.mbox", [Mail(1)])
    assert workspace.build().published
    with workspace.instance() as instance:
        key = dg.AssetCheckKey(dg.AssetKey("readiness"), "new_texts_are_searchable_in_time")
        record = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)[0]
    assert record.event and record.event.dagster_event
    evaluation = record.event.dagster_event.asset_check_evaluation_data
    assert evaluation.passed == passes
    assert set(evaluation.metadata["late_sources"].value) == (set() if passes else {"dev"})


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
