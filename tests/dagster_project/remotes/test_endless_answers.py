"""Servers that send too much, nothing, or nonsense: a fetch ends in time and in memory, and says
where.
"""

import gzip
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_project.orchestration.build import fetch_sources
from dagster_project.orchestration.instance import open_instance
from tests.archives import Workspace
from tests.cases import some
from tests.http_loopback import Archives, raw
from tests.lying_servers import MAIL, PASSWORD, Fetch
from tests.scripted_imap import Answer, says, scripted_imap
from transforms.errors import FetchError, FetchInterruptedError

HUGE = b"* 1 FETCH (UID 1 RFC822.SIZE 50)\r\n* 2 FETCH (UID 2 RFC822.SIZE 50)\r\nTAG OK done\r\n"


MOST = 200 << 20
"""Bytes that a fetch takes of an answer without an end, which here would have a thousand million.
"""


def endless(block: bytes, count: int) -> Answer:
    def answer(tag: bytes, line: bytes) -> Iterator[bytes]:
        for _ in range(count):
            yield block

    return answer


def counted(answer: Answer, sent: list[int]) -> Answer:
    """The same answer, whose blocks have their sizes in `sent` as they go."""

    def noted(tag: bytes, line: bytes) -> Iterator[bytes]:
        for block in answer(tag, line):
            sent.append(len(block))
            yield block

    return noted


@pytest.mark.parametrize(
    ("stage", "answer"),
    [
        ("BODIES", says(b"* 1 FETCH (UID 1 BODY[] {2000000000}\r\n", *[b"x" * (1 << 20)] * 1900)),
        (
            "BODIES",
            endless(b"* 1 FETCH (UID 1 BODY[] {1000000}\r\n" + b"x" * 1_000_000 + b")\r\n", 2000),
        ),
        ("BODIES", says(b"* 1 FETCH (UID 1 BODY[] {99999999999999999999999999}\r\n")),
        ("BODIES", says(b"* 1 FETCH (UID 1 BODY[] {" + b"9" * 5000 + b"}\r\n")),
        ("BODIES", endless(b"* 1 FETCH (UID 1 FLAGS (\\Seen))\r\n" * 1000, 100_000)),
        ("SEARCH", endless(b"* OK still searching\r\n" * 1000, 100_000)),
        ("SEARCH", says(b"* SEARCH {1000000000}\r\n", *[b"x" * (1 << 20)] * 900)),
        ("greeting", endless(b"x" * (1 << 20), 2000)),
    ],
    ids=[
        "announced",
        "repeated",
        "beyond memory",
        "beyond numbers",
        "lines",
        "status",
        "search",
        "greeting",
    ],
)
def test_answers_of_imap_are_bounded(
    imap: Fetch, script: dict[str, Answer], stage: str, answer: Answer
):
    script["SIZES"] = says(HUGE)
    sent: list[int] = []
    script[stage] = counted(answer, sent)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FetchError, match="imap server 127.0.0.1"):
        imap()
    assert sum(sent) < MOST
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000


def test_a_mail_that_is_larger_than_it_says_is_named_and_left_there(
    imap: Fetch, script: dict[str, Answer]
):
    script["SIZES"] = says(HUGE)
    found = imap(max_bytes=100)
    assert found.added == 0 and any("mail 1 has" in note for note in found.notes)


