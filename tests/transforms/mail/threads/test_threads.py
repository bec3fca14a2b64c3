"""Threads and memberships: what only the whole lake can tell."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import ibis
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples, some
from transforms.mail.threads.threads import ThreadTables, build_threads, canonical, memberships
from transforms.schemas.mail import MESSAGES
from transforms.settings.mail import ThreadSettings

START = datetime(2004, 1, 1, tzinfo=UTC)
COLUMNS = ["message_id", "in_reply_to", "refs", "subject", "from_addr", "effective_at"]


def mail(
    ident: str, reply: str | None = None, refs: str = "", at: int | None = 0, **columns: Any
) -> dict[str, Any]:
    when = None if at is None else START + timedelta(hours=at)
    row = {"message_id": ident, "in_reply_to": reply, "refs": refs.split(), "effective_at": when}
    return {"subject": f"about {ident}", "from_addr": f"{ident}@example.org", **row, **columns}


DAY = 24


def table(mails: list[dict[str, Any]]) -> pa.Table:
    fields = {c.name: c.type for c in MESSAGES.columns}
    return pa.Table.from_pylist(mails, schema=pa.schema([(n, fields[n]) for n in COLUMNS]))


def threads(mails: list[dict[str, Any]], days: int = 30) -> ThreadTables:
    """The threads of mails, each in the list that it names, or in `l`."""
    lists = [{"message_id": m["message_id"], "list_id": m.get("list_id", "l")} for m in mails]
    lists = pa.Table.from_pylist(
        lists, schema=pa.schema([("message_id", pa.string()), ("list_id", pa.string())])
    )
    return build_threads(table(mails), lists, ThreadSettings(subject_days=days))


def links(mails: list[dict[str, Any]]) -> dict[str, tuple[str | None, str]]:
    """Parent and link method of every mail and ghost."""
    rows = threads(mails).tree.to_pylist()
    return {r["message_id"]: (r["parent_id"], r["link_method"]) for r in rows}


@pytest.mark.parametrize(
    ("mails", "expected"),
    [
        pytest.param([mail("a")], {"a": (None, "root")}, id="alone"),
        pytest.param(
            [mail("a"), mail("b", "a")],
            {"a": (None, "root"), "b": ("a", "in_reply_to")},
            id="reply",
        ),
        pytest.param(
            [mail("a"), mail("b", refs="a")],
            {"a": (None, "root"), "b": ("a", "references")},
            id="references only",
        ),
        pytest.param(
            [mail("a"), mail("c", refs="a b")],
            {"a": (None, "root"), "c": ("a", "references")},
            id="the last reference that is known",
        ),
        pytest.param(
            [mail("c", "b", "a b")],
            {"a": (None, "inferred"), "b": ("a", "inferred"), "c": ("b", "in_reply_to")},
            id="ghosts in the order of the references",
        ),
        pytest.param(
            [mail("c", "g"), mail("d", "g")],
            {"g": (None, "inferred"), "c": ("g", "in_reply_to"), "d": ("g", "in_reply_to")},
            id="a ghost joins its children",
        ),
        pytest.param(
            [mail("k"), mail("c", "k", "g k")],
            {"k": (None, "root"), "c": ("k", "in_reply_to")},
            id="a ghost with no mail below it is left out",
        ),
        pytest.param([mail("a", "a", "a")], {"a": (None, "root")}, id="a mail that answers itself"),
        pytest.param(
            [mail("a", "b", at=1), mail("b", "a", at=2)],
            {"a": (None, "root"), "b": ("a", "in_reply_to")},
            id="a loop is cut at its earliest mail",
        ),
        pytest.param(
            [mail("a", "b", at=None), mail("b", "a", at=None)],
            {"a": (None, "root"), "b": ("a", "in_reply_to")},
            id="a loop without times is cut at the smallest id",
        ),
        pytest.param([mail("a", None, "a a")], {"a": (None, "root")}, id="references to itself"),
        pytest.param([], {}, id="no mail"),
    ],
)
def test_every_mail_is_placed_below_the_one_it_answers(mails, expected):
    assert links(mails) == expected


SYNTHESISED = "x" * 32 + "@synthesised.weft.invalid"
QUESTION = mail("a", subject="Slow start", at=0)


@pytest.mark.parametrize(
    ("mails", "expected"),
    [
        pytest.param(
            [QUESTION, mail("b", subject="Re: slow  start", at=1)],
            "a",
            id="a reply without headers",
        ),
        pytest.param(
            [QUESTION, mail("b", subject="AW: [dev] Re[2]: Slow start", at=1)],
            "a",
            id="other marks and tags",
        ),
        pytest.param(
            [QUESTION, mail("b", subject="Re: Slow start (fwd)", at=1)],
            "a",
            id="what stands behind it",
        ),
        pytest.param(
            [QUESTION, mail("b", subject="Slow start", at=1)], None, id="not marked as a reply"
        ),
        pytest.param(
            [QUESTION, mail("b", subject="Fwd: Slow start", at=1)], None, id="a forwarded mail"
        ),
        pytest.param([QUESTION, mail("b", subject="Re: Slow", at=1)], None, id="another subject"),
        pytest.param(
            [QUESTION, mail("b", subject="Re: Slow start", at=30 * DAY)], "a", id="the last day"
        ),
        pytest.param(
            [QUESTION, mail("b", subject="Re: Slow start", at=30 * DAY + 1)], None, id="too old"
        ),
        pytest.param(
            [QUESTION, mail("b", subject="Re: Slow start", at=-1)], None, id="from before"
        ),
        pytest.param(
            [QUESTION, mail("b", subject="Re: Slow start", at=None)], None, id="of no time"
        ),
        pytest.param(
            [{**QUESTION, "list_id": "other"}, mail("b", subject="Re: Slow start", at=1)],
            None,
            id="of another list",
        ),
        pytest.param(
            [
                QUESTION,
                mail("x", subject="Re: Slow start", at=1, reply="a"),
                mail("b", subject="Re: Slow start", at=2),
            ],
            "x",
            id="the latest before it",
        ),
        pytest.param(
            [QUESTION, mail("b", "gone", subject="Re: Slow start", at=1)],
            "gone",
            id="headers come first",
        ),
        pytest.param(
            [mail("a", subject="Re:", at=0), mail("b", subject="Re:", at=1)],
            None,
            id="no subject at all",
        ),
        pytest.param(
            [
                mail("a", subject="[PATCH v1 2/3] fix it", at=0),
                mail("c", subject="[PATCH v2 2/3] fix it", at=1),
                mail("b", subject="Re: [PATCH v1 2/3] fix it", at=2),
            ],
            "a",
            id="the version of a patch",
        ),
        pytest.param(
            [mail("a", subject="[PATCH v2] fix it", at=0), mail("b", subject="Re: fix it", at=2)],
            "a",
            id="a patch tag that was dropped",
        ),
    ],
)
def test_a_reply_that_names_no_mail_answers_the_latest_of_its_subject(mails, expected):
    assert links(mails)["b"][0] == expected
    assert (links(mails)["b"][1] == "subject") == (expected in ("a", "x"))


def test_links_by_subject_can_be_switched_off():
    rows = threads([QUESTION, mail("b", subject="Re: Slow start", at=1)], days=0).tree.to_pylist()
    assert [r["link_method"] for r in rows] == ["root", "root"]


def test_a_loop_is_cut_where_only_the_subject_links():
    mails = [mail("a", "b", subject="x", at=1), mail("b", subject="Re: x", at=2)]
    assert links(mails) == {"a": ("b", "in_reply_to"), "b": (None, "root")}


def test_a_cross_post_is_answered_in_each_of_its_lists():
    mails = [mail("a", subject="News", at=0), mail("b", subject="Re: News", at=1)]
    lists = pa.table({"message_id": ["a", "a", "b"], "list_id": ["one", "two", "two"]})
    rows = build_threads(table(mails), lists, ThreadSettings()).tree.to_pylist()
    assert {r["message_id"]: r["parent_id"] for r in rows} == {"a": None, "b": "a"}


def test_a_thread_is_read_depth_first_siblings_by_time():
    mails = [
        mail("r"),
        mail("late", "r", at=5),
        mail("early", "r", at=1),
        mail("below", "early", at=9),
    ]
    rows = threads(mails).tree.to_pylist()
    assert [(r["message_id"], r["depth"]) for r in sorted(rows, key=lambda r: r["position"])] == [
        ("r", 0),
        ("early", 1),
        ("below", 2),
        ("late", 1),
    ]


def test_a_thread_counts_its_mails_and_ghosts():
    mails = [
        mail("b", "g", at=2, subject="Re: news", from_addr="x"),
        mail("c", "b", at=3, subject="", from_addr="x"),
        mail("d", "b", at=1, subject="Fwd: news", from_addr="y"),
    ]
    (row,) = threads(mails).threads.to_pylist()
    counts = {k: row[k] for k in ("root_id", "message_count", "ghost_count", "subject")}
    assert counts == {
        "root_id": "g",
        "message_count": 3,
        "ghost_count": 1,
        "subject": "Fwd: news",
    }
    assert (row["first_at"], row["last_at"]) == (
        START + timedelta(hours=1),
        START + timedelta(hours=3),
    )


def test_a_root_that_comes_late_keeps_the_id_of_the_thread():
    replies = [mail("b", "a", at=2), mail("c", "b", "a b", at=3)]
    (before,) = threads(replies).threads.to_pylist()
    (after,) = threads([*replies, mail("a", at=1)]).threads.to_pylist()
    assert before["thread_id"] == after["thread_id"]
    assert (before["ghost_count"], after["ghost_count"]) == (1, 0)


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Mails in the order of their times; each says all it can of what it answers, or only the last
    of it.
    """
    chains: list[list[str]] = []
    mails = []
    for n in range(draw(st.integers(1, 9))):
        above = draw(st.none() | st.integers(0, n - 1)) if n else None
        chain = [] if above is None else [*chains[above], f"m{above}"]
        chains.append(chain)
        refs = chain[-draw(st.integers(1, 9)) :]
        mails.append(mail(f"m{n}", refs[-1] if refs else None, " ".join(refs), n))
    return mails


