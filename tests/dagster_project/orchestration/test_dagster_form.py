"""The form of the private code of Dagster that Weft overrides, replaces or calls: another release that
changes it fails here, before it fails at somebody's.
"""

import inspect
from hashlib import sha256
from pkgutil import resolve_name
from typing import Any

import pytest
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage

from dagster_project.orchestration.sqlite_storage import KeptEngineEventLogStorage

LOG = "dagster._core.storage.event_log.sqlite.sqlite_event_log:SqliteEventLogStorage"
INSTANCE = "dagster:DagsterInstance"
FORMS = {
    f"{LOG}._connect": "b8435f266568",
    f"{LOG}._initdb": "7a302d98eb61",
    f"{LOG}.store_event": "f89aed406024",
    f"{LOG}.store_event_batch": "d710189545db",
    f"{LOG}.has_table": "577d801c70b2",
    f"{LOG}.has_secondary_index": "75ea1eb99d75",
    f"{LOG}._has_asset_key_col_on_connection": "981049dfa81d",
    f"{LOG}._has_asset_key_index_cols_on_connection": "8d359e6b6224",
    f"{LOG}._event_to_row": "93d47fbe7edc",
    f"{LOG}._get_asset_entry_values": "bb3b9df2c6c3",
    f"{LOG}._store_asset_event": "fdb9340b9eef",
    f"{LOG}._store_asset_event_tags": "85d6f17ef04b",
    f"{LOG}.store_asset_check_event": "6d148295fa69",
    f"{LOG}.dispose": "df16dafbfa84",
    f"{LOG}.config_type": "749b9d6bc31d",
    f"{LOG}.from_config_value": "28e08f095dc1",
    f"{INSTANCE}.create_run_for_job": "5ce09dc7e450",
    "dagster._core.storage.local_compute_log_manager:LocalComputeLogManager.capture_logs": "8f2978767b32",
    "dagster._core.execution.execute_in_process:core_execute_in_process": "4c79ab0143e4",
    "dagster._core.execution.context.system:StepExecutionContext.set_data_version": "4000bd94ce74",
    "dagster._cli.dev:dev_command": "0649976c26a2",
    "dagster_webserver.webserver:DagsterWebserver.build_middleware": "091627dc51f0",
}
"""The first digits of the SHA-256 of each source. If one differs, read the new one, mend what
`docs/architecture.md` says to depend on it, and write its digits here.
"""


def form(place: str) -> str:
    member: Any = resolve_name(place)
    source = inspect.getsource(inspect.unwrap(getattr(member, "callback", member)))
    return sha256(source.encode()).hexdigest()[:12]


@pytest.mark.parametrize("place", FORMS)
def test_the_private_code_of_dagster_has_the_form_that_weft_depends_on(place: str):
    assert form(place) == FORMS[place]


def test_each_overridden_member_of_the_event_log_is_compared():
    own = {name for name in vars(KeptEngineEventLogStorage) if not name.startswith("__")}
    overridden = {name for name in own if hasattr(SqliteEventLogStorage, name)} - {"_abc_impl"}
    assert overridden <= {place.rpartition(".")[2] for place in FORMS if place.startswith(LOG)}
