"""Settings of how search is measured."""

from __future__ import annotations

from pydantic import Field

from transforms.settings.base import StageSettings


class EvaluationSettings(StageSettings):
    """How quality is measured."""

    queries: tuple[str, ...] = Field((), description="YAML files of queries and right answers")
    profiles: tuple[str, ...] = Field(
        ("default", "lexical", "vector", "rrf"),
        description="profiles to measure; the first is the baseline",
    )
    publish_check: bool = Field(
        False,
        description="refuse to publish when nDCG@10 of the first drops beyond its 95 % interval",
    )
