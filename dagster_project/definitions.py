"""The definitions that Dagster loads: assets, checks, jobs, schedules, sensors and their resources."""

import os
from pathlib import Path

import dagster as dg

from dagster_project.config.places import CONFIG_VARIABLE, DEFAULT_CONFIG
from dagster_project.config.settings import Settings, load_settings
from dagster_project.orchestration.alerts import failed_runs_sensor, warnings_sensor
from dagster_project.orchestration.asset_jobs import (
    asset_definitions,
    published_definitions,
    refresh_jobs,
)
from dagster_project.orchestration.names import REFRESH_NOW
from dagster_project.orchestration.triggers.schedules import (
    daily_schedules,
    following_sensor,
    hourly_sensor,
)
from transforms.errors import SettingsError

SAMPLE = Path(__file__).parents[1] / "data" / "sample" / "weft.toml"
"""The settings of the shipped sample, there in a clone and not in an installed package."""
SETTINGS_FAULT = "settings_do_not_load"
"""The one asset that Dagster shows in place of all others where the settings are wrong."""
_VALIDATES = "DAGSTER_IS_DEFS_VALIDATION_CLI"
"""Set by `dagster definitions validate` and `dg check defs`, which are asked whether the settings
are right.
"""


def build_definitions(settings: Settings) -> dg.Definitions:
    """The definitions for `settings`."""
    assets = asset_definitions(settings)
    alerts = (
        [failed_runs_sensor(settings), warnings_sensor(settings)] if settings.alerts.is_set else []
    )
    names = {job.name for job in refresh_jobs(settings)}
    jobs = [job for job in assets.jobs or () if job.name in names]
    fetches = any(source.remote for source in settings.sources)
    begins = [job for job in assets.jobs or () if fetches and job.name == REFRESH_NOW]
    triggers = dg.Definitions(
        schedules=daily_schedules(settings),
        sensors=[
            hourly_sensor(settings, [*jobs, *begins]),
            following_sensor(settings, jobs),
            *alerts,
        ],
    )
    return dg.Definitions.merge(assets, published_definitions(settings), triggers)


@dg.definitions
def defs() -> dg.Definitions:
    """The definitions for `WEFT_CONFIG`, else for `weft.toml` here, else for the shipped sample.

    Settings that do not load become one asset that says what to do: the UI hides a load error
    behind two tracebacks, on a page that nobody opens first.
    """
    has_settings = os.environ.get(CONFIG_VARIABLE) or Path(DEFAULT_CONFIG).exists()
    try:
        return build_definitions(
            load_settings(None if has_settings or not SAMPLE.exists() else SAMPLE)
        )
    except SettingsError as fault:
        if os.environ.get(_VALIDATES):
            raise fault.with_traceback(None) from None
        return _fault_definitions(fault)


def _fault_definitions(fault: SettingsError) -> dg.Definitions:
    """An asset that nothing makes, which says in place of all others why the settings do not load."""
    remedy = "Mend it, then reload the code location under **Deployment**."
    asset = dg.AssetSpec(
        SETTINGS_FAULT,
        description="\n\n".join([*str(fault).splitlines(), remedy]),
        group_name="fault",
        kinds={"toml"},
    )
    return dg.Definitions(assets=[asset])
