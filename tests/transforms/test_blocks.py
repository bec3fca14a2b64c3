"""Blocks as a specification: which lines are what, and that no byte is lost."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.blocks import message_blocks
from transforms.schemas import MESSAGE_BLOCKS
from transforms.settings import BlockSettings


def blocks_of(*bodies: str, **options: object) -> list[list[dict[str, object]]]:
    """The blocks of each body, as rows."""
    ids = [f"m{i}" for i in range(len(bodies))]
    table = pa.table({"message_id": ids, "body": pa.array(bodies, pa.large_string())})
    found = message_blocks(table, BlockSettings.model_validate(options))
    assert found.schema.equals(MESSAGE_BLOCKS.arrow)
    rows = found.to_pylist()
    return [[r for r in rows if r["message_id"] == i] for i in ids]


def kinds(body: str, **options: object) -> str:
    """One letter per line: a(uthor), blank as ., h(eader), c(ode), s(ignature), depth for quotes."""
    letters = {"author": "a", "blank": ".", "header": "h", "patch_or_code": "c", "signature": "s"}
    out = ""
    for row in blocks_of(body, **options)[0]:
        letter = letters.get(str(row["kind"])) or str(row["quote_depth"])
        out += letter * int(str(row["line_count"]))
    return out


HUNK = "@@ -1,3 +1,3 @@ int f(void)\n a\n-b\n+c\n d\n"
DIFF = f"diff --git a/f.c b/f.c\nindex 123456..abcdef 100644\n--- a/f.c\n+++ b/f.c\n{HUNK}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", ""),
        ("Hello\n", "a"),
        ("no line end", "a"),
        ("\n \n\t\n", "..."),
        ("> one\n", "1"),
        ("  > one\n", "1"),
        ("> > two\n>> two\n>> > three\n", "223"),
        ("> a\n>\n> b\n\nYes.\n", "111.a"),
        ("> a\n> > b\n> c\n", "121"),
        ("-> pointer arrows start prose here\n", "a"),
        ("<p>\n", "a"),
        ("Well,\n\n>From here on it is prose.\n", "a.a"),
        ("> x\n>From here\n", "11"),
        ("TL> first\nTL> second\n\nNo.\n", "11.a"),
        ("SQL> select 1;\nSQL> select 2;\n", "cc"),
        ('>>>>> "TL" == Tom Lane <t@x.org> writes:\n\nTL> why?\n\nSo.\n', "h.1.a"),
        (">>> import os\n>>> os.getcwd()\n'/tmp'\n", "ccc"),
        (">Number: 5\n>Synopsis: it fails\n", "aa"),
        (
            f"> {'word ' * 14}that\nwent on here in the next line of\nthe quote\n> and ends.\n\nNo.\n",
            "1111.a",
        ),
        (f"> {'word ' * 14}end.\nyes, that is what I mean too\n> next\n", "1a1"),
    ],
)
def test_quotes(body: str, expected: str) -> None:
    assert kinds(body) == expected


@pytest.mark.parametrize(
    "header",
    [
        "On Tue, 3 Jul 2013 at 00:20, Ann Example <ann@example.org> wrote:",
        "On Mon, Jan 5, 2015 at 4:50 PM, Ann Example\n<ann@example.org> wrote:",
        "On Fri, 26 Aug 2011 00:11:15 +0200\nAnn Example <ann@example.org> wrote:",
        "Am 17.12.2014 um 17:16 schrieb Ann Example:",
        "Le 02/05/2012 16:23, Ann Example a écrit :",
        "El 15/07/07, Ann Example <ann@example.org> escribió:",
        "Il 3 maggio 2010 10:00, Ann Example ha scritto:",
        "Em 3 de maio de 2010, Ann Example escreveu:",
        "Op 3 mei 2010 schreef Ann Example:",
        "W dniu 03.05.2010, Ann Example napisał(a):",
        "3 мая 2010 г. Анна пишет:",
        "Den 3 maj 2010 skrev Ann Example:",
        "Dne 3.5.2010 Ann Example napsal:",
        "Ann Example さんは書きました:",
        "在 2018年7月6日,Ann Example 写道:",
        "Tom Lane writes:",
        "Quoting Ann Example <ann@example.org>:",
        "* Ann Example <ann@example.org> [2010-05-03]:",
        "2011/12/2 Ann Example <ann@example.org>:",
        "On Tue, ...",
    ],
)
def test_reply_headers_stand_before_a_quote(header: str) -> None:
    lines = header.count("\n") + 1
    gap = "" if header.endswith("...") else "\n"
    assert kinds(f"{header}\n{gap}> point\n\nAnswer.\n") == "h" * lines + "." * len(gap) + "1.a"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("As Tom wrote:\n\nthere is no quote here.\n", "a.a"),
        ("> On Mon, 1 Jan 2001, Ann wrote:\n> > older\n", "12"),
        (
            "Yes.\n\n-----Original Message-----\nFrom: Ann\nSent: Monday\nTo: Bob\nSubject: x\n\nOld.\n",
            "a.hhhhh.a",
        ),
        ("Yes.\n\nOn Mon, 1 Jan 2001, Ann wrote:\n\nOld text.\n", "a.h.a"),
        ("--- Comment #3 from Ann <a@x.org> ---\nIt is fixed.\n", "ha"),
        ("From: Ann Example <ann@example.org>\n\nCommit message.\n", "h.a"),
    ],
)
def test_headers(body: str, expected: str) -> None:
    assert kinds(body) == expected


def test_unmarked_history_is_an_inferred_quote_and_a_setting() -> None:
    body = "Yes.\n\n-----Original Message-----\nFrom: Ann\nTo: Bob\nSubject: x\n\nOld text.\n"
    found = blocks_of(body, unmarked_history=True)[0]
    assert [(r["kind"], r["inferred"]) for r in found][-1] == ("quote", True)
    assert kinds(body)[-1] == "a"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("Hi.\n\n-- \nAnn\nExample Ltd\n", "a.sss"),
        ("Hi.\n\n--\nAnn\n", "a.ss"),
        ("-- a comment in SQL stays\n", "a"),
        ("Top.\n\n-- \nAnn\n\nOn Mon, 1 Jan 2001, Bob wrote:\n> old\n", "a.ss.h1"),
        ("Hi.\n-- \nAnn\n> A motto, quoted,\n> no reply.\n", "assss"),
        (f"Hi.\n\n{'_' * 47}\nfoo mailing list\nhttp://lists.example.org/listinfo/foo\n", "a.sss"),
        (f"Hi.\n\n{'-' * 27}(end of broadcast){'-' * 27}\nTIP 4: do not kill -9\n", "a.ss"),
        (f"Hi.\n{'_' * 30}\nAnn Example\nExample Ltd\n", "asss"),
        ("My proposal\n===========\nWe do it.\n", "aaa"),
        (f"What   |Removed |Added\n{'-' * 30}\nStatus |NEW     |DONE\n", "aaa"),
        ("Hi.\n\nTo unsubscribe mail foo-request@example.org\n", "a.s"),
        ("We should do that.\n\nAnn Example\nann@example.org\n", "a.ss"),
        ("Hi.\n\nSent from my iPhone\n", "a.s"),
        ("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA1\n\nHi.\n", "ss.a"),
        ("Hi.\n-----BEGIN PGP SIGNATURE-----\n\niQEc\n-----END PGP SIGNATURE-----\nMore.\n", "assssa"),
        ("Hi.\n\n-- \n" + "line\n" * 20, "a." + "a" * 21),
        (f"Fix it.\n\n{DIFF}-- \n2.43.0\n", "a.ccccccccc" + "cc"),
    ],
)
def test_signatures(body: str, expected: str) -> None:
    assert kinds(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (DIFF, "c" * 9),
        (f"{HUNK}That is wrong.\n", "ccccca"),
        ("@@ -1,3 +1,3 @@\n a\n\n-b\n+c\nThis is a comment.\n", "ccccca"),
        (
            "Fix.\n\nSigned-off-by: Ann <a@x.org>\n---\n f.c | 2 +-\n 1 file changed, 1 insertion(+)\n",
            "a.accc",
        ),
        (
            "*** old.c\tMon Jan  1\n--- new.c\tTue Jan  2\n***************\n"
            "*** 1,2 ****\n! a\n  b\n--- 1,2 ----\n! c\n  b\n",
            "c" * 9,
        ),
        ("See:\n\n    int main(void)\n    {\n        return 0;\n    }\n\nDone.\n", "a.cccc.a"),
        ("I call f();\nand then it works.\n", "aa"),
        ("Look:\n\ndb=# select 1;\n ?column?\n----------\n        1\n(1 row)\n\nOdd.\n", "a.ccccc.a"),
        ("Crash:\n\n#0  0x1234 in f () at a.c:3\n#1  0x5678 in main () at a.c:9\n", "a.cc"),
        ("It fails:\n\ngcc -O2 -c a.c\na.c:3: error: parse error\nmake: *** [a.o] Error 1\n", "a.ccc"),
        ("Look:\n\nNAME      STATE     READ\ntank      ONLINE       0\n\nOdd.\n", "a.cc.a"),
        ("Ann Example (2):\n  core: add a door\n  core: close the door\n\nBye.\n", "ccc.a"),
        ("It is slow.\n\n$ du -s /var\n17 /var\nwhich is much more than I would have thought\n", "a.cca"),
        (
            "Build: https://ci.example.org/7/\n\n" + "\tat org.A.f(A.java:3)\n" * 40 + "\nBUILD FAILED\n",
            "c." + "c" * 40 + ".c",
        ),
        ("GIT binary patch\nliteral 3\nKcmZQzV_{\n\nliteral 0\nHcmV?d00001\n\nBye.\n", "cccccc.a"),
    ],
)
def test_patches_and_code(body: str, expected: str) -> None:
    assert kinds(body) == expected


def test_code_known_by_its_shape_is_inferred_and_a_diff_is_not() -> None:
    assert [r["inferred"] for r in blocks_of(DIFF)[0]] == [False]
    assert [r["inferred"] for r in blocks_of("int f(void)\n{\n}\n")[0]] == [True]


LINES = st.sampled_from(
    [
        "",
        " ",
        "> q",
        "> > q",
        ">>>",
        "Hello there.",
        "On Mon, 1 Jan 2001, A wrote:",
        "-- ",
        "--",
        "---",
        "ü€𝄞",
        "@@ -1,9 +1,9 @@",
        "@@ -1 +1 @@",
        "+x",
        "-y",
        " z",
        "diff --git a/f b/f",
        "--- a/f",
        "+++ b/f",
        "{",
        "};",
        "***************",
        "*** 1,2 ****",
        "_" * 40,
        "http://x.org/listinfo/y",
        "-----BEGIN PGP SIGNATURE-----",
        "-----Original Message-----",
        "From: A",
        "To: B",
        "Subject: c",
        "AB> x",
        "GIT binary patch",
        "literal 5",
        "\u2028",
        "\x0b",
        "\r",
        "$ ls -l",
    ]
)
BODIES = st.one_of(st.lists(LINES, max_size=30).map("\n".join), st.text(max_size=80))


@given(st.lists(BODIES, max_size=5))
@settings(max_examples=200, deadline=None)
def test_blocks_in_order_are_the_body(bodies: list[str]) -> None:
    for body, rows in zip(bodies, blocks_of(*bodies), strict=True):
        data = body.encode()
        edges = [int(str(r["byte_start"])) for r in rows] + [len(data)]
        assert edges[0] == 0 or not rows
        assert [r["byte_end"] for r in rows] == edges[1:]
        assert [r["block_index"] for r in rows] == list(range(len(rows)))
        assert [r["start_line"] for r in rows][1:] == [r["end_line"] for r in rows][:-1]
        for row, a, b in zip(rows, edges, edges[1:], strict=False):
            text = data[a:b].decode()
            assert len(text) == row["char_length"]
            assert (row["kind"] == "blank") <= text.isspace()
            assert (row["quote_depth"] != 0) == (row["kind"] == "quote")


@given(st.lists(BODIES, min_size=2, max_size=5))
@settings(max_examples=100, deadline=None)
def test_a_mail_does_not_depend_on_its_neighbours(bodies: list[str]) -> None:
    together = blocks_of(*bodies)
    for body, rows in zip(bodies, together, strict=True):
        alone = blocks_of(body)[0]
        assert [{**r, "message_id": ""} for r in rows] == [{**r, "message_id": ""} for r in alone]


@pytest.mark.parametrize(
    "body",
    [
        "x" * 2_000_000,
        "> " * 1_000_000,
        " " * 1_000_000 + "x",
        "2024-01-01 00:00:00 LOG: checkpoint\n" * 100_000,
        "\n".join(">" * (i % 500) + " q" for i in range(10_000)),
        "On Mon, 1 Jan 2001\n" * 50_000,
        "-- \n" * 50_000,
        "@@ -1,99999999999999999999 +1,9 @@\n" * 20_000,
        "-----BEGIN PGP SIGNATURE-----\n" * 50_000,
    ],
    ids=["line", "marks", "blanks", "log", "nested", "headers", "dashes", "hunks", "armour"],
)
def test_worst_cases_stay_whole(body: str) -> None:
    rows = blocks_of(body)[0]
    assert rows[-1]["byte_end"] == len(body.encode())
