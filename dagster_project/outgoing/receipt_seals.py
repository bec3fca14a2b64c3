"""Beside the chain of receipts: the key that signs them, and notes of its head outside of the
storage.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_state_path

from dagster_project.system.durable import make_private, put, sync
from dagster_project.system.globs import write_atomically
from transforms.errors import ReceiptError, SettingsError
from transforms.hashing import bytes_sha256

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

HEAD_VARIABLE = "WEFT_RECEIPTS_HEAD"
"""Environment variable with the place of heads: a folder, `syslog`, or `command:` and a program
with its arguments.
"""
_LOGGER = ("logger", "--socket-errors=on", "--size=8KiB", "--tag=weft")
"""The program of util-linux that sends lines to the system's log, which journald keeps, and says if
that fails.
"""
_SECONDS, _PAUSE = 3, 60
"""Seconds that a head may take to be sent, and that none is sent after one that could not be:
answers wait for it.
"""
_MOST_HEADS = 1_000


class ReceiptKey:
    """The Ed25519 key (RFC 8032) in a folder, as hexadecimal digits that only the owner can read."""

    def __init__(self, folder: Path):
        self.file, self.next = folder / "key", folder / "key.next"

    def current(self, announced: str | None = None) -> Ed25519PrivateKey:
        """The key, made if there is none; ReceiptError if the file holds another text.

        `announced` is the public key that the newest receipt names as the next: a kill may have
        come before its file was.
        """
        if announced and self.next.exists() and public(_loaded(self.next)) == announced:
            put(self.next, self.file)
        elif not self.file.exists():
            self.make_next()
            put(self.next, self.file)
        return _loaded(self.file)

    def make_next(self) -> str:
        """Write the key that will follow, and return its public key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.generate()
        self.next.unlink(missing_ok=True)
        self.next.touch(0o600, exist_ok=False)
        self.next.write_text(key.private_bytes_raw().hex())
        sync([self.next, self.next.parent])
        return public(key)

    def faults(self, expected: str) -> list[str]:
        """The reasons why the file is not the owner's key with this public key."""
        file = (
            self.next
            if self.next.exists() and public(_loaded(self.next)) == expected
            else self.file
        )
        if not file.exists():
            return [
                f"{file} is gone: restore it, or the next receipt has a key that none announced"
            ]
        if public(_loaded(file)) != expected:
            return [f"{file} was exchanged: the chain ends with the key {expected}"]
        is_open = file.stat().st_mode & 0o077
        return (
            [f"others than the owner can use {file}: chmod 600, then take a new key"]
            if is_open
            else []
        )


def public(key: Ed25519PrivateKey) -> str:
    """The public key, in hexadecimal digits."""
    return key.public_key().public_bytes_raw().hex()


def receipt_line(content: Mapping[str, Any]) -> bytes:
    """The one form of a receipt: a line of JSON, its keys in order."""
    return (
        json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
        + b"\n"
    )


def hash_of(content: Mapping[str, Any]) -> str:
    """The SHA-256 of all of `content` but its `hash` and `signature`."""
    return bytes_sha256(
        receipt_line({k: v for k, v in content.items() if k not in ("hash", "signature")})
    )


