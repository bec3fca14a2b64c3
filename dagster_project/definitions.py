"""What Dagster loads: assets, checks, jobs, schedules, sensors and their resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from dagster_project.config.settings import Settings, load_settings
from dagster_project.orchestration.asset_jobs import asset_definitions
from dagster_project.orchestration.run_status import lost_runs_sensor
from dagster_project.orchestration.schedules import (
    backfill_job,
    hourly_schedule,
    refresh_all_job,
    slow_lane_job,
    slow_lane_sensor,
)
from dagster_project.orchestration.vault_sensor import vault_sensor


def build_definitions(settings: Settings, resources: Mapping[str, Any] | None = None) -> dg.Definitions:
    """The definitions for `settings`; `resources` replaces resources by name."""
    refresh, slow_lane, backfill = refresh_all_job(settings), slow_lane_job(settings), backfill_job(settings)
    jobs = [refresh, slow_lane, backfill]
    triggers = dg.Definitions(
        jobs=jobs,
        schedules=[hourly_schedule(settings)],
        sensors=[
            vault_sensor(settings),
            slow_lane_sensor(settings, refresh, slow_lane),
            *([lost_runs_sensor(settings, jobs)] if settings.alerts.is_set else []),
        ],
    )
    return dg.Definitions.merge(asset_definitions(settings, resources), triggers)


@dg.definitions
def defs() -> dg.Definitions:
    """What Dagster loads: the definitions for the settings file that `WEFT_CONFIG` names."""
    return build_definitions(load_settings())
