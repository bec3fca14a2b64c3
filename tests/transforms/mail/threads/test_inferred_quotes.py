"""Quotes that carry no mark are told from what people write."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from transforms.hashing import text_hash
from transforms.mail.threads.inferred_quotes import (
    body_lines,
    compared_replies,
    inferred_quotes,
    merged_quotes,
    pairs_to_compare,
)
from transforms.schemas.table import SPAN

CODE = "a fingerprint"
PARENT = "The compactor holds the lock for the whole of the merge,\nand nothing else can run until it is done.\nYes.\nNo.\n"
LONG = PARENT.split("\n")[0]


def quotes(reply: str, parent: str = PARENT, **changes: Any) -> list[str]:
    """The inferred quotes of a reply to a mail that says PARENT."""
    rows = inferred_quotes(*tables(reply, parent=parent, **changes)).to_pylist()
    return [reply.encode()[r["byte_start"] : r["byte_end"]].decode() for r in rows]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param(f"Agreed.\n\n{PARENT}", [PARENT], id="below the answer"),
        pytest.param(
            PARENT.replace("\n", "\n\n"),
            [PARENT.replace("\n", "\n\n")[:-1]],
            id="empty lines between",
        ),
        pytest.param(PARENT.replace(" ", "  "), [PARENT.replace(" ", "  ")], id="other blanks"),
        pytest.param(f"ü\n{PARENT}Why?\n", [PARENT], id="bytes, not characters"),
        pytest.param(
            f"| {LONG}\n|\n| {LONG}\nWhy?\n", [f"| {LONG}\n|\n| {LONG}\n"], id="bars before lines"
        ),
        pytest.param("| a table of this | has many lines\n" * 9, [], id="a table"),
        pytest.param(f"{LONG}\nI doubt it.\n{LONG}\n", [], id="one line at a time"),
        pytest.param("Yes.\nNo.\n" * 20, [], id="short lines never count"),
        pytest.param("Agreed.\n", [], id="nothing of it"),
        pytest.param("", [], id="nothing at all"),
    ],
)
def test_runs_of_the_parents_lines_are_quotes(reply: str, expected: list[str]):
    assert quotes(reply) == expected


def test_the_parents_own_quote_marks_do_not_matter():
    assert quotes(PARENT, parent="".join(f"> {line}\n" for line in PARENT.splitlines())) == [PARENT]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"sender": "ada"}, id="what somebody says again"),
        pytest.param({"subject": "[PATCH v2] lock"}, id="a patch sent again"),
        pytest.param({"diff": True}, id="a diff"),
        pytest.param({"own_from": len(PARENT)}, id="what is not the chunk's own text"),
        pytest.param(
            {"parent": "Something else, which is long enough to count as a line.\n"},
            id="not in the parent",
        ),
        pytest.param({"parent": ""}, id="an empty parent"),
    ],
)
def test_other_repetitions_are_not_quotes(changes: dict[str, Any]):
    assert quotes(PARENT, **changes) == []


HEADER = (
    "-----Original Message-----\nFrom: Ada\nSent: Monday, 3 May 2021\nTo: Bob\nSubject: RE: lock\n"
)
MORE = "And the next part is one that the parent does not say at all.\n"
BANNER = "CAUTION: This email originated from outside of the company. Do not click links.\n"
REBROKEN = PARENT.replace(" whole of", "\nwhole of").replace("Yes.\nNo.\n", "")


@pytest.mark.parametrize(
    ("reply", "expected", "changes"),
    [
        pytest.param(f"Yes.\n\n{HEADER}\n{REBROKEN}", [REBROKEN], {}, id="broken anew"),
        pytest.param(f"Yes.\n\n{HEADER}\nNo.\n\n{PARENT}", ["No.\n", PARENT], {}, id="short ones"),
        pytest.param(
            f"Yes.\n\n{HEADER}\n> why?\n\n{REBROKEN}", [REBROKEN], {}, id="the parent's quotes"
        ),
        pytest.param(
            f"Yes.\n\n{HEADER}\n{REBROKEN}\n{MORE}", [REBROKEN], {}, id="the parent lacks it"
        ),
        pytest.param(
            f"Yes.\n\n{HEADER}\n{BANNER}\n{REBROKEN}", [BANNER, REBROKEN], {}, id="a banner"
        ),
        pytest.param(
            f"Yes.\n\n{HEADER}\n{REBROKEN}\n{HEADER}\n{MORE}", [REBROKEN, MORE], {}, id="two levels"
        ),
        pytest.param(f"Yes.\n\n{HEADER}\n{MORE}", [HEADER, MORE], {}, id="another mail"),
        pytest.param(
            f"Yes.\n\n{HEADER}\n{MORE}", [HEADER, MORE], {"sender": "ada"}, id="one's own mail"
        ),
        pytest.param(
            f"Yes.\n\n{HEADER}\n{MORE}", [HEADER, MORE], {"is_alone": True}, id="not at hand"
        ),
        pytest.param(f"{HEADER}\n{MORE}", [], {}, id="no words of the sender above"),
        pytest.param(f"Yes.\n\n{HEADER}\n> why?\n\n{MORE}", [], {}, id="marked quotes below"),
        pytest.param(
            f"Yes.\n\n---- Forwarded message ----\nFrom: Ada\nDate: Monday, 3 May 2021\n\n{MORE}",
            [],
            {},
            id="forwarded",
        ),
        pytest.param(
            f"Yes.\n\n{HEADER}\n{MORE}", [], {"subject": "locks", "is_alone": True}, id="no reply"
        ),
    ],
)
def test_text_below_a_pasted_header_is_a_quote_unless_the_archive_shows_that_it_is_not(
    reply: str, expected: list[str], changes: dict[str, Any]
):
    assert quotes(reply, **changes) == expected


def test_trailers_are_not_quotes():
    trailers = (
        "Signed-off-by: Ada Lovelace <ada@example.org>\nReviewed-by: Bob Builder <bob@example.org>\n"
        * 2
    )
    assert quotes(trailers, parent=trailers) == []


def tables(
    *replies: str,
    parent: str = PARENT,
    subject: str = "Re: lock",
    sender: str = "bob",
    own_from: int = 0,
    diff: bool = False,
    is_alone: bool = False,
) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Mails that answer one, the chunks of their bodies, and the tree."""
    bodies = [parent, *replies]
    ids = ["asked", *(f"reply{n}" for n in range(len(replies)))]
    mails = pa.table(
        {
            "message_id": ids,
            "subject": ["lock", *[subject] * len(replies)],
            "from_addr": ["ada", *[sender] * len(replies)],
            "source": ["s"] * len(ids),
            "partition": ["u"] * len(ids),
            "content_hash": [text_hash(body) for body in bodies],
            "raw_bytes": [len(body) for body in bodies],
            "body": bodies,
        }
    )
    spans = [
        [{"byte_start": own_from, "byte_end": len(body.encode()), "role": "own"}] for body in bodies
    ]
    chunks = pa.table(
        {
            "doc_id": ids,
            "chunk_id": [text_hash(f"{i} {body}") for i, body in zip(ids, bodies, strict=True)],
            "spans": pa.array(spans, pa.list_(SPAN)),
            "has_patch_markers": [diff] * len(ids),
        }
    )
    tree = pa.table(
        {
            "message_id": ids,
            "parent_id": pa.array(
                [None, *["elsewhere" if is_alone else "asked"] * len(replies)], pa.string()
            ),
        }
    )
    return mails, chunks, tree


