"""Patch mails become patch_series of revisions."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from transforms.mail.headers import patch_subjects
from transforms.mail.threads.patch_series import patch_series
from transforms.mail.threads.threads import build_threads
from transforms.schemas.mail import MESSAGES
from transforms.settings.mail import ThreadSettings

START = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("subject", "version", "part", "parts", "branch", "title"),
    [
        ("[PATCH] Fix it", 1, None, None, None, "fix it"),
        ("[PATCH v3 2/7] fix it", 3, 2, 7, None, "fix it"),
        ("[RFC PATCH net-next v2 0/5] fix  it", 2, 0, 5, None, "fix it"),
        ("[PATCH 1/2 v4] fix it", 4, 1, 2, None, "fix it"),
        ("[PATCHv2 01/12] fix it", 2, 1, 12, None, "fix it"),
        ("[PATCH v4][ 1/2] fix it", 4, 1, 2, None, "fix it"),
        ("[PATCH] fix it (v3)", 3, None, None, None, "fix it"),
        ("[PATCH] fix lz4 v2", 1, None, None, None, "fix lz4 v2"),
        ("[f2fs-dev] [RFC v2] fix it", 2, None, None, None, "fix it"),
        ("[3/5] fix it", 1, 3, 5, None, "fix it"),
        ("[PATCH AUTOSEL 5.4 3/10] fix it", 1, 3, 10, "5.4", "fix it"),
        ("[PATCH v2 6.1.y] fix it", 2, None, None, "6.1.y", "fix it"),
        ("[PATCH for-6.8/block 1/2] fix it", 1, 1, 2, None, "fix it"),
    ],
)
def test_a_patch_subject_says_version_and_part(subject, version, part, parts, branch, title):
    for reply in (False, True):
        columns = patch_subjects(strings(f"Re: {subject}" if reply else subject)).row(0, named=True)
        assert columns == {
            "is_reply": reply,
            "is_patch": True,
            "version": version,
            "part": part,
            "parts": parts,
            "branch": branch,
            "title": title,
        }


@pytest.mark.parametrize(
    "subject", ["", "Re: ", "fix it", "[dev] fix it", "[tree:branch 2/3] fix it", "[GIT PULL] x"]
)
def test_other_subjects_are_no_patches(subject: str):
    columns = patch_subjects(strings(subject)).row(0, named=True)
    assert (columns["is_patch"], columns["version"], columns["part"]) == (False, None, None)


def strings(*texts: str) -> pl.Series:
    return pl.Series(list(texts), dtype=pl.String)


def mail(
    ident: str, subject: str, at: float = 0, reply: str | None = None, sender: str = "ada"
) -> dict[str, Any]:
    return {
        "message_id": ident,
        "subject": subject,
        "effective_at": START + timedelta(hours=at),
        "refs": [],
        "in_reply_to": reply,
        "from_addr": f"{sender}@x.org",
        "from_name": sender,
    }


def table(
    mails: list[dict[str, Any]], linked: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """The patch_series of mails in one list; `linked` says which mail names which as its v1."""
    fields = {c.name: c.type for c in MESSAGES.columns}
    names = [*mail("", "")]
    messages = pa.Table.from_pylist(mails, schema=pa.schema([(n, fields[n]) for n in names]))
    lists = pa.table({"message_id": messages["message_id"], "list_id": ["l"] * len(mails)})
    tree = build_threads(messages, lists, ThreadSettings()).tree
    links = [{"from_id": a, "to_id": b, "kind": "v1"} for a, b in (linked or {}).items()]
    ends = pa.Table.from_pylist(
        links, schema=pa.schema([(n, pa.string()) for n in ("from_id", "to_id", "kind")])
    )
    return patch_series(messages, tree, ends).to_pylist()


def groups(
    mails: list[dict[str, Any]], linked: dict[str, str] | None = None
) -> set[frozenset[str]]:
    groups: dict[str, set[str]] = {}
    for row in table(mails, linked):
        groups.setdefault(row["series_id"], set()).add(row["message_id"])
    return {frozenset(g) for g in groups.values()}


SERIES = [
    mail("0", "[PATCH 0/2] speed", 0),
    mail("1", "[PATCH 1/2] a", 0.1, "0"),
    mail("2", "[PATCH 2/2] b", 0.2, "0"),
]
HOURS_OF_A_YEAR = 365 * 24


@pytest.mark.parametrize(
    ("mails", "together"),
    [
        pytest.param(
            [*SERIES, mail("x", "[PATCH v2 0/3] speed", 9)],
            True,
            id="a cover letter of the same title",
        ),
        pytest.param([*SERIES, mail("x", "[PATCH v2 0/2] quick", 9)], False, id="another title"),
        pytest.param(
            [*SERIES, mail("x", "[PATCH v2 0/2] quick", 9, "0")],
            True,
            id="in the thread of the first",
        ),
        pytest.param([*SERIES, mail("x", "[PATCH v2 2/2] b", 9)], True, id="one part again"),
        pytest.param([*SERIES, mail("x", "[PATCH] b", 9)], True, id="a part alone"),
        pytest.param([*SERIES, mail("x", "[PATCH 5.4.y] b", 9)], False, id="for another branch"),
        pytest.param(
            [*SERIES, mail("x", "[PATCH 0/2] speed", 9, sender="bob")],
            False,
            id="of another sender",
        ),
        pytest.param(
            [*SERIES, mail("x", "[PATCH v2 0/2] speed", 9, sender="bob")], True, id="taken over"
        ),
        pytest.param(
            [*SERIES, mail("x", "[PATCH v2 0/2] speed", HOURS_OF_A_YEAR + 9)],
            False,
            id="years later",
        ),
        pytest.param([*SERIES, mail("x", "Re: [PATCH 2/2] b", 9, "2")], True, id="a reply"),
        pytest.param(
            [*SERIES, mail("x", "off topic", 9, "2")], True, id="what is said below a patch"
        ),
        pytest.param(
            [*SERIES, mail("x", "Re: [PATCH 2/2] b", 9, "gone")],
            True,
            id="a reply to a missing mail",
        ),
    ],
)
def test_revisions_and_replies_are_one_series(mails, together):
    expected = {frozenset("012x")} if together else {frozenset("012"), frozenset("x")}
    assert groups(mails) == expected


def test_a_link_to_an_earlier_version_joins_what_was_renamed():
    mails = [*SERIES, mail("x", "[PATCH v2 0/2] quick", 9)]
    assert groups(mails, {"x": "1"}) == {frozenset("012x")}


def test_parts_sent_without_threading_are_one_posting():
    rows = table([{**m, "in_reply_to": None} for m in SERIES])
    assert len({r["posting_id"] for r in rows}) == 1


def test_the_rows_say_what_a_revision_replaces_and_which_is_latest():
    again = [
        mail("3", "[PATCH v2 0/3] speed", 9),
        mail("4", "[PATCH v2 1/3] new", 9.1, "3"),
        mail("5", "[PATCH v2 3/3] b", 9.2, "3"),
    ]
    rows = {
        r["message_id"]: r
        for r in table([*SERIES, *again, mail("6", "Re: [PATCH v2 3/3] b", 10, "5")])
    }
    assert {i: r["previous_id"] for i, r in rows.items()} == {
        "0": None,
        "1": None,
        "2": None,
        "3": "0",
        "4": None,
        "5": "2",
        "6": None,
    }
    assert {i for i, r in rows.items() if r["is_latest"]} == set("3456")
    assert {i for i, r in rows.items() if r["is_cover"]} == set("03")
    assert (
        rows["6"]["is_reply"],
        rows["6"]["patch_id"],
        rows["6"]["part"],
        rows["6"]["version"],
    ) == (
        True,
        "5",
        3,
        2,
    )


def test_a_series_keeps_its_id_while_revisions_come():
    before = {r["series_id"] for r in table(SERIES)}
    after = {r["series_id"] for r in table([*SERIES, mail("x", "[PATCH v2 0/3] speed", 9)])}
    assert before == after and len(before) == 1


SUBJECTS = st.sampled_from(
    [
        "[PATCH] a",
        "[PATCH v2] a",
        "[PATCH v2 1/2] a",
        "[PATCH v2 2/2] b",
        "[PATCH 1/2] a",
        "Re: [PATCH] a",
        "a",
        "[PATCH]",
    ]
)


@examples(30)
@given(
    st.lists(
        st.tuples(
            SUBJECTS, st.integers(0, 3), st.none() | st.integers(0, 5), st.sampled_from("ab")
        ),
        max_size=7,
    ),
    st.randoms(use_true_random=False),
)
def test_patch_series_do_not_depend_on_the_order_of_the_mails(rows, chance: random.Random):
    mails = [
        mail(f"m{n}", subject, at, None if reply is None else f"m{reply}", sender)
        for n, (subject, at, reply, sender) in enumerate(rows)
    ]
    expected = table(mails)
    chance.shuffle(mails)
    assert table(mails) == expected
    assert len({r["message_id"] for r in expected}) == len(expected)
