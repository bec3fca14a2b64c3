"""Addresses are one person's where mails say so, and never by an equal name alone."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

from tests.timing import growth
from transforms.mail.address_uses import address_uses
from transforms.mail.messages import RawMail, read_mail
from transforms.mail.people import people
from transforms.mail.trailers import message_trailers
from transforms.schemas.mail import ADDRESS_USES
from transforms.settings.mail import MailSettings

SIGNATURE = "\n-- \nAnn Lee, Institute of Gauges, Room 12, Example Street\n"
MANY = ["Ann Lee", "Bo Ek", "Cy Oz", "Di Fu", "Ed Ng", "Flo Ra"]
Groups = set[frozenset[str]]


def people_of(
    *mails: tuple[str, str],
    aliases: Mapping[str, Sequence[str]] | None = None,
    list_id: str | None = None,
) -> list[dict[str, object]]:
    """The people of mails, each given by its From header and its body."""
    raw = [
        RawMail(
            f"m{n}",
            f"From: {sender}\nMessage-ID: <m{n}@example.org>\nDate: Mon, {n + 1} Mar 2004 10:00:00 +0000\n\n{body}".encode(),
        )
        for n, (sender, body) in enumerate(mails)
    ]
    read = read_mail(
        raw, source="s", partition="s/1", list_id=list_id, settings=MailSettings()
    ).messages
    uses = address_uses(read, message_trailers(read))
    return people(uses, aliases or {}).to_pylist()


def joined(rows: Sequence[Mapping[str, object]]) -> Groups:
    """The sets of addresses that are one person's, of two or more."""
    ids = {row["person_id"] for row in rows}
    groups = {frozenset(str(r["addr"]) for r in rows if r["person_id"] == one) for one in ids}
    return {group for group in groups if len(group) > 1}


def test_ten_times_the_addresses_of_one_person_take_about_ten_times_the_work():
    def chain(count: int) -> pa.Table:
        """Uses in which each address names the one before, and all write from one shared address."""
        named = [
            {"addr": f"a{n}@b.example", "also": f"a{n + 1}@b.example", "role": "named"}
            for n in range(count)
        ]
        shared = [
            {"addr": "all@b.example", "name": f"n{n} n{n + 1}", "role": "from"}
            for n in range(count)
        ]
        mails = {"partition": "s/1", "mail_count": 1}
        return pa.Table.from_pylist(
            [mails | use for use in named[::-1] + shared], ADDRESS_USES.arrow
        )

    few, many = chain(2_000), chain(20_000)
    assert growth(lambda: people(few, {}), lambda: people(many, {}), 25) < 25


@pytest.mark.parametrize(
    ("mails", "name"),
    [
        ([("kay.mann@example.org", "The meter is set.\n\nThanks,\nKay\n")], "Kay Mann"),
        ([("kmann@example.org", "Done.\n\nKay Mann\n\n> Is it set?\n> Bo Ek\n")], "Kay Mann"),
        ([("k7@example.org", "So be it.\n\nBest,\nKay\n")] * 3, "Kay"),
        ([("k7@example.org", "So be it.\n\nBest,\nKay\n")] * 2, "k7@example.org"),
        ([("k7@example.org", f"Hi.\n\nBest,\n{n}\n") for n in MANY], "k7@example.org"),
        ([("info@example.org", "Hello.\n\nBest,\nKay\n")] * 3, "info@example.org"),
        ([("Kay <kay.mann@example.org>", "Hi.\n\nBest,\nKay Mann\n")], "Kay"),
    ],
)
def test_a_signature_names_an_address_without_a_name(mails, name):
    assert [row["name"] for row in people_of(*mails)] == [name]


@pytest.mark.parametrize(
    ("body", "to", "name"),
    [
        ("Hi Kay,\n\nIs it set?\n", "kay.mann@example.org", "Kay Mann"),
        ("Kay -\nIs it set?\n", "kay.mann@example.org", "Kay Mann"),
        ("Dear Bo,\n\nIs it set?\n", "kay.mann@example.org", "kay.mann@example.org"),
        (
            "Hi Kay,\n\nIs it set?\n",
            "kay.mann@example.org, bo.ek@example.org",
            "kay.mann@example.org",
        ),
    ],
)
def test_a_salutation_names_the_only_recipient(body, to, name):
    rows = people_of((f"Ann Lee <ann@home.example>\nTo: {to}", body))
    assert {str(row["addr"]): row["name"] for row in rows}["kay.mann@example.org"] == name


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("Kay Mann", "Kay Mann"),
        ("Mann, Kay </O=ENRON/OU=NA/CN=RECIPIENTS/CN=KMANN>", "Mann, Kay"),
        ("Kay Mann/Corp/Enron@ENRON", "Kay Mann"),
        ('"Kay Mann" <kay.mann@example.org>@ENRON', "Kay Mann"),
        ("kay.mann@example.org", "kay.mann@example.org"),
    ],
)
def test_an_export_of_exchange_names_the_author_in_a_header_of_its_own(header, name):
    assert [r["name"] for r in people_of((f"kay.mann@example.org\nX-From: {header}", "Hi."))] == [
        name
    ]


HOME_AND_WORK = {frozenset({"ann@home.example", "ann@work.example"})}


