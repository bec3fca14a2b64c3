"""The list of revoked tokens, which outlives the storage that they let people into: a restored or
copied token on it stays revoked.
"""

import os
from collections.abc import Collection
from pathlib import Path

from platformdirs import user_state_path

from dagster_project.system.durable import make_private

REVOKED = "revoked"
"""The name of the list, beside the files of tokens and in the user's folder of states."""


class Revoked:
    """The hashes of revoked tokens, in two files: in the folder of a storage's tokens, which backups
    have, and in the user's folder of states, for all storages.
    """

    def __init__(self, folder: Path):
        self.files = folder / REVOKED, user_state_path("weft") / REVOKED

    def hashes(self) -> set[str]:
        """The SHA-256 of each revoked token, in hexadecimal digits."""
        return {
            line
            for file in self.files
            if file.exists()
            for line in file.read_text("ascii", "replace").split()
        }

    def add(self, hashes: Collection[str]) -> None:
        """Note hashes in both files; durable when the call returns."""
        lines = "".join(f"{one}\n" for one in sorted(hashes)).encode()
        for file in self.files:
            make_private(file.parent)
            handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, lines)
                os.fsync(handle)
            finally:
                os.close(handle)
