"""Runs: those of this process, those that live or whose process is gone, the tables of each, and
those to delete.
"""

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from assets.partitions import CONTEXT, SOURCE_TYPES
from dagster_project.orchestration.names import (
    APART_TAG,
    COMMAND_TAG,
    ENDED_TAG,
    REFRESH_TAG,
    WHOLE_LAKE,
    partitions_job,
)
from dagster_project.orchestration.outcomes import Interrupted
from dagster_project.orchestration.work import PARTITION, RANGE_END, RANGE_START, Work, job_of
from dagster_project.system.dagster_internals import listed
from dagster_project.system.disk_space import IN_THE_WAY
from dagster_project.system.durable import remove
from dagster_project.system.locks import forget_run, lake_lock, living_run, runs_of
from transforms.errors import CheckFailedError, WeftError

_READ_TOGETHER = {table for source_type in SOURCE_TYPES for table in source_type.tables}
FINISHED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
UNFINISHED = [s for s in dg.DagsterRunStatus if s not in (*FINISHED, dg.DagsterRunStatus.MANAGED)]


@contextlib.contextmanager
def held_by_run(
    context: dg.InitResourceContext,
    root: Path,
    lake: str,
    whole: Collection[str],
    tell: Callable[[str | None], None],
    apart: Callable[[Collection[str]], object],
) -> Iterator[None]:
    """While a run lasts: the lock that says that it lives, and its hold on the lake; before, `apart`
    of the partitions over which a process may have ended.

    It has the lake alone if it makes one of the tables `whole`, which are read and published
    together. It shares it while it makes partitions that these are made of; fetches and context
    need no hold. `tell` hears of those for whom it waits, and of None when it has waited. Without a
    run nothing is held.
    """
    run, instance = context.run, context.instance
    if run is None or instance is None:
        yield
        return
    tables = run_tables(run)
    waits: list[str] = []

    def note_wait() -> None:
        waits.append(", ".join(others_at_work(instance, root, run.run_id)) or "another process")
        tell(waits[0])
        if context.log:
            context.log.info("waits for the lake: %s", waits[0])

    with contextlib.ExitStack() as holds:
        holds.enter_context(living_run(root, run.run_id))
        if partitions := suspected(instance, run):
            instance.add_run_tags(run.run_id, {APART_TAG: "true"})
            apart(partitions)
        alone = bool(tables & set(whole))
        if alone or tables & _READ_TOGETHER:
            holds.enter_context(lake_lock(root, exclusive=alone, on_wait=note_wait, lake=lake))
        if waits:
            tell(None)
        yield


def refresh_of(run: dg.DagsterRun) -> str:
    """The refresh that a run belongs to; a backfill, and a run that a person launched, is one of
    its own.
    """
    return run.tags.get(REFRESH_TAG) or run.tags.get("dagster/backfill") or run.run_id[:8]


def run_tables(run: dg.DagsterRun) -> set[str]:
    """The tables that a run makes; of a whole job, launched on its page, those that belong to it by
    its name.
    """
    if run.asset_selection is not None:
        return {key.path[-1] for key in run.asset_selection if len(key.path) == 1}
    of_job = {WHOLE_LAKE: {"search_index"}}
    for source_type in (*SOURCE_TYPES, CONTEXT):
        of_job.setdefault(partitions_job(source_type.partitions), set()).update(source_type.tables)
    return of_job.get(run.job_name, set())


def others_at_work(instance: dg.DagsterInstance, root: Path, own: str | None = None) -> list[str]:
    """The other runs of a storage that live, as people name them."""
    runs = [run for run in living(instance, root) if run.run_id != own]
    return [f"run {run.run_id[:8]} of {', '.join(_targets(run))}" for run in runs]


def _targets(run: dg.DagsterRun) -> list[str]:
    return sorted("/".join(key.path) for key in run.asset_selection or ())[:3] or [run.job_name]


def under_way(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """The runs that wait or are going."""
    return list(instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED)))


def living(instance: dg.DagsterInstance, root: Path) -> list[dg.DagsterRun]:
    """The runs of a storage whose process lives; a run that waits needs a daemon, which may be gone
    for good.
    """
    ids = [run_id for run_id, lives in runs_of(root).items() if lives]
    return [run for run in map(instance.get_run_by_id, ids) if run]


def run_partitions(instance: dg.DagsterInstance, runs: Iterable[dg.DagsterRun]) -> set[str]:
    """The partitions that some runs are of."""
    return {partition for run in runs for partition in partitions_within(instance, run.tags)}