MALFORMED = {
    "no validity": ("EXAMINE", b"* 3 EXISTS\r\nTAG OK done\r\n"),
    "validity no number": ("EXAMINE", b"* 3 EXISTS\r\n* OK [UIDVALIDITY x] v\r\nTAG OK done\r\n"),
    "flags without brackets": ("EXAMINE", b"* FLAGS\r\n* x EXISTS\r\nTAG OK done\r\n"),
    "search is words": ("SEARCH", b"* SEARCH one two\r\nTAG OK done\r\n"),
    "search twice": ("SEARCH", b"* SEARCH 1\r\n* SEARCH 2\r\nTAG OK done\r\n"),
    "search is not ASCII": ("SEARCH", b"* SEARCH 1 \xff\r\nTAG OK done\r\n"),
    "search is nothing": ("SEARCH", b"TAG OK done\r\n"),
    "search is zero": ("SEARCH", b"* SEARCH 0 99999999999\r\nTAG OK done\r\n"),
    "search is deep": ("SEARCH", b"* SEARCH 1 " + b"(" * 100_000 + b"\r\nTAG OK done\r\n"),
    "search is literal": ("SEARCH", b"* SEARCH {0}\r\n\r\nTAG OK done\r\n"),
    "size is a list": ("SIZES", b"* 1 FETCH (UID 1 RFC822.SIZE (1 2))\r\nTAG OK done\r\n"),
    "size is a word": ("SIZES", b'* 1 FETCH (UID 1 RFC822.SIZE "many")\r\nTAG OK done\r\n'),
    "uneven": ("SIZES", b"* 1 FETCH (UID 1 RFC822.SIZE)\r\nTAG OK done\r\n"),
    "key is a list": ("SIZES", b"* 1 FETCH ((a) 1)\r\nTAG OK done\r\n"),
    "key is a number": ("SIZES", b"* 1 FETCH (1 2)\r\nTAG OK done\r\n"),
    "quote in an atom": ("SIZES", b'* 1 FETCH (a"b" 2)\r\nTAG OK done\r\n'),
    "body is a number": ("BODIES", b"* 1 FETCH (UID 1 BODY[] 5)\r\nTAG OK done\r\n"),
    "body is a list": ("BODIES", b"* 1 FETCH (UID 1 BODY[] (1 2 3))\r\nTAG OK done\r\n"),
    "envelope": ("BODIES", b'* 1 FETCH (UID 1 ENVELOPE ("x"))\r\nTAG OK done\r\n'),
    "literal is short": ("BODIES", b"* 1 FETCH (UID 1 BODY[] {50}\r\nabc"),
    "no greeting": ("greeting", b"\r\n"),
    "greeting is HTTP": ("greeting", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "greeting is binary": ("greeting", b"\x16\x03\x01\x00\xff\r\n"),
    "capability is nothing": ("CAPABILITY", b"TAG OK done\r\n"),
    "capability is not ASCII": ("CAPABILITY", b"* CAPABILITY \xff\xfe\r\nTAG OK done\r\n"),
    "other tag": ("LOGIN", b"ZZZZ9 OK done\r\n"),
    "continuation": ("LOGIN", b"+ go on\r\n+ go on\r\n"),
    "bye": ("SEARCH", b"* BYE enough\r\n"),
}


@pytest.mark.parametrize("kind", some(MALFORMED, each=3))
def test_malformed_answers_of_imap_servers_are_faults_that_say_where(
    imap: Fetch, script: dict[str, Answer], kind: str
):
    stage, answer = MALFORMED[kind]
    script[stage] = says(answer)
    with pytest.raises(FetchError, match="imap server 127.0.0.1:") as fault:
        imap(timeout_seconds=0.5)
    if stage in ("SIZES", "BODIES"):
        assert "UID" in str(fault.value) and "'INBOX'" in str(fault.value)


@pytest.mark.exhaustive
def test_a_list_that_is_missing_empties_no_folder(
    imap: Fetch, script: dict[str, Answer], tmp_path: Path
):
    imap()
    script["SEARCH"] = says(b"TAG OK done\r\n")
    with pytest.raises(FetchInterruptedError, match="3 mails are said to be there"):
        imap()
    assert len(list((tmp_path / "state/sources/inbox/cur").iterdir())) == 3


@pytest.mark.parametrize("stage", ["greeting", "LOGIN", "SEARCH", "BODIES"])
def test_an_imap_server_that_drips_ends_at_the_time_limit(
    imap: Fetch, script: dict[str, Answer], stage: str
):
    script[stage] = says(*[b"x"] * 100_000, pause=0.02)
    with pytest.raises(FetchError, match="the time limit of 0.5 s is over"):
        imap(time_limit_seconds=0.5)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\nabc",
        b"HTTP/1.1 206 P\r\nContent-Range: bytes " + b"9" * 5000 + b"-1/*\r\n\r\nabc",
        b"HTTP/1.1 429 x\r\nRetry-After: " + b"9" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 429 x\r\nRetry-After: Sun, 01 Feb 2004 00:00:00 +99999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
        b"HTTP/1.1 302 x\r\nLocation: http://a:99999999/\r\n\r\n",
        b"HTTP/1.1 302 x\r\nLocation: http://[::1/\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
        b"",
    ],
)
def test_malformed_answers_of_web_servers_are_faults(http: Fetch, server: Archives, answer: bytes):
    server.plan["/2004-01"] = [raw(answer)]
    with pytest.raises(FetchError, match="http://127.0.0.1"):
        http(time_limit_seconds=10)


