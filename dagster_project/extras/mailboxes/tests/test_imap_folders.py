"""A folder of a real IMAP server as a Maildir: what comes, what goes, and what stays untouched
there.
"""

import itertools
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from assets.protocols.sources import Fetched
from dagster_project.composition.objects import make_sources
from dagster_project.extras.mailboxes.tests.imap_loopback import (
    PASSWORD,
    USER,
    ImapServer,
    missing,
    served_mail,
)
from dagster_project.remotes.news import RemoteNews
from dagster_project.remotes.source_remotes import SourceRemotes
from tests.archives import Mail, Workspace
from tests.timing import HUNG, until
from transforms.errors import FetchError, FetchInterruptedError

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
_numbers = itertools.count()
ARRIVED = datetime(2004, 1, 20, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def server() -> Iterator[ImapServer]:
    with served_mail() as running:
        yield running


class Folder:
    """A folder of the server and the source that fetches it."""

    def __init__(self, server: ImapServer, work: Path, name: str):
        self.server, self.work, self.name = server, Workspace(work), name

    def append(self, *mails: Mail) -> None:
        with self.server.writer(self.name) as client:
            for mail in mails:
                client.append(
                    self.name, mail.text().replace("\n", "\r\n").encode(), msg_time=ARRIVED
                )

    def expunge(self, *uids: int) -> None:
        with self.server.writer(self.name) as client:
            client.delete_messages(uids)
            client.expunge()

    def flag(self, uid: int, *flags: bytes) -> None:
        with self.server.writer(self.name) as client:
            client.set_flags([uid], flags)

    def flags(self) -> list[tuple[bytes, ...]]:
        with self.server.writer(self.name) as client:
            found = client.get_flags(client.search("ALL"))
            return [tuple(f for f in found[uid] if f != b"\\Recent") for uid in sorted(found)]

    def fetch(self, **changes: Any) -> Fetched:
        """Fetch the folder with the settings changed."""
        remote = {
            "kind": "imap",
            "host": f"127.0.0.1:{self.server.port}",
            "tls": "off",
            "folder": self.name,
            "credentials": "MAIL",
            "requests_per_minute": 10_000,
        }
        source = {"name": "inbox", "kind": "maildir", "list_id": "me", "fetch": remote | changes}
        settings = self.work.configure(source).settings
        return SourceRemotes(settings, lambda: datetime(2004, 1, 21, 12, tzinfo=UTC)).fetch("inbox")

    def files(self) -> list[bytes]:
        """The mails that are here, in order of their files."""
        return [
            p.read_bytes() for p in sorted((self.work.settings.fetched / "inbox/cur").iterdir())
        ]


@pytest.fixture
def folder(
    server: ImapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_key: None
) -> Folder:
    monkeypatch.setenv("MAIL_USER", USER)
    monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)
    made = Folder(server, tmp_path, f"list-{next(_numbers)}")
    made.append(*(Mail(n, subject=f"mail {n}") for n in range(3)))
    return made


@pytest.mark.exhaustive
def test_mails_come_once_and_only_new_ones_are_asked_for(folder: Folder):
    first = folder.fetch()
    assert folder.work.subjects() == ["mail 0", "mail 1", "mail 2"]
    assert (first.added, first.newest_at, first.lag_seconds) == (3, ARRIVED, 24 * 3600)
    again = folder.fetch()
    assert (again.added, again.unchanged, again.bytes) == (0, 3, 0)
    folder.append(Mail(3, subject="mail 3"))
    assert folder.fetch().added == 1
    assert folder.work.subjects() == ["mail 0", "mail 1", "mail 2", "mail 3"]


def test_mails_have_the_line_ends_of_a_maildir_and_nothing_changes_on_the_server(folder: Folder):
    folder.fetch()
    assert folder.flags() == [(), (), ()]
    assert folder.files() == [Mail(n, subject=f"mail {n}").text().encode() for n in range(3)]


def test_flags_are_labels_and_a_change_of_them_alone_is_brought(folder: Folder):
    plain = [Mail(n, subject=f"mail {n}").text().encode() for n in range(3)]
    folder.flag(1, b"\\Seen", b"$Forwarded")
    folder.fetch()
    assert folder.files() == [b"X-Gmail-Labels: $Forwarded,seen\n" + plain[0], *plain[1:]]
    before = folder.fetch()
    folder.flag(2, b"\\Flagged", b"\\Answered")
    found = folder.fetch()
    assert (found.added, found.changed, found.unchanged, found.bytes) == (0, 1, 2, 0)
    assert found.requests - before.requests == 2  # which changed, and their flags
    assert folder.files()[1] == b"X-Gmail-Labels: answered,flagged\n" + plain[1]
    incremental = folder.files()
    shutil.rmtree(folder.work.settings.fetched)
    assert folder.fetch().added == 3 and folder.files() == incremental
    for uid in (1, 2):
        folder.flag(uid)
    assert folder.fetch().changed == 2 and folder.files() == plain


@pytest.mark.exhaustive
@pytest.mark.parametrize(("expunged", "here"), [("delete", [0, 2]), ("keep", [0, 1, 2])])
def test_mails_that_are_expunged_there_go_here_unless_they_are_kept(
    folder: Folder, expunged: str, here: list[int]
):
    folder.fetch()
    folder.expunge(2)
    assert folder.fetch(expunged=expunged).removed == 3 - len(here)
    assert folder.work.subjects() == [f"mail {n}" for n in here]


