"""Sign-ins by OAuth 2: a person signs in once, fetches renew the token, and a server that refuses
or lies is named.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import urlopen

import pytest

from assets.protocols.sources import Fetched
from dagster_project.extras.mailboxes import sign_in
from dagster_project.extras.mailboxes.tests import oauth_loopback as server
from dagster_project.extras.mailboxes.tests.imap_loopback import USER, missing, served_mail
from dagster_project.extras.mailboxes.tests.jmap_loopback import Account, served_account
from dagster_project.remotes.source_remotes import SourceRemotes
from tests.archives import Mail, Workspace
from transforms.errors import FetchError, FetchInterruptedError

DATA = Mail(1).text().replace("\n", "\r\n").encode()


class Mailbox:
    """A mailbox whose server takes the tokens of an issuer, and the source that fetches it."""

    def __init__(self, issuer: server.Issuer, account: Account, work: Path):
        self.issuer, self.work = issuer, Workspace(work)
        self.remote: dict[str, Any] = {"kind": "jmap", "url": f"{account.url}/session"}
        self.file = work / "state" / "sign-ins" / "MAIL.json"

    def remotes(self) -> SourceRemotes:
        remote = self.remote | {"credentials": "MAIL", "requests_per_minute": 10_000}
        source = {"name": "inbox", "kind": "maildir", "fetch": remote}
        return SourceRemotes(self.work.configure(source).settings)

    def sign_in(self) -> None:
        """Sign in as a person whose browser comes back, after a page that forges a code did."""

        def visit(line: str) -> None:
            query = dict(parse_qsl(urlsplit(line).query))
            if "state" in query:
                self.issuer.challenge = query["code_challenge"]
                codes = [
                    urlencode({"state": it, "code": server.CODE})
                    for it in ("forged", query["state"])
                ]
                pool.submit(
                    lambda: [urlopen(f"{query['redirect_uri']}?{code}").read() for code in codes]
                )  # noqa: S310

        with ThreadPoolExecutor(1) as pool:
            self.remotes().log_in("inbox", visit)

    def fetch(self) -> Fetched:
        return self.remotes().fetch("inbox")

    def grow_old(self) -> None:
        """Let an hour pass: the access tokens end."""
        self.issuer.valid.difference_update(
            {token for token in self.issuer.valid if "access" in token}
        )
        self.file.write_text(self.file.read_text().replace('"renew_at":', '"renew_at":-'))


@pytest.fixture
def mailbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_key: None) -> Iterator[Mailbox]:
    monkeypatch.setenv("MAIL_USER", USER)
    with server.served_issuer() as issuer, served_account() as account:
        values = {
            "OAUTH": f"{issuer.url}/metadata",
            "CLIENT_ID": server.CLIENT,
            "SECRET": server.SECRET,
        }
        for part, value in (values | {"SCOPE": server.SCOPE}).items():
            monkeypatch.setenv(f"MAIL_{part}", value)
        account.tokens = issuer.valid
        account.put("M1", DATA, "2004-01-16T12:00:00Z", "in")
        yield Mailbox(issuer, account, tmp_path)


def test_a_person_signs_in_once_and_fetches_renew_alone(mailbox: Mailbox):
    with pytest.raises(
        FetchError, match="nobody has signed in .*; sign in by `weft build --sign-in inbox`"
    ):
        mailbox.fetch()
    mailbox.sign_in()
    assert (mailbox.fetch().added, mailbox.issuer.renewals()) == (1, 0)
    for renewals in (1, 2):
        mailbox.grow_old()
        assert (mailbox.fetch().unchanged, mailbox.issuer.renewals()) == (1, renewals)
    below = [path for path in mailbox.work.folder.rglob("*") if path.is_file()]
    assert [path for path in below if b"-token-" in path.read_bytes()] == [mailbox.file]
    assert mailbox.file.stat().st_mode & 0o777 == 0o600


def test_a_person_enters_a_code_on_any_device(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MAIL_OAUTH", f"{mailbox.issuer.url}/devices")
    monkeypatch.setattr(sign_in, "_SLOWER_SECONDS", 0.01)
    waits = iter([(400, {"error": code}) for code in ("authorization_pending", "slow_down")])
    mailbox.issuer.lies["/token"] = lambda true: next(waits, true)
    lines: list[str] = []
    mailbox.remotes().log_in("inbox", lines.append)
    assert lines[0].endswith("/activate and enter the code ABCD-EFGH")
    assert (mailbox.fetch().added, next(waits, None)) == (1, None)


def test_of_many_processes_one_renews(mailbox: Mailbox):
    mailbox.sign_in()
    mailbox.grow_old()
    remotes = mailbox.remotes()
    with ThreadPoolExecutor(8) as pool:
        assert {one.token for one in pool.map(remotes.log_in, ["inbox"] * 8)} == {"access-token-1"}
    assert mailbox.issuer.renewals() == 1


ENDED = "invalid_grant.*; sign in by `weft build --sign-in inbox`"
LIES = [
    (
        lambda _: (400, {"error": "invalid_grant", "error_description": "refresh-token-0"}),
        ENDED,
        False,
    ),
    (
        lambda _: (401, {"error": "invalid_client", "error_description": server.SECRET}),
        r"invalid_client \[secret\]",
        False,
    ),
    (lambda _: (429, b"", {"Retry-After": "3"}), "answers 429", True),
    (lambda _: (503, b""), "answers 503", True),
    (lambda _: (302, b"", {"Location": "http://127.0.0.2/"}), "answers 302", False),
    (lambda true: true | {"token_type": "mac"}, "cannot be read .token_type", False),
    (lambda true: true | {"access_token": "a\r\nX: y"}, "cannot be read .access_token", False),
    (lambda _: b"[" * 9999, "cannot be read", False),
    (lambda _: b" " * (1 << 20), "cannot be read", False),
]


@pytest.mark.parametrize(("lie", "reason", "passes"), LIES)
def test_a_renewal_that_fails_says_what_to_do(
    mailbox: Mailbox, lie: Any, reason: str, passes: bool
):
    mailbox.sign_in()
    mailbox.grow_old()
    mailbox.issuer.lies["/token"] = lie
    with pytest.raises(FetchError, match=reason) as fault:
        mailbox.fetch()
    assert isinstance(fault.value, FetchInterruptedError) == passes
    assert not any(
        secret in str(fault.value) for secret in (server.SECRET, "access-token", "refresh-token")
    )


UNFIT = [
    ("/metadata", lambda _: (404, b""), "answers 404"),
    (
        "/metadata",
        lambda true: true | {"token_endpoint": "http://192.168.1.1/"},
        "another host than the private one",
    ),
    ("/token", lambda true: true | {"refresh_token": ""}, "has no refresh_token"),
    ("/token", lambda _: (400, {"error": "access_denied"}), "access_denied"),
]


@pytest.mark.parametrize(("path", "lie", "reason"), UNFIT)
def test_a_sign_in_at_a_server_that_lies_fails(mailbox: Mailbox, path: str, lie: Any, reason: str):
    mailbox.issuer.lies[path] = lie
    with pytest.raises(FetchError, match=reason):
        mailbox.sign_in()
    assert not mailbox.file.exists()


WRONG = [
    ("CLIENT_ID", "other", "nobody has signed in with these"),
    ("OAUTH", "http://issuer.example", "MAIL_OAUTH is not google"),
    ("SCOPE", "", "MAIL_SCOPE is not set"),
]


@pytest.mark.parametrize(("part", "value", "reason"), WRONG)
def test_a_sign_in_by_other_variables_is_refused(
    mailbox: Mailbox, part: str, value: str, reason: str, monkeypatch: pytest.MonkeyPatch
):
    mailbox.sign_in()
    monkeypatch.setenv(f"MAIL_{part}", value)
    with pytest.raises(FetchError, match=reason):
        mailbox.fetch()


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize("mechanism", ["xoauth2", "oauthbearer"])
def test_dovecot_takes_a_new_token_after_the_old_one_ended(mailbox: Mailbox, mechanism: str):
    with served_mail(mailbox.issuer.url, mechanism) as running:
        with running.writer() as client:
            client.append("INBOX", DATA)
        mailbox.remote = {"kind": "imap", "host": f"127.0.0.1:{running.port}", "tls": "off"}
        mailbox.sign_in()
        assert mailbox.fetch().added == 1
        mailbox.grow_old()
        assert (mailbox.fetch().unchanged, mailbox.issuer.renewals()) == (1, 1)
        mailbox.issuer.valid.clear()
        mailbox.grow_old()
        with pytest.raises(FetchError, match=ENDED):
            mailbox.fetch()
