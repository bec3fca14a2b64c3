"""Backfills: Dagster's daemon is asked for the stale partitions of sources, and somebody hears if
there is none.
"""

import time

import dagster as dg
import pytest

from assets.partitions import MAIL
from dagster_project.orchestration.partitions import backfill
from dagster_project.orchestration.reconcile import runs_of_dagster
from tests.archives import Workspace, differences, discussion
from tests.runs import begun_run, run_of_dagster
from transforms.errors import SettingsError, WeftError

MONTHS = [f"2004-0{month}" for month in range(1, 6)]


@pytest.fixture
def archives(workspace: Workspace) -> Workspace:
    """Five months of mail, not built."""
    for number, name in enumerate(MONTHS):
        workspace.write(f"dev.{name}.mbox", discussion(number * 10, 2, f"topic {number}"))
    return workspace


def with_daemon(instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """The instance with a daemon that works backfills off and has just shown that it lives."""
    from dagster._daemon.types import DaemonHeartbeat

    instance.add_daemon_heartbeat(DaemonHeartbeat(time.time(), "BACKFILL", "daemon"))
    return instance


@pytest.mark.exhaustive
def test_what_is_stale_is_asked_for_and_its_runs_come_to_what_a_build_does(
    archives: Workspace, tmp_path_factory: pytest.TempPathFactory
):
    full = archives.copied(tmp_path_factory.mktemp("full") / "work")
    with archives.instance() as instance:
        asked = backfill(archives.settings, with_daemon(instance))
        assert asked.partitions == tuple(f"dev/{name}" for name in MONTHS)
        (found,) = instance.get_backfills()
        assert (found.backfill_id, found.title) == (asked.backfill, "weft build --backfill")
        assert found.tags["dagster/priority"] == "-1"
        assert runs_of_dagster(archives.settings, instance, "").backfilled == set(asked.partitions)
        assert set(found.asset_selection or ()) == {dg.AssetKey(table) for table in MAIL.tables}
        run_of_dagster(archives, instance, MAIL.tables, asked.partitions[0], asked.partitions[-1])
    assert not archives.plan().stale
    archives.build()
    full.build()
    assert differences(archives.index, full.index) == {}
    with archives.instance() as instance:
        assert backfill(archives.settings, with_daemon(instance)).as_json() == {
            "outcome": "UNCHANGED",
            "backfill": None,
            "partitions": (),
            "broken": {},
        }


def test_a_backfill_of_one_source_leaves_the_others_and_what_runs_make_alone(workspace: Workspace):
    two = workspace.configure(
        {"name": "dev", "kind": "mbox", "path": "mail/dev/*"},
        {"name": "users", "kind": "mbox", "path": "mail/users/*"},
    )
    for number, name in enumerate(("dev", "users", "users")):
        two.write(f"{name}/{name}.2004-0{number + 1}.mbox", discussion(number * 10, 2, name))
    with two.instance() as instance:
        begun_run(two, instance, MAIL.tables, "users/2004-02")
        asked = backfill(two.settings, with_daemon(instance), ["users"])
    assert asked.partitions == ("users/2004-03",)


def test_a_source_that_is_none_is_named(archives: Workspace):
    with (
        archives.instance() as instance,
        pytest.raises(SettingsError, match="no source is called 'users'"),
    ):
        backfill(archives.settings, instance, ["users"])


def test_without_a_daemon_it_is_said_what_works_a_backfill_off(archives: Workspace):
    with (
        archives.instance() as instance,
        pytest.raises(WeftError, match="start `weft ui`.*`weft build`"),
    ):
        backfill(archives.settings, instance)
