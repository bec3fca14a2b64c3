"""Names that Dagster 1.13 does not export: imported here alone, with reasons.

Three files depend on Dagster's internals without importing them: `assets/stages/stage.py` sets its
tags of provenance, the event log of `sqlite_storage.py` inherits methods, and `guarded_ui.py` puts
a layer before the web server.
"""

import contextlib
import secrets
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from dagster._check import CheckError
from dagster._config import UserConfigSchema
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.definitions.selector import (
    PartitionRangeSelector,
    PartitionsByAssetSelector,
    PartitionsSelector,
)
from dagster._core.definitions.source_asset import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from dagster._core.errors import DagsterError
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS, EVENT_TYPE_TO_PIPELINE_RUN_STATUS
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus, PartitionBackfill
from dagster._core.execution.plan.objects import ErrorSource, StepFailureData
from dagster._core.instance.config import dagster_instance_config
from dagster._core.remote_origin import (
    ManagedGrpcPythonEnvCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.storage.compute_log_manager import CapturedLogContext
from dagster._core.storage.event_log.schema import AssetKeyTable, SqlEventLogStorageTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._serdes import ConfigurableClassData

__all__ = [  # without a public name, and used elsewhere: to keep engines of the event log, and to erase its texts
    "ASSET_CHECK_EVENTS",
    "ASSET_EVENTS",
    "EVENT_TYPE_TO_PIPELINE_RUN_STATUS",
    "ONLY_OWN_EVENTS",
    "SQLITE_BUSY_TIMEOUT_SECONDS",
    "AssetKeyTable",
    "ConfigurableClassData",
    "SqlEventLogStorageTable",
    "SqliteEventLogStorage",
    "UserConfigSchema",
    "failed_by_itself",
    "listed",
    "partitions_of_backfills",
    "request_backfill",
    "run_dev",
    "set_data_version",
    "settings_fault",
]

ONLY_OWN_EVENTS = {SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True}
"""Metadata that keeps Dagster from recording a materialization of an output; Dagster exports no
name for it.

For a range of partitions it would record one data version for all (`_get_output_asset_events`).
"""
MODULE, LOCATION, REPOSITORY = "dagster_project.definitions", "weft", "__repository__"
"""The place where Dagster finds Weft, and its name for that; the shipped workspace.yaml says the
same.
"""


@contextlib.contextmanager
def listed(instance: dg.DagsterInstance, job: str) -> Iterator[None]:
    """Runs that this process makes are listed with those of the code location: on the timeline and
    the job's page.

    `execute_in_process` makes them without an origin, and takes none. Their output goes where this
    process prints: to capture it takes four processes a run.
    """
    location = ManagedGrpcPythonEnvCodeLocationOrigin(
        LoadableTargetOrigin(executable_path=sys.executable, module_name=MODULE),
        location_name=LOCATION,
    )
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(location, REPOSITORY), job)
    created = partial(instance.create_run_for_job, remote_job_origin=origin)
    instance.create_run_for_job = created  # type: ignore[method-assign]
    logs: Any = instance.compute_log_manager
    logs.capture_logs = lambda log_key: contextlib.nullcontext(CapturedLogContext(log_key))
    try:
        yield
    finally:
        del instance.create_run_for_job, logs.capture_logs


def set_data_version(context: dg.OutputContext, version: str) -> None:
    """Let an asset have that data version: an I/O manager has no public name for it."""
    context.step_context.set_data_version(context.asset_key, dg.DataVersion(version))


def settings_fault(home: Path) -> str | None:
    """Why Dagster does not understand the settings of an instance; None if it does. No public name
    reads them alone.
    """
    try:
        dagster_instance_config(str(home))
    except (DagsterError, CheckError, yaml.YAMLError, UnicodeDecodeError) as error:
        return " ".join(str(error).split("Stack Trace")[0].split())
    return None


def run_dev(arguments: Sequence[str], web_server: str) -> None:
    """Run `dagster dev` with another module as its web server, for which it has no option; its name
    is private.
    """
    # It takes a third of a second, which every command would wait for.
    from dagster._cli import dev

    start = dev.open_ipc_subprocess

    def with_web_server(parts: Sequence[str], **more: Any) -> Any:
        return start(
            [web_server if part == "dagster_webserver" else part for part in parts], **more
        )

    dev.open_ipc_subprocess = with_web_server
    dev.dev_command(list(arguments), prog_name="dagster dev")


def failed_by_itself(event: dg.DagsterEvent) -> bool:
    """True if a step failed, and was not just interrupted. The kind of a fault has no public name."""
    data = event.event_specific_data
    return isinstance(data, StepFailureData) and data.error_source != ErrorSource.INTERRUPT


def partitions_of_backfills(
    instance: dg.DagsterInstance, definitions: Callable[[], dg.Definitions]
) -> set[str]:
    """The partitions that backfills under way are to make. Dagster has no public name for the
    target of a backfill.
    """
    under_way = [BulkActionStatus.REQUESTED, BulkActionStatus.CANCELING, BulkActionStatus.FAILING]
    keys: set[str] = set()
    for backfill in instance.get_backfills(filters=BulkActionsFilter(statuses=under_way)):
        if backfill.is_asset_backfill:
            target = backfill.get_asset_backfill_data(
                definitions().resolve_asset_graph()
            ).target_subset
            for asset in target.partitions_subsets_by_asset_key:
                keys |= set(target.get_partitions_subset(asset).get_partition_keys())
    return keys


def request_backfill(
    instance: dg.DagsterInstance,
    definitions: dg.Definitions,
    ranges: Mapping[dg.AssetKey, Collection[tuple[str, str]]],
    tags: Mapping[str, str],
) -> str:
    """Ask the daemon for a backfill of ranges of partitions of assets; its id. The UI does it by
    its own server.
    """
    selectors = [
        PartitionsByAssetSelector(
            asset_key=asset,
            partitions=PartitionsSelector(
                [PartitionRangeSelector(first, last) for first, last in pairs]
            ),
        )
        for asset, pairs in ranges.items()
    ]
    with partition_loading_context(dynamic_partitions_store=instance):
        backfill = PartitionBackfill.from_partitions_by_assets(
            backfill_id=secrets.token_hex(4),
            asset_graph=definitions.resolve_asset_graph(),
            backfill_timestamp=time.time(),
            tags=dict(tags),
            dynamic_partitions_store=instance,
            partitions_by_assets=selectors,
            title="weft build --backfill",
            description=None,
            run_config=None,
        )
    instance.add_backfill(backfill)
    return backfill.backfill_id
