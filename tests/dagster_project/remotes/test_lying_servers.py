"""Servers that echo secrets or lead elsewhere: no fault and no log shows a secret, and no fetch
follows.
"""

import asyncio
import base64
import logging
import socket
import threading
import time
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from dagster_project.config.source_settings import REMOTES, HttpRemote
from dagster_project.orchestration.alerts import post
from dagster_project.remotes.redirects import Hop, is_public, next_hop
from dagster_project.remotes.source_remotes import SourceRemotes
from dagster_project.system.masking import Credentials
from tests.archives import Workspace
from tests.http_loopback import Archives, raw, served_archives, status
from tests.lying_servers import MAIL, PASSWORD, SECRET, USER, Fetch
from tests.scripted_imap import Answer, says
from tests.timing import HUNG
from transforms.errors import FetchError


def forms(secret: str) -> list[str]:
    """A secret as servers and libraries write it, alone and in the header of HTTP."""
    both = f"{USER}:{secret}".encode()
    return [
        secret,
        quote(secret),
        quote(secret, safe="").lower(),
        base64.b64encode(secret.encode()).decode(),
        base64.b64encode(both).decode(),
        base64.b64encode(b"\0" + both).decode()[4:],
        repr(secret.encode()),
        secret.replace("w", "\x1b\x00w"),
        secret.replace("-", "\n-"),
        secret.upper(),
    ]


def leaks(text: str) -> list[str]:
    """Pieces of the secret or the user's name that a text shows."""
    pieces = (
        SECRET[:9],
        SECRET[10:15],
        "rd 1",
        "example.org",
        "czNjcmV0",
        base64.b64encode(SECRET.encode()).decode()[4:16],
    )
    return [piece for piece in pieces if piece.lower() in text.lower()]


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", forms(SECRET))
def test_whatever_a_server_echoes_is_masked_bounded_and_on_one_line(form: str):
    told = Credentials(USER, SECRET).hidden(f"NO {form} \x1b[31m for {USER} " + "x" * 5000)
    assert not leaks(told) and "[secret]" in told
    assert len(told) <= 320 and told.isprintable()


@pytest.mark.parametrize("form", forms(SECRET)[:6])
def test_a_secret_that_is_cut_off_is_masked_too(form: str):
    for told in (form[:12], form[-12:], form[3:13]):
        shown = Credentials(USER, SECRET).hidden(f"NO {told}")
        # The last characters of base64 may be those of padding.
        assert shown.startswith("NO [secret]") and len(shown) <= len("NO [secret]") + 2


@pytest.mark.parametrize("secret", ["", "a", "ab"])
def test_a_short_secret_is_masked_too(secret: str):
    assert "ab" not in Credentials("me", secret).hidden("NO ab, come in, me") or secret != "ab"
    assert Credentials("me", secret or None).hidden("come, me") != "come, me"
    assert Credentials("me").hidden("come, me") == "come, [secret]"


