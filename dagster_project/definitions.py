"""What Dagster loads: assets, checks, jobs, the schedule and their resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets.publish import publish_checks
from dagster_project.composition import make_assets, make_resources
from dagster_project.schedules import hourly_job, hourly_schedule
from dagster_project.settings import Settings, load_settings

REFRESH = "refresh"
"""The job that materializes assets: all of them, for the partitions of the run."""


def build_definitions(settings: Settings, resources: Mapping[str, Any] | None = None) -> dg.Definitions:
    """The definitions for `settings`; `resources` replaces resources by name."""
    return dg.Definitions(
        assets=make_assets(settings),
        asset_checks=[publish_checks(settings.embedding)],
        jobs=[
            dg.define_asset_job(
                REFRESH,
                selection=dg.AssetSelection.all(),
                description="Parse, chunk, embed and publish; for the partitions of the run.",
                executor_def=dg.in_process_executor,
            ),
            hourly_job(settings),
        ],
        schedules=[hourly_schedule(settings)],
        resources={**make_resources(settings), **(resources or {})},
        executor=dg.in_process_executor,
    )


@dg.definitions
def defs() -> dg.Definitions:
    """What Dagster loads: the definitions for the settings file that `WEFT_CONFIG` names."""
    return build_definitions(load_settings())
