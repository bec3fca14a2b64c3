"""What Dagster loads: assets, checks, jobs, schedules, sensors and their resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from dagster_project.config.settings import Settings, load_settings
from dagster_project.orchestration.alert_sensors import failed_runs_sensor, warnings_sensor
from dagster_project.orchestration.asset_jobs import asset_definitions, whole_tables
from dagster_project.orchestration.schedules import following_sensor, hourly_schedule, whole_lake_sensor
from dagster_project.orchestration.vault_sensor import vault_sensor


def build_definitions(settings: Settings, resources: Mapping[str, Any] | None = None) -> dg.Definitions:
    """The definitions for `settings`; `resources` replaces resources by name."""
    assets = asset_definitions(settings, resources)
    alerts = [failed_runs_sensor(settings), warnings_sensor(settings)] if settings.alerts.is_set else []
    asset_job = assets.resolve_implicit_global_asset_job_def().name
    triggers = dg.Definitions(
        schedules=[hourly_schedule(settings, asset_job)],
        sensors=[
            vault_sensor(settings, asset_job),
            following_sensor(settings, asset_job),
            whole_lake_sensor([dg.AssetKey(name) for name in sorted(whole_tables(settings))]),
            *alerts,
        ],
    )
    return dg.Definitions.merge(assets, triggers)


@dg.definitions
def defs() -> dg.Definitions:
    """What Dagster loads: the definitions for the settings file that `WEFT_CONFIG` names."""
    return build_definitions(load_settings())
