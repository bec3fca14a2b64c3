"""An authorization server on the loopback interface (RFC 6749, 8414, 7662): each refresh token is
good for once.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.http_loopback import WholeAnswers, served

USER, CLIENT, SECRET, SCOPE = "reader", "weft-of-Ada", "s3cret-of-the-client", "mail offline_access"
DEVICE, CODE = "device-code-4711", "authorization-code-4711"


@dataclass
class Issuer:
    """The valid tokens, the requests, and lies: functions by path and number of a true answer that
    return the one to give.

    A lie returns a value, bytes, or `(status, value, headers)`.
    """

    url: str = ""
    valid: set[str] = field(default_factory=set)
    challenge: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)
    lies: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    def answer(self, path: str, form: dict[str, str]) -> Any:
        if path == "/introspect":
            return {"active": form["token"] in self.valid, "email": USER, "username": USER}
        if path == "/token":
            return self.tokens(form) if self.may(form) else (400, {"error": "invalid_grant"})
        if path == "/device":
            facts = {"device_code": DEVICE, "user_code": "ABCD-EFGH", "interval": 0.01}
            return facts | {"verification_uri": f"{self.url}/activate"}
        places = [
            "token",
            "authorization",
            *(["device_authorization"] if path == "/devices" else []),
        ]
        return {f"{name}_endpoint": f"{self.url}/{name.partition('_')[0]}" for name in places}

    def may(self, form: dict[str, str]) -> bool:
        """True for a grant that is valid; a refresh token is not valid any more then."""
        assert (form["client_id"], form.get("client_secret")) == (CLIENT, SECRET)
        if form["grant_type"] == "refresh_token":
            is_valid = form["refresh_token"] in self.valid
            self.valid.discard(form["refresh_token"])
            return is_valid
        if form["grant_type"].endswith(":device_code"):
            return form["device_code"] == DEVICE
        coded = (
            urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        )
        return (form["code"], coded) == (CODE, self.challenge)

    def tokens(self, form: dict[str, str]) -> dict[str, Any]:
        number = next(self.numbers)
        access, refresh = f"access-token-{number}", f"refresh-token-{number}"
        self.valid |= {access, refresh}
        facts = {"token_type": "Bearer", "expires_in": 3600, "scope": "https://issuer.example/mail"}
        return {"access_token": access, "refresh_token": refresh, **facts}

    def renewals(self) -> int:
        return sum(form.get("grant_type") == "refresh_token" for form in self.asked)


class _Handler(WholeAnswers):
    issuer: Issuer

    def do_GET(self) -> None:  # noqa: N802
        self.reply({})

    def do_POST(self) -> None:  # noqa: N802
        self.reply(dict(parse_qsl(self.form().decode())))

    def reply(self, form: dict[str, str]) -> None:
        path = urlsplit(self.path).path
        self.issuer.asked.append(form)
        given = self.issuer.lies.get(path, lambda true: true)(self.issuer.answer(path, form))
        self.send(*(given if isinstance(given, tuple) else (200, given)))


@contextmanager
def served_issuer() -> Iterator[Issuer]:
    """A running server without tokens."""
    issuer = Issuer()
    with served(_Handler, issuer=issuer) as issuer.url:
        yield issuer
