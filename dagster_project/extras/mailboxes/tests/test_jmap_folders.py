"""A folder of a JMAP account as a Maildir: changes alone are asked for, and a server that lies
removes nothing.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from assets.protocols.sources import Fetched
from dagster_project.extras.mailboxes.labels import with_labels
from dagster_project.extras.mailboxes.tests.jmap_loopback import TOKEN, Account, served_account
from dagster_project.extras.mailboxes.tests.test_labels import read
from dagster_project.remotes.source_remotes import SourceRemotes
from tests.archives import Mail, Workspace
from tests.http_loopback import served_archives
from transforms.errors import FetchError, FetchInterruptedError

DATA = [Mail(n, subject=str(n)).text().replace("\n", "\r\n").encode() for n in range(10)]


class Folder:
    """An account and the source that fetches a folder of it."""

    def __init__(self, account: Account, work: Path):
        self.account, self.work = account, Workspace(work)

    def fetch(self, **changes: Any) -> Fetched:
        """Fetch with the settings changed."""
        remote = {
            "kind": "jmap",
            "url": f"{self.account.url}/session",
            "credentials": "MAIL",
            **changes,
        }
        source = {
            "name": "inbox",
            "kind": "maildir",
            "fetch": remote | {"requests_per_minute": 10_000},
        }
        self.account.asked.clear()
        return SourceRemotes(self.work.configure(source).settings).fetch("inbox")

    def labels(self) -> dict[int, list[str]]:
        """The labels of the mails that are here, which have the line ends of a Maildir."""
        here = self.work.mails()
        return {
            DATA.index(with_labels(data, ()).replace(b"\n", b"\r\n")): read(data) for data in here
        }

    def mails(self) -> list[int]:
        return sorted(self.labels())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_key: None) -> Iterator[Folder]:
    monkeypatch.setenv("MAIL_TOKEN", TOKEN)
    with served_account() as account:
        for number in range(5):
            account.put(f"M{number}", DATA[number], f"2004-01-{16 + number}T12:00:00Z", "in")
        yield Folder(account, tmp_path)


def test_mails_come_once_and_then_changes_alone_are_asked_for(folder: Folder):
    first = folder.fetch()
    assert (first.added, first.newest_at) == (5, datetime(2004, 1, 20, 12, tzinfo=UTC))
    assert folder.mails() == [0, 1, 2, 3, 4]
    again = folder.fetch()
    assert (again.added, again.unchanged) == (0, 5)
    assert folder.account.asked == ["session", "Mailbox/get", "Email/changes"]
    min((folder.work.settings.fetched / "inbox/cur").iterdir()).unlink()
    assert (folder.fetch().added, folder.mails()) == (1, [0, 1, 2, 3, 4])


AT = "2004-01-17T12:00:00Z"
CHANGES = {
    "new": (lambda a: a.put("M9", DATA[9], AT, "in"), {}, [0, 1, 2, 3, 4, 9]),
    "destroyed": (lambda a: a.remove("M1"), {}, [0, 2, 3, 4]),
    "destroyed, kept": (lambda a: a.remove("M1"), {"expunged": "keep"}, [0, 1, 2, 3, 4]),
    "moved away": (lambda a: a.put("M1", DATA[1], AT, "de"), {}, [0, 2, 3, 4]),
    "also elsewhere": (lambda a: a.put("M1", DATA[1], AT, "de", "in"), {}, [0, 1, 2, 3, 4]),
    "another folder": (
        lambda a: a.put("M3", DATA[3], AT, "de"),
        {"folder": "Lists/dev", "expunged": "keep"},
        [3],
    ),
    "since a day": (lambda a: a.put("M9", DATA[9], AT, "in"), {"since": "2004-01-19"}, [3, 4]),
}


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_the_folder_is_followed_by_its_changes_as_by_its_list(
    folder: Folder, change: str, is_known: bool
):
    act, settings, there = CHANGES[change]
    folder.fetch()
    act(folder.account)
    folder.account.forgotten = 0 if is_known else 100
    folder.fetch(**settings)
    assert ("Email/query" in folder.account.asked) == (
        not is_known or bool({"folder", "since"} & {*settings})
    )
    assert folder.mails() == there


@pytest.mark.parametrize("is_known", [True, False])
def test_keywords_and_other_folders_are_labels_which_follow_the_server(
    folder: Folder, is_known: bool
):
    folder.account.keywords |= {"M0": ("$seen", "$Forwarded"), "M1": ("$flagged",)}
    folder.fetch()
    assert folder.labels() == {0: ["$Forwarded", "seen"], 1: ["flagged"], 2: [], 3: [], 4: []}
    folder.account.keywords.clear()
    folder.account.put("M0", DATA[0], AT, "in", "de")
    folder.account.put("M1", DATA[1], AT, "in")
    folder.account.forgotten = 0 if is_known else 100
    again = folder.fetch()
    assert folder.labels() == {0: ["Lists/dev"], 1: [], 2: [], 3: [], 4: []}
    assert (again.added, again.unchanged) == (0, 3)


def other(method: str, **facts: Any) -> Any:
    """A lie about the arguments of a method."""
    return lambda true: {"methodResponses": [[method, true["methodResponses"][0][1] | facts, "0"]]}


BOX = {"id": "x", "name": f"{TOKEN}, ghp_{'a1B2' * 9}/x", "parentId": None, "role": None}
HIDDEN = r"\[secret\], \[access_token\]"
LIES = [
    ("session", lambda _: (401, {}), "answers 401 Unauthorized; check MAIL_TOKEN", False),
    (
        "session",
        lambda true: true | {"primaryAccounts": {}},
        "no account of mail; give the token",
        False,
    ),
    (
        "session",
        lambda true: true | {"apiUrl": "http://192.168.1.1/"},
        "another host than the private one",
        False,
    ),
    (
        "session",
        lambda true: true | {"apiUrl": "http://127.0.0.1:1/api"},
        "leads to http://127.0.0.1:1/api, another port; mend `url`",
        False,
    ),
    ("Mailbox/get", other("Mailbox/get", list=[BOX]), f"but {HIDDEN}/x; mend", False),
    ("Mailbox/get", other("error", type=BOX["name"]), f"answers {HIDDEN}/x; check", False),
    ("session", lambda _: b"[" * 9999, "the session: the answer cannot be read", True),
    ("blob", lambda _: (500, {}), "answers 500", True),
    ("blob", lambda _: (429, {"Retry-After": "4000"}), "asks to wait 4000 s, longer than", False),
    (
        "Email/query",
        other("Email/query", ids=["M4"], total=5),
        "5 mails are said to be there, and 1 are listed",
        True,
    ),
    (
        "Email/query",
        other("Email/query", ids=[], total=5),
        "5 mails are said to be there, and 0 are listed",
        True,
    ),
    ("Email/query", other("Email/query", accountId="u2"), "of another method or account", True),
    (
        "Email/query",
        other("Email/query", ids=["../../x"]),
        "cannot be read .ids.0 String should match",
        True,
    ),
    (
        "Email/query",
        other("error", type="forbidden"),
        "answers forbidden; check what the token may read",
        False,
    ),
    (
        "Email/query",
        lambda _: (302, {"Location": "http://127.0.0.2/"}),
        "answers 302 Found; mend",
        False,
    ),
    ("Email/get", other("Email/get", list=[]), ". of . mails are not answered", True),
    (
        "Mailbox/get",
        lambda _: {"methodResponses": []},
        "Mailbox/get: the answer is of another method",
        True,
    ),
]


@pytest.mark.parametrize(("what", "lie", "reason", "passes"), LIES)
def test_a_fault_says_what_to_do_and_removes_nothing(
    folder: Folder, what: str, lie: Any, reason: str, passes: bool
):
    folder.fetch()
    folder.account.put("M9", DATA[9], AT, "in")
    folder.account.forgotten = 100
    folder.account.lies[what] = lie
    with pytest.raises(FetchError, match=reason) as fault:
        folder.fetch()
    assert isinstance(fault.value, FetchInterruptedError) == passes and TOKEN not in str(
        fault.value
    )
    folder.account.lies.clear()
    assert folder.mails() == [0, 1, 2, 3, 4] and folder.fetch().added == 1


@pytest.mark.parametrize("lie", [lambda _: b"short", lambda true: true * 9, lambda _: (404, {})])
def test_a_mail_of_another_size_is_noted_and_asked_for_again(folder: Folder, lie: Any):
    folder.account.lies["blob"] = lambda true: lie(true) if true == DATA[2] else true
    first = folder.fetch()
    assert first.added == 4 and "mail M2 has other than the" in first.notes[0]
    folder.account.lies.clear()
    assert folder.fetch().added == 1


def test_a_server_that_is_busy_is_asked_again_when_it_says(folder: Folder):
    answers = [(429, {"Retry-After": "0"})] * 3
    folder.account.lies["blob"] = lambda true: answers.pop() if answers else true
    assert (folder.fetch().added, answers) == (5, [])


def test_no_token_goes_to_another_host_and_a_wrong_folder_is_named(folder: Folder):
    with served_archives("127.0.0.2") as elsewhere:
        for lie in (
            lambda _: (302, {"Location": f"{elsewhere.address}/session"}),
            lambda true: true | {"downloadUrl": f"{elsewhere.address}/{{blobId}}"},
        ):
            folder.account.lies["session"] = lie
            with pytest.raises(
                FetchError, match="another host than the private one that is configured"
            ):
                folder.fetch()
        assert elsewhere.asked == []
    with served_archives("127.0.0.1") as elsewhere:
        for lie in (
            lambda _: (302, {"Location": f"{elsewhere.address}/session"}),
            lambda true: true | {"apiUrl": f"{elsewhere.address}/api"},
            lambda true: true | {"downloadUrl": f"{elsewhere.address}/{{blobId}}"},
        ):
            folder.account.lies["session"] = lie
            with pytest.raises(FetchError):
                folder.fetch()
        asked = [headers for path, _, headers in elsewhere.asked if path == "/session"]
        assert len(asked) == len(elsewhere.asked) > 0
        assert all("Authorization" not in headers for headers in asked)
    folder.account.lies.clear()
    with pytest.raises(
        FetchError, match=r"no folder 'dev', but Eingang, INBOX, Lists, Lists/dev; mend `folder`"
    ):
        folder.fetch(folder="dev")
    assert folder.fetch(max_bytes=100).notes[0].startswith("mail M4 has ")