@pytest.mark.exhaustive
def test_what_swells_is_kept_as_it_came(http: Fetch, server: Archives, tmp_path: Path):

    bomb = gzip.compress(b"From a@b Thu Jan  1 00:00:00 2004\n" + bytes(300 << 20), 1)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    server.plan["/2004-01"] = [raw(head + bomb)]
    assert http(max_bytes=10 << 20).bytes == len(bomb)
    assert (tmp_path / "state/sources/dev/dev.2004-01.mbox.gz").read_bytes() == bomb


def test_the_body_of_a_redirect_is_not_read(http: Fetch, server: Archives):
    server.files["/there"] = MAIL
    head = b"HTTP/1.1 302 Found\r\nLocation: /there\r\n\r\n"
    server.plan["/2004-01"] = [raw(head, *[b"x" * (1 << 20)] * 900)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert http().added == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


@pytest.mark.parametrize("attempts", [pytest.param(1, marks=pytest.mark.exhaustive), 2])
def test_dagster_shows_why_and_not_how_often(
    imap: Fetch,
    tmp_path: Path,
    script: dict[str, Answer],
    attempts: int,
    monkeypatch: pytest.MonkeyPatch,
):
    """Also for what only a fault of Weft's own could be: a folder that cannot be written."""
    monkeypatch.setattr("assets.fetch._ATTEMPTS", attempts)
    monkeypatch.setattr("assets.fetch._BACKOFF_SECONDS", 0.0)
    script["SEARCH"] = says(b"* SEARCH 1 \xff\r\nTAG OK done\r\n")
    with scripted_imap(script) as port:
        remote = {
            "kind": "imap",
            "host": f"127.0.0.1:{port}",
            "tls": "off",
            **PASSWORD,
        }
        work = Workspace(tmp_path).configure(
            {"name": "inbox", "kind": "maildir", "list_id": "me", "fetch": remote}
        )
        with open_instance(work.settings) as instance:
            outcome = fetch_sources(work.settings, instance)["inbox"]
    assert outcome.fault and "max_retries" not in outcome.fault
    assert "listing the folder 'INBOX'" in outcome.fault


def test_a_folder_whose_list_is_longer_than_a_line_is_listed_in_parts(
    imap: Fetch, script: dict[str, Answer]
):
    uids = list(range(4_000_000_001, 4_000_100_001))
    asked: set[int] = set()

    def search(tag: bytes, line: bytes) -> Iterator[bytes]:
        first, _, last = line.split()[3].partition(b":")
        whole = (
            slice(0, None)
            if first == b"ALL"
            else slice(int(first) - 1, None if last == b"*" else int(last))
        )
        yield (
            b"* SEARCH "
            + b" ".join(b"%d" % uid for uid in uids[whole])
            + b"\r\n"
            + tag
            + b" OK done\r\n"
        )
        del uids[0]  # somebody expunges a mail

    def sizes(tag: bytes, line: bytes) -> Iterator[bytes]:
        for span in line.split()[3].split(b","):
            first, _, last = span.partition(b":")
            asked.update(range(int(first), int(last or first) + 1))
        yield tag + b" OK done\r\n"

    script["EXAMINE"] = says(b"* 100000 EXISTS\r\n* OK [UIDVALIDITY 7] v\r\nTAG OK done\r\n")
    script |= {"SEARCH": search, "SIZES": sizes}
    imap(requests_per_minute=1_000_000, since=None)
    assert asked >= set(uids)
