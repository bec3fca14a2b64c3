"""Passwords of mailboxes between fetches: in the keyring of the system, else in a file that only
the owner can read.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dagster_project.system.durable import make_private, write_privately
from transforms.errors import FetchError, not_installed

_SERVICE = "weft"


def store(root: Path, credentials: str, user: str, password: str) -> str:
    """Keep a login under the name of its credentials; where its password is, in words."""
    file = _file(root, credentials)
    make_private(file.parent)
    is_in_keyring = _into_keyring(f"{credentials} of {file.parent}", password)
    facts = {"user": user} | ({} if is_in_keyring else {"password": password})
    write_privately(file, json.dumps(facts))
    return "the keyring of this system" if is_in_keyring else f"{file}, which only you can read"


def stored(root: Path, credentials: str | None) -> Mapping[str, str]:
    """The variables of a stored login, as the environment would have them; empty without one.

    FetchError if its password is in a keyring that does not open.
    """
    if not credentials:
        return {}
    file = _file(root, credentials)
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if "user" not in facts:  # tokens of OAuth
        return {}
    password = facts.get("password") or _from_keyring(f"{credentials} of {file.parent}")
    return {f"{credentials}_USER": facts["user"], f"{credentials}_PASSWORD": password}


def environment(root: Path, credentials: str | None) -> Mapping[str, str]:
    """The variables of the environment, those of a stored login behind them."""
    if any(os.environ.get(f"{credentials}_{part}") for part in ("PASSWORD", "TOKEN", "OAUTH")):
        return os.environ
    return {**os.environ, **stored(root, credentials)}


def _file(root: Path, credentials: str) -> Path:
    return root / "sign-ins" / f"{credentials}.json"


def _keyring() -> Any:
    """The package of keyrings; ModuleNotFoundError if it is not installed."""
    import keyring
    import keyring.errors

    return keyring


def _into_keyring(name: str, password: str) -> bool:
    """True if the keyring of the system took a password, and returns it."""
    with suppress(ModuleNotFoundError):
        keyring = _keyring()
        with suppress(keyring.errors.KeyringError):
            keyring.set_password(_SERVICE, name, password)
            return bool(keyring.get_password(_SERVICE, name) == password)
    return False


def _from_keyring(name: str) -> str:
    try:
        keyring = _keyring()
    except ModuleNotFoundError as error:
        raise not_installed(error, "mailboxes") from error
    try:
        password = keyring.get_password(_SERVICE, name)
    except keyring.errors.KeyringError as error:
        raise FetchError(
            f"the keyring of this system does not open ({type(error).__name__}): unlock it, or set "
            f"{name.partition(' ')[0]}_PASSWORD"
        ) from None
    return password or ""
