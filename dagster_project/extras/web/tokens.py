"""Tokens of persons: each has a name, a lens and an end, so that one server answers several people
by their rights.
"""

import hmac
import ipaddress
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Scope

from dagster_project.config.settings import Settings
from dagster_project.index.search.opened_index import require_lens
from dagster_project.outgoing.receipts import ASKER
from dagster_project.outgoing.revoked import Revoked
from dagster_project.servers.guards import TokenRequired, peer_of
from dagster_project.system.durable import sync, write_privately
from transforms.errors import SettingsError, shortened
from transforms.hashing import bytes_sha256

LENS_OF = "weft.lens"
"""Key of the scope of a request: the lens of the person's token."""
_NOTED_SECONDS = 3600.0
_NAME = re.compile(r"(?=[.@+-]*\w)[\w.@+-]{1,64}")


@dataclass(frozen=True)
class Token:
    """The person of a token: a name, a lens (None is that of the server), and the first day in UTC
    without it.
    """

    name: str
    lens: str | None
    until: date | None

    @property
    def is_ended(self) -> bool:
        """True from the day `until` on."""
        return self.until is not None and datetime.now(UTC).date() >= self.until


_TOKEN = TypeAdapter(Token)


class Tokens:
    """The tokens of a storage: a file for each, which only the owner can read, named after the
    token's SHA-256.

    A token has 256 random bits. The folder stays when the last one is revoked, so servers go on to
    ask for tokens.
    """

    def __init__(self, settings: Settings):
        self.settings, self.folder = settings, settings.root / "tokens"
        self._revoked = Revoked(self.folder)

    def new(self, name: str, lens: str | None, until: date | None) -> str:
        """A new token; SettingsError if the name is taken or has other characters, or for a lens
        that pages cannot use.
        """
        if not _NAME.fullmatch(name):
            raise SettingsError(
                f"{shortened(name)!r} is not a name: take up to 64 letters, digits and . @ + - _, "
                "a letter or digit among them"
            )
        if any(token.name == name for token in self.all()):
            raise SettingsError(
                f"{name!r} has a token: revoke it first with `weft serve tokens revoke {name}`"
            )
        require_lens(self.settings, lens)
        token = Token(name, lens, until)
        if not self._counts(token):
            raise SettingsError(
                "--until is to be after today, and --lens one that does not bound sessions"
            )
        secret = secrets.token_urlsafe(32)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = self.folder / f"{bytes_sha256(secret.encode())}.json"
        write_privately(place, _TOKEN.dump_json(token).decode())
        os.utime(place, (0, 0))
        return secret

    def revoke(self, name: str) -> None:
        """Delete the token of a name, and note that no copy of it counts; SettingsError if there is
        none.
        """
        files = [file for file, token in self._files() if token.name == name]
        if not files:
            raise SettingsError(
                f"nobody named {shortened(name)!r} has a token: see `weft serve tokens`"
            )
        self._revoked.add([file.stem for file in files])
        for file in files:
            file.unlink(missing_ok=True)
        sync([self.folder])

    def all(self) -> list[Token]:
        """The tokens by name, ended ones too."""
        return sorted((token for _, token in self._files()), key=lambda token: token.name)

    def last_use(self, name: str) -> datetime | None:
        """When the person of a name asked last, to an hour; None if never."""
        times = [file.stat().st_mtime for file, token in self._files() if token.name == name]
        return datetime.fromtimestamp(times[0], UTC) if times and times[0] else None

    def of(self, secret: bytes) -> Token | None:
        """The person of this token; None if it is unknown, revoked or ended, or if its lens is
        gone.
        """
        return self._counted(self.folder / f"{bytes_sha256(secret)}.json")

    def named(self, name: str) -> Token | None:
        """The person of a name, as `of` its token."""
        return next(
            (self._counted(file) for file, token in self._files() if token.name == name), None
        )

    def _files(self) -> Iterator[tuple[Path, Token]]:
        revoked = self._revoked.hashes()
        for file in self.folder.glob("*.json"):
            if file.stem not in revoked and (token := _read(file)):
                yield file, token

    def _counted(self, file: Path) -> Token | None:
        """The person of a file, if the token counts; the time of the file becomes that of the last
        use, to an hour.
        """
        token = _read(file)
        if token is None or not self._counts(token) or file.stem in self._revoked.hashes():
            return None
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _NOTED_SECONDS:
                os.utime(file)
        return token

    def _counts(self, token: Token) -> bool:
        lens = self.settings.lenses.get(token.lens or "")
        return not token.is_ended and (
            token.lens is None or lens is not None and not lens.is_limited
        )


def is_loopback(host: str) -> bool:
    """True for a name or an address of this machine that no other machine reaches."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(file: Path) -> Token | None:
    try:
        return _TOKEN.validate_json(file.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


class PersonRequired(TokenRequired):
    """ASGI middleware that answers 401 to whom neither the server's token nor one of a person is
    known.

    It notes the person's lens in the scope and the name for receipts. Without any token of both
    kinds it admits all.

    With a `header` (`NAME`, or `NAME=ADDRESS`), requests that come from the loopback interface, or
    from the proxy at that address, carry the name of a person in it, whom the proxy knows; such a
    person has a token, and need not send it.
    """

    refusal = (
        "this server asks for a token; one that has ended, is revoked, or whose lens is gone does not count: "
        "ask whoever runs it for a new one (weft serve tokens new)"
    )

    def __init__(self, app: ASGIApp, token: str, settings: Settings, header: str = ""):
        super().__init__(app, token)
        self._tokens = Tokens(settings)
        self._header, _, self._proxy = header.partition("=")
        self._is_open = not token and not header and not self._tokens.folder.exists()

    def admits(self, scope: Scope, secret: bytes) -> bool:
        """True if the token or the header is a person's, the token the server's, or if none was
        ever made.
        """
        ASKER.set(None)
        if person := self._named(scope) or self._tokens.of(secret):
            scope[LENS_OF] = person.lens
            ASKER.set(person.name)
            return True
        self._is_open = self._is_open and not self._tokens.folder.exists()
        return self._is_open or bool(self.token) and hmac.compare_digest(secret, self.token)

    def _named(self, scope: Scope) -> Token | None:
        """The person whom a trusted proxy names; None without such a person or proxy."""
        names = Headers(scope=scope).getlist(self._header) if self._header else []
        peer = peer_of(scope)
        is_trusted = peer == self._proxy if self._proxy else is_loopback(peer)
        return self._tokens.named(names[0]) if len(names) == 1 and is_trusted else None
