"""The partitions of a running backfill, which concurrent builds leave to it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from dagster_project.resources.system.globs import write_atomically
from dagster_project.resources.system.locks import is_held


class Backlog:
    """The partitions that a running backfill has not made yet; a backfill whose process ended counts as ended."""

    def __init__(self, lock: Path, memory: Path):
        """The backfill holds `lock` as long as it runs; the file `memory` names its partitions."""
        self.lock, self.memory = lock, memory

    def remaining(self) -> frozenset[str] | None:
        """The partitions that builds must not make; None while no backfill runs."""
        if not self.memory.exists() or not is_held(self.lock):
            return None
        try:
            return frozenset(json.loads(self.memory.read_text()))
        except (OSError, ValueError):
            return None

    def note(self, partitions: Iterable[str]) -> None:
        """Replace the backfill's partitions by these."""
        write_atomically(self.memory, json.dumps(sorted(partitions)))

    def clear(self) -> None:
        """Forget the backfill's partitions: builds may make all."""
        self.memory.unlink(missing_ok=True)
