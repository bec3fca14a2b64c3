"""Blocks as a specification: which lines are what, and that no byte is lost."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cases import examples, some
from transforms.mail.blocks.rules import LANGUAGES
from transforms.mail.blocks.table import message_blocks
from transforms.schemas.mail import MESSAGE_BLOCKS
from transforms.settings.mail import BlockSettings


def blocks_of(*bodies: str, **options: object) -> list[list[dict[str, object]]]:
    ids = [f"m{i}" for i in range(len(bodies))]
    table = pa.table({"message_id": ids, "body": pa.array(bodies, pa.large_string())})
    blocks = message_blocks(table, BlockSettings.model_validate(options))
    assert blocks.schema.equals(MESSAGE_BLOCKS.arrow)
    rows = blocks.to_pylist()
    return [[r for r in rows if r["message_id"] == i] for i in ids]


def kinds(body: str, **options: object) -> str:
    """One letter per line: a(uthor), blank as ., h(eader), c(ode), s(ignature), depth for quotes."""
    return kinds_of([body], **options)[0]


def kinds_of(bodies: Sequence[str], **options: object) -> list[str]:
    """The `kinds` of each body, classified in one call."""
    letters = {"author": "a", "blank": ".", "header": "h", "patch_or_code": "c", "signature": "s"}
    return [
        "".join(
            (letters.get(str(row["kind"])) or str(row["quote_depth"])) * int(str(row["line_count"]))
            for row in rows
        )
        for rows in blocks_of(*bodies, **options)
    ]


def assert_kinds(cases: Sequence[tuple[str, str]], **options: object) -> None:
    """Each body of the cases has the kinds beside it."""
    bodies = [body for body, _ in cases]
    found = zip(bodies, kinds_of(bodies, **options), strict=True)
    assert list(found) == list(cases)


HUNK = "@@ -1,3 +1,3 @@ int f(void)\n a\n-b\n+c\n d\n"
DIFF = f"diff --git a/f.c b/f.c\nindex 123456..abcdef 100644\n--- a/f.c\n+++ b/f.c\n{HUNK}"


def labelled(file: Path) -> list[tuple[str, str]]:
    """The mails of a file and their kinds: mails are divided by `%%`, each line begins with its
    label, `#` is a title.
    """
    mails = [
        mail.split("\n") for mail in file.read_text(encoding="utf-8").rstrip("\n").split("\n%%\n")
    ]
    rows = [[line for line in mail if not line.startswith("#|")] for mail in mails]
    return [("".join(f"{line[2:]}\n" for line in r), "".join(line[0] for line in r)) for r in rows]


def test_each_line_is_of_the_kind_of_its_label() -> None:
    """Quotes, headers, signatures, patches, code and what only looks like them."""
    assert_kinds(
        [*labelled(Path(__file__).with_name("line_kinds.txt")), ("", ""), ("no line end", "a")]
    )


def test_without_a_search_for_history_the_text_below_a_header_is_the_authors() -> None:
    headers = [
        ("-----Original Message-----\nFrom: Ann\nSent: Monday\nTo: Bob\nSubject: x\n", "hhhhh"),
        ("On Mon, 1 Jan 2001, Ann wrote:\n", "h"),
        ("----- Original Message -----\n \nFrom: Ann\n \nTo: Bob\n \nSubject: x\n", "h.h.h.h"),
        (
            "Ann Example <ann@example.org>\nSent by: list@example.org\n04/06/2003 03:18 AM\n"
            "Please respond to the list\n\n        To:     the list\n        cc:\n        Subject:        x\n",
            "hhhh.hhh",
        ),
    ]
    assert_kinds(
        [(f"Yes.\n\n{h}\nOld.\n", f"a.{expected}.a") for h, expected in headers],
        unmarked_history="never",
    )


EXAMPLES = [example for language in LANGUAGES for example in language["examples"]]


def test_reply_headers_of_each_language_stand_before_a_quote() -> None:
    assert_kinds([(f"Hello.\n\n{header}\n> point\n\nAnswer.\n", "a.h1.a") for header in EXAMPLES])
    assert_kinds([(f"{header}\n\n> point\n", "h.1") for header in EXAMPLES])


def folds(text: str) -> list[str]:
    """The text over two lines, divided at any blank that leaves a line as long as mailers leave."""
    at = [i for i, char in enumerate(text) if char == " " and i >= 12 and i > text.index(" ")]
    return [f"{text[:i]}\n{text[i + 1 :]}" for i in at]


def test_folded_reply_headers_are_read_whole() -> None:
    bodies = [
        f"Hello.\n\n{folded}\n> point\n\nAnswer.\n"
        for header in EXAMPLES
        for folded in folds(header)
    ]
    for body, rows in zip(bodies, blocks_of(*bodies), strict=True):
        assert [(r["kind"], r["line_count"]) for r in rows[2:4]] == [("header", 2), ("quote", 1)], (
            body
        )


def test_a_sentence_above_a_reply_header_is_no_part_of_it() -> None:
    assert kinds("In 2003 it worked well.\nOn Mon, 1 Jan 2001, Ann wrote:\n> x\n") == "ah1"
    assert kinds("I tried that.\nAnn <ann@example.org> wrote:\n> x\n") == "ah1"


def names(alternatives: Sequence[str]) -> list[str]:
    """Field names or banners of the table that are plain words."""
    return [word for word in alternatives if not set(word) & set("(?)")]


@pytest.mark.parametrize(
    "language", [x for x in LANGUAGES if "sender" in x], ids=lambda x: x["name"]
)
def test_pasted_header_blocks_of_each_language(language: Mapping[str, Sequence[str]]) -> None:
    below: list[tuple[str, str]] = []
    bannered: list[tuple[str, str]] = []
    for sender in names(language["sender"]):
        for sent, to in zip(names(language["sent"]), names(language["to"]) * 9, strict=False):
            block = f"{sender}: Ann\n{sent}: 6.7.2018 10:00\n{to}: Bob\n{names(language['subject'])[0]}: x"
            below.append((f"Yes.\n\n{block}\n\nOld.\n", "a.hhhh.1"))
            for banner in names(language.get("banners", ())):
                bannered.append((f"Yes.\n\n-----{banner}-----\n{block}\n\nOld.\n", "a.hhhhh.a"))
    assert_kinds(below)
    assert_kinds(bannered, unmarked_history="never")


OUTLOOK = (
    "From: Ann Example <ann@example.org>\nSent: Monday, 5 January 2015\nTo: Bob\nSubject: Doors\n"
)
GMAIL = "On Mon, Jan 5, 2015 at 4:50 PM, Ann Example <ann@example.org> wrote:\n"


def test_history_below_a_salutation_alone() -> None:
    assert kinds(f"Hello\n\n-----Original Message-----\n{OUTLOOK}\nShall we?\n") == "a.hhhhh.1"


NOTES = "{}\n05/01/2015 10:00 AM\n\tTo: Bob/Doors/Example@Example\n\tcc:\n\tSubject: Doors\n"
FOLDED = "---------------------- Forwarded by Bob/Doors/Example on 05/02/2015 09:25 \nAM ---------------------------\n"
EIGHT_LINES = "We shut the doors on Friday.\n" * 8


@pytest.mark.parametrize(
    "forward", [f"{FOLDED}\n\n{NOTES.format('Ann/Doors/Example')}", f"FYI\n\n{FOLDED}{OUTLOOK}"]
)
def test_a_forward_is_the_text_of_its_mail_and_its_banner_a_header(forward: str) -> None:
    got = kinds(f"{forward}\nShall we?\n")
    assert got.endswith(".a") and got.removeprefix("a.")[:2] == "hh" and "1" not in got


def test_long_history_is_the_text_of_its_mail() -> None:
    assert kinds(f"Hello.\n\n{OUTLOOK}\n{EIGHT_LINES}") == "a.hhhh." + "1" * 8
    assert kinds(f"Hello.\n\n{OUTLOOK}\n{EIGHT_LINES}Bob\n") == "a.hhhh." + "a" * 9


def test_the_header_of_a_mail_to_many_is_a_header() -> None:
    many = NOTES.format("Ann").replace(
        "\tcc", "Cy Lock/Doors/Example@Example, Di\nKey/Doors/Example@Example,\n" * 20 + "\tcc"
    )
    assert kinds(f"Yes.\n\n{many}\nShall we?\n") == "a." + "h" * 45 + ".1"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(f"{OUTLOOK}\nA mail that is sent on alone.\n", id="nothing above the header"),
        pytest.param(
            f"Hi Ann,\n\n{GMAIL}\nShall we?\n", id="a salutation alone above an attribution"
        ),
        pytest.param(
            f"Yes.\n\n{GMAIL}Shall we?\n\n> the day\n\nFriday.\n", id="marked quotes below"
        ),
        pytest.param(
            f"Yes.\n\n{OUTLOOK}\n> Shall we?\n\nOn Friday.\n", id="a marked quote below the fields"
        ),
        pytest.param(
            f"FYI.\n\n----- Forwarded message -----\n{OUTLOOK}\nText.\n", id="a forwarded mail"
        ),
        pytest.param(
            f"Yes.\n\n{OUTLOOK}\nOld.\n{'_' * 47}\ndoors mailing list\n", id="a list's footer"
        ),
        pytest.param(
            f"Yes.\n\n{OUTLOOK.replace('Bob', 'doors-devel@example.org')}\nOld.\n",
            id="a list's address",
        ),
        pytest.param(
            f"Yes.\n\n{OUTLOOK.replace('Doors', '[doors] Keys')}\nOld.\n", id="a list's tag"
        ),
    ],
)
def test_no_history(body: str) -> None:
    assert not any(row["inferred"] for row in blocks_of(body)[0])


def test_unmarked_history_is_an_inferred_quote_and_a_setting() -> None:
    body = "Yes.\n\n-----Original Message-----\nFrom: Ann\nTo: Bob\nSubject: x\n\nOld text.\n"
    blocks = blocks_of(body, unmarked_history="always")[0]
    assert [(r["kind"], r["inferred"]) for r in blocks][-1] == ("quote", True)
    assert kinds(body)[-1] == "1"
    assert kinds(body, unmarked_history="never")[-1] == "a"


def test_code_known_by_its_shape_is_inferred_and_a_diff_is_not() -> None:
    assert [r["inferred"] for r in blocks_of(DIFF)[0]] == [False]
    assert [r["inferred"] for r in blocks_of("int f(void)\n{\n}\n")[0]] == [True]


LINES = st.sampled_from(
    [
        *(
            "",
            " ",
            "\t",
            "\r",
            "\x0b",
            "\x0c",
            "\x1b[0m",
            "\x85",
            "\u2028",
            "\u3000",
            "ü€𝄞",
            "x" * 500,
            "> " * 60,
        ),
        *(
            "> q",
            "> > q",
            ">>>",
            "  > q",
            "AB> x",
            ">From here",
            ">>> import os",
            '>>>>> "A" == A B <a@b> writes:',
        ),
        *(
            "Hello there.",
            "Regards,",
            "Ann Example",
            "phone: +1 234",
            "On Mon, 1 Jan 2001, A wrote:",
            "wrote:",
        ),
        *(
            "On Mon, 1 Jan 2001",
            "A <a@b.org>:",
            "-- ",
            "--",
            "---",
            "_" * 40,
            "=" * 40,
            "2.43.0",
            "Sent from my phone",
        ),
        *(
            "@@ -1,9 +1,9 @@",
            "@@ -1 +1 @@",
            "+x",
            "-y",
            " z",
            "diff --git a/f b/f",
            "--- a/f",
            "+++ b/f",
            "\\ No",
        ),
        *(
            "{",
            "};",
            "***************",
            "*** 1,2 ****",
            "--- 1,2 ----",
            "GIT binary patch",
            "literal 5",
            " f | 2 +-",
        ),
        *(
            "http://x.org/listinfo/y",
            "-----BEGIN PGP SIGNATURE-----",
            "-----END PGP SIGNATURE-----",
            "TIP 4: do",
        ),
        *(
            "-----Original Message-----",
            "From: A",
            "To: B",
            "Sent: C",
            "Subject: c",
            "01/02/2003 04:05 PM",
            "a\tb\tc",
        ),
        *(
            "$ ls -l",
            "A B (2):",
            "ERROR:  x",
            "at a.b(c:1)",
            "This message is confidential, for the addressee only",
        ),
    ]
)
ENDS = st.sampled_from(["\n", "\r\n", " \n"])
BODIES = st.one_of(
    st.lists(st.tuples(LINES, ENDS).map("".join), max_size=30).map("".join),
    st.lists(LINES, max_size=30).map("\n".join),
    st.text(max_size=80),
)


@given(st.lists(BODIES, max_size=5))
@examples(120)
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


@given(st.lists(BODIES, min_size=1, max_size=4))
@examples(100)
def test_no_two_neighbours_are_one_block(bodies: list[str]) -> None:
    for rows in blocks_of(*bodies, unmarked_history="always"):
        marks = [(r["kind"], r["quote_depth"], r["inferred"]) for r in rows]
        assert all(a != b for a, b in zip(marks, marks[1:], strict=False))


@example(["Regards,\n", "Ann Lee\n0"], 1)
@given(st.lists(BODIES, min_size=2, max_size=5), st.integers(1, 400))
@examples(50)
def test_a_mail_does_not_depend_on_its_neighbours(bodies: list[str], batch_bytes: int) -> None:
    together = blocks_of(*bodies)
    for body, rows in zip(bodies, together, strict=True):
        alone = blocks_of(body)[0]
        assert [{**r, "message_id": ""} for r in rows] == [{**r, "message_id": ""} for r in alone]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transforms.mail.blocks.table.BATCH_SIZE", batch_bytes)
        assert blocks_of(*bodies) == together


WORST = {
    "line": "x" * 2_000_000,
    "marks": "> " * 1_000_000,
    "blanks": " " * 1_000_000 + "x",
    "log": "2024-01-01 00:00:00 LOG: checkpoint\n" * 100_000,
    "nested": "\n".join(">" * (i % 500) + " q" for i in range(10_000)),
    "headers": "On Mon, 1 Jan 2001\n" * 50_000,
    "dashes": "-- \n" * 50_000,
    "hunks": "@@ -1,99999999999999999999 +1,9 @@\n" * 20_000,
    "armour": "-----BEGIN PGP SIGNATURE-----\n" * 50_000,
    "banners": "-----Original Message-----\nFrom: a\n\n" * 20_000,
    "notes": "01/02/2003 04:05 PM\nTo: b\n" * 20_000,
    "folds": "On 1 a b c wrote\n" * 20_000 + "x:\n> q\n",
    "colon": "A" * 1_000_000 + ":\n> q\n",
}


@pytest.mark.parametrize("name", some(WORST, each=3))
def test_worst_cases_stay_whole(name: str) -> None:
    rows = blocks_of(WORST[name])[0]
    assert rows[-1]["byte_end"] == len(WORST[name].encode())