def test_keys_in_addresses_proxies_and_the_environment_of_stores_are_masked(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("https_proxy", "http://proxy-user:pr0xy-word@127.0.0.1:3128")
    remote = HttpRemote(
        kind="http",
        url="https://example.org/{year}-{month}?page=1&key=k3y-of-list",
        since="2004-01",
    )
    told = Credentials.of(remote, "dev").hidden("page 1: k3y-of-list pr0xy-word")
    assert told == "page 1: [secret] [secret]"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "place", ["reason", "reason without breaks", "location", "type", "status line", "header"]
)
def test_http_echoes_are_masked(
    http: Fetch, server: Archives, place: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    header = base64.b64encode(f"{USER}:{SECRET}".encode()).decode()
    echo = f"Basic {header} {quote(SECRET)} {USER}".encode()
    server.plan["/2004-01"] = [
        raw(
            {
                "reason": b"HTTP/1.1 400 " + echo + b"\r\nContent-Length: 0\r\n\r\n",
                "reason without breaks": b"HTTP/1.1 503 x"
                + header.encode() * 300
                + b"\r\nContent-Length: 0\r\n\r\n",
                "location": b"HTTP/1.1 302 x\r\nLocation: ftp://"
                + quote(SECRET).encode()
                + b"/"
                + header.encode()
                + b"\r\n\r\n",
                "type": b"HTTP/1.1 200 OK\r\nContent-Type: "
                + echo
                + b"\r\nContent-Length: 3\r\n\r\nabc",
                "status line": echo + b"\r\n\r\n",
                "header": b"HTTP/1.1 200 OK\r\n" + echo + b"\r\n\r\n",
            }[place]
        )
    ]
    with pytest.raises(FetchError) as fault:
        http()
    assert not leaks(str(fault.value)) and len(str(fault.value)) < 2000
    assert fault.value.__context__ is None and fault.value.__cause__ is None
    assert not leaks(caplog.text)


@pytest.mark.exhaustive
def test_an_echo_in_a_validator_is_not_kept_and_one_that_cannot_be_sent_does_no_harm(
    http: Fetch, server: Archives, tmp_path: Path
):
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nETag: " % len(MAIL)
    for etag in (
        base64.b64encode(f"{USER}:{SECRET}".encode()),
        b'"\xff\xe4"',
        b'"' + b"x" * 5000 + b'"',
    ):
        server.plan["/2004-01"] = [raw(head + etag + b"\r\n\r\n" + MAIL)]
        http()
        assert not leaks((tmp_path / "state/sources/.fetch/dev.json").read_text())
    http()


def test_imap_echoes_are_masked(
    imap: Fetch,
    script: dict[str, Answer],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):
    caplog.set_level(logging.DEBUG)
    script["LOGIN"] = says(f"TAG NO no {SECRET.encode()!r} {SECRET[:-1]}1 {USER}\r\n".encode())
    script["EXAMINE"] = says(
        b"TAG NO LINE t0ken-of-Ada-4711 " + base64.b64encode(b"xt0ken-of-Ada-4711y") + b"\r\n"
    )
    with pytest.raises(FetchError, match="refuses the login") as fault:
        imap()
    assert not leaks(str(fault.value))
    monkeypatch.setenv("REMOTE_TOKEN", "t0ken-of-Ada-4711")
    with pytest.raises(FetchError, match="does not open the folder") as fault:
        imap()
    assert "t0ken" not in str(fault.value) and "dDBrZW4" not in str(fault.value)
    assert not leaks(caplog.text) and "t0ken" not in caplog.text


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "target", ["127.0.0.2", "169.254.169.254", "[::1]", "localhost", "10.0.0.1", "0.0.0.0"]
)
def test_a_redirect_of_a_private_host_leads_to_itself_alone(
    http: Fetch, server: Archives, target: str
):
    with served_archives("127.0.0.2") as other:
        other.files["/2004-01"] = MAIL
        port = other.address.rpartition(":")[2]
        server.plan["/2004-01"] = [status(302, Location=f"http://{target}:{port}/2004-01")]
        with pytest.raises(
            FetchError, match="another host than the private one that is configured"
        ):
            http(**dict.fromkeys(PASSWORD))
        assert other.asked == []
    server.plan["/2004-01"] = [status(302, Location="/elsewhere")]
    server.files["/elsewhere"] = MAIL
    assert http().added == 1


def hop(first: str, current: str, location: str) -> Hop:
    return asyncio.run(next_hop(httpx2.URL(first), httpx2.URL(current), location))


PUBLIC = "https://93.184.216.34/a"


@pytest.mark.parametrize(
    ("first", "location", "fault"),
    [
        (PUBLIC, "https://127.0.0.1/", "a host in a private network"),
        (PUBLIC, "https://localhost/", "a host in a private network"),
        (PUBLIC, "https://169.254.169.254/latest/meta-data", "a host in a private network"),
        (PUBLIC, "https://[::ffff:10.0.0.1]/", "a host in a private network"),
        (PUBLIC, "https://[64:ff9b::7f00:1]/", "a host in a private network"),
        (PUBLIC, "https://2130706433/", "a host in a private network"),
        (PUBLIC, "http://93.184.216.34/", "away from https"),
        (PUBLIC, "http://93.184.216.35/", "away from https"),
        (PUBLIC, "file:///etc/passwd", "not an address of the web"),
        (PUBLIC, "https://93.184.216.35:99999/", "not an address of the web"),
        (PUBLIC, "https://[::1", "a faulty address"),
        ("http://192.168.1.1/", "https://93.184.216.34/", "another host than the private one"),
    ],
)
def test_redirects_that_are_refused(first: str, location: str, fault: str):
    with pytest.raises(FetchError, match=fault):
        hop(first, first, location)


def test_redirects_between_public_hosts_go_to_the_address_that_was_checked_without_credentials():
    assert hop(PUBLIC, PUBLIC, "/b") == Hop(httpx2.URL("https://93.184.216.34/b"))
    found = hop(PUBLIC, PUBLIC, "https://u:p@93.184.216.35:8443/b")
    assert found == Hop(httpx2.URL("https://93.184.216.35:8443/b"), "93.184.216.35")
    assert not found.is_of(httpx2.URL(PUBLIC))
    named = Hop(httpx2.URL("https://lists.example:8443/b"), "93.184.216.35").arguments({"X": "1"})
    assert str(named["url"]) == "https://93.184.216.35:8443/b"
    assert (named["headers"], named["extensions"]) == (
        {"X": "1", "Host": "lists.example:8443"},
        {"sni_hostname": "lists.example"},
    )
    assert (
        is_public("2606:4700::1111") and not is_public("fe80::1%eth0") and not is_public("ff02::1")
    )


