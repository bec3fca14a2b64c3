"""The fields of an issue that a form or its author fills in, and in which two issues agree.

Likeness of words says that two issues are on one thing; fields are evidence of whether it is the
same one: `Version: 1.2` in one and `Version: 1.4` in the other speak against it.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from dagster_project.extras.triage.transforms.items import EMPTY_VALUES, FENCED

_FIELD = re.compile(
    r"^(?:[-*] )?\**(?P<name>[A-Z][a-z][\w ]{0,28}?)\**:\**[ \t]+(?P<value>\S[^\n]{0,60})$|"
    r"^#{2,4} (?P<heading>[^\n]{2,40})\n+(?P<below>[^\n#>|-][^\n]{0,60})\n*(?=^#|\Z)",
    re.M,
)
"""A line `Version: 1.2`, or a heading of a form with one short line below it."""


class Compared(NamedTuple):
    """The names of the fields, lower case, that two issues both have: with one value, with two."""

    same: tuple[str, ...]
    different: tuple[str, ...]


def fields_of(text: str) -> dict[str, str]:
    """The values of the fields of an issue by their names, both lower case, without empty ones."""
    values: dict[str, str] = {}
    for match in _FIELD.finditer(FENCED.sub("\n", text)):
        name, value = match["name"] or match["heading"], match["value"] or match["below"]
        value = " ".join(value.lower().rstrip(".").split())
        if value not in EMPTY_VALUES:
            values.setdefault(name.strip().lower(), value)
    return values


def compared_fields(one: Mapping[str, str], other: Mapping[str, str]) -> Compared:
    """In which fields two issues agree, and in which they contradict each other."""
    both = sorted(set(one) & set(other))
    return Compared(
        tuple(name for name in both if one[name] == other[name]),
        tuple(name for name in both if one[name] != other[name]),
    )
