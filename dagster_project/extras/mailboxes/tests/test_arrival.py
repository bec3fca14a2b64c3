"""`weft init` with a mail address at a real IMAP server: the conversation, the stored password, and
bad answers, after which nothing is half written.
"""

import socket
import tomllib
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import keyring
import pytest
from click.testing import CliRunner, Result
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring
from keyring.errors import KeyringLocked

from dagster_project.cli.main import main
from dagster_project.config.settings import load_settings
from dagster_project.extras.mailboxes import arrival
from dagster_project.extras.mailboxes.addresses import Lookups
from dagster_project.extras.mailboxes.tests.dns_loopback import served_names
from dagster_project.extras.mailboxes.tests.imap_loopback import (
    PASSWORD,
    USER,
    ImapServer,
    missing,
    served_mail,
)
from dagster_project.extras.mailboxes.tests.jmap_loopback import Account, served_account
from dagster_project.remotes.source_remotes import SourceRemotes
from tests.archives import Mail
from tests.http_loopback import served_archives
from transforms.errors import FetchError

needs_dovecot = pytest.mark.skipif(missing() is not None, reason=str(missing()))
ADDRESS, NAME = f"{USER}@example.org", "READER_EXAMPLE_ORG"
NOW = datetime.now(UTC)
OLD = NOW - timedelta(days=800)
XML = """<clientConfig><emailProvider><incomingServer type="imap"><hostname>%s</hostname>
<port>%d</port><socketType>SSL</socketType><username>%%EMAILLOCALPART%%</username>
</incomingServer></emailProvider></clientConfig>"""
NOBODY = "http://127.0.0.1:9/{domain}"