def test_a_redirect_after_https_does_not_lead_back_to_http():
    with pytest.raises(FetchError, match="away from https"):
        hop("http://93.184.216.34/", "https://93.184.216.34/", "http://93.184.216.34/")


def test_git_follows_no_redirect(tmp_path: Path, server: Archives, every_key: None):
    with served_archives("127.0.0.2") as other:
        server.plan["/0/info/refs"] = [
            status(302, Location=f"{other.address}/0/info/refs?service=git-upload-pack")
        ]
        remote = {"kind": "git", "url": f"{server.address}/{{epoch}}", "timeout_seconds": 2}
        work = Workspace(tmp_path).configure(
            {"name": "lore", "kind": "public_inbox", "fetch": remote}
        )
        with pytest.raises(FetchError, match="redirects are not followed"):
            SourceRemotes(work.settings).fetch("lore")
        assert other.asked == []


def test_git_echoes_are_masked(tmp_path: Path, server: Archives):
    secret = base64.b64encode(f"{USER}:{SECRET}".encode())
    refs = b"001e# service=git-upload-pack\n0000" + b"".join(
        b"%04x" % (len(line) + 4) + line
        for line in [b"ERR denied " + secret + b" " + quote(SECRET).encode()]
    )
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\n"
    server.plan["/0/info/refs"] = [raw(head + refs)]
    remote = {"kind": "git", "url": f"{server.address}/{{epoch}}", **PASSWORD}
    work = Workspace(tmp_path).configure({"name": "lore", "kind": "public_inbox", "fetch": remote})
    with pytest.raises(FetchError, match="git says: .*denied") as fault:
        SourceRemotes(work.settings).fetch("lore")
    assert not leaks(str(fault.value))


@pytest.mark.skipif("objects" not in REMOTES, reason="no extra fetches from object stores")
def test_an_object_store_follows_no_redirect_and_shows_no_key(tmp_path: Path, every_key: None):
    with served_archives("127.0.0.2") as other, served_archives() as store:
        for path in ("/lists", "/lists/"):
            store.plan[path] = [status(301, Location=f"{other.address}/lists")] * 20
        told = fetch_store(tmp_path, store)
        assert other.asked == [] and not leaks(told)
        body = f"<?xml version='1.0'?><Error><Code>No{USER}</Code><Message>{SECRET} {USER}</Message></Error>".encode()
        head = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(body)
        for path in ("/lists", "/lists/"):
            store.plan[path] = [raw(head + body)] * 20
        assert not leaks(fetch_store(tmp_path, store))
        for path in ("/lists", "/lists/"):
            store.plan[path] = [
                raw(b"HTTP/1.1 200 OK\r\n\r\n<ListBucketResult><Contents><Size>x")
            ] * 20
        assert "s3://lists" in fetch_store(tmp_path, store)


def fetch_store(folder: Path, store: Archives) -> str:
    """The fault of a fetch from a store."""
    remote = {
        "kind": "objects",
        "url": "s3://lists",
        "endpoint": store.address,
        **PASSWORD,
        "timeout_seconds": 1,
        "time_limit_seconds": 8,
    }
    work = Workspace(folder).configure({"name": "dev", "kind": "mbox", "fetch": remote})
    with pytest.raises(FetchError) as fault:
        SourceRemotes(work.settings).fetch("dev")
    return str(fault.value)


@pytest.mark.exhaustive
def test_a_webhook_follows_no_redirect_and_a_receiver_that_lies_fails_nothing(server: Archives):
    with served_archives("127.0.0.2") as other:
        head = f"HTTP/1.1 302 Found\r\nLocation: {other.address}/x\r\nContent-Length: 0\r\n\r\n".encode()
        for answer, said in (
            (head, "answered 302"),
            (b"not http at all\r\n\r\n", "cannot be reached: RemoteProtocolError"),
            (b"HTTP/1.1 200 " + b"x" * 300_000, "cannot be reached: "),
        ):
            server.plan["/hook"] = [raw(answer)]
            assert (post(f"{server.address}/hook", b"{}", HUNG) or "").startswith(said)
        assert other.asked == []


def test_a_webhook_that_drips_is_left_in_time(server: Archives):
    server.plan["/hook"] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                for sign in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000:
                    try:
                        connection.sendall(bytes([sign]))
                    except OSError:
                        return
                    time.sleep(0.02)

        threading.Thread(target=drip, daemon=True).start()
        assert (
            post(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}", 0.3)
            == "cannot be reached: TimeoutError"
        )