@pytest.mark.parametrize(
    ("now", "again"),
    [
        (tables(PARENT, "Agreed."), []),
        (tables(PARENT, "Agreed.", f"Late.\n{PARENT}"), ["reply2"]),
        (tables(f"But:\n{PARENT}", "Agreed."), ["reply0"]),
        (tables(PARENT, "Agreed.", parent=f"{PARENT}Maybe.\n"), ["reply0", "reply1"]),
        (tables(PARENT), []),
    ],
    ids=[
        "the same",
        "another reply",
        "a changed reply",
        "a changed parent",
        "a reply that is gone",
    ],
)
def test_only_what_changed_is_compared_again_and_the_result_is_that_of_all(
    now: tuple[pa.Table, pa.Table, pa.Table], again: list[str]
):
    first = tables(PARENT, "Agreed.")
    before = inferred_quotes(*first)
    pairs = compared_replies(*now, code_version=CODE)
    remaining = pairs_to_compare(pairs, compared_replies(*first, code_version=CODE))
    assert sorted(remaining["message_id"].to_pylist()) == again
    new = inferred_quotes(now[0], now[1], remaining)
    assert merged_quotes(before, pairs, remaining, new).equals(inferred_quotes(*now))


def test_all_is_compared_again_by_other_rules_and_where_nothing_is_stored():
    mail_tables = tables(PARENT, "Agreed.")
    before = compared_replies(*mail_tables, code_version=CODE)
    assert pairs_to_compare(before, None).num_rows == 2
    pairs = compared_replies(*mail_tables, code_version="another")
    assert pairs_to_compare(pairs, before).num_rows == 2


@examples(60)
@given(st.lists(st.text("a\n\u65e5", max_size=8), max_size=6), st.integers(0, 6))
def test_the_lines_of_texts_are_those_that_end_in_them(bodies: list[str], first: int):
    """Of a part of a column, too, whose bytes begin where the texts before it end."""
    array = pa.array(bodies, pa.large_string())[first:]
    expected = []
    for row, body in enumerate(array.to_pylist()):
        start = 0
        for line in body.encode().split(b"\n"):
            until = min(start + len(line) + 1, len(body.encode()))
            if until > start:
                expected.append((row, start, until, body.encode()[start:until].decode()))
            start = until
    assert body_lines(array).rows() == expected
