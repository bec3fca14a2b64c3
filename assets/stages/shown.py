"""The view of a stage in Dagster: columns and where they come from, the code, first rows, and the
settings of a run.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import dagster as dg
import pyarrow as pa
from pydantic import Field, create_model

from assets.stages.declaration import MarkdownFigure
from transforms.errors import WeftError
from transforms.schemas.registry import REGISTRY
from transforms.schemas.table import Table
from transforms.settings.base import StageSettings

_PREVIEW_ROWS = 5
_PREVIEW_CHARS = 80


def table_metadata(table: Table) -> dict[str, object]:
    """The declared columns as Dagster shows them in an asset's overview."""
    columns = [
        dg.TableColumn(
            c.name,
            str(c.type),
            c.comment,
            constraints=dg.TableColumnConstraints(
                nullable=c.nullable, unique=table.key == (c.name,)
            ),
        )
        for c in table.columns
    ]
    return {"dagster/column_schema": dg.TableSchema(columns), "key": ", ".join(table.key)}


@contextlib.contextmanager
def in_words() -> Iterator[None]:
    """A step whose fault Dagster shows with the sentence of the fault first; the trace comes after
    it.
    """
    try:
        yield
    except WeftError as fault:
        raise dg.Failure(str(fault)) from fault


def violated(key: dg.AssetCheckKey, count: int, examples: Sequence[str]) -> dg.AssetCheckResult:
    """The result of a check that `count` rows break, with some of them."""
    facts = {"rows": count, "examples": list(examples)}
    return dg.AssetCheckResult(
        check_name=key.name, asset_key=key.asset_key, passed=count == 0, metadata=facts
    )


def of_selected(
    context: dg.AssetCheckExecutionContext, results: Iterable[dg.AssetCheckResult]
) -> Iterator[dg.AssetCheckResult]:
    """Those results of checks that a run is of."""
    return (result for result in results if check_key(result) in context.selected_asset_check_keys)


def check_key(result: dg.AssetCheckResult) -> dg.AssetCheckKey:
    """The key of the check that has a result."""
    assert result.asset_key and result.check_name
    return dg.AssetCheckKey(result.asset_key, result.check_name)


def warning(
    asset: str | dg.AssetKey, name: str, passed: bool, **metadata: Any
) -> dg.AssetCheckResult:
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
    """The columns of the tables `inputs` that the columns of `table` are made of.

    `lineage` names them as `table.column`; a column that the first input with it declares the same
    comes from there.
    """
    deps: dict[str, list[dg.TableColumnDep]] = {}
    columns = {name: REGISTRY[name].schema.columns for name in inputs if name in REGISTRY}
    for column in table.columns:
        declaring = [f"{name}.{column.name}" for name, own in columns.items() if column in own]
        origins = lineage.get(column.name) or declaring[:1]
        if origins:
            parts = (text.split(".") for text in origins)
            deps[column.name] = [dg.TableColumnDep(dg.AssetKey(name), own) for name, own in parts]
    return dg.TableColumnLineage(deps)


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


def drawn(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures as Dagster takes them."""
    return {
        name: dg.MetadataValue.md(value) if isinstance(value, MarkdownFigure) else value
        for name, value in figures.items()
    }


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


def config_of(
    name: str, settings: StageSettings | Mapping[str, StageSettings]
) -> type[dg.Config] | None:
    """The configuration of a stage: the fields of its settings, with the configured values as
    defaults.

    Settings by source have a field for each source; None if there is none.
    """
    fields: dict[str, Any]
    if isinstance(settings, Mapping):
        fields = {
            source: _nested(f"{name}_{source}", own) for source, own in settings.items() if source
        }
    else:
        names = [n for n, field in type(settings).model_fields.items() if not field.exclude]
        fields = {n: _field(f"{name}_{n}", settings, n) for n in names}
    return create_model(f"{name}_settings", __base__=dg.Config, **fields) if fields else None


def chosen_settings(settings: Any, config: Mapping[str, Any] | None) -> Any:
    """`settings` with the values of a run's configuration; ValidationError if that makes them
    wrong.
    """
    if config is None:
        return settings
    if isinstance(settings, Mapping):
        return {
            source: chosen_settings(own, config.get(source)) for source, own in settings.items()
        }
    return type(settings).model_validate({**settings.model_dump(), **config})


def _field(name: str, settings: StageSettings, field: str) -> tuple[Any, Any]:
    """Type and default of one field; a choice of words is a text whose description lists them."""
    value, declared = getattr(settings, field), type(settings).model_fields[field]
    if isinstance(value, StageSettings):
        return _nested(name, value)
    words = get_args(declared.annotation) if get_origin(declared.annotation) is Literal else ()
    text = "; ".join(
        filter(None, [declared.description, f"one of {', '.join(words)}" if words else None])
    )
    default = list(value) if isinstance(value, tuple) else value
    return _plain(declared.annotation), Field(default, description=text or None)


def _nested(name: str, settings: StageSettings) -> tuple[Any, Any]:
    model = config_of(name, settings)
    assert model
    return model, Field(default_factory=model)


def _plain(annotation: Any) -> Any:
    """The type that Dagster has for one of pydantic."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return str
    if origin is tuple:
        return list[_plain(args[0])]  # type: ignore[misc]
    if origin in (Union, UnionType):
        (inner,) = (arg for arg in args if arg is not NoneType)
        return _plain(inner) | None
    return annotation
