"""Sign-ins by OAuth 2 (RFC 6749): a person signs in once, then each fetch renews the token before
it expires.

The refresh token may be good for one renewal (RFC 9700, section 4.14.2): processes renew under a
lock, and store the next one before they use the access token. No backup has the file: of two
copies, the one that renews first ends the sign-in of the other.
"""

import asyncio
import os
import socket
import time
import tomllib
from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe
from typing import Annotated
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
from pydantic import BaseModel, Field, ValidationError

from dagster_project.config.settings import faults_of
from dagster_project.extras.mailboxes.arrival import with_password
from dagster_project.extras.mailboxes.settings import FolderRemote
from dagster_project.remotes.http_requests import HttpRequests, body_of
from dagster_project.remotes.landing import Landing
from dagster_project.remotes.redirects import next_hop
from dagster_project.system.durable import write_privately
from dagster_project.system.locks import alone
from dagster_project.system.masking import Credentials, shown_address
from transforms.errors import FetchError

_SECRETS = ("client_secret", "refresh_token", "code", "code_verifier", "device_code")
_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_PENDING = ("authorization_pending", "slow_down")
_SLOWER_SECONDS = 5.0
"""The longer pause after `slow_down` (RFC 8628, section 3.5)."""
_ANSWER_BYTES = 256 << 10
_PATIENCE_SECONDS = 600.0
"""Time for a person to sign in."""
_OLD_SECONDS = 1200
"""A token that expires sooner is renewed: a fetch may take so long."""
_PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nYou may close this page.\n"
_Token = Annotated[str, Field(pattern=r"^[!-~]*$", max_length=16_384)]


class _Facts(BaseModel):
    """The words of an authorization server: its metadata, a code for a device, tokens, or an error
    (RFC 6749, 8414, 8628).

    A sign-in is stored in the same words, with its settings and the time from which its token is
    renewed.
    """

    token_endpoint: str = ""
    authorization_endpoint: _Token = ""
    device_authorization_endpoint: str = ""
    device_code: _Token = ""
    user_code: str = ""
    verification_uri: str = ""
    interval: float = Field(5, ge=0, le=300)
    scope: str = ""
    parameters: dict[str, str] = {}
    access_token: _Token = ""
    refresh_token: _Token = ""
    token_type: str = Field("bearer", pattern="^(?i)bearer$")
    expires_in: int = Field(3600, gt=0, le=10**9)
    error: str = ""
    error_description: str = ""
    oauth: str = ""
    client_id: str = ""
    renew_at: float = 0.0


class _PendingError(Exception):
    """The person has not entered the code yet; the text is the server's word, which may be
    `slow_down`.
    """


def log_in(
    remote: FolderRemote, landing: Landing, root: Path, say: Callable[[str], None] | None
) -> Credentials:
    """The credentials of a fetch, the token renewed if it is old; with `say`, a person signs in
    first by what it prints. Without a client of OAuth, that of the environment or the one stored;
    with `say`, a person is asked for the password.

    FetchError if somebody must sign in, FetchInterruptedError if the authorization server does not
    answer.
    """
    if not os.environ.get(f"{remote.credentials}_OAUTH"):
        return with_password(remote, landing, root, say)
    credentials = Credentials.of(remote, landing.source)
    here = _SignIn(remote, landing, root)
    answer = asyncio.run(here.by_person(say)) if say else None
    with alone(here.file.with_suffix(".lock")):
        tokens = here.saved(answer) if answer else asyncio.run(here.renewed())
    if say:
        say(f"Signed in; the tokens are in {here.file}")
    others = (*credentials.others, tokens.refresh_token, *filter(None, [here.secret]))
    return replace(credentials, token=tokens.access_token, others=others)


