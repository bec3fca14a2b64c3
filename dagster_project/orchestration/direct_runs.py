"""Runs without Dagster's executor, which takes as long as all stages of a batch of a few mails.

The stages, their locks and their checks are the same. Dagster hears of the results later, of many
batches in one run.
"""

import contextlib
import inspect
import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import dagster as dg

from assets.operations import readiness_checks
from assets.partitions import SOURCE_TYPES
from assets.publish import publish_checks
from assets.sources import DATA_VERSION
from dagster_project.composition.objects import ConfiguredResource, make_lake, make_resources
from dagster_project.config.settings import Settings
from dagster_project.lake.io_manager import LakeIOManager
from dagster_project.lake.lake import commit_all
from dagster_project.orchestration.asset_graph import make_assets
from dagster_project.orchestration.asset_jobs import recording_job, whole_assets
from dagster_project.orchestration.names import COMMAND_TAG
from dagster_project.orchestration.runs import partitions_within, run_job_here
from dagster_project.orchestration.work import Work
from dagster_project.system.locks import lake_lock
from dagster_project.system.long_work import CountedProgress
from transforms.errors import SetAsideError

_READ_TOGETHER = {table for kind in SOURCE_TYPES for table in kind.tables}
_RECORDED_EVERY = 3600.0
"""Seconds after which Dagster hears of the batches: a run for each would swell its history."""
_MOST_UNRECORDED = 2_000


@dataclass
class DirectResult:
    """The results of a run: its materializations, and those of checks."""

    events: list[dg.AssetMaterialization] = field(default_factory=list)
    checks: list[dg.AssetCheckResult] = field(default_factory=list)


