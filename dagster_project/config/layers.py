"""The layers of the settings: a design, the file, and variables of the environment; the later one
wins.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from dagster_project.config.places import overriding
from dagster_project.extensions import offered
from transforms.errors import SettingsError
from transforms.settings.designs import DESIGNS


@dataclass(frozen=True)
class Layers:
    """The keys of all layers as one file has them, and where those come from that the file does not
    set.
    """

    keys: dict[str, Any]
    variables: Mapping[str, str]
    """The variable of each key that one sets."""
    of_design: frozenset[str]
    """The dotted keys with the value of the design."""
    design: str = ""

    def origin(self, key: str) -> str:
        """Where the value of a dotted key comes from: a variable, `design NAME`, `file`, or
        `default`.
        """
        if variable := variable_of(key, self.variables):
            return variable
        if key in self.of_design:
            return f"design {self.design}"
        return "file" if _is_set(self.keys, key) else "default"


def layered(file: Mapping[str, Any], design: str | None = None) -> Layers:
    """The layers of a settings file; with a `design` that one, in place of that of the settings.

    Raises SettingsError for a variable below a key that is not a table.
    """
    keys = _copied(file)
    variables = {}
    for variable, text in overriding(os.environ).items():
        path = variable.removeprefix("WEFT_").lower().split("__")
        _set(keys, path, _value(text), variable)
        variables[".".join(path)] = variable
    if design is not None:
        keys["design"] = design
    name = keys.get("design")
    values = design_values(name) if isinstance(name, str) else {}
    filled = set()
    for section, of_section in values.items():
        own = keys.setdefault(section, {})
        new = {key: v for key, v in of_section.items() if isinstance(own, dict) and key not in own}
        keys[section] = {**new, **own} if new else own
        filled |= {f"{section}.{key}" for key in new}
    return Layers(keys, variables, frozenset(filled), str(name))


def design_values(name: str) -> dict[str, dict[str, Any]]:
    """The values of a design by section and key, with those of extras; none for an unknown name."""
    values = {section: dict(of_section) for section, of_section in DESIGNS.get(name, {}).items()}
    return {**values, **offered("designs").get(name, {})}


def variable_of(key: str, variables: Mapping[str, str]) -> str | None:
    """The variable that sets a dotted key, what holds it, or something in it; None if there is none."""
    near = (
        place
        for place in variables
        if f"{key}.".startswith(f"{place}.") or place.startswith(f"{key}.")
    )
    return variables.get(max(near, key=len, default=""))


def values_of(model: BaseModel, above: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted keys of settings with their values; those of a list with the number of its entry."""
    for name in type(model).model_fields:
        yield from _values(getattr(model, name), above + name)


def _values(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, BaseModel):
        yield from values_of(value, f"{key}.")
    elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        for number, entry in enumerate(value):
            yield from values_of(entry, f"{key}.{number}.")
    else:
        yield key, value


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


def _value(text: str) -> Any:
    """A number, truth, list or table of TOML; any other text as it is."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, bool | int | float | str | list | dict) else text


def _set(keys: dict[str, Any], path: list[str], value: Any, variable: str) -> None:
    """Set the value at a path; entries of a list go by their number."""
    at: Any = keys
    for key, following in zip(path, [*path[1:], None], strict=True):
        if isinstance(at, list) and key.isdecimal() and int(key) < len(at):
            place: Any = int(key)
        elif isinstance(at, dict):
            place = key
            at.setdefault(key, {})
        else:
            raise SettingsError(f"{variable}: there is no `{'.'.join(path)}` that it could set")
        if following is None:
            at[place] = value
        at = at[place]


def _is_set(keys: Any, key: str) -> bool:
    for part in key.split("."):
        if isinstance(keys, list):
            keys = dict(enumerate(keys)).get(int(part))
        elif isinstance(keys, dict) and part in keys:
            keys = keys[part]
        else:
            return False
    return True
