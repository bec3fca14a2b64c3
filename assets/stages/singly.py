"""A stage that fails on a partition is tried on its files and mails one by one: those that it fails
on are named.
"""

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from transforms.errors import WeftError, unread_because

STAGE_FAILED = "stage_failed"
"""The code of the reason of a row of `quarantine`, if a stage failed on a file or mail."""
FILE_FAULTS = (Exception, pl.exceptions.PanicException)
"""Faults that the content of a file may cause: a panic of Polars is not an `Exception`."""
_OF_THE_WORLD = (WeftError, OSError)
_MOST = 100
"""Files and mails of a partition above which the stage is at fault, not they."""
_FEW = 3
"""Files and mails that may all fail."""


def reason_of(stage: str, fault: BaseException) -> str:
    """The reason of a row of `quarantine` for a file or mail that a stage failed on."""
    return unread_because(fault).replace("unreadable", f"{STAGE_FAILED}: {stage}", 1)


def is_of_content(fault: BaseException) -> bool:
    """True if the content of a file may be the cause of a fault, not disk, network or settings."""
    return isinstance(fault, FILE_FAULTS) and not isinstance(fault, _OF_THE_WORLD)


def reason_of_content(fault: BaseException) -> str:
    """The reason of a row of `quarantine` for a file whose content its reader failed on; raises a
    fault of disk, network or settings.
    """
    if not is_of_content(fault):
        raise fault
    return unread_because(fault)


def failing(
    stage: str,
    make: Callable[[Sequence[pa.Table]], Any],
    tables: Sequence[pa.Table],
    keys: Sequence[pa.ChunkedArray],
) -> dict[str, str]:
    """The keys of the rows of `tables` that `make` fails on by themselves, each with the reason.

    `keys` says for each table which file or mail a row is of. None are named if nearly all fail, or
    only many together do: that is the fault of the stage or of the machine.
    """
    units = sorted({key for column in keys for key in column.unique().to_pylist()})

    def why(some: Sequence[str]) -> str | None:
        try:
            make(unit_rows(tables, keys, some))
        except FILE_FAULTS as fault:
            if not is_of_content(fault):
                raise
            return reason_of(stage, fault)
        return None

    return failing_units(units, why)


def failing_units(
    units: Sequence[Any], why: Callable[[Sequence[Any]], str | None], most: int = _MOST
) -> dict[Any, str]:
    """The units that fail by themselves, each with the reason that `why` gives for some of them;
    none under the conditions of `failing`, and none of more than `most`.
    """
    reasons: dict[Any, str] = {}

    def look(some: Sequence[Any]) -> None:
        if len(reasons) > most or not (reason := why(some)):
            return
        if len(some) == 1:
            reasons[some[0]] = reason
            return
        middle = len(some) // 2
        look(some[:middle])
        look(some[middle:])

    if units:
        look(units)
    is_of_stage = len(reasons) > most or len(units) == len(reasons) > _FEW
    return {} if is_of_stage else reasons


def unit_rows(
    tables: Sequence[pa.Table], keys: Sequence[pa.ChunkedArray], units: Sequence[str]
) -> list[pa.Table]:
    """The rows of some files or mails in each table."""
    chosen = pa.array(units, pa.string())
    return [
        table.filter(pc.is_in(column, chosen)) for table, column in zip(tables, keys, strict=True)
    ]
