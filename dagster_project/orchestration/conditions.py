"""Conditions under which Dagster makes assets by itself."""

from __future__ import annotations

import dagster as dg

from assets.partitions import SLOW
from dagster_project.orchestration.names import COMMAND_TAG


def whole_lake_condition(
    watched: dg.AssetSelection, whole: dg.AssetSelection, of: dg.AssetSelection | None = None
) -> dg.AutomationCondition:
    """When an asset over the whole lake is made: something that it is made of changed, and nothing of that is under way.

    Of what it is made of it looks at `watched` alone: Dagster stores what it found of each asset at every change.
    Very long texts hold nothing up: what of them is under way follows later. Only changes of the assets `of` count,
    if some are named. What the process of a command made it also goes on with.
    It waits while one of the assets `whole` that it is made of is missing: they are first made together.
    """
    missing = dg.AutomationCondition.missing() & ~dg.AutomationCondition.will_be_requested()
    updated = dg.AutomationCondition.newly_updated()
    of_command = dg.AutomationCondition.all_new_updates_have_run_tags(tag_keys={COMMAND_TAG})
    changed = dg.AutomationCondition.any_deps_match(
        (updated & ~of_command) | dg.AutomationCondition.will_be_requested()
    )
    changed = changed.allow(watched & of if of else watched)
    return (
        changed.with_label("something that it is made of changed").since_last_handled()
        & ~dg.AutomationCondition.any_deps_match(missing)
        .allow(watched & whole)
        .with_label("some of that is missing")
        & ~dg.AutomationCondition.any_deps_in_progress().allow(
            watched - dg.AssetSelection.assets(*SLOW.tables)
        )
        & ~dg.AutomationCondition.in_progress()
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
