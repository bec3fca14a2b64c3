"""Answers of language models, kept by what was asked: one SQLite file that several processes may share."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

_TABLE = "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID"
_BUSY_SECONDS = 60.0
_AT_ONCE = 500


class SQLiteAnswerCache:
    """Answers by key; what `store` was given is on disk when it returns."""

    def __init__(self, path: Path):
        self.path = path

    def known(self, keys: Sequence[str]) -> dict[str, str]:
        """The answers to those of `keys` that have one."""
        if not self.path.exists():
            return {}
        found: dict[str, str] = {}
        with closing(self._open()) as connection:
            for start in range(0, len(keys), _AT_ONCE):
                part = list(keys[start : start + _AT_ONCE])
                marks = ", ".join("?" * len(part))
                found |= dict(
                    connection.execute(f"SELECT key, answer FROM answers WHERE key IN ({marks})", part)
                )
        return found

    def store(self, answers: Mapping[str, str]) -> None:
        """Keep answers; the first answer to a key stays."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(self._open()) as connection, connection:
            connection.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?)", sorted(answers.items()))

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS)
        connection.execute(_TABLE)
        return connection
