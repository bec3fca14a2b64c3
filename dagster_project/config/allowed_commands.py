"""The commands of settings that this user allowed to run: a folder that somebody else wrote runs
none.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from transforms.hashing import parts_hash

_VARIABLE = "WEFT_ALERTS__COMMAND"


def is_allowed(command: Sequence[str], root: Path) -> bool:
    """True if the user allowed exactly this command for the storage at `root`, or gave it by the
    environment.
    """
    if _VARIABLE in os.environ:
        return True
    with suppress(OSError):
        return _digest(command, root) in _file().read_text().split()
    return False


def allow(command: Sequence[str], root: Path) -> None:
    """Allow a command for the storage at `root`, in a file of the user alone."""
    if is_allowed(command, root):
        return
    _file().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _file().open("a") as file:
        file.write(f"{_digest(command, root)}\n")


def _file() -> Path:
    from platformdirs import user_state_path  # not for those who search

    return user_state_path("weft") / "allowed_commands"


def _digest(command: Sequence[str], root: Path) -> str:
    return parts_hash([str(root.resolve()), *command])
