"""References between mails: what is found in a text, and where it leads."""

from datetime import UTC, datetime, timedelta
from typing import Any

import ibis
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from transforms.mail.threads.references import message_links, message_references, titled_mails
from transforms.schemas.mail import MESSAGES

START = datetime(2024, 1, 1, tzinfo=UTC)


def references(*bodies: str) -> list[dict[str, Any]]:
    """The references of mails m0, m1, … with the given bodies."""
    ids = [f"m{n}" for n in range(len(bodies))]
    table = {
        "message_id": ids,
        "source": ["s"] * len(ids),
        "partition": ["u"] * len(ids),
        "body": list(bodies),
    }
    return message_references(pa.table(table)).to_pylist()


@pytest.mark.parametrize(
    ("line", "kind", "target", "named"),
    [
        ("Link: https://lore.kernel.org/r/20240101.1-a@b.org", "link", ..., "20240101.1-a@b.org"),
        (
            "Link: <https://lore.kernel.org/r/1a@b.org>",
            "link",
            "https://lore.kernel.org/r/1a@b.org",
            "1a@b.org",
        ),
        (
            "Discussion: https://postgr.es/m/1234.56@sss.pgh.pa.us",
            "discussion",
            ...,
            "1234.56@sss.pgh.pa.us",
        ),
        ("Closes: https://lore.kernel.org/all/x%2By%40b.org/", "closes", ..., "x+y@b.org"),
        ("v2: https://lore.kernel.org/all/1a@b.org/T/#t", "v2", ..., "1a@b.org"),
        (
            "see https://www.postgresql.org/message-id/flat/CAF%3Da%40mail.x.com#ab",
            "url",
            ...,
            "CAF=a@mail.x.com",
        ),
        (
            "https://lore.kernel.org/r/Yk/03@b.org/.",
            "url",
            "https://lore.kernel.org/r/Yk/03@b.org/",
            "Yk/03@b.org",
        ),
        ("(https://marc.info/?i=1a@b.org)", "url", "https://marc.info/?i=1a@b.org", "1a@b.org"),
        ("https://www.mail-archive.com/search?l=x&q=1a@b.org", "url", ..., "1a@b.org"),
        (
            "https://x.example/?url=https%3A%2F%2Flore.kernel.org%2Fr%2F1a%40b.org%2F&d=9",
            "url",
            ...,
            "1a@b.org",
        ),
        ("https://news.example.org/archive?In-Reply-To=%3C1a@b.org%3E", "url", ..., "1a@b.org"),
        ("Message-ID: <1a@b.org>", "message-id", "<1a@b.org>", "1a@b.org"),
        ("Message-Id: <1a@b.org>", "message-id", "<1a@b.org>", "1a@b.org"),
        ("as I said in <1a@b.org>.", "mention", "<1a@b.org>", "1a@b.org"),
        (
            "> Link: https://lore.kernel.org/r/1a@b.org",
            "quoted",
            "https://lore.kernel.org/r/1a@b.org",
            "1a@b.org",
        ),
        (
            "+ * Link: https://lore.kernel.org/r/1a@b.org",
            "url",
            "https://lore.kernel.org/r/1a@b.org",
            "1a@b.org",
        ),
        (
            "Wörter davor: https://lore.kernel.org/r/1a@b.org。",
            "url",
            "https://lore.kernel.org/r/1a@b.org",
            "1a@b.org",
        ),
    ],
)
def test_a_message_id_is_found_wherever_a_text_names_one(
    line: str, kind: str, target: Any, named: str
):
    (reference,) = references(f"First line.\n{line}\nlast")
    written = line.split()[-1] if target is ... else target
    assert (reference["kind"], reference["target"], reference["named_id"]) == (kind, written, named)
    text = f"First line.\n{line}\nlast".encode()
    assert text[reference["byte_start"] : reference["byte_end"]].decode() == written


