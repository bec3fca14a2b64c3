"""What tables over the whole lake are made from, as one hash: their files carry it, and a plan compares it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import dagster as dg

from assets.partitions import SLOW, SOURCE_TYPES
from assets.protocols.lake import Lake
from transforms.hashing import parts_hash

LAKE = "lake"
"""The name of the hash among the inputs in the footer of a table over the whole lake."""


def lake_state(lake: Lake, partitions: Mapping[str, Sequence[str]]) -> str:
    """A hash of the content of all tables of `partitions`, by the name of their kind, that the lake has."""

    def parts() -> Iterator[str]:
        for source_type in (*SOURCE_TYPES, SLOW):
            for partition in sorted(partitions.get(source_type.partitions, ())):
                for table in source_type.tables:
                    if footer := lake.footer(table, partition):
                        yield from (table, partition, footer.content_hash)
                        # Readers leave out a slow part that is made from another queue than the one of now.
                        yield from footer.inputs.values() if source_type is SLOW else ()

    return parts_hash(parts())


def state_of_run(lake: Lake, context: dg.AssetExecutionContext) -> str:
    """`lake_state` of the partitions that Dagster knows, as it was when a step of the run first asked.

    The run has the lake alone, but for very long texts: those that come meanwhile make stale what is made.
    """
    names = [source_type.partitions for source_type in SOURCE_TYPES]
    known = tuple((name, tuple(context.instance.get_dynamic_partitions(name))) for name in names)
    whole: Any = lake
    return _remembered(whole, context.run.run_id, known)


@lru_cache(maxsize=2)
def _remembered(lake: Any, run_id: str, partitions: tuple[tuple[str, tuple[str, ...]], ...]) -> str:
    """`lake_state`, once in a run: each step over the whole lake asks for it."""
    return lake_state(lake, dict(partitions))
