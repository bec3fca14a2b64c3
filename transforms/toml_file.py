"""Tables of words and forms, which are beside the modules that use them."""

import tomllib
from functools import cache
from pkgutil import get_data
from typing import Any


def toml_file(module: str, name: str) -> dict[str, Any]:
    """The content of a TOML file in the folder of a module; FileNotFoundError if it is not there."""
    return tomllib.loads((get_data(module, name) or b"").decode())


@cache
def patterns(module: str, name: str) -> dict[str, str]:
    """The regular expressions of a TOML file in the folder of a module, each of its alternatives."""
    return {key: "|".join(parts) for key, parts in toml_file(module, name).items()}