class DirectRuns:
    """Runs in this process, for as long as it stays."""

    def __init__(self, settings: Settings, instance: dg.DagsterInstance):
        self.settings, self.instance = settings, instance
        self._unrecorded: dict[tuple[dg.AssetKey, str | None], dg.AssetMaterialization] = {}
        self._recorded = time.monotonic()

    @cached_property
    def _steps(self) -> list[dg.AssetsDefinition]:
        """The assets and checks in their order; checks that may stop a publish are before it."""
        steps: list[dg.AssetsDefinition] = []
        for definition in make_assets(self.settings):
            if dg.AssetKey("search_index") in definition.keys:
                steps.append(publish_checks(self.settings.embedding))
            steps.append(definition)
        return [*steps, readiness_checks(self.settings.operations)]

    def do(self, work: Work, progress: CountedProgress) -> DirectResult | None:
        """Do the work of a run; None if it fails, or stops before a publish. SetAsideError if mails
        or documents cause it, as from a run of Dagster.

        Then a run of Dagster is to do it, which fails in the same way, and is listed with the
        reason.
        """
        result, tables = DirectResult(), {key.path[-1] for key in work.keys}
        alone = bool(tables & whole_assets(self.settings))
        shares = alone or bool(tables & _READ_TOGETHER)
        with contextlib.ExitStack() as holds:
            if shares:
                root, lake = self.settings.root, self.settings.lake_uri
                holds.enter_context(lake_lock(root, exclusive=alone, lake=lake))
            manager = LakeIOManager(make_lake(self.settings))
            holds.enter_context(contextlib.closing(manager))
            resources = self._resources(manager, progress)
            run = SimpleNamespace(
                run_id=uuid.uuid4().hex, run_config={}, asset_selection=frozenset(work.keys)
            )
            try:
                for step in self._steps:
                    if not self._do_step(step, work, run, resources, result):
                        return None
            except SetAsideError:
                raise
            except Exception:  # the run of Dagster that follows meets it again, and names it
                logging.getLogger("weft").debug("a direct run failed", exc_info=True)
                return None
        self._unrecorded |= {(event.asset_key, event.partition): event for event in result.events}
        return result

    def _resources(self, manager: LakeIOManager, progress: CountedProgress) -> dict[str, Any]:
        by_name = {**make_resources(self.settings), "progress": progress, "io_manager": manager}
        return {
            name: one.working.instance if isinstance(one, ConfiguredResource) else one
            for name, one in by_name.items()
        }

    def _do_step(
        self,
        step: dg.AssetsDefinition,
        work: Work,
        run: SimpleNamespace,
        resources: Mapping[str, Any],
        result: DirectResult,
    ) -> bool:
        """Do a step, if the run is of it; False if a check says that nothing may be published."""
        keys = {*work.keys}
        specs = {spec.key: spec for spec in step.check_specs if spec.asset_key in keys}
        selected = step.keys & keys
        if not (selected or (specs and not step.keys)):
            return True
        context = self._context(step, work, run, resources, specs)
        for output in _outputs(step, context, resources):
            if isinstance(output, dg.AssetCheckResult):
                result.checks.append(output)
            else:
                result.events += _stored(step, output, resources["io_manager"])
        blocking = {spec.name for spec in specs.values() if spec.blocking}
        return all(one.passed for one in result.checks if one.check_name in blocking)

    def _context(
        self,
        step: dg.AssetsDefinition,
        work: Work,
        run: SimpleNamespace,
        resources: Mapping[str, Any],
        specs: Mapping[dg.AssetCheckKey, dg.AssetCheckSpec],
    ) -> SimpleNamespace:
        """The parts of Dagster's context that steps of a build use."""
        partitions = [] if work.first is None else self._partitions(work)
        return SimpleNamespace(
            assets_def=step,
            instance=self.instance,
            resources=SimpleNamespace(**resources),
            run=run,
            log=logging.getLogger("weft"),
            log_event=lambda event: None,
            has_partition_key=bool(partitions),
            has_partition_key_range=False,
            partition_keys=partitions,
            selected_asset_keys=step.keys & {*work.keys},
            selected_asset_check_keys=specs.keys(),
            op_execution_context=SimpleNamespace(
                op_config=None,
                selected_output_names={key.path[-1] for key in step.keys & {*work.keys}},
            ),
        )

    def _partitions(self, work: Work) -> list[str]:
        return sorted(partitions_within(self.instance, work.tags))

    def record(self, *, at_once: bool = False) -> None:
        """Let Dagster know of the results so far, in one run, if it did not for an hour."""
        is_due = time.monotonic() - self._recorded > _RECORDED_EVERY
        if not self._unrecorded or not (
            at_once or is_due or len(self._unrecorded) > _MOST_UNRECORDED
        ):
            return
        events = list(self._unrecorded.values())
        self._unrecorded, self._recorded = {}, time.monotonic()
        tags = {COMMAND_TAG: str(self.settings.root)}
        run_job_here(recording_job(events), self.instance, tags)


def _outputs(
    step: dg.AssetsDefinition, context: SimpleNamespace, resources: Mapping[str, Any]
) -> Iterator[Any]:
    """The results of the function of a step, called as Dagster calls it."""
    function = step.op.compute_fn.decorated_fn  # type: ignore[union-attr]
    names = inspect.signature(function).parameters
    outputs = function(**{n: context if n == "context" else resources[n] for n in names})
    if isinstance(outputs, Iterator):
        yield from outputs
    elif outputs is not None:
        yield outputs


def _stored(
    step: dg.AssetsDefinition, output: Any, manager: LakeIOManager
) -> list[dg.AssetMaterialization]:
    """Make the tables of an output visible in the lake; their materializations."""
    if isinstance(output, dg.MaterializeResult):
        (key,) = step.keys
        version = output.data_version.value if output.data_version else ""
        tags = {DATA_VERSION: version}
        return [dg.AssetMaterialization(key, metadata=output.metadata, tags=tags)]
    if isinstance(output.value, dict):
        parts = list(output.value.values())
        commit_all(part.staged for part in parts if part.staged)
        return [part.event for part in parts]
    key = dg.AssetKey(output.output_name)
    staged = manager.staged(output.output_name, output.value, step.code_versions_by_key.get(key))
    staged.commit()
    tags = {**(output.tags or {}), DATA_VERSION: staged.content_hash}
    return [dg.AssetMaterialization(key, metadata=output.metadata, tags=tags)]
