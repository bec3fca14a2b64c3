"""Results of fetches, checks, examinations and builds."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Literal

import dagster as dg

from assets.embedding import PAID_TWICE
from dagster_project.orchestration.plan import Plan

_State = Literal["ok", "warning", "fault"]


@dataclass(frozen=True)
class Finding:
    """The result of one check: its area, its state, a sentence about it, and the remedy if
    something is wrong.
    """

    area: str
    state: _State
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class FailedCheck:
    """A check that did not pass: its asset, its name, and its figures."""

    asset: str
    check: str
    figures: Mapping[str, Any]


def numbers(metadata: Mapping[str, dg.MetadataValue]) -> dict[str, Any]:
    """The figures of a check, without words, so that they may leave the machine."""
    return {k: v.value for k, v in metadata.items() if isinstance(v.value, int | float | dict)}


@dataclass(frozen=True)
class FetchOutcome:
    """The outcome of a source's fetch: its counts and lag, or the fault that ended it."""

    fault: str | None = None
    added: int = 0
    changed: int = 0
    removed: int = 0
    bytes: int = 0
    lag_seconds: float | None = None
    notes: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Its output under `--json`."""
        outcome = "FAILED" if self.fault else "FETCHED" if self.is_change else "UNCHANGED"
        return {"outcome": outcome, **{k: v for k, v in asdict(self).items() if v is not None}}

    @property
    def is_change(self) -> bool:
        """True if a file or mail came, changed or went."""
        return bool(self.added or self.changed or self.removed)


def fetch_faults(outcomes: Mapping[str, FetchOutcome]) -> str:
    """One line per source whose fetch failed, with the reason; empty if none did."""
    return "\n".join(f"source {name}: {o.fault}" for name, o in outcomes.items() if o.fault)


def unread_faults(unread: Mapping[str, str]) -> list[tuple[str, str]]:
    """For each source without a readable file, by the reason for the first: the fault and the
    remedy.
    """
    remedy = "`weft sql` lists them in quarantine: mend `path`, `kind` or `format` of the source"
    return [
        (f"source {name}: none of its files could be read, as {why}", remedy)
        for name, why in unread.items()
    ]


@dataclass(frozen=True)
class Interrupted:
    """A run whose process ended before it was done: its id, when it began, and some of its tables."""

    run: str
    begun: str
    tables: tuple[str, ...]

    def __str__(self) -> str:
        """One sentence for people."""
        return (
            f"run {self.run[:8]} of {self.begun} ({', '.join(self.tables)}) was ended before it was done: its files "
            "are kept"
        )


@dataclass(frozen=True)
class BuildResult:
    """The result of a build."""

    plan: Plan
    published: Mapping[str, Any] | None
    seconds: float = 0.0
    stages: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    embedding: Mapping[str, float] = field(default_factory=dict)
    fetched: Mapping[str, FetchOutcome] = field(default_factory=dict)
    failed_checks: tuple[FailedCheck, ...] = ()
    slow: tuple[str, ...] = ()
    interrupted: tuple[Interrupted, ...] = ()
    clock_behind: timedelta | None = None
    erased: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    """By source of whose files none could be read the reason for the first."""
    failed_files: tuple[str, ...] = ()
    """Files and mails that a stage failed on, each with partition, place and reason."""
    after: Plan | None = None
    """The plan when all was done."""

    @property
    def is_as_before(self) -> bool:
        """True if the build found nothing to do and nothing to say."""
        is_silent = not (
            self.warnings() or self.faults() or any(f.is_change for f in self.fetched.values())
        )
        return self.published is None and self.plan.is_empty and is_silent

    def again(self) -> "BuildResult | None":
        """The result of a build after this one, if that finds nothing to do and nothing to say."""
        if self.is_as_before or self.after is None or self.erased:
            return self if self.is_as_before else None
        left = BuildResult(
            self.after,
            None,
            fetched=self.fetched,
            clock_behind=self.clock_behind,
            left_out=self.left_out,
            unread=self.unread,
        )
        return left if left.is_as_before else None

    def warnings(self) -> list[str]:
        """One line per interruption before the build, per source that holds forgotten texts, for
        texts paid twice, and for a clock that is behind.
        """
        lines = [f"Recovered: {interrupted}." for interrupted in self.interrupted]
        for source, count in self.left_out.items():
            what = f"{count:,} mails or documents" if count else "chats, or all of it,"
            lines.append(
                f"Source {source} still holds forgotten texts, {what} left out: delete it there."
            )
        if twice := self.embedding.get(PAID_TWICE):
            lines.append(
                f"{twice:,} texts were in requests whose answer an earlier run did not see: they were asked for again, "
                "and are perhaps paid for twice."
            )
        lines += [f"Set aside, all others are read: {failed}" for failed in self.failed_files]
        if windows := len(self.after.context) if self.after else 0:
            lines.append(
                f"{windows:,} windows of chats wait for their context: the next builds make it, newest first, or you "
                "materialize it in Dagster's UI. Search finds their messages."
            )
        if self.clock_behind:
            lines.append(
                f"The clock is {self.clock_behind} behind the last publish: contents do not depend on it, the times and "
                "lags in readiness do."
            )
        return lines

    def faults(self) -> str:
        """One line per source that cannot be read or fetched, or holds no file that can, with the
        reason; empty if there is none.
        """
        unread = (f"{fault}; {remedy}" for fault, remedy in unread_faults(self.unread))
        lines = (*self.plan.broken.values(), *unread, fetch_faults(self.fetched))
        return "\n".join(filter(None, lines))

    def as_json(self) -> dict[str, Any]:
        """The output of `weft build --json`."""
        return {
            "outcome": "PUBLISHED" if self.published else "UNCHANGED",
            "partitions": len(self.plan.partitions),
            "made": sorted(self.plan.stale),
            "removed": sorted(self.plan.vanished),
            "slow": sorted(self.slow),
            "failed_files": list(self.failed_files),
            "waiting_windows": len(self.after.context) if self.after else 0,
            "damaged": dict(self.plan.damaged),
            "broken": dict(self.plan.broken),
            "unread": dict(self.unread),
            "interrupted": [asdict(interrupted) for interrupted in self.interrupted],
            "clock_behind_seconds": self.clock_behind.total_seconds() if self.clock_behind else 0.0,
            "erased": dict(self.erased),
            "left_out": dict(self.left_out),
            "published": dict(self.published) if self.published else None,
            "stages": {k: dict(v) for k, v in self.stages.items()},
            "embedding": dict(self.embedding),
            "fetched": {name: outcome.as_json() for name, outcome in self.fetched.items()},
            "failed_checks": {f"{c.asset}.{c.check}": dict(c.figures) for c in self.failed_checks},
            "seconds": round(self.seconds, 3),
        }
