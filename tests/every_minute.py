"""Weft as Dagster loads it, but for times: its schedule ticks every minute and its sensors look every five seconds."""

import os

from dagster_project.definitions import defs
from dagster_project.orchestration.triggers import schedules

schedules.CRON = "* * * * *"
schedules.INTERVAL_SECONDS = int(os.environ.get("WEFT_SECONDS_OF_LOOKS", "5"))

__all__ = ["defs"]
