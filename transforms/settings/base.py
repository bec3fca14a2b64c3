"""What settings of every stage are: frozen models that refuse unknown names, with a digest of their values."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from transforms.hashing import text_hash


class StageSettings(BaseModel):
    """Base of all stage settings: immutable, and an unknown name is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def digest(self) -> str:
        """Hash of all values; what a stage's code version is derived from."""
        return text_hash(json.dumps(self.model_dump(mode="json"), sort_keys=True))[:12]


def digest_of(settings: Mapping[str, StageSettings]) -> str:
    """Hash of several settings by name; what the code version of a stage that takes them all is derived from."""
    return text_hash(json.dumps({name: s.digest() for name, s in settings.items()}, sort_keys=True))[:12]
