"""Settings in, the stage and the check of triage out; without a source of issues there are none."""

from __future__ import annotations

import dagster as dg

from assets.stages.declaration import Stage
from dagster_project.config.settings import Settings
from dagster_project.extras.triage.assets import triage_check, triage_stage
from dagster_project.extras.triage.under_lens import triage_settings


def stages(settings: Settings) -> list[Stage]:
    """The stage of `issue_triage`."""
    chosen = triage_settings(settings)
    return [triage_stage(chosen)] if chosen.needs else []


def checks(settings: Settings) -> list[dg.AssetChecksDefinition]:
    """The check of `issue_triage`."""
    return [triage_check()] if triage_settings(settings).needs else []