def sealed(content: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """`content` with its hash, and the signature of that."""
    own = hash_of(content)
    return {**content, "hash": own, "signature": key.sign(own.encode()).hex()}


def is_place(value: Any) -> bool:
    """Whether a value of JSON has the number and the hash of a receipt."""
    return isinstance(value, dict) and (type(value.get("number")), type(value.get("hash"))) == (
        int,
        str,
    )


def is_signed(receipt: Mapping[str, Any]) -> bool:
    """Whether the receipt's key signed its hash."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    with suppress(InvalidSignature, KeyError, TypeError, ValueError):
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(receipt["key"]))
        signature = bytes.fromhex(receipt["signature"])
        key.verify(signature, receipt["hash"].encode())
        return signature.hex() == receipt["signature"]
    return False


def _loaded(file: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(file.read_text("ascii")))
    except ValueError as error:
        raise ReceiptError(f"{file} has no key of receipts: restore it, or delete it") from error


class Heads:
    """Notes of the last receipt (`at`, `number`, `hash`, `key`) of one storage, in a folder outside
    of it.

    That is one of the user's folder of states, or the one that `HEAD_VARIABLE` names. If that names
    a command in its place, the command gets each head, too, as a line of JSON on standard input;
    its note has `sent`, or the reason as `not_sent`. A note takes the place of the one before as
    long as the chain holds that; else both stay, as evidence.
    """

    def __init__(self, root: Path):
        """SettingsError if the variable names no place."""
        self.root, place, self._pause_ends = root.resolve(), os.environ.get(HEAD_VARIABLE, ""), 0.0
        self.command = list(_LOGGER) if place == "syslog" else list[str]()
        if place.startswith("command:"):
            with suppress(ValueError):  # a quotation without an end
                self.command = shlex.split(place.removeprefix("command:"))
        is_folder = Path(place).is_absolute() and not Path(place).resolve().is_relative_to(
            self.root
        )
        if place and not self.command and not is_folder:
            raise SettingsError(
                f"{HEAD_VARIABLE} names no place: set it to the absolute path of a folder outside of {root}, to `syslog`, "
                "or to `command:` and a program with its arguments"
            )
        folder = Path(place) if is_folder else user_state_path("weft") / "receipts"
        self.file = folder / f"{bytes_sha256(os.fsencode(self.root))[:16]}.jsonl"

    def read(self) -> list[dict[str, Any]]:
        """The notes, oldest first; ReceiptError if they are not as they were written."""
        return (
            parsed_heads(self.file.read_text("utf-8", "replace"), self.file)
            if self.file.exists()
            else []
        )

    def note(
        self, receipt: Mapping[str, Any], heads: list[dict[str, Any]], *, is_continued: bool
    ) -> None:
        """Note a receipt as the last one behind `heads`, in place of their last one if the chain
        continues it.
        """
        earlier = heads[:-1] if is_continued else heads[-_MOST_HEADS:]
        head = {name: receipt[name] for name in ("number", "hash", "key", "dropped")}
        head |= {"at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "storage": str(self.root)}
        if self.command:
            why = self._send(json.dumps(head))
            head |= {"not_sent": why} if why else {"sent": True}
        make_private(self.file.parent)
        write_atomically(self.file, "".join(f"{json.dumps(line)}\n" for line in (*earlier, head)))
        self.file.chmod(0o600)

    def _send(self, line: str) -> str | None:
        """Give a line to the command; the reason if that is impossible."""
        if time.monotonic() < self._pause_ends:
            return f"the one before could not be sent in the last {_PAUSE} s"
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        try:
            ended = subprocess.run(
                self.command, input=f"{line}\n".encode(), timeout=_SECONDS, **silent
            )
            why = (
                f"{self.command[0]} ended with exit code {ended.returncode}"
                if ended.returncode
                else None
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            why = f"{self.command[0]}: {getattr(error, 'strerror', None) or f'no end in {_SECONDS} s'}"
        self._pause_ends = time.monotonic() + _PAUSE if why else 0.0
        return why


def parsed_heads(text: str, name: object) -> list[dict[str, Any]]:
    """The heads in lines of JSON, also behind what a log puts before them; ReceiptError names a
    line that is none.
    """
    heads = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            head = json.loads(line[line.find("{") :])
            is_whole = all(is_place(one) for one in (head, *head.get("dropped", ())))
        except (ValueError, TypeError, AttributeError, RecursionError):
            is_whole = False
        if not is_whole:
            raise ReceiptError(
                f"line {number} of {name}, notes of receipts, is damaged: delete the line"
            )
        heads.append(head)
    return heads
