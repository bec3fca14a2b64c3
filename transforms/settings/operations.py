"""Settings of running Weft: limits, alerts, watching, the published index, measures."""

from __future__ import annotations

from pydantic import Field

from transforms.settings.base import StageSettings


class MeasureSettings(StageSettings):
    """What the measures of a mail collection count (defaults: seed 000)."""

    line_chars: int = Field(20, gt=0, description="characters; shorter lines are never compared")
    duplicate_share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="characters of a chunk on lines of other mails from which it is a duplicate",
    )
    mostly_quoted_share: float = Field(
        0.8, gt=0, le=1, description="characters of a chunk in its anchor from which it is mostly quoted"
    )
    short_reply_chars: int = Field(200, gt=0, description="authored characters below which a reply is short")
    long_thread_messages: int = Field(20, gt=0, description="messages from which a thread is a long debate")
    many_attachments: int = Field(3, gt=0, description="attachments from which a thread is heavy with them")
    sampled: int = Field(
        5_000, gt=0, description="mails with quotes whose text is compared with the mail they answer"
    )


class OperationsSettings(StageSettings):
    """What a running system has to keep to, and how long its history is kept."""

    max_lag_minutes: float = Field(
        120,
        gt=0,
        description="minutes from the build that first sees a file to the version that holds its text; 95 of 100 new "
        "texts of a source have to keep it. The default is two hourly runs",
    )
    max_slow_lag_minutes: float = Field(
        1440,
        gt=0,
        description="minutes that a text may wait for the slow lane before the check of it warns; the default is a day",
    )
    slow_at_once_bytes: int = Field(
        4 << 20,
        ge=0,
        description="bytes of text up to which what waits for the slow lane is made before a build publishes: that takes "
        "less time than a second publish",
    )
    slow_at_once_share: float = Field(
        0.02,
        ge=0,
        description="the same up to this share of the bytes of the published file, if that is more: the larger it is, the "
        "longer takes a second publish",
    )
    slow_at_first_share: float = Field(
        0.5,
        ge=0,
        description="where all is published from nothing, what waits is made before that up to this share of the bytes of "
        "all source files, too",
    )
    batch_bytes: int = Field(
        64 << 20,
        gt=0,
        description="bytes of source files that a backfill makes at once; a build that comes meanwhile waits for one "
        "batch, here some ten seconds",
    )
    batch_partitions: int = Field(32, gt=0, description="partitions that a backfill makes at once, at most")
    processes: int = Field(
        4,
        gt=0,
        description="processes that make partitions side by side, at most, and no more than there are processors; each "
        "takes some 400 MB and what its partition takes",
    )
    side_by_side_bytes: int = Field(
        64 << 20,
        ge=0,
        description="bytes of source files from which partitions are made side by side; a process takes some three "
        "seconds to start",
    )
    fresh_hours: float = Field(
        6,
        gt=0,
        description="hours within which the index must have been made, or found to show what the sources hold; the "
        "default is twice what the hourly run may take",
    )
    owners: tuple[str, ...] = Field(
        ("team:weft",),
        description="who answers for the assets, shown in Dagster: e-mail addresses or `team:name`",
    )
    keep_runs_days: int = Field(
        30,
        ge=0,
        description="days for which the hourly run keeps Dagster's finished runs; 0 keeps them for ever",
    )


class AlertSettings(StageSettings):
    """Who hears of a failed build, of a check that did not pass, and of texts that came late."""

    command: tuple[str, ...] = Field(
        (), description="program and arguments that are given the alert as JSON on standard input; no shell"
    )
    url: str | None = Field(None, description="http or https address that the alert is posted to as JSON")
    url_env: str | None = Field(
        None, description="environment variable that holds the address, where it is a secret"
    )
    timeout_seconds: float = Field(30, gt=0, description="what the command, or the post, may take")

    @property
    def is_set(self) -> bool:
        """True if somebody hears of anything."""
        return bool(self.command or self.url or self.url_env)


class IndexSettings(StageSettings):
    """How the published file is made and kept."""

    ann_min_vectors: int | None = Field(
        None,
        gt=0,
        description="vectors from which an HNSW index is built, for search.vector_search ann; none by default",
    )
    keep_versions: int = Field(2, gt=0, description="published versions that stay on disk")
    spare_min_bytes: int = Field(
        1 << 30,
        ge=0,
        description="size of the published file from which one version more stays on disk, hidden: the next publish changes "
        "it instead of copying the current one",
    )
    rebuild_share: float = Field(
        0.25,
        ge=0,
        description="share of the postings; when more than it came or went since all tables were made from nothing, "
        "the next publish makes them so again, which puts the inverted index in order and frees what is unused",
    )


class WatchSettings(StageSettings):
    """When edits of vaults and document trees lead to a run of the sensor `vault_edits`."""

    interval_seconds: int = Field(
        10, gt=0, description="seconds between two looks; a look reads names, sizes and times"
    )
    quiet_seconds: float = Field(
        10, ge=0, description="seconds without another edit before a run is asked for"
    )
    longest_wait_seconds: float = Field(
        40, gt=0, description="seconds after the first edit at which a run is asked for though edits go on"
    )
