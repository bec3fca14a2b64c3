"""Bringing what the sources' remotes have: the work behind `weft fetch`, and the first step of a build."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import dagster as dg

from assets.fetch import GROUP, fetched_key
from dagster_project.composition.objects import make_lake
from dagster_project.config.settings import Settings
from dagster_project.lake.forgotten import Forgotten
from dagster_project.orchestration.asset_jobs import asset_definitions
from dagster_project.orchestration.names import COMMAND_TAG
from dagster_project.orchestration.outcomes import FetchOutcome
from dagster_project.orchestration.runs import root_cause, run_here
from dagster_project.orchestration.work import Work
from transforms.errors import SettingsError


def fetch_sources(
    settings: Settings,
    instance: dg.DagsterInstance,
    names: Sequence[str] = (),
    tell: Callable[[str, str | None, int], None] = lambda stage, partition, rows: None,
    tags: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, FetchOutcome]:
    """Run the assets of all sources with `fetch`, or of those named, and say what became of each.

    A source that cannot be fetched keeps no other from it, and one that was forgotten is not fetched. The caller holds the
    build lock. SettingsError for a name that is no fetched source.
    """
    remote = {s.name: s for s in settings.sources if s.remote}
    if unknown := sorted(set(names) - set(remote)):
        known = ", ".join(sorted(remote)) or "none"
        raise SettingsError(f"no source with fetch is called {unknown[0]!r}; there are: {known}")
    forgotten = Forgotten(make_lake(settings).base)
    wanted = [n for n in remote if (not names or n in names) and not forgotten.has("source", n)]
    if not wanted:
        return {}
    keys = [fetched_key(name) for name in wanted]
    tags = {COMMAND_TAG: str(settings.root), **tags}
    result = run_here(asset_definitions(settings), instance, Work(()), tags, keys=keys, checked=False)
    outcomes = {name: _outcome(result, name, remote[name].fetch_step) for name in wanted}
    for name, outcome in outcomes.items():
        tell(GROUP, name, outcome.added + outcome.changed)
    return outcomes


def _outcome(result: dg.ExecuteInProcessResult, source: str, step: str) -> FetchOutcome:
    for event in result.all_events:
        if event.step_key != step:
            continue
        if event.is_step_materialization:
            metadata = event.step_materialization_data.materialization.metadata
            facts: dict[str, Any] = {k: v.value for k, v in metadata.items()}
            return FetchOutcome(**{k: facts[k] for k in FetchOutcome.__dataclass_fields__ if k in facts})
        if event.is_step_failure:
            data = event.step_failure_data
            if told := data.user_failure_data:
                facts = {k: v.value for k, v in told.metadata.items()}
                return FetchOutcome(told.description, lag_seconds=facts.get("lag_seconds"))
            error = root_cause(data.error)
            return FetchOutcome(error.message.strip() if error else "unknown")
    return FetchOutcome(f"run {result.run_id} ended before it was fetched")
