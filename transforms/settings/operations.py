"""Settings of running Weft: limits, the engine, alerts, the published index, how quality is
measured.
"""

from pydantic import Field, field_validator

from transforms.settings.base import StageSettings, without_credentials


class OperationsSettings(StageSettings):
    """Limits that a running system keeps."""

    max_lag_minutes: float = Field(
        120,
        gt=0,
        description="from the build that sees a file to the version that holds its text, for 95 %; no change waits longer "
        "than three times that, no text of the slow lane longer than twelve times",
    )
    slow_at_once_bytes: int | None = Field(
        None,
        ge=0,
        description="very long text of a partition that is made before a publish; none: 64 MiB, 4 where the model is not a "
        "table, or half of all its text",
    )

    @property
    def fresh_hours(self) -> float:
        """Age from which the index counts as late."""
        return 3 * self.max_lag_minutes / 60

    @property
    def max_slow_lag_minutes(self) -> float:
        """Wait for the slow lane from which its check warns."""
        return 12 * self.max_lag_minutes


OWN_ENGINE = "local"
"""The engine by which a build makes partitions itself."""


class EngineSettings(StageSettings):
    """Where the partitions of sources are made."""

    kind: str = Field(
        OWN_ENGINE,
        description="`local`: processes of this machine; or tasks of an engine, whose machines all see the lake; variables "
        "of its own say where it is, else it begins on this machine",
    )
    tasks: int | None = Field(
        None,
        gt=0,
        description="partitions made at once, at most; none: all that the cluster takes, on this machine four from 16 MiB "
        "of source files on",
    )


class AlertSettings(StageSettings):
    """Who hears of failed builds and checks, and of late texts."""

    command: tuple[str, ...] = Field(
        (), description="program that gets the alert as JSON on standard input; no shell"
    )
    url: str | None = Field(
        None,
        description="http or https address that the alert is posted to; `$NAME`: that of an environment variable",
    )

    @property
    def is_set(self) -> bool:
        """True if somebody hears of anything."""
        return bool(self.command or self.url)

    @property
    def variable(self) -> str | None:
        """The environment variable with the address, if `url` names one."""
        return self.url[1:] if self.url and self.url.startswith("$") else None


_INDEXED_VECTORS = 1_000
"""Vectors up to which making an HNSW index takes at most a fifth of a run that publishes.

With 1,000 mails such a run takes 3.3 s of processor time without the index, which adds 0.2 s to a
full rebuild and 0.5 s to an update (256 dimensions); to measure it, which is a step of its own,
takes 0.4 s. The publisher alone takes 0.9 s for a full rebuild of 1,000, 1.7 s of 10,000 and 5.3 s
of 50,000, and with the index 1.1, 7.0 and 83 s.
"""


OWN_TARGET = "duckdb"
"""The target by which the published file ranks itself."""


class IndexSettings(StageSettings):
    """How the published file is made and kept."""

    target: str = Field(
        OWN_TARGET,
        description="ranking: `duckdb`, the arrays beside the published file; or the address of a service that each "
        "publish updates: the file has no vectors then, and texts stay in the lake",
    )
    ann_max_vectors: int = Field(
        _INDEXED_VECTORS,
        ge=0,
        description="vectors up to which the file has an HNSW index for SQL, made with each version; 0: none",
    )
    keep_versions: int = Field(2, gt=0, description="published versions on disk")

    _checked_address = field_validator("target")(without_credentials)


class EvaluationSettings(StageSettings):
    """How quality is measured."""

    queries: tuple[str, ...] = Field((), description="YAML files of queries and right answers")
    profiles: tuple[str, ...] = Field(
        ("default", "lexical", "vector", "rrf"),
        description="profiles to measure; the first is the baseline",
    )
    publish_check: bool = Field(
        False,
        description="refuse to publish when nDCG@10 of the first drops beyond its 95 % interval, or when hidden texts "
        "change an answer under a lens",
    )
