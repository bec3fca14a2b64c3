"""The server of an address: by the table, by autoconfig, by DNS, by JMAP, and none of a liar."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dagster_project.extras.mailboxes.addresses import Lookups, providers, server_of
from dagster_project.extras.mailboxes.settings import ImapRemote
from dagster_project.extras.mailboxes.tests.dns_loopback import served_names
from dagster_project.extras.mailboxes.tests.jmap_loopback import served_account
from tests.http_loopback import Archives, served_archives
from transforms.errors import FetchError

NOWHERE = Lookups(
    autoconfig=(), jmap="http://127.0.0.1:9/{domain}", nameservers=("127.0.0.1",), port=9
)
XML = """<?xml version="1.0"?>
<clientConfig version="1.1"><emailProvider id="example.org">
<incomingServer type="pop3"><hostname>pop.example.org</hostname><port>995</port>
<socketType>SSL</socketType><username>x</username></incomingServer>
<incomingServer type="imap"><hostname>%s</hostname><port>%s</port>
<socketType>%s</socketType><username>%s</username></incomingServer>
</emailProvider></clientConfig>"""


@pytest.fixture
def archives() -> Iterator[Archives]:
    with served_archives() as running:
        yield running


def of(archives: Archives) -> Lookups:
    return replace(
        NOWHERE, autoconfig=(f"{archives.address}/none", f"{archives.address}/{{domain}}")
    )


def test_the_table_knows_forty_providers_with_a_source_each():
    table = providers()
    domains = Counter(domain for facts in table.values() for domain in facts["domains"])
    assert len(table) >= 40 and domains.most_common(1)[0][1] == 1
    for name, facts in table.items():
        assert facts["source"].startswith("https://") or facts["source"].endswith(".xml"), name
        assert facts.get("no") or len(facts.get("steps", "...")) == 3, name
        if facts["host"]:
            tls = facts.get("tls", "tls")
            assert ImapRemote(kind="imap", host=facts["host"], tls=tls, credentials="A"), name


@pytest.mark.parametrize(
    ("address", "host", "user", "steps"),
    [
        ("ann@gmail.com", "imap.gmail.com", "ann@gmail.com", 3),
        ("ann@ICLOUD.com", "imap.mail.me.com", "ann", 3),
        ("ann@mailbox.org", "imap.mailbox.org", "ann@mailbox.org", 0),
    ],
)
def test_a_known_provider_needs_no_network(address: str, host: str, user: str, steps: int):
    server = server_of(address, NOWHERE)
    assert server and (server.fetch["host"], server.user, len(server.steps)) == (host, user, steps)


@pytest.mark.parametrize(("domain", "way"), [("outlook.com", "OAuth"), ("tuta.com", "export")])
def test_a_provider_without_passwords_is_named_with_the_way_out(domain: str, way: str):
    with pytest.raises(FetchError, match=way):
        server_of(f"ann@{domain}", NOWHERE)


@pytest.mark.parametrize(
    ("facts", "fetch", "user"),
    [
        (
            ("in.%EMAILDOMAIN%", "993", "SSL", "%EMAILADDRESS%"),
            {"host": "in.example.org"},
            "ann@example.org",
        ),
        (
            ("in.example.org", "143", "STARTTLS", "%EMAILLOCALPART%"),
            {"host": "in.example.org", "tls": "starttls"},
            "ann",
        ),
        (("in.example.org", "9993", "SSL", ""), {"host": "in.example.org:9993"}, "ann@example.org"),
    ],
)
def test_autoconfig_of_the_domain(
    archives: Archives, facts: tuple[str, ...], fetch: dict[str, str], user: str
):
    archives.files["/example.org"] = (XML % facts).encode()
    server = server_of("ann@example.org", of(archives))
    assert server and (server.fetch, server.user) == ({"kind": "imap", **fetch}, user)


@pytest.mark.parametrize(
    "text",
    [
        XML % ("in.example.org", "143", "plain", "x"),
        XML % ("", "993", "SSL", "x"),
        XML % ("in.example.org", "port", "SSL", "x"),
        '<!DOCTYPE a [<!ENTITY b "c">]>' + XML % ("in.example.org", "993", "SSL", "&b;"),
        "<html>no",
        XML % ("in.example.org", "993", "SSL", "x" * 300_000),
    ],
)
def test_no_server_is_taken_from_a_text_that_lies(archives: Archives, text: str):
    archives.files["/example.org"] = text.encode()
    assert server_of("ann@example.org", of(archives)) is None


def test_records_of_the_domain_are_taken_in_their_order():
    srv = ["10 5 993 b.example.org.", "10 9 1993 a.example.org.", "20 9 993 c.example.org."]
    names = {
        ("_imaps._tcp.example.org", "SRV"): srv,
        ("_imaps._tcp.plain.org", "SRV"): ["0 0 0 ."],
        ("_imap._tcp.plain.org", "SRV"): ["0 1 143 in.plain.org."],
        ("shop.example", "MX"): ["5 mx.example.", "10 aspmx.l.google.com."],
        ("evil.example", "MX"): ["5 notgoogle.com."],
    }
    with served_names(names) as port:
        lookups = replace(NOWHERE, port=port)
        found = {
            d: server_of(f"ann@{d}", lookups) for d in ("example.org", "plain.org", "shop.example")
        }
        assert server_of("ann@evil.example", lookups) is None
    assert {domain: server and dict(server.fetch) for domain, server in found.items()} == {
        "example.org": {"kind": "imap", "host": "a.example.org:1993"},
        "plain.org": {"kind": "imap", "host": "in.plain.org", "tls": "starttls"},
        "shop.example": {"kind": "imap", "host": "imap.gmail.com"},
    }


def test_jmap_is_known_by_its_session_that_wants_a_login():
    with served_account() as account:
        server = server_of("ann@example.org", replace(NOWHERE, jmap=f"{account.url}/{{domain}}"))
        account.lies["session"] = lambda _: (404, {})
    assert server and server.fetch == {"kind": "jmap", "url": f"{account.url}/example.org"}