class Ring(KeyringBackend):
    """A keyring in memory, which may be locked."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.passwords: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def set_password(self, service: str, username: str, password: str) -> None:
        self.passwords[service, username] = password

    def get_password(self, service: str, username: str) -> str | None:
        if self.is_locked:
            raise KeyringLocked
        return self.passwords.get((service, username))


@pytest.fixture(scope="module")
def server() -> Iterator[ImapServer]:
    with served_mail() as running:
        with running.writer("Work") as client:
            client.append("INBOX", Mail(1).text().encode(), msg_time=NOW)
            client.append("INBOX", Mail(2).text().encode(), msg_time=OLD)
            client.append("Work", Mail(3).text().encode(), msg_time=OLD)
            client.create_folder("Empty")
        yield running


@dataclass
class Home:
    """A folder in which `weft init` runs, and the keyring of the machine."""

    folder: Path
    ring: Ring = field(default_factory=Ring)

    @property
    def config(self) -> Path:
        return self.folder / "weft.toml"

    def init(self, answers: str | None, address: str = ADDRESS) -> Result:
        arguments = ["init", address, "--config", str(self.config)]
        return CliRunner().invoke(main, arguments, input=answers)

    def sources(self) -> list[dict[str, Any]]:
        return tomllib.loads(self.config.read_text())["sources"]

    def fetched(self) -> dict[str, tuple[int, int]]:
        """By source the new and the old mails of a fetch."""
        remotes = SourceRemotes(load_settings(self.config))
        fetches = {source["name"]: remotes.fetch(source["name"]) for source in self.sources()}
        return {name: (fetch.added, fetch.unchanged) for name, fetch in fetches.items()}

    def holds(self, text: str) -> list[Path]:
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return [
            path.relative_to(self.folder) for path in files if text.encode() in path.read_bytes()
        ]


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lookups]:
    """Look-ups of names that nobody has."""
    with served_names({}) as port:
        lookups = Lookups((), NOBODY, ("127.0.0.1",), port)
        monkeypatch.setattr(arrival, "LOOKUPS", lookups)
        yield lookups


@pytest.fixture
def home(
    tmp_path: Path,
    server: ImapServer,
    nowhere: Lookups,
    monkeypatch: pytest.MonkeyPatch,
    every_key: None,
) -> Iterator[Home]:
    monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
    monkeypatch.setattr("dagster_project.cli.init._can_answer", lambda: True)
    home, before = Home(tmp_path), keyring.get_keyring()
    keyring.set_keyring(home.ring)
    with served_archives() as archives:
        archives.files["/example.org"] = (XML % ("127.0.0.1", server.tls_port)).encode()
        place = f"{archives.address}/{{domain}}"
        monkeypatch.setattr(arrival, "LOOKUPS", replace(nowhere, autoconfig=(place,)))
        yield home
    keyring.set_keyring(before)


@needs_dovecot
def test_an_address_and_a_password_make_sources(home: Home):
    result = home.init(f"wrong\n{PASSWORD}\n\n\n\n")
    assert result.exit_code == 0, result.output
    assert "refuses the login" in result.stderr and "Try again" in result.stderr
    assert "INBOX, 2 mails" in result.stderr and "Empty, 0 mails" in result.stderr
    assert "the password is in the keyring" in result.stdout
    assert PASSWORD not in result.output and home.holds(PASSWORD) == []
    assert [(s["name"], s["fetch"]["folder"]) for s in home.sources()] == [
        (f"{USER}-example.org-INBOX", "INBOX"),
        (f"{USER}-example.org-Work", "Work"),
    ]
    inbox, work = (source["name"] for source in home.sources())
    # Work has older mails alone, so that these come first.
    assert home.fetched() == {inbox: (1, 0), work: (1, 0)}
    assert home.fetched() == {inbox: (1, 1), work: (0, 1)}


@needs_dovecot
def test_without_a_keyring_a_file_of_the_owner_has_the_password(home: Home):
    keyring.set_keyring(NoKeyring())
    result = home.init(f"{PASSWORD}\n1\nn\n\n")
    assert result.exit_code == 0 and "which only you can read" in result.stdout
    (file,) = home.holds(PASSWORD)
    place = home.folder / file
    assert (file.name, place.stat().st_mode & 0o777) == (f"{NAME}.json", 0o600)
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert list(home.fetched().values()) == [(2, 0)]


@needs_dovecot
def test_the_environment_comes_before_what_is_stored(home: Home, monkeypatch: pytest.MonkeyPatch):
    home.init(f"{PASSWORD}\n1\nn\n\n")
    monkeypatch.setenv(f"{NAME}_USER", USER)
    monkeypatch.setenv(f"{NAME}_PASSWORD", "other")
    with pytest.raises(FetchError, match="check .*_EXAMPLE_ORG_PASSWORD"):
        home.fetched()


@needs_dovecot
def test_a_new_password_is_asked_for_and_tried(home: Home):
    home.init(f"{PASSWORD}\n1\nn\n\n")
    (source,) = home.sources()
    ((place, _),) = home.ring.passwords.items()
    home.ring.passwords[place] = "old"
    with pytest.raises(FetchError, match="another password by `weft build --sign-in"):
        home.fetched()
    command = ["build", "--config", str(home.config), "--sign-in", source["name"]]
    refused = CliRunner().invoke(main, command, input="wrong\n")
    assert refused.exit_code == 10 and home.ring.passwords[place] == "old"
    assert CliRunner().invoke(main, command, input=f"{PASSWORD}\n").exit_code == 0
    assert list(home.fetched().values()) == [(2, 0)]
    home.ring.is_locked = True
    with pytest.raises(FetchError, match="keyring .* does not open .*: unlock it"):
        home.fetched()


@needs_dovecot
def test_without_a_terminal_the_environment_has_the_password(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("dagster_project.cli.init._can_answer", lambda: False)
    refused = home.init(None)
    assert refused.exit_code == 2 and f"set {NAME}_USER and {NAME}_PASSWORD" in refused.stderr
    monkeypatch.setenv(f"{NAME}_USER", USER)
    monkeypatch.setenv(f"{NAME}_PASSWORD", PASSWORD)
    assert home.init(None).exit_code == 0
    assert len(home.sources()) == 2 and home.ring.passwords == {} and home.holds(PASSWORD) == []


@needs_dovecot
@pytest.mark.parametrize(
    ("answers", "code", "words"),
    [
        ("a\nb\nc\n", 10, "refuses the login"),
        ("", 1, "Aborted"),
        (PASSWORD, 1, "Aborted"),
        (f"{PASSWORD}\n", 1, "Which folders"),
        (f"{PASSWORD}\n9\n", 1, "give all, or numbers from 1 to"),
        (f"{PASSWORD}\n1\n", 1, "The last year first"),
        (f"{PASSWORD}\n1\ny\n", 1, "In which language"),
    ],
)
def test_who_gives_up_at_a_question_finds_nothing_half_written(
    home: Home, answers: str, code: int, words: str
):
    result = home.init(answers)
    assert (result.exit_code, words in result.stderr) == (code, True), result.output
    assert list(home.folder.iterdir()) == [] and home.ring.passwords == {}
    assert home.init(f"{PASSWORD}\n1\ny\n\n").exit_code == 0


@needs_dovecot
def test_a_certificate_that_nobody_vouches_for_ends_it(home: Home, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    result = home.init(f"{PASSWORD}\n")
    assert result.exit_code == 10 and "the certificate cannot be trusted" in result.stderr
    assert list(home.folder.iterdir()) == []


@pytest.mark.usefixtures("nowhere")
def test_a_host_that_hangs_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dagster_project.cli.init._can_answer", lambda: True)
    monkeypatch.setattr(arrival, "_TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        result = Home(tmp_path).init(f"{host}\nsecret\n")
    assert result.exit_code == 10 and "timed out" in result.stderr, result.output
    assert "Nothing says which server" in result.stderr and list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("nowhere")
def test_an_address_that_nobody_serves_is_no_source(tmp_path: Path):
    result = Home(tmp_path).init(None)
    assert result.exit_code == 2 and "nothing says which server" in result.stderr
    assert "takes no password" in Home(tmp_path).init(None, "ann@outlook.com").stderr


def test_a_jmap_account_is_one_too(
    tmp_path: Path, nowhere: Lookups, monkeypatch: pytest.MonkeyPatch, every_key: None
):
    monkeypatch.setattr("dagster_project.cli.init._can_answer", lambda: True)
    with served_account() as account:
        _fill(account)
        lookups = replace(nowhere, jmap=f"{account.url}/session?{{domain}}")
        monkeypatch.setattr(arrival, "LOOKUPS", lookups)
        home = Home(tmp_path)
        before = keyring.get_keyring()
        keyring.set_keyring(home.ring)
        result = home.init("secret\n1\n\n\n")
        assert result.exit_code == 0, result.output
        assert "Eingang, 2 mails" in result.stderr
        first, second = home.fetched(), home.fetched()
        keyring.set_keyring(before)
    assert (list(first.values()), list(second.values())) == ([(1, 0)], [(1, 1)])


def _fill(account: Account) -> None:
    account.tokens = {"Basic " + b64encode(f"{ADDRESS}:secret".encode()).decode()}
    account.put("M1", Mail(1).text().encode(), f"{NOW:%Y-%m-%dT%H:%M:%SZ}", "in")
    account.put("M2", Mail(2).text().encode(), f"{OLD:%Y-%m-%dT%H:%M:%SZ}", "in")
