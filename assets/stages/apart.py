"""A stage that fails over the whole lake, or on a bucket of mails, is tried on the rows of some
mails and documents: those that it fails on are named, with their place in the sources.

Faults of two other kinds end the run. A row of a sum (`people`, `corpus_measures`) is of many mails,
and to set all of these aside would hide more texts than it rescues. If mails fail only together,
either half is made: to look for pairs would take so many tries that a machine with too little
memory, which looks the same, would be busy for hours before it says so.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import ibis
import pyarrow as pa

from assets.partitions import CONVERSATIONS, MAIL
from assets.protocols.lake import Lake
from assets.protocols.sources import Sources
from assets.stages.buckets import id_column
from assets.stages.singly import FILE_FAULTS, failing_units, reason_of, unit_rows
from transforms.errors import SetAsideError
from transforms.schemas.registry import REGISTRY, partitions_of

_STORED_IDS = ("stored_message_id", "message_id", "doc_id")
"""Columns with the id that a mail or document has in its partition; a table has the first of them."""
_MOST = 10
"""Mails and documents of the lake above which the stage is at fault, not they: each costs tries."""


class TextInPartition(NamedTuple):
    """A mail, document or window by the id that it has in its partition."""

    partition: str
    ident: str


def failing_of_lake(
    stage: str,
    make: Callable[[Sequence[ibis.Table]], object],
    tables: Mapping[str, ibis.Table],
    fault: BaseException,
) -> dict[TextInPartition, str]:
    """The mails and documents that `make` fails on by themselves as with `fault`, each with the
    reason.

    None are named if it does not go on without them: that is the fault of the stage or the machine.
    """
    units = _units(tables)
    reasons = _failing(
        stage,
        range(units.num_rows),
        lambda some: make(_rows_of(units.take(pa.array(some, pa.int64())), tables)),
        type(fault),
    )
    rows = units.take(pa.array(reasons, pa.int64())).to_pylist()
    return {TextInPartition(**row): why for row, why in zip(rows, reasons.values(), strict=True)}


def failing_of_bucket(
    stage: str,
    make: Callable[[Sequence[pa.Table]], object],
    tables: Mapping[str, pa.Table],
    memberships: ibis.Table,
    fault: BaseException,
) -> dict[TextInPartition, str]:
    """As `failing_of_lake`, of the rows of one bucket; of a mail all copies."""
    rows = [*tables.values()]
    keys = [table.column(id_column(name)) for name, table in tables.items()]
    mails = sorted({key for column in keys for key in column.unique().to_pylist()})
    reasons = _failing(stage, mails, lambda some: make(unit_rows(rows, keys, some)), type(fault))
    if not reasons:
        return {}
    copies = memberships.filter(memberships.message_id.isin([*reasons])).to_pyarrow()
    return {
        TextInPartition(row["partition"], row["stored_message_id"]): reasons[row["message_id"]]
        for row in copies.to_pylist()
    }


def _failing(
    stage: str,
    units: Sequence[Any],
    make: Callable[[Sequence[Any]], object],
    kind: type[BaseException],
) -> dict[Any, str]:
    """The units that `make` fails on by themselves, with a fault of a kind, if it makes the others."""

    def why(some: Sequence[Any]) -> str | None:
        try:
            make(some)
        except FILE_FAULTS as fault:
            return reason_of(stage, fault) if type(fault) is kind else None
        return None

    if why(units[:0]):
        return {}
    reasons = failing_units(units, why, _MOST)
    rest = [unit for unit in units if unit not in reasons]
    return {} if why(rest) else reasons


def set_aside(
    stage: str,
    lake: Lake,
    sources: Sources,
    tables: Sequence[str],
    units: Mapping[TextInPartition, str],
) -> SetAsideError:
    """Put mails and documents that a stage over `tables` failed on into quarantine at the next
    reading; the fault that says so.

    LakeDamageError if a file with their rows is damaged, which then is at fault.
    """
    named: dict[str, dict[str, str]] = {}
    for unit, why in units.items():
        named.setdefault(unit.partition, {})[unit.ident] = why
    for partition, reasons in named.items():
        kind = sources.partition(partition).source_type
        for table in (name for name in tables if partitions_of(name) == kind):
            lake.intact(table, REGISTRY[table].schema.names, partition)
        places = source_places(lake, kind, partition, reasons)
        named[partition] = {places[ident]: why for ident, why in reasons.items()}
        sources.set_aside(partition, named[partition])
    lines = [f"{p}: {place}: {why}" for p, own in named.items() for place, why in own.items()]
    return SetAsideError(f"{stage} fails on {'; '.join(lines)}: the next build makes it without")


def source_places(
    lake: Lake, kind: str, partition: str, idents: Sequence[str] | Any
) -> dict[str, str]:
    """By mail, document or window of a partition the place by which the sources know it."""
    if kind == CONVERSATIONS.name:
        return dict.fromkeys(idents, partition.partition("/")[2])
    rows = None
    if kind == MAIL.name:
        rows = lake.stored("messages", ["message_id", "place"], partition)
    known = dict(zip(*rows.to_pydict().values(), strict=True)) if rows else {}
    return {ident: known.get(ident, ident) for ident in idents}


def _stored_id(table: ibis.Table) -> str | None:
    return next((name for name in _STORED_IDS if name in table.columns), None)


def _units(tables: Mapping[str, ibis.Table]) -> pa.Table:
    """The mails, documents and windows whose rows tables of partitions have: partition, ident."""
    rows = [
        table.select("partition", ident=table[key]).distinct()
        for table in tables.values()
        if "partition" in table.columns and (key := _stored_id(table))
    ]
    if not rows:
        return pa.table({name: pa.array([], pa.string()) for name in TextInPartition._fields})
    return ibis.union(*rows, distinct=True).order_by(*TextInPartition._fields).to_pyarrow()


def _rows_of(units: pa.Table, tables: Mapping[str, ibis.Table]) -> list[ibis.Table]:
    """The rows of some units in each table; all of one that is of none.

    In tables without partitions, mails have the ids under which they are published.
    """
    chosen = ibis.memtable(units)
    idents = chosen.select("ident")
    if "memberships" in tables:
        members = tables["memberships"].view()
        own = members.semi_join(chosen, ["partition", ("stored_message_id", "ident")])
        idents = ibis.union(idents, own.select(ident=own.message_id), distinct=True)
    rows = []
    for table in tables.values():
        key = _stored_id(table) or ("from_id" if "from_id" in table.columns else None)
        if key is None:
            rows.append(table)
        elif "partition" in table.columns:
            rows.append(table.semi_join(chosen, ["partition", (key, "ident")]))
        else:
            rows.append(table.semi_join(idents, [(key, "ident")]))
    return rows
