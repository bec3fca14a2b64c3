"""Of what a partition was made, in the tags by which Dagster judges whether it is stale."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import dagster as dg

_NEVER_COMPARED = 1 << 62
"""Behind every event: Dagster looks for changes of an input behind this one, and must find none."""


class Provenance:
    """The tags of the materializations of one step (dagster 1.13, `_build_data_version_tags` and `StaleStatusResolver`).

    Of an input with partitions Dagster compares the data versions before and after the event that a materialization
    points to: the last of all when the step began. Of one without it compares the data version itself.
    """

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        inputs: Collection[str],
        compared: Collection[str],
        whole: Collection[str],
    ):
        """`inputs` are the tables that the step reads by partition, `whole` those without partitions.

        Inputs that are not `compared` make nothing stale.
        """
        known = context.instance.event_log_storage.get_maximum_record_id() or 0
        uncompared = set(inputs) - set(compared)
        self._tags: dict[str, str] = {}
        self._names: dict[str, str] = {}
        for key in {key for keys in context.assets_def.asset_deps.values() for key in keys}:
            name, table = key.to_user_string(), key.path[-1]
            pointer = _NEVER_COMPARED if table in uncompared else known
            self._tags[f"dagster/input_event_pointer/{name}"] = str(pointer)
            self._tags[f"dagster/input_data_version/{name}"] = "INITIAL"
            if table in inputs:
                self._names[table] = name
            elif table in whole and (event := context.instance.get_latest_materialization_event(key)):
                version = (event.tags or {}).get("dagster/data_version", "INITIAL")
                self._tags[f"dagster/input_data_version/{name}"] = version

    def tags(self, content_hash: str, code_version: str, inputs: Mapping[str, str]) -> dict[str, str]:
        """The tags of a partition with that content, made by that code of `inputs` (content hash by table)."""
        read = {
            f"dagster/input_data_version/{self._names[t]}": h for t, h in inputs.items() if t in self._names
        }
        return {
            **self._tags,
            **read,
            "dagster/data_version": content_hash,
            "dagster/data_version_is_user_provided": "true",
            "dagster/code_version": code_version,
        }
