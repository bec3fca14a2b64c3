"""Tasks on Spark: a row of a frame for each, which Arrow brings to a Python process beside an
executor.
"""

import os
import pickle
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from assets.protocols.engine import Outcome
from dagster_project.extras.engines.task import run_task
from transforms.errors import EngineError
from transforms.settings.operations import EngineSettings

_COLUMN = "outcome"
_LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_ON_THIS_MACHINE: dict[str, Any] = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": _LIGHT,
    "spark.executor.extraJavaOptions": _LIGHT,
}
"""Options of a session on this machine: its JVM only hands out tasks, and would compile itself half
of the time.
"""


class SparkCluster:
    """A session of Spark, begun when the first tasks come."""

    def __init__(self, settings: EngineSettings):
        self.settings = settings
        self._session: SparkSession | None = None

    def run(self, place: str, count: int) -> list[Outcome]:
        """The outcomes of the tasks 0 to `count` of the file at `place`; Spark repeats those of a
        lost executor.

        EngineError if Spark cannot be reached or gives up.
        """
        at_once = min(count, self.settings.tasks or count)
        try:
            with warnings.catch_warnings():
                # Spark 4 warns of pandas 3, which it does not use here.
                warnings.filterwarnings(
                    "ignore", "PySpark does not yet fully support pandas", FutureWarning
                )
                self._session = self._session or self._new_session()
                # A partition of the frame is a task of Spark: as many as may run at once, else one
                # for each of ours.
                numbers = self._session.range(0, count, 1, at_once)
                rows = numbers.mapInArrow(partial(_outcomes, place), f"{_COLUMN} binary").collect()
        except (PySparkException, OSError) as error:
            raise EngineError(
                f"Spark at {os.environ.get('MASTER', 'its own master')}: {_reason(error)}"
            ) from error
        return [pickle.loads(row[_COLUMN]) for row in rows]

    def _new_session(self) -> SparkSession:
        """The session of this process if it has one, else a new one at the master of the
        environment.
        """
        # Workers of this machine run the same Python; a cluster's image says by itself which it
        # has.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        builder = SparkSession.builder.appName("weft")
        master = os.environ.get("SPARK_REMOTE") or os.environ.get("MASTER")
        if master and master.startswith("sc://"):
            return builder.remote(master).getOrCreate()
        builder = builder.config("spark.ui.showConsoleProgress", "false").config(
            "spark.log.level", "ERROR"
        )
        if master and master.startswith("local"):
            builder = builder.config(map=_ON_THIS_MACHINE)
        return (builder.master(master) if master else builder).getOrCreate()

    def close(self) -> None:
        """End the session, if there is one."""
        if self._session:
            self._session.stop()
            self._session = None


def _outcomes(place: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs in a worker: the outcome of each task whose number is in `batches`."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            outcome = pickle.dumps(run_task(place, number))
            yield pa.RecordBatch.from_arrays([pa.array([outcome], pa.binary())], [_COLUMN])


def _reason(error: Any) -> str:
    """The reason in an error of Spark without its traces: the last line of a worker's, or the
    details of Connect.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if "EngineError: " in line]
    if ours:
        return ours[-1].partition("EngineError: ")[2]
    details = (line.partition(" = ")[2] for line in lines if line.startswith("details = "))
    return next(details, next(iter(lines), type(error).__name__))