@pytest.mark.parametrize(
    ("text", "kind", "title"),
    [
        ('Fixes: 0123456789ab ("mm: fix it")', "fixes", "mm: fix it"),
        ("Fixes: 0123456789ab ('mm: fix it')", "fixes", "mm: fix it"),
        ('since commit 0123456789ab ("mm: fix\nall of it") it', "commit", "mm: fix all of it"),
        ('since commit 0123456789ab\n("mm: fix it") it', "commit", "mm: fix it"),
        ('> Fixes: 0123456789ab ("mm: fix it")', "quoted", "mm: fix it"),
        ('Fixes: 0123456789ab ("mm: let f("x") be")', "fixes", 'mm: let f("x") be'),
    ],
)
def test_a_commit_is_found_with_its_title(text: str, kind: str, title: str):
    (reference,) = references(f"Why.\n\n{text}\n")
    assert (reference["kind"], reference["text"], reference["named_title"]) == (kind, title, title)
    assert reference["target"].startswith("0123456789ab")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mail me at <ada@example.org> or https://example.org/@ada",
        "https://lore.kernel.org/linux-erofs/",
        'printf("%d", 0)',
        'word ("quoted")',
    ],
)
def test_what_names_no_mail_is_left_alone(text: str):
    assert references(text) == []


@examples(50)
@given(
    st.lists(
        st.sampled_from(
            [
                "https://lore.kernel.org/r/1a@b.org",
                '0123abcd ("t',
                ' x")',
                "<2b@c.org>",
                "ü",
                "\n",
                "",
            ]
        )
    )
)
def test_mails_do_not_run_into_each_other(bodies: list[str]):
    """What is found in many mails is what is found in each alone."""
    alone = [
        {**r, "message_id": f"m{n}"} for n, body in enumerate(bodies) for r in references(body)
    ]
    assert references(*bodies) == alone


def mail(ident: str, subject: str, body: str = "", at: int = 0) -> dict[str, Any]:
    return {
        "message_id": ident,
        "source": "s",
        "partition": "u",
        "subject": subject,
        "body": body,
        "effective_at": START + timedelta(hours=at),
    }


def links(*mails: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """Where the links of mails start and lead, with their kinds."""
    fields = {c.name: c.type for c in MESSAGES.columns}
    table = pa.Table.from_pylist(list(mails), schema=pa.schema([(n, fields[n]) for n in mails[0]]))
    named, titled = map(ibis.memtable, (message_references(table), titled_mails(table)))
    rows = message_links(named, titled).to_pyarrow().to_pylist()
    return [(r["from_id"], r["kind"], r["to_id"]) for r in rows]


URL = "Link: https://lore.kernel.org/r/1a@b.org"
FIXES = 'Fixes: 0123456789ab ("mm: fix it")'


@pytest.mark.parametrize(
    ("others", "body", "expected"),
    [
        pytest.param(
            [mail("1a@b.org", "x")], URL, [("c", "link", "1a@b.org")], id="a mail that is there"
        ),
        pytest.param(
            [], URL, [("c", "link", None)], id="an archive's URL of a mail that is not there"
        ),
        pytest.param(
            [], "https://example.org/1a@b.org <1a@b.org>", [], id="what need not be a mail"
        ),
        pytest.param(
            [mail("1a@b.org", "x")], "<1a@b.org>", [("c", "mention", "1a@b.org")], id="a bare id"
        ),
        pytest.param(
            [mail("p", "[PATCH 2/3] mm:  Fix it")], FIXES, [("c", "fixes", "p")], id="a title"
        ),
        pytest.param(
            [mail("p", "[PATCH] mm: other")], FIXES, [("c", "fixes", None)], id="an unknown title"
        ),
        pytest.param([mail("p", "mm: fix it")], FIXES, [("c", "fixes", None)], id="no patch mail"),
        pytest.param(
            [mail("p", "Re: [PATCH] mm: fix it")], FIXES, [("c", "fixes", None)], id="a reply"
        ),
        pytest.param(
            [mail("p", "[PATCH] mm: fix it", at=99)], FIXES, [("c", "fixes", None)], id="later"
        ),
        pytest.param(
            [mail("p", "[PATCH] mm: fix it"), mail("q", "[PATCH v2] mm: fix it", at=1)],
            FIXES,
            [("c", "fixes", "q")],
            id="the last version",
        ),
    ],
)
def test_a_link_leads_to_the_mail_that_is_named(others, body, expected):
    assert links(*others, mail("c", "[PATCH] it again", body, at=9)) == expected
