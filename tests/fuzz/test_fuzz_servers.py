"""Conversations with web and IMAP servers that lie at random: each ends in success or in a fault of
the fetch.
"""

# ruff: noqa: E501 - tables of lies

import base64
import gzip
import logging
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from dagster_project.remotes.source_remotes import SourceRemotes
from tests.archives import Mail, Workspace, mbox
from tests.fuzz.fuzzing import SECRET, seeds, within_limits
from tests.http_loopback import Archives, raw, served_archives
from tests.scripted_imap import STAGES, Answer, says, scripted_imap, sound
from transforms.errors import FetchError

USER = "fuzzed-user"
BASIC = base64.b64encode(f"{USER}:{SECRET}".encode())
ECHOES = (
    SECRET.encode(),
    BASIC,
    b"Basic " + BASIC,
    quote(SECRET, safe="").encode(),
    base64.b64encode(SECRET.encode()),
    base64.urlsafe_b64encode(f"user={USER}\x01auth=Bearer {SECRET}\x01\x01".encode()),
    SECRET.lower().encode(),
    SECRET[:9].encode() + b"\x00" + SECRET[9:].encode(),
    SECRET[:9].encode() + b"\t" + SECRET[9:].encode(),
)
MAIL = mbox([Mail(1), Mail(2)])
BOMB = gzip.compress(MAIL + bytes(50 << 20), 1)
MAILS = {uid: Mail(uid).text().replace("\n", "\r\n").encode() for uid in (1, 2, 3)}
LIMITS = {
    "timeout_seconds": 0.1,
    "time_limit_seconds": 0.5,
    "requests_per_minute": 10_000,
    "max_bytes": 1 << 20,
}
PRIVATE = (
    "http://169.254.169.254/latest/meta-data",
    "http://[::1]:9/",
    "http://localhost:9/",
    "http://10.0.0.1/",
    "//127.0.0.2:9/",
    "file:///etc/passwd",
    "http://[::ffff:127.0.0.1]:9/",
    "http://0:9/",
    "gopher://x/",
    "http://a:99999/",
    "http://[",
    "/loop",
    "?again",
    "http://\xff/",
    f"http://{SECRET}@127.0.0.2:9/{SECRET}",
    "",
)
Case = Callable[[random.Random, Path], None]


def garbage(chance: random.Random, most: int = 200) -> bytes:
    """Bytes of no protocol, or an echo among them."""
    noise = chance.randbytes(chance.randint(0, most))
    return chance.choice(
        [
            noise,
            noise + chance.choice(ECHOES) + noise,
            chance.choice(ECHOES),
            b"",
            b"\x00",
            b"9" * 5000,
        ]
    )


def number(chance: random.Random) -> bytes:
    """What may stand for a number."""
    values = [0, 1, 50, len(MAIL), 1 << 31, 1 << 63, 10**20, 10**4500, -1]
    return chance.choice(
        [
            *[b"%d" % v if v < 10**4000 else b"9" * 4600 for v in values],
            b"x",
            b"0x10",
            b"1.5",
            b"",
            b"\xb2",
        ]
    )


def http_headers(chance: random.Random) -> list[bytes]:
    """Headers, of which some are sound."""
    echo = chance.choice(ECHOES)
    some = [
        b"Content-Length: " + number(chance),
        b"Content-Length: %d" % len(MAIL),
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: " + garbage(chance, 20),
        b"Content-Encoding: " + chance.choice([b"gzip", b"br", b"deflate", echo]),
        b"ETag: " + garbage(chance, 20),
        b'ETag: "' + echo + b'"',
        b"Last-Modified: " + garbage(chance, 30),
        b"Last-Modified: Sun, 01 Feb 2004 00:00:00 +" + number(chance)[:40],
        b"Retry-After: " + number(chance),
        b"Content-Range: bytes " + number(chance) + b"-" + number(chance) + b"/*",
        b"Content-Type: text/html " + echo,
        b"Set-Cookie: a=" + echo,
        garbage(chance),
        b"X: " + b"y" * chance.choice([10, 100_000, 300_000]),
        b"\r\n".join([b"X-%d: y" % n for n in range(chance.choice([3, 20_000]))]),
        b" folded: " + echo,
    ]
    return chance.sample(some, chance.randint(0, 4))


