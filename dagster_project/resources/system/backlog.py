"""What a backfill has taken on and not made yet, so that builds beside it leave that to it."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from dagster_project.resources.system.locks import is_held


class Backlog:
    """The partitions that a living backfill is yet to make; it counts as ended when its process is gone."""

    def __init__(self, lock: Path, memory: Path):
        """`lock` is held by the backfill as long as it lives, `memory` names what it has taken on."""
        self.lock, self.memory = lock, memory

    def left(self) -> frozenset[str] | None:
        """The partitions that builds leave alone; None while no backfill makes any."""
        if not self.memory.exists() or not is_held(self.lock):
            return None
        try:
            return frozenset(json.loads(self.memory.read_text()))
        except (OSError, ValueError):
            return None

    def note(self, partitions: Iterable[str]) -> None:
        """Take these on, and no others."""
        self.memory.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.memory.with_name(f"{self.memory.name}.{os.getpid()}-{secrets.token_hex(4)}")
        temporary.write_text(json.dumps(sorted(partitions)))
        temporary.replace(self.memory)

    def clear(self) -> None:
        """All is made: what is left to do, builds may do."""
        self.memory.unlink(missing_ok=True)
