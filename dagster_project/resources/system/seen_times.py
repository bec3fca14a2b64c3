"""The memory of when each partition's waiting change was first found, as all who read it take it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from dagster_project.resources.system.globs import recall


def seen_times(memory: Path) -> dict[str, tuple[str, datetime]]:
    """By partition the fingerprint that the lake held then, and the time; empty if the file is missing or damaged."""
    try:
        return {
            p: (str(checksum), datetime.fromisoformat(at)) for p, (checksum, at) in recall(memory).items()
        }
    except (ValueError, TypeError):
        return {}