def http_answer(chance: random.Random) -> bytes:
    """An answer that is sound in parts."""
    code = chance.choice(
        [
            b"200",
            b"200",
            b"200",
            b"206",
            b"304",
            b"302",
            b"401",
            b"404",
            b"410",
            b"416",
            b"429",
            b"500",
            b"100",
            b"101",
            b"103",
            b"999",
            b"-1",
            b"2000",
            b"abc",
        ]
    )
    reason = chance.choice([b"OK", *ECHOES, garbage(chance)])
    first = chance.choice(
        [b"HTTP/1.1 " + code + b" " + reason] * 9
        + [garbage(chance), b"HTTP/9.9 200 OK", b"* OK IMAP ready"]
    )
    headers = http_headers(chance)
    if code == b"302" or chance.random() < 0.1:
        headers.append(b"Location: " + chance.choice(PRIVATE).encode("latin-1"))
    body = chance.choice(
        [
            MAIL,
            MAIL[:100],
            b"",
            garbage(chance, 5000),
            gzip.compress(MAIL),
            gzip.compress(MAIL)[:50],
            MAIL + b"x" * (2 << 20),
            BOMB,
            b"5\r\nFrom \r\n0\r\n\r\n",
            b"ffffffffff\r\nabc",
            b"5;" + b"x" * 200_000,
            b"1\r\nF\r\n" * 5000,
            b"<html>" + chance.choice(ECHOES),
            b"\xfd7zXZ\x00" + garbage(chance),
            b"BZh9" + garbage(chance),
        ]
    )
    return first + b"\r\n" + b"".join(h + b"\r\n" for h in headers) + b"\r\n" + body


def mangled(chance: random.Random, data: bytes) -> list[bytes]:
    """The bytes whole, cut, or with some of them changed or doubled."""
    at = chance.randrange(len(data) + 1)
    kind = chance.randrange(6)
    if kind == 0:
        return [data[:at]]
    if kind == 1:
        return [data[:at], garbage(chance, 20), data[at:]]
    if kind == 2:
        return [data[:at], data]
    return [data]


def lying_web_server(chance: random.Random, folder: Path) -> None:
    with served_archives() as server:
        path = "/2004-01"
        for place in (path, "/loop"):
            server.plan[place] = [_web_answer(chance) for _ in range(4)]
        server.files[path] = MAIL
        credentials = {"credentials": chance.choice(["FUZZED", "OTHER"])}
        url = f"{server.address}/{{year}}-{{month:02}}"
        remote = {"kind": "http", "url": url, "since": "2004-01/2004-01", **LIMITS, **credentials}
        _fetched(folder, {"name": "dev", "kind": "mbox", "fetch": remote}, server)


def _web_answer(chance: random.Random) -> Any:
    answer = http_answer(chance)
    if chance.random() < 0.1:
        return raw(*(answer[n : n + 1] for n in range(40)), pause=0.05)
    blocks = [answer] if chance.random() < 0.6 else mangled(chance, answer)
    return raw(*blocks, stays=chance.choice([False, False, False, True]))


def imap_line(chance: random.Random) -> bytes:
    """An untagged or tagged line, or none of IMAP at all."""
    echo, size = chance.choice(ECHOES), number(chance)
    return chance.choice(
        [
            b"* BYE " + echo,
            b"TAG NO " + echo,
            b"TAG BAD " + echo,
            b"TAG NO LINE",
            b"TAG OK [" + echo + b"] done",
            b"+ " + echo,
            b"*",
            b"* OK [UIDVALIDITY " + size + b"] x",
            b"* " + size + b" EXISTS",
            b"* SEARCH " + size,
            b"* SEARCH 1 2 " + echo,
            b"* SEARCH",
            b"* 1 FETCH (UID " + size + b" RFC822.SIZE 50)",
            b"* 1 FETCH (UID 1 RFC822.SIZE " + size + b")",
            b"* 1 FETCH (UID 1 BODY[] {" + size + b"}",
            b"* 1 FETCH (UID 1 BODY[] {3}\r\nabc)",
            b"* 1 FETCH (UID 99 BODY[] {3}\r\nabc)",
            b'* 1 FETCH (UID 1 BODY[] "' + echo + b'" INTERNALDATE "01-Jan-0001 00:00:00 +0000")',
            b"* 1 FETCH (UID 1 BODY[] NIL)",
            b'* 1 FETCH (UID 1 INTERNALDATE "99-Xxx-9999 99:99:99 +9999" BODY[] {0}\r\n)',
            b"* 1 FETCH " + b"(" * 3000,
            b'* 1 FETCH (UID 1 ENVELOPE (NIL) BODY ("' + echo,
            b"* FETCH",
            b"* 1 FETCH (((1 2) 3))",
            b"* VANISHED 1:3",
            b"ZZZ1 OK x",
            b"* CAPABILITY " + garbage(chance, 20),
            b'* LIST () "/" ' + echo,
            b"* FLAGS",
            b"{" + size + b"}",
            garbage(chance),
            b"x" * chance.choice([10, 1_500_000]),
            b"* OK still\r\n" * chance.choice([10, 200_000]),
            b"* PREAUTH " + echo,
            b"* 1 EXPUNGE",
            b'* ESEARCH (TAG "TAG") UID ALL 1:3',
        ]
    )


