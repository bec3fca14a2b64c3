"""What Dagster knows of the lake: the data version of every partition, and what is stale."""

from collections.abc import Sequence

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from assets.partitions import MAIL
from assets.sources import changed_sources, source_key
from dagster_project.composition.objects import make_sources
from dagster_project.definitions import build_definitions
from dagster_project.orchestration.asset_graph import make_assets
from dagster_project.orchestration.partitions import sync_partitions
from tests.archives import Mail, Workspace
from tests.runs import run_of_dagster

pytestmark = pytest.mark.exhaustive

Place = tuple[str, str]
JANUARY, FEBRUARY, USERS = "dev/2004-01", "dev/2004-02", "users/2004-01"
KEYS = [dg.AssetKey(table) for table in MAIL.tables]


def data_versions(instance: dg.DagsterInstance) -> dict[Place, str]:
    """The data version of each table of mail and partition, as of its latest materialization."""
    return {
        (key.path[-1], partition): tags["dagster/data_version"]
        for key in KEYS
        for partition, tags in instance.event_log_storage.get_latest_tags_by_partition(
            key, dg.DagsterEventType.ASSET_MATERIALIZATION, ["dagster/data_version"]
        ).items()
    }


def content_hashes(work: Workspace) -> dict[Place, str]:
    """The content hash in the footer of each table of mail and partition."""
    lake = work.lake
    places = [(table, partition) for table in MAIL.tables for partition in lake.partitions(table)]
    return {place: footer.content_hash for place in places if (footer := lake.footer(*place))}


def observe(work: Workspace, instance: dg.DagsterInstance) -> dict[str, list[str]]:
    """Tell Dagster of the partitions and of what changed in them, as a plan does."""
    sync_partitions(instance, work.plan().partitions)
    return changed_sources(instance, make_sources(work.settings).discover())


def stale(work: Workspace, instance: dg.DagsterInstance) -> dict[Place, StaleStatus]:
    """Table and partition of mail that Dagster takes for stale or missing."""
    places = [(key.path[-1], p) for key in KEYS for p in instance.get_dynamic_partitions("mail")]
    return {
        (table, p): status for (table, p), status in statuses(work, instance, places).items() if p
    }


def statuses(
    work: Workspace, instance: dg.DagsterInstance, places: Sequence[tuple[str, str | None]]
) -> dict[tuple[str, str | None], StaleStatus]:
    """What Dagster says of those places that it does not take for fresh."""
    graph = build_definitions(work.settings).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    found = {place: resolver.get_status(dg.AssetKey(place[0]), place[1]) for place in places}
    return {place: status for place, status in found.items() if status != StaleStatus.FRESH}


def run(
    work: Workspace, instance: dg.DagsterInstance, *partitions: str
) -> dg.ExecuteInProcessResult:
    """Make all tables of mail of a partition, or of a range with its first and last partition."""
    return run_of_dagster(work, instance, MAIL.tables, *partitions)


def test_the_data_version_is_the_hash_of_the_content_however_it_was_made(
    built: Workspace, instance: dg.DagsterInstance
):
    expected = content_hashes(built)
    assert {partition for _, partition in expected} == {JANUARY, FEBRUARY, USERS}
    assert data_versions(instance) == expected
    for partitions in ([JANUARY, USERS], [FEBRUARY]):
        made = run(built, instance, *partitions)
        events = [e.step_materialization_data for e in made.all_events if e.is_step_materialization]
        ran = [FEBRUARY] if len(partitions) == 1 else [JANUARY, FEBRUARY, USERS]
        seen = [(e.materialization.asset_key.path[-1], e.materialization.partition) for e in events]
        assert sorted(seen) == sorted(
            (table, partition) for table in MAIL.tables for partition in ran
        )
        assert data_versions(instance) == expected


def test_after_a_build_nothing_is_stale_and_after_a_change_what_the_plan_says(
    built: Workspace, instance: dg.DagsterInstance
):
    observe(built, instance)
    assert built.due() == {}
    run(built, instance, JANUARY, USERS)
    assert built.due() == {}
    assert observe(built, instance) == {}
    assert stale(built, instance) == {}

    built.write("dev/dev.2004-02.mbox", [Mail(700, "Another month altogether.", "News")])
    built.write("dev/dev.2004-03.mbox", [Mail(701, "A month that is new.", "News")])
    assert observe(built, instance) == {"dev": [FEBRUARY, "dev/2004-03"]}
    plan = built.plan()
    found = stale(built, instance)
    reading = ("messages", "attachments", "quarantine")
    assert {p for p, s in found.items() if s == StaleStatus.STALE} == {
        (t, FEBRUARY) for t in reading
    }
    assert {p for p, s in found.items() if s == StaleStatus.MISSING} == {
        (table, "dev/2004-03") for table in plan.stale["dev/2004-03"]
    }
    # Dagster judges by what was made; that the rest follows is what the plan knows beforehand.
    assert set(plan.stale[FEBRUARY]) == set(MAIL.tables)

    run(built, instance, FEBRUARY, "dev/2004-03")
    assert stale(built, instance) == {}
    assert built.plan().stale == {}


def test_after_a_build_nothing_over_the_whole_lake_is_stale(
    built: Workspace, instance: dg.DagsterInstance
):
    built.write("dev/dev.2004-02.mbox", [Mail(700, "Another month altogether.", "News")])
    observe(built, instance)
    assert built.build().published
    whole = [
        (key.path[-1], None)
        for definition in make_assets(built.settings)
        if definition.partitions_def is None
        for key in definition.keys
    ]
    assert len(whole) >= 15
    assert statuses(built, instance, whole) == {}


def test_a_source_that_comes_or_goes_makes_nothing_of_others_stale(
    built: Workspace, instance: dg.DagsterInstance
):
    observe(built, instance)
    run(built, instance, JANUARY, USERS)
    built.write("more/more.2004-01.mbox", [Mail(800, "Of another list.", "News")])
    kept = {"name": "dev", "kind": "mbox", "path": "mail/dev/*"}
    built.configure(
        kept,
        {"name": "users", "kind": "mbox", "path": "mail/users/*"},
        {"name": "more", "kind": "mbox", "path": "mail/more/*"},
    )
    assert observe(built, instance) == {"more": ["more/2004-01"]}
    assert {partition for _, partition in stale(built, instance)} == {"more/2004-01"}

    built.configure(kept)
    assert observe(built, instance) == {}
    assert stale(built, instance) == {}
    observed = instance.fetch_observations(source_key("dev"), limit=10).records
    assert len(observed) == 1
