"""The texts around a hit by name; this module loads nothing, so that a command starts fast."""

from typing import Literal

Expansion = Literal["parent", "neighbours", "section", "links"]