def imap_answer(chance: random.Random, true: Answer) -> Answer:
    """The true answer, mangled, with lines before it, or in place of it."""
    lines = [imap_line(chance) + b"\r\n" for _ in range(chance.randint(1, 3))]
    way = chance.randrange(5)
    if way == 0:
        return says(*lines)
    if way == 1:
        return says(*lines, b"TAG OK done\r\n")
    if way == 2:
        return says(*[bytes([c]) for c in b"* 1 FETCH (UID 1 BODY[] {5}\r\nx"], pause=0.1)

    def answer(tag: bytes, line: bytes) -> Iterator[bytes]:
        whole = b"".join(true(tag, line))
        yield from says(*lines)(tag, line) if way == 3 else ()
        yield from mangled(chance, whole)

    return answer


def lying_imap_server(chance: random.Random, folder: Path) -> None:
    script = sound(MAILS, chance.choice([7, 0, 1 << 40]))
    for stage in chance.sample(STAGES, chance.choice([1, 1, 2, 3])):
        script[stage] = imap_answer(chance, script[stage])
    credentials = {"credentials": chance.choice(["FUZZED", "OTHER"])}
    with scripted_imap(script) as port:
        remote = {"kind": "imap", "host": f"127.0.0.1:{port}", **LIMITS, **credentials}
        remote["tls"] = chance.choice(["off"] * 9 + ["starttls", "tls"])
        _fetched(folder, {"name": "dev", "kind": "maildir", "list_id": "me", "fetch": remote}, None)


def _fetched(folder: Path, source: dict[str, Any], server: Archives | None) -> None:
    """Fetch twice, as what the first one remembers is sent with the second."""
    settings = Workspace(folder).configure(source).settings
    for _ in range(2):
        try:
            SourceRemotes(settings).fetch("dev")
        except FetchError as fault:
            told = str(fault)
            assert fault.__context__ is None and fault.__cause__ is None
            assert told.isprintable() and 10 < len(told) < 2000, told
            assert "127.0.0.1" in told, told
            _no_secret(told)
    memory = folder / "state/sources/.fetch/dev.json"
    _no_secret(memory.read_text() if memory.exists() else "")


def _no_secret(text: str) -> None:
    plain = text.lower()
    assert (
        SECRET.lower() not in plain
        and SECRET[:16].lower() not in plain
        and SECRET[-16:].lower() not in plain
    ), text
    assert not any(
        core in text
        for core in (BASIC.decode()[:20], base64.b64encode(SECRET.encode()).decode()[:20])
    ), text


def converse(
    case: Case,
    count: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    log: pytest.LogCaptureFixture,
) -> None:
    """`count` conversations; a failure names the seed."""
    for name in ("FUZZED_USER", "OTHER_USER"):
        monkeypatch.setenv(name, USER)
    monkeypatch.setenv("OTHER_TOKEN", SECRET)
    monkeypatch.setenv("FUZZED_PASSWORD", SECRET)
    log.set_level(logging.DEBUG)
    for seed, chance in seeds(count):
        with within_limits(f"{case.__name__}, seed {seed}"):
            try:
                case(chance, folder / f"{case.__name__}-{seed}")
                _no_secret(log.text)
            except BaseException as error:
                error.add_note(
                    f"{case.__name__}, seed {seed}: WEFT_FUZZ_SEED={seed} begins with it"
                )
                raise
        log.clear()


CASES = (lying_web_server, lying_imap_server)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("every_key")
@pytest.mark.parametrize("case", CASES)
def test_servers_that_lie(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    converse(case, 45, tmp_path, monkeypatch, caplog)
