"""Weft as Dagster loads it, but for times: a refresh begins every minute and its sensors look as
often as Dagster can.

Its runs are processes of their own, as ever, but forked from one that has loaded Dagster's and
Weft's modules.
"""

from multiprocessing.context import ForkServerProcess, SpawnProcess

from dagster_project.definitions import defs
from dagster_project.orchestration.triggers import schedules
from tests.processes import FORKS

schedules.PERIOD_SECONDS = 60
schedules.INTERVAL_SECONDS = 1
SpawnProcess._Popen = staticmethod(ForkServerProcess._Popen)  # type: ignore[assignment, method-assign]

__all__ = ["FORKS", "defs"]
