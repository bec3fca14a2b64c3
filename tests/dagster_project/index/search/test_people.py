"""`from:`, `to:`, `cc:` and `reviewed:` find people by all their addresses; `reviews` says who
reviews whom.
"""

from collections.abc import Iterator

import duckdb
import pytest

from dagster_project.index.publish.macro_sql import MACROS
from dagster_project.index.search.conditions.field_values import MAILS, People
from transforms.mail.address_uses import address_uses
from transforms.mail.messages import RawMail, read_mail
from transforms.mail.people import people
from transforms.mail.threads.patch_series import patch_series
from transforms.mail.trailers import message_trailers
from transforms.schemas.relations import LINKS, THREAD_TREE
from transforms.settings.mail import MailSettings

HEADERS = [
    "From: Ann Lee <ann@home.example>\nTo: gauges@lists.example.org\nSubject: [PATCH] gauges: zero",
    "From: Bo Ek <bo@example.org>\nTo: Ann Lee <ann@work.example>\nCc: cy@sub.example.org\n"
    "Subject: Re: [PATCH] gauges: zero",
    "From: Ann Lee <ann@work.example>\nTo: Bo Ek <bo@example.org>\nSubject: Other",
    "From: Cy Oz <cy@sub.example.org>\nTo: bo@example.org\nSubject: Third",
    "From: Ann Lee <other.ann@far.example>\nTo: cy@sub.example.org\nSubject: Fourth",
]
BODIES = [
    "Counts zero.\n\nSigned-off-by: Ann Lee <ann@work.example>\n---\n",
    "Good.\n\nReviewed-by: Bo Ek <bo@example.org>\n",
    "Hello.\n",
    "Reviewed-by: Bo Ek <bo@example.org>\nReviewed-by: Cy Oz\n",
    "A namesake.\n",
]


@pytest.fixture(scope="module")
def published() -> Iterator[duckdb.DuckDBPyConnection]:
    raw = [
        RawMail(
            f"m{n}",
            f"{head}\nMessage-ID: <m{n}@x>\nDate: Mon, {n + 1} Mar 2004 10:00:00 +0000\n\n{body}".encode(),
        )
        for n, (head, body) in enumerate(zip(HEADERS, BODIES, strict=True))
    ]
    messages = read_mail(
        raw, source="s", partition="s/1", list_id=None, settings=MailSettings()
    ).messages
    trailers = message_trailers(messages)
    tree = THREAD_TREE.from_rows(
        [
            {
                "message_id": f"m{n}@x",
                "thread_id": "t" if n < 2 else f"t{n}",
                "parent_id": "m0@x" if n == 1 else None,
                "depth": int(n == 1),
                "position": int(n == 1),
                "link_method": "root",
                "is_ghost": False,
            }
            for n in range(len(BODIES))
        ]
    )
    tables = {
        "messages": messages,
        "trailers": trailers,
        "people": people(address_uses(messages, trailers), {}),
        "patch_series": patch_series(messages, tree, LINKS.empty()),
    }
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(f"{name}_rows", table)
            connection.execute(f"CREATE TABLE {name} AS FROM {name}_rows")
        connection.execute(MACROS("reviews"))
        yield connection


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("f", "ann@home.example", {0, 2}),
        ("f", "ann lee", {0, 2, 4}),
        ("f", "other.ann@far.example", {4}),
        ("f", "example.org", {1, 3}),
        ("f", "sub.example.org", {3}),
        ("f", "other.ann", {4}),
        ("f", "nobody.example", set()),
        ("to", "ann@home.example", {1}),
        ("to", "lists.example.org", {0}),
        ("cc", "cy oz", {1}),
        ("reviewed", "bo", {1, 3}),
        ("reviewed", "cy oz", {3}),
        ("acked", "bo", set()),
    ],
)
def test_a_field_finds_mails_by_people(
    published: duckdb.DuckDBPyConnection, field: str, value: str, found: set[int]
):
    named = People(published).named(value)
    rows = published.execute(MAILS[field], named._asdict()).fetchall()
    assert {ident for (ident,) in rows} == {f"m{n}@x" for n in found}


def test_reviews_say_who_reviews_whom(published: duckdb.DuckDBPyConnection):
    rows = published.execute(
        "SELECT reviewer, author, patches, reviewer_id, author_id FROM reviews()"
    ).fetchall()
    assert rows == [
        ("Bo Ek", "Ann Lee", 1, "bo@example.org", "ann@home.example"),
        ("Bo Ek", "Cy Oz", 1, "bo@example.org", "cy@sub.example.org"),
    ]
    assert published.execute("FROM reviews(deed := 'tested')").fetchall() == []
