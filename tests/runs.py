"""Runs of assets as Dagster's daemon asks for them, and runs of which one says how far they are."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import dagster as dg

from dagster_project.definitions import build_definitions
from dagster_project.orchestration.work import Work
from dagster_project.system.dagster_internals import listed
from tests.archives import Workspace


def run_of_dagster(
    work: Workspace,
    instance: dg.DagsterInstance,
    tables: Sequence[str],
    *partitions: str,
    tags: Mapping[str, str] = MappingProxyType({}),
    checked: bool = True,
) -> dg.ExecuteInProcessResult:
    """Make tables of a partition, of a range by its ends, or over the whole lake, in a run that no
    command tells of.
    """
    made = Work(tuple(tables), *(partitions[0], partitions[-1]) if partitions else ())
    job = build_definitions(work.settings).resolve_job_def(made.job)
    return job.execute_in_process(
        instance=instance,
        asset_selection=made.keys,
        tags={**made.tags, **tags},
        raise_on_error=checked,
    )


def begun_run(
    work: Workspace,
    instance: dg.DagsterInstance,
    tables: Sequence[str],
    *partitions: str,
    tags: Mapping[str, str] = MappingProxyType({}),
    status: dg.DagsterRunStatus = dg.DagsterRunStatus.STARTED,
) -> dg.DagsterRun:
    """A run of tables of which Dagster knows no more than its status."""
    made = Work(tuple(tables), *(partitions[0], partitions[-1]) if partitions else ())
    job = build_definitions(work.settings).resolve_job_def(made.job)
    with listed(instance, job.name):
        return instance.create_run_for_job(
            job, status=status, tags={**made.tags, **tags}, asset_selection=frozenset(made.keys)
        )
