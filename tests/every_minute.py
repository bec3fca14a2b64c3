"""Weft as Dagster loads it, but for times: its schedule ticks every minute and its sensors look as often as Dagster can."""

from dagster_project.definitions import defs
from dagster_project.orchestration.triggers import schedules

schedules.CRON = "* * * * *"
schedules.INTERVAL_SECONDS = 1

__all__ = ["defs"]
