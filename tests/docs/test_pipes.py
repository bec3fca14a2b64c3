"""docs/deploy/pipes.py: what it asks services for is what a driver on this machine runs."""

import importlib.util
import runpy
import shutil
import sys
from pathlib import Path

import dagster as dg
import pytest

from tests.archives import Workspace, differences, lake_hashes, two_lists

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"
PIPES = runpy.run_path(str(DEPLOY / "pipes.py"))
JOB = str(DEPLOY / "spark_job.py")


def test_every_service_gets_the_arguments_of_the_driver():
    command = PIPES["spark_submit"]("yarn", JOB, "/mnt/weft.toml")
    assert command[-5:] == [JOB, "build", "--quiet", "--config", "/mnt/weft.toml"]
    assert PIPES["emr_step"](JOB, "/mnt/weft.toml")["HadoopJarStep"]["Args"] == command
    task = PIPES["databricks_task"](JOB, "/mnt/weft.toml")["spark_python_task"]
    assert [task["python_file"], *task["parameters"]] == command[-5:]


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")  # Pipes itself uses what Dagster warns of
def test_a_driver_that_pipes_starts_makes_what_a_build_makes(
    built_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if importlib.util.find_spec("pyspark") is None or not shutil.which("java"):
        pytest.skip("Spark or Java is not on this machine")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    work = two_lists(tmp_path / "work", engine={"kind": "spark"})
    asset = PIPES["index_asset"](PIPES["spark_submit"]("local[2]", JOB, str(work.config)))
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [asset], instance=instance, resources={"pipes": dg.PipesSubprocessClient()}
        )
    assert result.success
    assert lake_hashes(work) == lake_hashes(built_once)
    assert differences(work.index, built_once.index) == {}
