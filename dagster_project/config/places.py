"""The settings file and the files beside it by name; this module loads only modules of Python."""

import os
from collections.abc import Mapping
from pathlib import Path

CONFIG_VARIABLE = "WEFT_CONFIG"
DEFAULT_CONFIG = "weft.toml"
SYNONYMS = "synonyms.txt"
LABEL_FILE = "labels.tsv"
"""The names of files beside the settings file: synonyms, and the user's labels of sensitive texts."""


def overriding(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that set a key of the settings, with their texts:
    `WEFT_SECTION__KEY`, and `WEFT_DESIGN`.
    """
    return {
        name: text
        for name, text in sorted(environment.items())
        if name == "WEFT_DESIGN" or (name.startswith("WEFT_") and "__" in name)
    }


def chosen_config(name: str | Path | None = None) -> Path:
    """The settings file: `name`, else `WEFT_CONFIG`, else `weft.toml` in this folder; it may not be
    there.
    """
    return Path(name or os.environ.get(CONFIG_VARIABLE) or DEFAULT_CONFIG)
