"""Settings of how search is measured."""

from __future__ import annotations

from pydantic import Field

from transforms.settings.base import StageSettings


class EvaluationSettings(StageSettings):
    """How quality is measured."""

    queries: tuple[str, ...] = Field(
        (), description="YAML files of queries and right answers; relative to the settings file"
    )
    profiles: tuple[str, ...] = Field(
        ("default", "lexical", "vector", "rrf"),
        description="profiles that are measured; the first is the one that others are compared with",
    )
    passage_bytes: int = Field(
        5000, gt=0, description="bytes of retrieved text that passages are looked for in"
    )
    publish_check: bool = Field(
        False,
        description="refuse to publish when nDCG@10 of the first profile drops beyond its 95 % interval "
        "against the published version",
    )
