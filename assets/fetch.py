"""Fetching: one asset per source that has a remote, each with its own retries, checks and lag."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import dagster as dg

from assets.protocols.sources import Fetched, Remotes
from assets.stages.shown import warning
from transforms.errors import FetchError, FetchInterruptedError

GROUP = "fetch"
POOL = "fetch"
REACHABLE, LAG = "reachable", "lag"
_HOUR = 3600


_ATTEMPTS = 3
"""Attempts of one run, while the fault is one that may pass."""
_BACKOFF_SECONDS = 10.0
"""Seconds before the second attempt; then twice as long each."""


def fetched_key(source: str) -> dg.AssetKey:
    """Key of the asset that fetches a source."""
    return dg.AssetKey([GROUP, source])


def fetched_asset(
    source: str, step: str, kind: str, max_lag_hours: float | None
) -> dg.AssetsDefinition:
    """The asset of a source's fetched files: one fetch, its counts and its lag.

    A fault that may pass is repeated, any other fails at once. The check `reachable` tells of both,
    `lag` warns when the newest mail or file is too old.
    """
    key = fetched_key(source)

    @dg.multi_asset(
        name=step,
        specs=[
            dg.AssetSpec(
                key,
                group_name=GROUP,
                kinds={kind},
                description=f"The files that the source {source} fetched, which its partitions are read from.",
            )
        ],
        check_specs=[dg.AssetCheckSpec(name, asset=key) for name in (REACHABLE, LAG)],
        retry_policy=dg.RetryPolicy(
            max_retries=_ATTEMPTS - 1,
            delay=_BACKOFF_SECONDS,
            backoff=dg.Backoff.EXPONENTIAL,
            jitter=dg.Jitter.PLUS_MINUS,
        ),
        pool=POOL,
    )
    def fetch_source(
        context: dg.AssetExecutionContext, remotes: dg.ResourceParam[Remotes]
    ) -> Iterator[Any]:
        try:
            fetched = remotes.fetch(source)
        except FetchError as fault:
            lag = remotes.lag_seconds(source)
            yield _reached(key, str(fault))
            yield _lag(key, lag, max_lag_hours)
            raise _failure(fault, lag, context.retry_number < _ATTEMPTS - 1) from None
        yield dg.MaterializeResult(asset_key=key, metadata=_facts(fetched))
        yield _reached(key, None)
        yield _lag(key, fetched.lag_seconds, max_lag_hours)

    return fetch_source


def _facts(fetched: Fetched) -> dict[str, Any]:
    """The counts of a fetch as metadata, without unknown ones."""
    facts = asdict(fetched) | {
        "newest_at": dg.MetadataValue.timestamp(fetched.newest_at) if fetched.newest_at else None,
        "notes": "\n".join(fetched.notes) or None,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _reached(key: dg.AssetKey, fault: str | None) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=fault is None,
        asset_key=key,
        check_name=REACHABLE,
        metadata={"fault": fault} if fault else {},
    )


def _lag(
    key: dg.AssetKey, lag_seconds: float | None, max_lag_hours: float | None
) -> dg.AssetCheckResult:
    """Whether the newest mail or file is young enough; without a limit, or before anything came, it
    is.
    """
    if lag_seconds is None:
        return warning(key, LAG, True)
    is_young = max_lag_hours is None or lag_seconds <= max_lag_hours * _HOUR
    return warning(key, LAG, is_young, lag_seconds=lag_seconds)


def _failure(fault: FetchError, lag_seconds: float | None, is_not_last: bool) -> Exception:
    """How a step ends for a fault: a repetition after the asked pause, by the policy, or none."""
    passes = isinstance(fault, FetchInterruptedError)
    if isinstance(fault, FetchInterruptedError) and fault.pause and is_not_last:
        return dg.RetryRequested(max_retries=1_000, seconds_to_wait=fault.pause)
    metadata = {} if lag_seconds is None else {"lag_seconds": lag_seconds}
    # The last failure is final: else its place in the run says how many attempts there were, and
    # not why they failed.
    return dg.Failure(str(fault), metadata=metadata, allow_retries=passes and is_not_last)
