"""The base of the settings of every stage: frozen models that refuse unknown names, with a digest
of their values.
"""

import json
from collections.abc import Mapping
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict

from transforms.hashing import text_hash

_Value = TypeVar("_Value")
Internal = Annotated[_Value, "internal"]
"""A value that a profile, a benchmark or a test sets; the settings file cannot."""


class StageSettings(BaseModel):
    """Base of all stage settings: immutable; an unknown name is an error, and no fault repeats a
    value, maybe a secret.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def internal(cls) -> set[str]:
        """The fields that the settings file cannot set."""
        return {name for name, field in cls.model_fields.items() if "internal" in field.metadata}

    def digest(self) -> str:
        """Hash of all values; a stage's code version is derived from it."""
        return text_hash(json.dumps(self.model_dump(mode="json"), sort_keys=True))[:12]


def without_credentials(url: str | None) -> str | None:
    """`url`; ValueError, which does not repeat it, if it carries a name or a password: addresses
    are printed and stored.
    """
    # An @ that belongs to a path is written %40; one in a password may stand behind a slash.
    if url and "://" in url and "@" in url:
        raise ValueError(
            "leave name and password out of the address; the environment is the place for them"
        )
    return url


def digest_of(settings: Mapping[str, StageSettings]) -> str:
    """Hash of several settings by name; the code version of a stage that takes them all is derived
    from it.
    """
    return text_hash(
        json.dumps({name: s.digest() for name, s in settings.items()}, sort_keys=True)
    )[:12]
