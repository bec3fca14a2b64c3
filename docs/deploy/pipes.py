"""`weft build` on Spark, started by a Dagster of yours through Pipes: what each service is to be
asked for.

With `[engine] kind = "spark"` the build takes the session that spark-submit began.
"""

from typing import Any

import dagster as dg


def arguments(config: str) -> list[str]:
    """Those of `weft`; `config` is a path that the driver sees."""
    return ["build", "--quiet", "--config", config]


def spark_submit(master: str, job: str, config: str) -> list[str]:
    """The command of a driver: of a container on Kubernetes (`k8s://…`), or beside this process;
    `job` is spark_job.py.
    """
    return ["spark-submit", "--master", master, "--name", "weft", job, *arguments(config)]


def emr_step(job: str, config: str) -> dict[str, Any]:
    """A step of a cluster of EMR, for `Steps` of `PipesEMRClient.run(run_job_flow_params=…)`
    (dagster-aws).
    """
    jar = {"Jar": "command-runner.jar", "Args": spark_submit("yarn", job, config)}
    return {"Name": "weft", "ActionOnFailure": "CONTINUE", "HadoopJarStep": jar}


def databricks_task(job: str, config: str) -> dict[str, Any]:
    """A task, for `PipesDatabricksClient.run(task=SubmitTask.from_dict(…))` (dagster-databricks)."""
    return {
        "task_key": "weft",
        "spark_python_task": {"python_file": job, "parameters": arguments(config)},
    }


def index_asset(command: list[str]) -> dg.AssetsDefinition:
    """An asset whose run starts a driver beside itself; `PipesK8sClient.run(image=…, command=…)`
    takes the same command.
    """

    @dg.asset(name="weft_index")
    def built(
        context: dg.AssetExecutionContext, pipes: dg.PipesSubprocessClient
    ) -> dg.MaterializeResult:
        return pipes.run(command=command, context=context).get_materialize_result()

    return built
