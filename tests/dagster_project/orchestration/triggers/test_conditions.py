"""When Dagster makes what is over the whole lake by itself: once after partitions, and after nothing that a command made."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from assets.partitions import MAIL, SLOW
from dagster_project.definitions import build_definitions
from dagster_project.orchestration.asset_jobs import asset_definitions, whole_tables
from dagster_project.orchestration.names import COMMAND_TAG, REFRESH_TAG
from dagster_project.orchestration.partitions import planned
from dagster_project.resources.system.dagster_internals import request_backfill
from tests.archives import Mail, Workspace
from tests.runs import begun_run, run_of_dagster

JANUARY, MARCH = "dev/dev.2004-01", "dev/dev.2004-03"


class Ticks:
    """Ticks of the sensor `whole_lake`, one after the other."""

    def __init__(self, work: Workspace, instance: dg.DagsterInstance):
        self.work, self.instance = work, instance
        self.definitions = build_definitions(work.settings)
        self.cursor: dg.AssetDaemonCursor | None = None

    def requested(self) -> set[str]:
        """The assets that the next tick asks for."""
        whole = [dg.AssetKey(table) for table in whole_tables(self.work.settings)]
        result = dg.evaluate_automation_conditions(
            self.definitions, self.instance, dg.AssetSelection.assets(*whole), cursor=self.cursor
        )
        self.cursor = result.cursor
        return {key.path[-1] for key in whole if result.get_num_requested(key)}


@pytest.fixture
def ticks(built: Workspace) -> Iterator[Ticks]:
    """Ticks over a built workspace with a mail that came since, after the first."""
    built.write("dev/dev.2004-03.mbox", [Mail(600, "A mail that came later.", "News")])
    with built.instance() as instance:
        planned(built.settings, instance)
        made = Ticks(built, instance)
        assert made.requested() == set(), "what a command built is right"
        yield made


@pytest.mark.exhaustive
def test_all_of_the_whole_lake_is_asked_for_once_after_partitions(ticks: Ticks):
    run_of_dagster(ticks.work, ticks.instance, MAIL.tables, MARCH)
    whole = whole_tables(ticks.work.settings)
    assert ticks.requested() == whole
    assert ticks.requested() == set()
    run_of_dagster(ticks.work, ticks.instance, sorted(whole))
    assert ticks.requested() == set()
    assert ticks.work.column("SELECT count(*) FROM messages") == [22]
    ticks.work.write("dev/dev.2004-03.mbox", [Mail(601, "One that waited for the publish.", "News")])
    run_of_dagster(ticks.work, ticks.instance, ["search_index"])
    run_of_dagster(ticks.work, ticks.instance, MAIL.tables, MARCH)
    assert ticks.requested() == whole, "a partition came between the end of a publish and the next tick"
    assert ticks.requested() == set()


@pytest.mark.exhaustive
def test_nothing_is_asked_for_after_a_command(ticks: Ticks):
    run_of_dagster(ticks.work, ticks.instance, MAIL.tables, MARCH, tags={COMMAND_TAG: "x"})
    assert ticks.requested() == set()
    assert ticks.work.build().published
    assert ticks.requested() == set()


@pytest.mark.exhaustive
def test_what_is_over_the_whole_lake_waits_for_the_last_run_of_partitions(ticks: Ticks):
    run_of_dagster(ticks.work, ticks.instance, MAIL.tables, MARCH)
    other = begun_run(ticks.work, ticks.instance, MAIL.tables, JANUARY)
    assert ticks.requested() == set()
    ticks.instance.report_run_failed(other)
    assert ticks.requested() == whole_tables(ticks.work.settings)


@pytest.mark.exhaustive
def test_what_is_over_the_whole_lake_waits_for_the_last_step_of_a_run(ticks: Ticks):
    """Though what it is made of itself is there."""
    run_of_dagster(ticks.work, ticks.instance, MAIL.tables, MARCH)
    goes_on = begun_run(ticks.work, ticks.instance, ["message_terms"], MARCH)
    assert ticks.requested() == set(), "not even memberships, which are made of messages"
    ticks.instance.report_run_failed(goes_on)
    assert ticks.requested() == whole_tables(ticks.work.settings)


@pytest.mark.exhaustive
def test_what_is_over_the_whole_lake_waits_for_a_backfill(ticks: Ticks):
    keys = [dg.AssetKey(table) for table in MAIL.tables]
    backfill = request_backfill(
        ticks.instance,
        asset_definitions(ticks.work.settings),
        {key: [(JANUARY, JANUARY)] for key in keys},
        {},
    )
    run_of_dagster(ticks.work, ticks.instance, MAIL.tables, MARCH)
    assert ticks.requested() == set()
    found = ticks.instance.get_backfill(backfill)
    assert found
    ticks.instance.update_backfill(found.with_status(type(found.status).CANCELED))
    assert ticks.requested() == whole_tables(ticks.work.settings)


@pytest.mark.exhaustive
def test_very_long_texts_under_way_hold_nothing_up(ticks: Ticks):
    run_of_dagster(ticks.work, ticks.instance, MAIL.tables, MARCH)
    begun_run(ticks.work, ticks.instance, SLOW.tables, JANUARY)
    assert ticks.requested() == whole_tables(ticks.work.settings)


@pytest.mark.exhaustive
def test_what_the_conditions_ask_for_joins_the_refresh_that_it_follows(ticks: Ticks):
    work, instance = ticks.work, ticks.instance
    run_of_dagster(work, instance, MAIL.tables, MARCH, tags={REFRESH_TAG: "2026-03-01T02:00"})
    asked = {"dagster/from_automation_condition": "true"}
    for tags, refresh in (
        (asked, "2026-03-01T02:00"),
        ({**asked, REFRESH_TAG: "own"}, "own"),
        ({"dagster/backfill": "years"}, None),
        (asked, "years"),
    ):
        result = run_of_dagster(work, instance, ["corpus_measures"], tags=tags)
        run = instance.get_run_by_id(result.run_id)
        assert run and run.tags.get(REFRESH_TAG) == refresh