@pytest.mark.parametrize(
    ("mails", "expected"),
    [
        (
            [("Ann Lee <ann@home.example>", "Signed-off-by: Ann Lee <ann@work.example>\n")],
            HOME_AND_WORK,
        ),
        (
            [("Ann Lee <ann@home.example>", "From: Lee, Ann <ann@work.example>\n\nA patch.\n")],
            HOME_AND_WORK,
        ),
        (
            [
                ("Ann Lee <ann@home.example>", f"Hi.{SIGNATURE}"),
                ("Ann Lee <ann@work.example>", f"Ho.{SIGNATURE}"),
            ],
            HOME_AND_WORK,
        ),
        ([("Ann Lee <ann@home.example>", "Hi."), ("Ann Lee <ann@work.example>", "Ho.")], set()),
        (
            [
                ("Ann Lee <ann@home.example>", f"Hi.{SIGNATURE}"),
                ("Bo Ek <bo@work.example>", f"Ho.{SIGNATURE}"),
            ],
            set(),
        ),
        ([("Ann <ann@home.example>", "Acked-by: Ann <ann@work.example>\n")], set()),
        ([("Ann Lee <ann@home.example>", "Signed-off-by: Bo Ek <bo@work.example>\n")], set()),
        (
            [
                (
                    "Ann Lee via Gauges <list@example.org>",
                    "Signed-off-by: Ann Lee <ann@work.example>\n",
                )
            ],
            set(),
        ),
        ([("Ann Lee <noreply@example.org>", "Signed-off-by: Ann Lee <ann@work.example>\n")], set()),
        (
            [
                (
                    "Bo Ek <bo@x.org>\nTo: Ann Lee <ann@home.example>\nCc: Ann Lee <ann@work.example>",
                    "Hi.",
                )
            ],
            HOME_AND_WORK,
        ),
        (
            [
                (
                    "Bo Ek <bo@x.org>\nCc: Ann Lee <ann@home.example>",
                    "Acked-by: Ann Lee <ann@work.example>\n",
                )
            ],
            HOME_AND_WORK,
        ),
        (
            [
                (
                    "Bo Ek <bo@x.org>\nCc: Ann Lee <dev@lists.x.org>",
                    "Acked-by: Ann Lee <ann@work.example>\n",
                )
            ],
            set(),
        ),
        ([("Ann Lee <ann@home.example>\nTo: Ann Lee <ann@work.example>", "You won!")], set()),
        (
            [("Bo Ek <bo@x.org>\nTo: Ann <ann@home.example>\nCc: Ann <ann@work.example>", "Hi.")],
            set(),
        ),
        (
            [(f"{name} <desk@x.org>", f"Acked-by: {name} <{name[:2]}@x.org>\n") for name in MANY],
            set(),
        ),
        ([], set()),
    ],
)
def test_what_joins_two_addresses(mails: Sequence[tuple[str, str]], expected: Groups):
    assert joined(people_of(*mails)) == expected


def test_the_evidence_says_which_address_led_to_which():
    rows = people_of(
        ("Ann Lee <ann@home.example>", "Signed-off-by: Ann Lee <ann@work.example>\n"),
        ("Ann M. Lee <ann@home.example>", "Hello.\n"),
        ("Ann Lee <ann@home.example>", "Hello again.\n"),
    )
    home, work = rows
    assert (home["person_id"], home["name"]) == ("ann@home.example", "Ann Lee")
    assert home["names"] == ["Ann Lee", "Ann M. Lee"]
    assert (work["evidence"], work["evidence_addr"]) == ("named", "ann@home.example")
    assert (home["mail_count"], work["mail_count"], work["mention_count"]) == (3, 0, 1)


def test_an_alias_joins_what_no_mail_does_and_names_the_person():
    rows = people_of(
        ("Ann Lee <ann@home.example>", "Hi."),
        ("ann@work.example", "Ho."),
        aliases={"Ann B. Lee": ["Ann@Work.example", "ann@home.example", "ann@new.example"]},
    )
    assert joined(rows) == {frozenset({"ann@home.example", "ann@work.example", "ann@new.example"})}
    assert {row["name"] for row in rows} == {"Ann B. Lee"}


def test_the_order_of_mails_does_not_count():
    mails = [
        ("Ann Lee <ann@home.example>", "Signed-off-by: Ann Lee <ann@work.example>\n"),
        ("Ann Lee <ann@work.example>", "Signed-off-by: Ann Lee <ann@third.example>\n"),
        ("Ann Lee <ann@third.example>", f"Hi.{SIGNATURE}"),
    ]
    for ordered in (mails, mails[::-1]):
        assert joined(people_of(*ordered)) == {
            frozenset(f"ann@{at}.example" for at in ("home", "work", "third"))
        }


@pytest.mark.parametrize(
    ("headers", "list_id", "is_shared"),
    [
        ("To: gauges@example.org\nList-Id: Gauges <gauges.example.org>", None, True),
        ("To: Gauge Talk <gauges@example.org>", "gauges", True),
        ("To: The Gauges Mailing List <g@example.org>", None, True),
        ("To: gauges-devel@example.org", None, True),
        ("To: Ann Lee <ann@home.example>", "gauges", False),
        ("To: bo@x.org\nList-Id: <bo.x.org>", "bo", False),
    ],
)
def test_the_address_of_a_list_that_writes_nothing_is_no_person(
    headers: str, list_id: str | None, is_shared: bool
):
    rows = people_of((f"Bo Ek <bo@x.org>\n{headers}", "Hi."), list_id=list_id)
    assert {row["is_shared"] for row in rows if row["mention_count"]} == {is_shared}