def partitions_within(instance: dg.DagsterInstance, tags: Mapping[str, str]) -> set[str]:
    """The partition that the tags of a run name, or those of their range."""
    if PARTITION in tags:
        return {tags[PARTITION]}
    if RANGE_START not in tags:
        return set()
    first, last = tags[RANGE_START], tags[RANGE_END]
    for source_type in SOURCE_TYPES:
        keys = list(instance.get_dynamic_partitions(source_type.name))
        if first in keys and last in keys:
            return set(keys[keys.index(first) : keys.index(last) + 1])
    return {first, last}


def close_dead_runs(
    instance: dg.DagsterInstance, root: Path, *, only_command: bool = False
) -> tuple[Interrupted, ...]:
    """Report runs whose process is gone as failed, and free their places in pools: a killed daemon
    leaves them open.

    The only command that works on a storage, since it holds the build lock, knows that those before
    it are gone, also one that was killed as it began or ended a run.
    """
    result, lives = [], runs_of(root)
    dead = [run_id for run_id in lives if not lives[run_id]]
    if only_command:
        own = dg.RunsFilter(statuses=UNFINISHED, tags={COMMAND_TAG: str(root)})
        dead += [run_id for run_id in instance.get_run_ids(filters=own) if run_id not in lives]
    for run_id in dead:
        record = instance.get_run_record_by_id(run_id)
        if record and not record.dagster_run.is_finished:
            instance.report_run_failed(record.dagster_run, "its process ended before the run did")
            instance.add_run_tags(run_id, {ENDED_TAG: "true"})
            start = datetime.fromtimestamp(
                record.start_time or record.create_timestamp.timestamp(), UTC
            )
            begun = start.isoformat(timespec="seconds")
            result.append(Interrupted(run_id, begun, tuple(_targets(record.dagster_run))))
        forget_run(root, run_id)
    storage = instance.event_log_storage
    for run_id in storage.get_concurrency_run_ids():
        holder = instance.get_run_by_id(run_id)
        if holder is None or holder.is_finished:
            storage.free_concurrency_slots_for_run(run_id)
    return tuple(result)


def suspected(instance: dg.DagsterInstance, run: dg.DagsterRun) -> set[str]:
    """The partitions of a run over which the process of an earlier one may have ended: no run has
    looked since which of their files does that.

    A command has its own look.
    """

    def begun(tag: str) -> dict[str, datetime]:
        records = instance.get_run_records(dg.RunsFilter(tags={tag: "true"}), ascending=True)
        return {
            partition: record.create_timestamp
            for record in records
            for partition in run_partitions(instance, [record.dagster_run])
        }

    own = set() if COMMAND_TAG in run.tags else run_partitions(instance, [run])
    if not own or not (ended := begun(ENDED_TAG)):
        return set()
    looked = begun(APART_TAG)
    return {p for p in own & ended.keys() if p not in looked or looked[p] < ended[p]}


def run_here(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    work: Work,
    tags: Mapping[str, str],
    *,
    keys: Sequence[dg.AssetKey] | None = None,
    checked: bool = True,
) -> dg.ExecuteInProcessResult:
    """Make some tables, or the assets of `keys`, by a run in this process, which Dagster lists like
    any other.

    The fault of the first failed step is raised as the WeftError that it is, unless the run is not
    `checked`.
    """
    selected = list(keys or work.keys)
    job = definitions.resolve_job_def(job_of(selected))
    result = run_job_here(job, instance, {**work.tags, **tags}, selected)
    if checked and not result.success:
        fault = _failure(result)
        fault.run_id = result.run_id
        raise fault
    return result


def run_job_here(
    job: dg.JobDefinition,
    instance: dg.DagsterInstance,
    tags: Mapping[str, str],
    keys: Sequence[dg.AssetKey] | None = None,
) -> dg.ExecuteInProcessResult:
    """A run of a job in this process, or of some of its assets, which Dagster lists; it prints
    nothing.
    """
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    selected = keys and list(keys)
    with listed(instance, job.name):
        return job.execute_in_process(
            quiet, instance, tags=dict(tags), asset_selection=selected, raise_on_error=False
        )


def root_cause(error: Any) -> Any:
    """The fault itself, out of Dagster's errors of the step and its attempts: the first of Weft's
    own, which has a remedy, else the last.
    """
    known = {WeftError.__name__, *(kind.__name__ for kind in _kinds())}
    while error and error.cause and error.cls_name not in known:
        error = error.cause
    return error


def _kinds(of: type[WeftError] = WeftError) -> Iterator[type[WeftError]]:
    """The kinds of Weft's own faults."""
    for kind in of.__subclasses__():
        yield kind
        yield from _kinds(kind)


