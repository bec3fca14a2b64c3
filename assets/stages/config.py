"""The settings of a stage as Dagster's launchpad shows them and lets people change them for one run."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import dagster as dg
from pydantic import Field, create_model

from transforms.settings.base import StageSettings


def config_of(name: str, settings: StageSettings | Mapping[str, StageSettings]) -> type[dg.Config] | None:
    """The configuration of a stage: the fields of its settings, with the configured values as defaults.

    Settings by source have a field for each source; None if there is none.
    """
    fields: dict[str, Any]
    if isinstance(settings, Mapping):
        fields = {source: _nested(f"{name}_{source}", own) for source, own in settings.items() if source}
    else:
        fields = {n: _field(f"{name}_{n}", settings, n) for n in _shown(settings)}
    return create_model(f"{name}_settings", __base__=dg.Config, **fields) if fields else None


def chosen_settings(settings: Any, config: Mapping[str, Any] | None) -> Any:
    """`settings` with the values of a run's configuration; ValidationError if that makes them wrong."""
    if config is None:
        return settings
    if isinstance(settings, Mapping):
        return {source: chosen_settings(own, config.get(source)) for source, own in settings.items()}
    return type(settings).model_validate({**settings.model_dump(), **config})


def _shown(settings: StageSettings) -> list[str]:
    """The fields that decide what a stage makes: those of its digest."""
    return [name for name, field in type(settings).model_fields.items() if not field.exclude]


def _field(name: str, settings: StageSettings, field: str) -> tuple[Any, Any]:
    """Type and default of one field; a choice of words is a text whose description lists them."""
    value, declared = getattr(settings, field), type(settings).model_fields[field]
    if isinstance(value, StageSettings):
        return _nested(name, value)
    choices = _choices(declared.annotation)
    told = "; ".join(
        filter(None, [declared.description, f"one of {', '.join(choices)}" if choices else None])
    )
    default = list(value) if isinstance(value, tuple) else value
    return _plain(declared.annotation), Field(default, description=told or None)


def _nested(name: str, settings: StageSettings) -> tuple[Any, Any]:
    model = config_of(name, settings)
    assert model
    return model, Field(default_factory=model)


def _choices(annotation: Any) -> list[str]:
    return [str(word) for word in get_args(annotation)] if get_origin(annotation) is Literal else []


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
