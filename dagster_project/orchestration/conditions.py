"""Conditions under which Dagster makes assets by itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import reduce
from operator import or_

import dagster as dg

from dagster_project.orchestration.names import COMMAND_TAG


@dataclass(frozen=True)
class Watched:
    """What tells an asset over the whole lake that something that it is made of changed, or will."""

    changes: Collection[dg.AssetKey]
    """Of what it is made of what a run makes last."""
    runs: Collection[dg.AssetKey]
    """What the last step of each run makes that makes something of that."""


def whole_lake_condition(
    watched: Watched, whole: dg.AssetSelection, of: dg.AssetSelection | None = None
) -> dg.AutomationCondition:
    """When an asset over the whole lake is made: something that it is made of changed, and nothing of that is under way.

    Of what it is made of it looks at `watched` alone: Dagster stores what it found of each asset at every change.
    Very long texts hold nothing up: what of them is under way follows later. Only changes of the assets `of` count,
    if some are named. A command, and a run that makes the asset too, also go on with what they changed: neither counts.
    Only a request forgets a change. The end of a run does not: a partition that waited for the locks of a publish was
    made before the next tick, and a condition that the publish reset left the index stale until the full hour.
    It waits while one of the assets `whole` that it is made of is missing: they are first made together.
    """
    changes = dg.AssetSelection.assets(*watched.changes)
    missing = dg.AutomationCondition.missing() & ~dg.AutomationCondition.will_be_requested()
    updated = dg.AutomationCondition.newly_updated() & ~dg.AutomationCondition.executed_with_root_target()
    of_command = dg.AutomationCondition.all_new_updates_have_run_tags(tag_keys={COMMAND_TAG})
    changed = dg.AutomationCondition.any_deps_match(
        (updated & ~of_command) | dg.AutomationCondition.will_be_requested()
    ).allow(changes & of if of else changes)
    requested = dg.AutomationCondition.newly_requested()
    in_progress = dg.AutomationCondition.in_progress()
    of_that = [dg.AutomationCondition.asset_matches(key, in_progress) for key in watched.runs]
    return (
        changed.with_label("something that it is made of changed").since(requested)
        & ~dg.AutomationCondition.any_deps_match(missing)
        .allow(changes & whole)
        .with_label("some of that is missing")
        & ~reduce(or_, of_that, in_progress).with_label("it or some of that is under way")
    )


def daily_condition() -> dg.AutomationCondition:
    """When an asset that no build makes is made: once there is all that it is made of, and then once a day."""
    first = dg.AutomationCondition.missing().newly_true().with_label("it was never made")
    daily = dg.AutomationCondition.cron_tick_passed("@daily").with_label("a day has passed")
    return (
        (first | daily).since_last_handled()  # type: ignore[misc]
        & ~dg.AutomationCondition.any_deps_missing()
        & ~dg.AutomationCondition.any_deps_in_progress()
        & ~dg.AutomationCondition.in_progress()
    )
