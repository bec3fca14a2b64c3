"""What Dagster shows of a table: its columns and where they come from, the code that makes it, and its first rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import dagster as dg
import pyarrow as pa

from transforms.schemas.registry import REGISTRY
from transforms.schemas.table import Table

_PREVIEW_ROWS = 5
_PREVIEW_CHARS = 80


def table_metadata(table: Table) -> dict[str, object]:
    """The declared columns as Dagster shows them in an asset's overview."""
    columns = [
        dg.TableColumn(
            c.name,
            str(c.type),
            c.comment,
            constraints=dg.TableColumnConstraints(nullable=c.nullable, unique=table.key == (c.name,)),
        )
        for c in table.columns
    ]
    return {"dagster/column_schema": dg.TableSchema(columns), "key": ", ".join(table.key)}


def described(table: Table, version: str, *kinds: str) -> dict[str, Any]:
    """Arguments of `dg.asset` or `dg.AssetOut` for what makes a table of the lake by the code `version`."""
    return {
        "description": table.comment,
        "code_version": version,
        "metadata": table_metadata(table),
        "kinds": {"parquet", *kinds},
    }


def outs(tables: Mapping[str, Table], version: str, *kinds: str) -> dict[str, dg.AssetOut]:
    """The outputs of a multi-asset that makes several tables of the lake."""
    return {name: dg.AssetOut(**described(table, version, *kinds)) for name, table in tables.items()}


def warning(asset: str, name: str, passed: bool, **metadata: Any) -> dg.AssetCheckResult:
    """The result of a check on an asset that stops nothing."""
    return dg.AssetCheckResult(
        check_name=name,
        asset_key=asset,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
    )


def column_lineage(
    table: Table, inputs: Sequence[str], lineage: Mapping[str, Sequence[str]]
) -> dg.TableColumnLineage:
    """Of which columns of the tables `inputs` the columns of `table` are made.

    `lineage` names them as `table.column`; a column that the first input with it declares the same comes from there.
    """
    found: dict[str, list[dg.TableColumnDep]] = {}
    columns = {name: REGISTRY[name].schema.columns for name in inputs if name in REGISTRY}
    for column in table.columns:
        declaring = [f"{name}.{column.name}" for name, own in columns.items() if column in own]
        named = lineage.get(column.name) or declaring[:1]
        if named:
            parts = (text.split(".") for text in named)
            found[column.name] = [dg.TableColumnDep(dg.AssetKey(name), own) for name, own in parts]
    return dg.TableColumnLineage(found)


def code_reference(function: Callable[..., Any]) -> dg.CodeReferencesMetadataValue:
    """The link to the file and line of a function."""
    while isinstance(function, partial):
        function = function.func
    code = function.__code__
    label = f"{function.__module__}.{function.__qualname__}"
    place = dg.LocalFileCodeReference(
        file_path=code.co_filename, line_number=code.co_firstlineno, label=label
    )
    return dg.CodeReferencesMetadataValue(code_references=[place])


def preview(data: pa.Table) -> dg.MetadataValue:
    """The first rows as a table, texts cut."""
    columns = [dg.TableColumn(field.name, str(field.type)) for field in data.schema]
    rows = [
        dg.TableRecord({name: _short(value) for name, value in row.items()})
        for row in data.slice(0, _PREVIEW_ROWS).to_pylist()
    ]
    return dg.MetadataValue.table(rows, dg.TableSchema(columns))


def _short(value: Any) -> str | int | float | bool:
    """A value as the preview has it; "" for null."""
    if isinstance(value, bool | int | float):
        return value
    text = "" if value is None else str(value)
    return text if len(text) <= _PREVIEW_CHARS else f"{text[:_PREVIEW_CHARS]}…"
