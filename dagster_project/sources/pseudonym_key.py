"""The key of pseudonyms, which stays outside the data: from the environment, or from a file of its own."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from transforms.errors import SettingsError

VARIABLE = "WEFT_PSEUDONYM_KEY"
_LEAST_BYTES = 16


def pseudonym_key(path: Path, data: Path) -> bytes:
    """The key: `WEFT_PSEUDONYM_KEY`, else the content of the file at `path`, which is made if there is none.

    A new file is readable by its owner alone and is never written over. SettingsError if the file lies
    in a folder of what is generated below `data`, if others may read it, or if the key is too short to keep a secret.
    """
    key_text = os.environ.get(VARIABLE)
    if key_text is not None:
        return _long_enough(key_text.encode(), f"the key in {VARIABLE}")
    for folder in ("lake", "index", "cache", "dagster"):
        if path.is_relative_to(data / folder):
            raise SettingsError(
                f"storage.pseudonym_key = {path} lies among the data; name a place outside {folder}/"
            )
    try:
        _make(path)
        if path.stat().st_mode & 0o077:
            raise SettingsError(f"{path} can be read by others: chmod 600 it, or set {VARIABLE} instead")
        return _long_enough(path.read_bytes().strip(), str(path))
    except OSError as error:
        raise SettingsError(
            f"the key of pseudonyms at {path} cannot be used ({error.strerror}): set storage.pseudonym_key or {VARIABLE}"
        ) from error


def _make(path: Path) -> None:
    """Write a new key unless there is one; complete under its name, whoever else makes one."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write(secrets.token_hex(32) + "\n")
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()


def _long_enough(key: bytes, place: str) -> bytes:
    if len(key) < _LEAST_BYTES:
        raise SettingsError(f"{place} has {len(key)} bytes; a key needs at least {_LEAST_BYTES}")
    return key