class _SignIn:
    """The sign-in that environment variables of a remote describe; FetchError if one is not set."""

    def __init__(self, remote: FolderRemote, landing: Landing, root: Path):
        self.remote, self.landing, name = remote, landing, remote.credentials
        self.oauth, self.client_id, self.secret, scope = (
            os.environ.get(f"{name}_{part}", "").strip()
            for part in ("OAUTH", "CLIENT_ID", "SECRET", "SCOPE")
        )
        known = tomllib.loads(Path(__file__).with_name("providers.toml").read_text()).get(
            self.oauth, {}
        )
        self.known = _Facts.model_validate(known)
        self.scope = scope or self.known.scope
        if not (known or self.oauth.startswith(("https://", "http://127.0.0.1:"))):
            raise FetchError(
                f"{name}_OAUTH is not google, microsoft or the https:// address of metadata"
            )
        if not self.client_id or not self.scope:
            raise FetchError(
                f"{name}_CLIENT_ID or {name}_SCOPE is not set; set what the server has for you"
            )
        self.file = root / "sign-ins" / f"{name}.json"

    def saved(self, tokens: _Facts) -> _Facts:
        """The tokens after they are stored."""
        write_privately(self.file, tokens.model_dump_json(exclude_defaults=True))
        return tokens

    async def renewed(self) -> _Facts:
        """The stored tokens, renewed if they are old."""
        try:
            tokens = _Facts.model_validate_json(self.file.read_bytes())
        except (OSError, ValueError):
            tokens = _Facts()
        if (tokens.oauth, tokens.client_id) != (self.oauth, self.client_id):
            raise self._ended("nobody has signed in with these `credentials` yet")
        if time.time() < tokens.renew_at:
            return tokens
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
        return self.saved(await self._tokens(tokens.token_endpoint, form, tokens.refresh_token))

    def _ended(self, reason: str) -> FetchError:
        return FetchError(f"{reason}; {self.remote.remedy(self.landing.source)}")

    async def by_person(self, say: Callable[[str], None]) -> _Facts:
        """The tokens after a person entered a code on any device if the server has these, else used
        a browser.
        """
        server = self.known
        if not server.token_endpoint:
            first = httpx2.URL(self.oauth)
            server = await self._answer(
                self.oauth, None, "token_endpoint", "authorization_endpoint"
            )
            for place in filter(
                None, (server.token_endpoint, server.device_authorization_endpoint)
            ):
                await next_hop(first, first, place)
        by = self._by_device if server.device_authorization_endpoint else self._by_browser
        return await by(server, say)

    async def _by_device(self, server: _Facts, say: Callable[[str], None]) -> _Facts:
        """The tokens after a person entered a code on any device (RFC 8628), to be stored."""
        needs = ("device_code", "user_code", "verification_uri")
        code = await self._answer(
            server.device_authorization_endpoint, {"scope": self.scope}, *needs
        )
        shown = Credentials().hidden
        say(f"Open {shown(code.verification_uri)} and enter the code {shown(code.user_code)}")
        form = {"grant_type": _DEVICE_GRANT, "device_code": code.device_code}
        pause, ends_at = code.interval, time.monotonic() + min(code.expires_in, _PATIENCE_SECONDS)
        while time.monotonic() < ends_at:
            await asyncio.sleep(pause)
            try:
                return await self._tokens(server.token_endpoint, form)
            except _PendingError as answer:
                pause += _SLOWER_SECONDS if str(answer) == "slow_down" else 0.0
        raise self._ended("nobody entered the code in time")

    async def _by_browser(self, server: _Facts, say: Callable[[str], None]) -> _Facts:
        """The tokens after a browser came back to this machine with a code (RFC 8252, 7636), to be
        stored.
        """
        verifier, state = token_urlsafe(64), token_urlsafe(32)
        challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            # Microsoft takes any port of this name alone.
            back = f"http://localhost:{listener.getsockname()[1]}"
            query = {
                "response_type": "code",
                "client_id": self.client_id,
                "redirect_uri": back,
                "scope": self.scope,
                "state": state,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
                **server.parameters,
            }
            say(f"Open {server.authorization_endpoint}?{urlencode(query)}")
            say(
                "If the browser is on another machine, run `curl 'ADDRESS'` here with the address where it ends."
            )
            answer = _came_back(listener, state)
        if "code" not in answer:
            reason = Credentials().hidden(answer.get("error", "nobody came back in time"))
            raise self._ended(
                f"{shown_address(server.authorization_endpoint)} gives no access ({reason})"
            )
        form = {"grant_type": "authorization_code", "redirect_uri": back, "code_verifier": verifier}
        return await self._tokens(server.token_endpoint, {**form, "code": answer["code"]})

    async def _tokens(self, address: str, form: dict[str, str], old: str = "") -> _Facts:
        """New tokens, to be stored; with the `old` refresh token if the answer lacks one."""
        answer = await self._answer(
            address, form, "access_token", *([] if old else ["refresh_token"])
        )
        return _Facts(
            oauth=self.oauth,
            client_id=self.client_id,
            token_endpoint=address,
            access_token=answer.access_token,
            refresh_token=answer.refresh_token or old,
            renew_at=time.time() + max(answer.expires_in - _OLD_SECONDS, answer.expires_in / 2),
        )

    async def _answer(self, url: str, form: dict[str, str] | None, *needs: str) -> _Facts:
        """The answer to a GET, or to a POST of a form by this client; faults as `HttpRequests`
        raises them.
        """
        fields = {"client_id": self.client_id, **(form or {})}
        fields |= {"client_secret": self.secret} if self.secret else {}
        secrets = Credentials(others=tuple(fields[name] for name in _SECRETS if name in fields))
        requests = HttpRequests(self.remote, self.landing, secrets, datetime.now(UTC))
        here = shown_address(url)

        async def receive(response: httpx2.Response) -> bytes:
            if response.status_code not in (
                200,
                400,
                401,
                403,
            ):  # of errors by RFC 6749, section 5.2
                raise requests.refused(response, url)
            return await body_of(response, _ANSWER_BYTES)

        headers = {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        body = urlencode(fields).encode() if form else None
        try:
            async with asyncio.timeout(self.remote.time_limit_seconds), requests.client() as client:
                data = await requests.result(client, url, receive, headers, body)
            answer = _Facts.model_validate_json(data)
        except TimeoutError:
            raise self.remote.too_late(here) from None
        except ValidationError as error:
            reason = secrets.hidden(faults_of(error))
            raise FetchError(
                f"{here}: the answer cannot be read ({reason}); check its address"
            ) from None
        if answer.error in _PENDING:
            raise _PendingError(answer.error)
        if answer.error:
            text = secrets.hidden(f"{here}: {answer.error} {answer.error_description}".strip())
            raise self._ended(text)
        if lacking := [name for name in needs if not getattr(answer, name)]:
            raise FetchError(
                f"{here}: the answer has no {' and no '.join(lacking)}; check address and scope"
            )
        return answer


def _came_back(listener: socket.socket, state: str) -> dict[str, str]:
    """The query of the address with this state that a browser opens here; empty when the time is
    over.
    """
    ends_at = time.monotonic() + _PATIENCE_SECONDS
    while (left := ends_at - time.monotonic()) > 0:
        listener.settimeout(left)
        with suppress(OSError, LookupError, ValueError), listener.accept()[0] as connection:
            connection.settimeout(10)
            address = (
                connection.makefile("rb").readline(1 << 16).decode("ascii", "replace").split(" ")[1]
            )
            connection.sendall(_PAGE)
            if (answer := dict(parse_qsl(urlsplit(address).query))).get("state") == state:
                return answer
    return {}
