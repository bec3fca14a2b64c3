"""Who a mail goes to, through which list, from which zone and program."""

from typing import Any

import pytest

from transforms.mail.messages import Means, RawMail, read_mail
from transforms.settings.mail import MailSettings

DATE = "Date: Tue, 2 Mar 2004 10:00:00 +0530"


def row(*headers: str, quick: bool = True, sender: str = "Ann <ann@example.org>") -> dict[str, Any]:
    head = "\n".join([f"From: {sender}", "Subject: x", *headers])
    raw = [RawMail("m", f"{head}\n\nHello.\n".encode())]
    read = read_mail(
        raw,
        source="s",
        partition="s/1",
        list_id=None,
        settings=MailSettings(),
        means=Means(quick=quick),
    )
    (only,) = read.messages.to_pylist()
    return only


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    ("value", "addresses", "names"),
    [
        ("bo@example.org", ["bo@example.org"], [""]),
        (
            "Bo Ek <Bo@Example.org>,\n\tcy@example.org (Cy Oz)",
            ["bo@example.org", "cy@example.org"],
            ["Bo Ek", "Cy Oz"],
        ),
        ('"Ek, Bo" <bo@example.org>, bo@example.org', ["bo@example.org"], ["Ek, Bo"]),
        ("=?utf-8?q?Bj=C3=B6rn?= <b@example.org>", ["b@example.org"], ["Björn"]),
        ("Gauges: bo@example.org, cy@example.org;", ["bo@example.org", "cy@example.org"], ["", ""]),
        ("undisclosed-recipients:;", [], []),
        ("gauges at lists.example.org", ["gauges@lists.example.org"], [""]),
        ("Björn <b@example.org>", ["b@example.org"], ["Björn"]),
        (", ,<>,", [], []),
    ],
)
def test_recipients(value: str, addresses: list[str], names: list[str], quick: bool):
    read = row(f"To: {value}", f"CC: {value}", DATE, quick=quick)
    assert (read["to_addrs"], read["to_names"]) == (addresses, names)
    assert (read["cc_addrs"], read["cc_names"]) == (addresses, names)


def test_several_headers_are_one_list():
    read = row("Cc: bo@example.org", "Cc: cy@example.org, bo@example.org", DATE)
    assert (read["to_addrs"], read["cc_addrs"]) == ([], ["bo@example.org", "cy@example.org"])


@pytest.mark.parametrize(
    ("date", "minutes"),
    [
        ("Tue, 2 Mar 2004 10:00:00 +0530", 330),
        ("Tue, 2 Mar 2004 10:00:00 -0800 (PST)", -480),
        ("Tue, 2 Mar 2004 10:00:00 CEST", 120),
        ("Tue, 2 Mar 2004 10:00:00 GMT", 0),
        ("Tue, 2 Mar 2004 10:00:00 -0000", None),
        ("Tue, 2 Mar 2004 10:00:00 +9900", None),
        ("Tue, 2 Mar 2004 10:00:00", None),
        ("tomorrow +0100", None),
    ],
)
def test_the_senders_zone(date: str, minutes: int | None):
    assert row(f"Date: {date}")["sent_offset_minutes"] == minutes


@pytest.mark.parametrize("quick", [True, False])
def test_list_program_and_where_answers_go(quick: bool):
    read = row(
        "List-ID: The gauges\n <Gauges.lists.example.org>",
        "Reply-To: Bo <bo@example.org>, c@x.org",
        "User-Agent: Gnus/5.13",
        "X-Mailer: other",
        DATE,
        quick=quick,
    )
    assert (read["header_list_id"], read["reply_to"], read["user_agent"]) == (
        "gauges.lists.example.org",
        "bo@example.org",
        "Gnus/5.13",
    )
    assert (
        row("X-Mailer: git-send-email 2.43.5", DATE, quick=quick)["user_agent"]
        == "git-send-email 2.43.5"
    )
    assert [row(DATE, quick=quick)[n] for n in ("header_list_id", "reply_to", "user_agent")] == [
        None
    ] * 3


TO_LIST, TO_ANN = "To: dev@example.org", "Reply-To: Ann Lee <Ann@example.com>, dev@example.org"


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize(
    ("sender", "headers", "author"),
    [
        ("Ann Lee via Dev <dev@example.org>", [TO_LIST, TO_ANN], ("Ann Lee", "ann@example.com")),
        (
            "'Ann Lee' via dev <dev@example.org>",
            ["List-Id: Dev <dev.example.org>", "X-Original-From: A <a@b.c>", TO_ANN],
            ("Ann Lee", "a@b.c"),
        ),
        (
            "Ann Lee (via Dev) <dev@example.org>",
            ["Cc: dev@example.org", TO_ANN],
            ("Ann Lee", "ann@example.com"),
        ),
        (
            "Ann via B4 Relay <devnull+ann.example.com@relay.org>",
            [TO_ANN.partition(",")[0]],
            ("Ann", "ann@example.com"),
        ),
        ("Ann via Dev <dev@example.org>", [TO_LIST], ("Ann via Dev", "dev@example.org")),
        (
            "Ann via Dev <dev@example.org>",
            [TO_LIST, TO_ANN + ", bo@example.org"],
            ("Ann via Dev", "dev@example.org"),
        ),
        (
            "Ann via Tickets <tickets@example.net>",
            [TO_LIST, TO_ANN],
            ("Ann via Tickets", "tickets@example.net"),
        ),
        ("Via Appia <dev@example.org>", [TO_LIST, TO_ANN], ("Via Appia", "dev@example.org")),
    ],
)
def test_who_wrote_what_a_list_sends_in_the_authors_place(
    sender: str, headers: list[str], author: tuple[str, str], quick: bool
):
    read = row(*headers, DATE, quick=quick, sender=sender)
    assert (read["from_name"], read["from_addr"]) == author