@pytest.mark.parametrize("expunged", ["delete", "keep"])
def test_another_uidvalidity_fetches_the_folder_anew(folder: Folder, expunged: str):
    folder.fetch()
    with folder.server.writer("INBOX") as client:
        client.delete_folder(folder.name)
    folder.append(Mail(7, subject="mail 7"), Mail(1, subject="mail 1"))
    found = folder.fetch(expunged=expunged)
    assert (found.added, found.removed) == (2, 3)
    assert folder.work.subjects() == ["mail 7", "mail 1"]


@pytest.mark.exhaustive
def test_an_emptied_folder_leaves_no_mail(folder: Folder):
    folder.fetch()
    folder.expunge(1, 2, 3)
    folder.fetch()
    assert make_sources(folder.work.settings).discover() == []


def test_mails_that_are_too_large_are_named_and_left_there(folder: Folder):
    folder.append(Mail(9, "x" * 5000, "long"))
    found = folder.fetch(max_bytes=2000)
    assert found.added == 3
    assert [n.partition(" has")[0] for n in found.notes] == ["mail 4"]


def test_only_mails_since_a_day_are_fetched(folder: Folder):
    with folder.server.writer(folder.name) as client:
        late = Mail(5, subject="late").text().encode()
        client.append(folder.name, late, msg_time=datetime(2004, 2, 3, tzinfo=UTC))
    assert folder.fetch(since="2004-02-01").added == 1
    assert folder.work.subjects() == ["late"]


@pytest.mark.parametrize("tls", ["tls", "starttls"])
def test_the_connection_is_encrypted_and_its_certificate_checked(
    folder: Folder, tls: str, monkeypatch: pytest.MonkeyPatch
):
    host = f"127.0.0.1:{folder.server.tls_port if tls == 'tls' else folder.server.port}"
    with pytest.raises(FetchError, match="certificate cannot be trusted .* SSL_CERT_FILE") as fault:
        folder.fetch(tls=tls, host=host)
    assert not isinstance(fault.value, FetchInterruptedError)
    monkeypatch.setenv("SSL_CERT_FILE", str(folder.server.certificate))
    assert folder.fetch(tls=tls, host=host).added == 3


FAULTS = [
    ({"credentials": "WRONG"}, "refuses the login .*; check WRONG_USER and WRONG_PASSWORD", False),
    ({"folder": "nowhere"}, "does not open the folder 'nowhere'", False),
    ({"host": "127.0.0.1:9"}, "imap server 127.0.0.1:9, connecting: ", True),
    ({"time_limit_seconds": 0.001}, "time limit of 0.001 s is over", False),
]


@pytest.mark.parametrize(("changes", "reason", "passes"), FAULTS)
def test_a_fault_says_what_to_mend_or_may_pass(
    folder: Folder,
    changes: dict[str, Any],
    reason: str,
    passes: bool,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("WRONG_USER", USER)
    monkeypatch.setenv("WRONG_PASSWORD", "wr0ng-secret")
    with pytest.raises(FetchError, match=reason) as fault:
        folder.fetch(**changes)
    assert isinstance(fault.value, FetchInterruptedError) == passes and "wr0ng" not in str(
        fault.value
    )
    assert folder.fetch().added == 3


def test_a_citation_leads_to_the_uid_of_its_mail(folder: Folder):
    pytest.importorskip(
        "dagster_project.extras.proof.command", reason="the extra `proof` is not there"
    )
    folder.fetch()
    assert folder.work.weft("build").exit_code == 0
    chain = folder.work.weft("verify", "m1@example.org").output
    assert f"UID 2 of '{folder.name}'" in " ".join(chain.split())


def test_a_server_reports_a_mail_as_soon_as_it_came(folder: Folder):
    folder.append(Mail(1))
    folder.fetch()
    with RemoteNews(folder.work.settings, wake := threading.Event(), interval=HUNG) as news:
        assert wake.wait(HUNG) and news.take() == {"inbox"}, "whatever came before is fetched"
        wake.clear()
        folder.append(Mail(2))
        assert wake.wait(HUNG) and news.take() == {"inbox"}
        assert news.take() == set()


def test_a_source_whose_connection_breaks_is_due_at_intervals_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
):
    class Broken:
        def news(self) -> Iterator[None]:
            yield
            raise ConnectionResetError("gone")

    folder.fetch()
    monkeypatch.setattr(SourceRemotes, "reports", lambda remotes, source: Broken())
    with RemoteNews(folder.work.settings, wake := threading.Event(), interval=0) as news:
        assert wake.wait(HUNG) and news.take() == {"inbox"}
        until(lambda: news.take() == {"inbox"}, "the source is due again")


def test_a_remote_that_reports_nothing_is_due_at_intervals(folder: Folder):
    folder.fetch()
    news = RemoteNews(folder.work.settings, threading.Event(), interval=0)
    assert news.take() == {"inbox"}
    later = RemoteNews(folder.work.settings, threading.Event(), interval=HUNG)
    assert later.take() == set()