def _failure(result: dg.ExecuteInProcessResult) -> WeftError:
    """Why a run failed, as the kind of fault it is: a check, or the first failed step with the root
    of its error.
    """
    blocking = dg.AssetCheckSeverity.ERROR
    if failed := [
        c for c in result.get_asset_check_evaluations() if not c.passed and c.severity == blocking
    ]:
        rules = "; ".join(
            f"check {c.check_name} failed for {c.metadata['rows'].value} rows, such as {c.metadata['examples'].value}"
            for c in failed
        )
        return CheckFailedError(f"nothing was published: {rules} (run {result.run_id})")
    kinds = {kind.__name__: kind for kind in _kinds()}
    for event in result.all_events:
        if event.is_step_failure:
            error = root_cause(event.step_failure_data.error)
            name = error.cls_name or "" if error else ""
            kind = kinds.get(name, WeftError)
            reason = _in_words(error.message, name) if error else "unknown"
            remedy = "" if name in kinds else _remedy(name, result)
            fault = kind(f"step {event.step_key} failed: {reason} (run {result.run_id}){remedy}")
            fault.step = event.step_key
            return fault
    return WeftError(f"run {result.run_id} failed")


def _builtin_names(of: type[BaseException] = Exception) -> Iterator[str]:
    """The names of Python's own kinds of faults, but for those of disk and network."""
    for kind in of.__subclasses__():
        if kind.__module__ == "builtins" and not issubclass(kind, OSError):
            yield kind.__name__
            yield from _builtin_names(kind)


_OF_CODE = {*_builtin_names()}
"""Faults of code and memory, whose messages are for programmers."""


def _in_words(message: str, kind: str) -> str:
    """The text of an error without Python's name for it, unless the text alone says nothing, and
    with the remedy if something is in the way of a file.
    """
    text = re.sub(rf"^[\w.]*\b{re.escape(kind)}(: |$)", "", message.strip())
    if kind in {error.__name__ for error in IN_THE_WAY}:
        text += ": move that away, and build again"
    if kind in _OF_CODE:
        return f"{kind}: {text}" if text else kind
    return re.sub(r"^\[Errno \d+\] ", "", text)


def _remedy(kind: str, result: dg.ExecuteInProcessResult) -> str:
    """The last part of the message for a fault of a stage itself; empty for a fault of disk or
    network, which has words of its own.
    """
    if kind not in _OF_CODE:
        return ""
    if kind == MemoryError.__name__:
        remedy = "end other programs, or give it more memory, and build again"
    else:
        remedy = "build again; if it stays so, report it with this message"
    keys = {event.asset_key for event in result.get_asset_materialization_events()}
    if dg.AssetKey("search_index") in keys:
        return f"; all else is published: {remedy}"
    return f"; nothing is published, and the version before stays: {remedy}"


_KEPT = timedelta(days=30)
"""A month of finished runs shows how long each stage takes and which fault comes back; more slows
Dagster's pages.
"""


def prune_runs(instance: dg.DagsterInstance, limit: int | None = None) -> int:
    """Delete the runs that ended more than 30 days ago, at most `limit`; their number.

    A run stays as long as it is the last that made some partition of some asset: the UI would show
    that as missing. Results of checks stay, too: Dagster deletes no evaluation with its run, and
    offers no way to.
    """
    before = datetime.now(UTC) - _KEPT
    old = instance.get_run_ids(filters=dg.RunsFilter(statuses=FINISHED, updated_before=before))
    if not old:
        return 0
    needed = _runs_that_made_what_is_there(instance)
    run_ids = [run_id for run_id in old if run_id not in needed][:limit]
    home = Path(instance.root_directory)
    for run_id in run_ids:
        instance.delete_run(run_id)
        # Dagster leaves the emptied database of the run and the output of its steps.
        remove([*(home / "history" / "runs").glob(f"{run_id}.db*"), home / "storage" / run_id])
    return len(run_ids)


def _runs_that_made_what_is_there(instance: dg.DagsterInstance) -> set[str]:
    kind = dg.DagsterEventType.ASSET_MATERIALIZATION
    ids: set[str] = set()
    for asset in instance.all_asset_keys():
        latest = list(
            instance.event_log_storage.get_latest_storage_id_by_partition(asset, kind).values()
        )
        records = dg.AssetRecordsFilter(asset_key=asset, storage_ids=latest)
        if latest:
            ids |= {
                r.run_id
                for r in instance.fetch_materializations(records, limit=len(latest)).records
            }
        if event := instance.get_latest_materialization_event(asset):
            ids.add(event.run_id)
    return ids