@examples(50)
@given(histories(), st.data())
def test_a_thread_keeps_its_id_while_later_mails_come(
    history: list[dict[str, Any]], data: st.DataObject
):
    """Whatever mails are missing: of what merges, one id stays."""
    arrived = [m for m in history if data.draw(st.booleans(), label=m["message_id"])]
    before: dict[str, str] = {}
    for count in range(1, len(arrived) + 1):
        rows = threads(arrived[:count]).tree.to_pylist()
        now = {r["message_id"]: r["thread_id"] for r in rows if not r["is_ghost"]}
        for thread in {now[m] for m in before}:
            assert thread in {before[m] for m in before if now[m] == thread}
        before = now


IDS = st.sampled_from([f"m{n}" for n in range(9)])


SUBJECTS = st.sampled_from(["x", "Re: x", "Re: [PATCH v2] x", "y"])


@st.composite
def tangles(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Mails that answer each other, themselves and mails that are not there."""
    return [
        mail(
            ident,
            draw(st.none() | IDS),
            " ".join(draw(st.lists(IDS, max_size=4))),
            draw(st.none() | st.integers(0, 9)),
            subject=draw(SUBJECTS),
        )
        for ident in draw(st.lists(IDS, unique=True, max_size=7))
    ]


@examples(50)
@given(tangles(), st.randoms(use_true_random=False))
def test_threads_do_not_depend_on_the_order_of_the_mails(
    mails: list[dict[str, Any]], chance: random.Random
):
    shuffled = list(mails)
    chance.shuffle(shuffled)
    one, other = threads(mails), threads(shuffled)
    assert one.tree.equals(other.tree)
    assert one.threads.equals(other.threads)


@examples(50)
@given(tangles())
def test_threads_are_trees_that_hold_every_mail_once(mails: list[dict[str, Any]]):
    table_of_threads, tree = threads(mails)
    rows = {r["message_id"]: r for r in tree.to_pylist()}
    assert len(rows) == tree.num_rows
    assert {i for i, r in rows.items() if not r["is_ghost"]} == {m["message_id"] for m in mails}
    for row in rows.values():
        if row["parent_id"] is None:
            assert row["depth"] == 0
        else:
            parent = rows[row["parent_id"]]
            assert (parent["thread_id"], parent["depth"] + 1) == (row["thread_id"], row["depth"])
            assert parent["position"] < row["position"]
    for thread in table_of_threads.to_pylist():
        mine = [r for r in rows.values() if r["thread_id"] == thread["thread_id"]]
        assert sorted(r["position"] for r in mine) == list(range(len(mine)))
        assert thread["message_count"] == sum(not r["is_ghost"] for r in mine) >= 1
        assert thread["ghost_count"] == sum(r["is_ghost"] for r in mine)


def stored(*rows: tuple[str, str, str, int] | tuple[str, str, str, int, str]) -> ibis.Table:
    """Stored messages of (partition, id, text, time, parts); an id with a `+` was told apart in its
    partition.
    """
    columns = [
        "source",
        "partition",
        "list_id",
        "message_id",
        "header_message_id",
        "text_hash",
        "content_hash",
        "part_hashes",
        "effective_at",
        "labels",
    ]
    fields = {c.name: c.type for c in MESSAGES.columns}
    records = [
        {
            "source": "s",
            "partition": partition,
            "list_id": "l",
            "message_id": ident,
            "header_message_id": None if ident.endswith("invalid") else ident.split("+")[0],
            "text_hash": text,
            "content_hash": f"{''.join(parts)}{text[0]}".ljust(8, "_") + text
            if any(parts)
            else text,
            "part_hashes": list(*parts),
            "effective_at": START + timedelta(hours=at),
            "labels": [],
        }
        for partition, ident, text, at, *parts in rows
    ]
    return ibis.memtable(
        pa.Table.from_pylist(records, schema=pa.schema([(n, fields[n]) for n in columns]))
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param(
            [("u1", "a", "x" * 32, 1), ("u2", "a", "x" * 32, 1)],
            [("a", "u1", "a", True), ("a", "u2", "a", False)],
            id="a cross-post is one mail in two places",
        ),
        pytest.param(
            [("u1", "a", "x" * 32, 2), ("u2", "a", "y" * 32, 1)],
            [("a", "u2", "a", True), ("a+xxxxxxxx", "u1", "a", True)],
            id="of two contents the earliest keeps the id",
        ),
        pytest.param(
            [("u1", "a", "x" * 32, 2), ("u1", "a+yyyyyyyy", "y" * 32, 1), ("u2", "a", "y" * 32, 1)],
            [
                ("a", "u1", "a+yyyyyyyy", True),
                ("a", "u2", "a", False),
                ("a+xxxxxxxx", "u1", "a", True),
            ],
            id="a content that one partition told apart is the same mail elsewhere",
        ),
        pytest.param(
            [("u1", "a", "x" * 32, 1), ("u2", "a", "x" * 32, 2, "p")],
            [("a", "u1", "a", False), ("a", "u2", "a", True)],
            id="a copy without its attachment is the same mail, the full one is canonical",
        ),
        pytest.param(
            [
                ("u1", "a", "x" * 32, 1, "p"),
                ("u2", "a", "x" * 32, 1, "q"),
                ("u3", "a", "x" * 32, 2),
            ],
            [("a", "u1", "a", True), ("a", "u3", "a", False), ("a+qx______", "u2", "a", True)],
            id="other attachments are another mail",
        ),
        pytest.param(
            [
                ("u1", "a", "x" * 32, 1, "p"),
                ("u1", "a+qx______", "x" * 32, 1, "q"),
                ("u2", "a", "x" * 32, 1, "pq"),
            ],
            [("a", "u1", "a", False), ("a", "u2", "a", True)],
            id="two lesser copies in one partition are one membership of the full mail",
        ),
        pytest.param(
            [("u1", SYNTHESISED, "x" * 32, 1), ("u2", SYNTHESISED, "x" * 32, 1, "p")],
            [(SYNTHESISED, "u1", SYNTHESISED, False), (SYNTHESISED, "u2", SYNTHESISED, True)],
            id="mails without an id",
        ),
    ],
)
def test_copies_are_one_mail_and_other_contents_are_others(rows, expected):
    result = memberships(stored(*rows)).to_pyarrow().to_pylist()
    assert [
        (r["message_id"], r["partition"], r["stored_message_id"], r["is_canonical"]) for r in result
    ] == expected


@pytest.mark.parametrize("seed", some(map(str, range(25)), each=13))
def test_memberships_do_not_depend_on_the_order_of_the_rows(seed: str):
    rng = random.Random(seed)
    mails = [
        (rng.choice("xy"), set(rng.choices("pqr", k=rng.randint(0, 3))))
        for _ in range(rng.randint(1, 6))
    ]
    rows = [
        (f"u{n}", "a", text * 32, 1, "".join(sorted(parts)))
        for n, (text, parts) in enumerate(mails)
    ]
    shuffled = rng.sample(rows, len(rows))
    result, other = (memberships(stored(*order)).to_pyarrow() for order in (rows, shuffled))
    assert result.equals(other)
    published = result.filter(result["is_canonical"])
    assert len(set(published["message_id"].to_pylist())) == published.num_rows
    contents = {(text, frozenset(parts)) for text, parts in mails}
    maximal = {(t, p) for t, p in contents if not any(t == u and p < q for u, q in contents)}
    assert published.num_rows == len(maximal)


def test_only_canonical_rows_are_published_under_their_final_ids():
    rows = stored(("u1", "a", "x" * 32, 2), ("u2", "a", "y" * 32, 1), ("u3", "a", "y" * 32, 1))
    result = (
        canonical(rows, memberships(rows))
        .select("message_id", "partition")
        .to_pyarrow()
        .to_pylist()
    )
    assert sorted((r["message_id"], r["partition"]) for r in result) == [
        ("a", "u2"),
        ("a+xxxxxxxx", "u1"),
    ]
