"""Dagster's history stays bounded, and what the UI needs stays in it."""

from datetime import datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.orchestration import runs
from dagster_project.orchestration.runs import prune_runs
from tests.archives import Mail, Workspace

INDEX = dg.AssetKey("search_index")


class Later(datetime):
    """A clock that is 31 days ahead."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(days=31)


def files(instance: dg.DagsterInstance) -> set[str]:
    return {p.stem for p in (Path(instance.root_directory) / "history" / "runs").glob("*-*.db")}


@pytest.mark.exhaustive
def test_old_runs_go_unless_they_are_the_last_that_made_something(
    built: Workspace, monkeypatch: pytest.MonkeyPatch
):
    with built.instance() as instance:
        published = {r.run_id for r in instance.get_runs() if INDEX in (r.asset_selection or ())}
        built.write("dev/dev.2004-03.mbox", [Mail(600, "A mail that came later.")])
        built.build()
        assert prune_runs(instance) == 0
        monkeypatch.setattr(runs, "datetime", Later)
        dg_partitions = instance.get_materialized_partitions(dg.AssetKey("messages"))
        gone = prune_runs(instance)
        left = {r.run_id for r in instance.get_runs()}
        assert published and gone >= 1 and not published & left, (
            "the first publish was followed by another"
        )
        assert instance.get_materialized_partitions(dg.AssetKey("messages")) == dg_partitions
        assert not published & files(instance)
        assert instance.get_latest_materialization_event(INDEX)
        assert prune_runs(instance) == 0
    built.write("dev/dev.2004-03.mbox", [Mail(601, "Another one.")])
    assert built.build().published
