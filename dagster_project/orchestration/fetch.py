"""Bringing what the sources' remotes have: the work behind `weft fetch`, and the first step of a build."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import dagster as dg

from assets.fetch import GROUP, fetched_key
from dagster_project.config.settings import Settings
from dagster_project.definitions import FETCH, build_definitions
from transforms.errors import SettingsError

ROOT_TAG = "weft/root"
"""Tag of the runs of a build: the storage root, whose build lock they ran under."""


@dataclass(frozen=True)
class FetchOutcome:
    """What became of a source's fetch: its counts and lag, or the fault that ended it."""

    fault: str | None = None
    added: int = 0
    changed: int = 0
    removed: int = 0
    bytes: int = 0
    lag_seconds: float | None = None
    notes: str | None = None

    def as_json(self) -> dict[str, Any]:
        """What `--json` prints of it."""
        outcome = "FAILED" if self.fault else "FETCHED" if self.is_change else "UNCHANGED"
        return {"outcome": outcome, **{k: v for k, v in asdict(self).items() if v is not None}}

    @property
    def is_change(self) -> bool:
        """True if a file or mail came, changed or went."""
        return bool(self.added or self.changed or self.removed)


def fetch_sources(
    settings: Settings,
    instance: dg.DagsterInstance,
    names: Sequence[str] = (),
    tell: Callable[[str, str | None, int], None] = lambda stage, partition, rows: None,
) -> dict[str, FetchOutcome]:
    """Run the assets of all sources with `fetch`, or of those named, and say what became of each.

    A source that cannot be fetched keeps no other from it. The caller holds the build lock.
    SettingsError for a name that is no fetched source.
    """
    remote = {s.name: s for s in settings.sources if s.remote}
    if unknown := sorted(set(names) - set(remote)):
        known = ", ".join(sorted(remote)) or "none"
        raise SettingsError(f"no source with fetch is called {unknown[0]!r}; there are: {known}")
    wanted = [name for name in remote if not names or name in names]
    if not wanted:
        return {}
    result = (
        build_definitions(settings)
        .resolve_job_def(FETCH)
        .execute_in_process(
            instance=instance,
            asset_selection=[fetched_key(name) for name in wanted],
            tags={ROOT_TAG: str(settings.root)},
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            raise_on_error=False,
        )
    )
    outcomes = {name: _outcome(result, name, remote[name].fetch_step) for name in wanted}
    for name, outcome in outcomes.items():
        tell(GROUP, name, outcome.added + outcome.changed)
    return outcomes


def fetch_faults(outcomes: Mapping[str, FetchOutcome]) -> str:
    """One line per source whose fetch failed, with the reason; empty if none did."""
    return "\n".join(f"source {name}: {o.fault}" for name, o in outcomes.items() if o.fault)


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
            return FetchOutcome(data.error.message.strip() if data.error else "unknown")
    return FetchOutcome(f"run {result.run_id} ended before it was fetched")
