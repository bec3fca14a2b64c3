"""Blocks as a specification: which lines are what, and that no byte is lost."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cases import some
from tests.examples import examples
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


def test_quotes() -> None:
    assert_kinds(
        [
            ("", ""), ("Hello\n", "a"), ("no line end", "a"), ("\n \n\t\n", "..."), ("> one\n", "1"),
            ("  > one\n", "1"), ("> > two\n>> two\n>> > three\n", "223"), ("> a\n>\n> b\n\nYes.\n", "111.a"),
            ("> a\n> > b\n> c\n", "121"), ("-> pointer arrows start prose here\n", "a"), ("<p>\n", "a"),
            ("Well,\n\n>From here on it is prose.\n", "a.a"), ("> x\n>From here\n", "11"),
            ("TL> first\nTL> second\n\nNo.\n", "11.a"), ("SQL> select 1;\nSQL> select 2;\n", "cc"),
            ('>>>>> "TL" == Tom Lane <t@x.org> writes:\n\nTL> why?\n\nSo.\n', "h.1.a"),
            (">>> import os\n>>> os.getcwd()\n'/tmp'\n", "ccc"), (">Number: 5\n>Synopsis: it fails\n", "aa"),
            (
                f"> {'word ' * 14}that\nwent on here in the next line of\nthe quote\n> and ends.\n\nNo.\n",
                "1111.a",
            ),
            (f"> > {'word ' * 14}that is\nfolded.\n>\n> yes\n\nNo.\n", "2211.a"),
            (
                f"> {'word ' * 14}that\nwent on here\n> and ends. {'word ' * 14}It is the\nlast of it.\n\nNo.\n",
                "1111.a",
            ),
            (">> one\n>>> On Mon, 5 Jan 2015, Ann wrote:\n>>> two\n", "233"),
            (f"> {'word ' * 14}end.\nyes, that is what I mean too\n> next\n", "1a1"),
        ]
    )  # fmt: skip


EXAMPLES = [example for language in LANGUAGES for example in language["examples"]]


def test_reply_headers_of_each_language_stand_before_a_quote() -> None:
    assert_kinds([(f"Hello.\n\n{header}\n> point\n\nAnswer.\n", "a.h1.a") for header in EXAMPLES])
    assert_kinds([(f"{header}\n\n> point\n", "h.1") for header in EXAMPLES])


def folds(text: str) -> list[str]:
    """The text over two lines, divided at any blank that leaves a line as long as mailers leave."""
    at = [i for i, char in enumerate(text) if char == " " and i >= 12 and i > text.index(" ")]
    return [f"{text[:i]}\n{text[i + 1 :]}" for i in at]


def test_folded_reply_headers_are_read_whole() -> None:
    bodies = [f"Hello.\n\n{folded}\n> point\n\nAnswer.\n" for header in EXAMPLES for folded in folds(header)]
    for body, rows in zip(bodies, blocks_of(*bodies), strict=True):
        assert [(r["kind"], r["line_count"]) for r in rows[2:4]] == [("header", 2), ("quote", 1)], body


def test_reply_headers_of_many_programs() -> None:
    headers = [
        "Tom Lane writes:", "Bruce Momjian said:", "Quoth Ann Example:",
        "Quoting Ann Example <ann@example.org>:", "* Ann Example <ann@example.org> [2010-05-03]:",
        "2011/12/2 Ann Example <ann@example.org>:", "2010/5/13 Ann Example <ann@example.org>",
        "Ann Example <ann@example.org> wrote in message news:4711@example.org...",
        "On Mon, 5 Jan 2015\nat 16:50, Ann Example\n<ann@example.org> wrote:",
        "On Fri, 26 Aug 2011 00:11:15 +0200\nAnn Example <ann@example.org> wrote:",
        "Am 17.12.2014 um 17:16 schrieb Ann\nExample <ann@example.org>:", "On Tue, ...",
    ]  # fmt: skip
    cases = [
        (f"Hello.\n\n{h}\n> point\n\nAnswer.\n", "a." + "h" * (h.count("\n") + 1) + "1.a") for h in headers
    ]
    assert_kinds(cases)


def test_lines_to_cut_along_and_rare_quote_marks() -> None:
    assert_kinds(
        [
            ("Fixed.\n\n-- >8 --\nText.\n", "a.ha"),
            ("Log:\n---8<--- cut here ---8<---\nText.\n", "aha"),
            ("Love <3 and 8< are signs\n", "a"),
            ("On Mon, 5 Jan 2004 at 10:00, Ada wrote:\n\n| one\n| two\n\nYes.\n", "h.11.a"),
            ("On Mon, 5 Jan 2004 at 10:00, Ada wrote:\n: one\n\nYes.\n", "h1.a"),
            ("I think so.\n\n: one\n", "a.a"),
        ]
    )


def test_a_sentence_above_a_reply_header_is_no_part_of_it() -> None:
    assert kinds("In 2003 it worked well.\nOn Mon, 1 Jan 2001, Ann wrote:\n> x\n") == "ah1"
    assert kinds("I tried that.\nAnn <ann@example.org> wrote:\n> x\n") == "ah1"


def names(alternatives: Sequence[str]) -> list[str]:
    """Field names or banners of the table that are plain words."""
    return [word for word in alternatives if not set(word) & set("(?)")]


@pytest.mark.parametrize("language", [x for x in LANGUAGES if "sender" in x], ids=lambda x: x["name"])
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


def test_headers() -> None:
    assert_kinds(
        [
            ("As Tom wrote:\n\nthere is no quote here.\n", "a.a"),
            ("> On Mon, 1 Jan 2001, Ann wrote:\n> > older\n", "12"),
            (
                "Yes.\n\n-----Original Message-----\nFrom: Ann\nSent: Monday\nTo: Bob\nSubject: x\n\nOld.\n",
                "a.hhhhh.a",
            ),
            ("Yes.\n\nOn Mon, 1 Jan 2001, Ann wrote:\n\nOld text.\n", "a.h.a"),
            ("On 2000-01-25, Ann mentioned:\n> x\n", "h1"),
            ("Thus spake Ann Example\n> x\n", "h1"),
            ("The issue that I mentioned:\n> x\n", "a1"),
            ("--- Comment #3 from Ann <a@x.org> ---\nIt is fixed.\n", "ha"),
            ("From: Ann Example <ann@example.org>\n\nCommit message.\n", "h.a"),
            (
                "Yes.\n\n----- Original Message -----\n \nFrom: Ann\n \nTo: Bob\n \nSubject: x\n\nOld.\n",
                "a.h.h.h.h.a",
            ),
            (
                "Yes.\n\nAnn Example <ann@example.org>\nSent by: list@example.org\n04/06/2003 03:18 AM\n"
                "Please respond to the list\n\n        To:     the list\n        cc:\n        Subject:        x\n"
                "\nOld.\n",
                "a.hhhh.hhh.a",
            ),
            ("----- Forwarded by Ann on 01/02/2003 04:05 PM -----\nOld.\n", "ha"),
            ("================\nComment at: lib/x.c:26\nWhy?\n", "aha"),
        ],
        unmarked_history="never",
    )


OUTLOOK = "From: Ann Example <ann@example.org>\nSent: Monday, 5 January 2015\nTo: Bob\nSubject: Doors\n"
OFFICE = ("Ann Example <ann@example.org>", "5.1.2015 16:50", "Bob", "Doors")
GMAIL = "On Mon, Jan 5, 2015 at 4:50 PM, Ann Example <ann@example.org> wrote:\n"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param(OUTLOOK, "hhhh", id="Outlook"),
        pytest.param(f"{'_' * 32}\n{OUTLOOK}", "hhhhh", id="Outlook below a rule"),
        pytest.param(f"-----Antwort-----\n{OUTLOOK}", "hhhhh", id="any words between dashes"),
        pytest.param(f"-------- Original message --------\n{OUTLOOK}", "hhhhh", id="a phone"),
        pytest.param(
            "Date: Mon, 5 Jan 2015\nSubject: Doors\nFrom: a@b.org\nTo: c@d.org\n", "hhhh", id="Hotmail"
        ),
        pytest.param("*From:* Ann\n*Sent:* Monday\n*To:* Bob\n*Subject:* Doors\n", "hhhh", id="bold fields"),
        pytest.param("From: Ann Sent: Monday, 5 Jan To: Bob Subject: Doors\n", "h", id="fields in one line"),
        pytest.param('>>> "Ann Example" <ann@example.org> 5/1/2015 4:50 PM >>>\n', "h", id="GroupWise"),
        pytest.param("---- On Mon, 05 Jan 2015 10:00:00 Ann <a@b.org> wrote ----\n", "h", id="Zoho"),
        pytest.param("---- Ann Example wrote ----\n", "h", id="Android"),
        pytest.param(
            "Ann Example\n05/01/2015 10:00 AM\n\tTo: Bob\n\tcc:\n\tSubject: Doors\n", "hhhhh", id="Notes"
        ),
        pytest.param(GMAIL, "h", id="Gmail"),
        pytest.param(OUTLOOK.replace("Doors", "[EXTERNAL] Doors"), "hhhh", id="a tag of the company"),
        pytest.param(
            "Ann/Doors/Example wrote on 05.01.2015 10:00:00:\n\nFrom: Ann/Doors/Example\nTo: Bob/Example\n"
            "Date: 05.01.2015 10:00\nSubject: Doors\n",
            "h.hhhh",
            id="Notes with an attribution",
        ),
        *(
            pytest.param(
                "".join(f"{name}: {value}\n" for name, value in zip(names.split(), OFFICE, strict=True)),
                "hhhh",
                id=names,
            )
            for names in (
                "Von Gesendet An Betreff", "De Envoyé À Objet", "De Enviado Para Asunto",
                "Da Inviato A Oggetto", "Van Verzonden Aan Onderwerp", "Od Wysłano Do Temat",
                "От Отправлено Кому Тема", "Från Skickat Till Ämne",
                "差出人 送信日時 宛先 件名", "发件人 发送时间 收件人 主题",
                "Dari Dikirim Kepada Judul",
            )
        ),
    ],
)  # fmt: skip
def test_history_below_the_header_of_office_mail(header: str, expected: str) -> None:
    body = f"Yes, on Friday.\n\n{header}\nShall we?\n\nBob\n"
    assert kinds(body).replace("s", "a") == f"a.{expected}.1.1"


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
        pytest.param(f"Hi Ann,\n\n{GMAIL}\nShall we?\n", id="a salutation alone above an attribution"),
        pytest.param(f"Yes.\n\n{GMAIL}Shall we?\n\n> the day\n\nFriday.\n", id="marked quotes below"),
        pytest.param(f"Yes.\n\n{OUTLOOK}\n> Shall we?\n\nOn Friday.\n", id="a marked quote below the fields"),
        pytest.param(f"FYI.\n\n----- Forwarded message -----\n{OUTLOOK}\nText.\n", id="a forwarded mail"),
        pytest.param(f"Yes.\n\n{OUTLOOK}\nOld.\n{'_' * 47}\ndoors mailing list\n", id="a list's footer"),
        pytest.param(
            f"Yes.\n\n{OUTLOOK.replace('Bob', 'doors-devel@example.org')}\nOld.\n", id="a list's address"
        ),
        pytest.param(f"Yes.\n\n{OUTLOOK.replace('Doors', '[doors] Keys')}\nOld.\n", id="a list's tag"),
    ],
)
def test_no_history(body: str) -> None:
    assert not any(row["inferred"] for row in blocks_of(body)[0])


@pytest.mark.parametrize(
    "line",
    [
        "Sent from my iPhone", "Von meinem iPad gesendet", "Envoyé de mon téléphone",
        "Enviado desde mi iPhone", "Inviato da iPad", "Enviado do meu celular", "Verstuurd vanaf mijn iPhone",
        "Skickat från min iPad", "Sendt fra min telefon", "Lähetetty iPhonesta", "Wysłane z mojego telefonu",
        "Odesláno z iPhonu", "iPhone-ról küldve", "Trimis de pe iPhone", "iPhone'umdan gönderildi",
        "Отправлено с iPhone", "Надіслано з iPhone", "Στάλθηκε από το iPhone μου", "iPhoneから送信", "发自我的iPhone",
        "나의 iPhone에서 보냄", "Dikirim dari iPhone saya", "Đã gửi từ iPhone của tôi", "Poslano z iPhona",
        "Изпратено от моя iPhone", "Get Outlook for Android",
    ],
)  # fmt: skip
def test_lines_of_devices(line: str) -> None:
    assert kinds(f"Yes, on Friday.\n\n{line}\n") == "a.s"


def test_unmarked_history_is_an_inferred_quote_and_a_setting() -> None:
    body = "Yes.\n\n-----Original Message-----\nFrom: Ann\nTo: Bob\nSubject: x\n\nOld text.\n"
    blocks = blocks_of(body, unmarked_history="always")[0]
    assert [(r["kind"], r["inferred"]) for r in blocks][-1] == ("quote", True)
    assert kinds(body)[-1] == "1"
    assert kinds(body, unmarked_history="never")[-1] == "a"


def test_signatures() -> None:
    assert_kinds(
        [
            ("Hi.\n\n-- \nAnn\nExample Ltd\n", "a.sss"), ("Hi.\n\n--\nAnn\n", "a.ss"),
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
            (
                "We should do that.\n\nAnn Example\nHead of Doors\n\nOn Mon, 1 Jan 2001, Bob wrote:\n> old\n",
                "a.ss.h1",
            ),
            ("We do.\n\nBest regards,\nAnn Example\nHead of Doors\nphone: +49 30 1234\n", "a.asss"),
            ("We do.\n\nThanks,\nAnn\n", "a.aa"),
            ("We do.\n\nAnn Example\nwrote that it works now.\n", "a.aa"),
            (f"{'-' * 40}\nThis is an automatically generated mail.\n{'-' * 40}\n\nShip it!\n", "sss.a"),
            (
                "Hi.\n\n__\nThis message is confidential and intended only for\nthe addressee.\n\n"
                "---\nYou are currently subscribed to x.\n",
                "a.sss.ss",
            ),
            ("Dear all, forward this if it was sent to you in error. We met on Monday.\n\nAnn\n", "a.a"),
            ("Thanks for the long answer. Ann\n" + "_" * 32 + "\nAnn Example\nDepartment of Doors\n", "asss"),
            ("Hi.\n\n-- \n" + "line\n" * 20, "a." + "a" * 21),
            (f"Fix it.\n\n{DIFF}-- \n2.43.0\n", "a.ccccccccc" + "cc"),
        ]
    )  # fmt: skip


def test_patches_and_code() -> None:
    assert_kinds(
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
            ("See:\n\n[1] http://example.org/a\n[2] http://example.org/b\n\nBye.\n", "a.aa.a"),
            ("Select it in the menu.\n-> Other and see if you can find it there now\n", "aa"),
            ("the output\n<html><head>\n<meta name='a'>\n</head></html>\nthank you,\n", "accca"),
            (f"Fix it.\n\n{DIFF}-- \n2.43.0\n\n-- \nAnn\n", "a." + "c" * 11 + ".ss"),
            (" f.c | 2 +-\n 1 file changed, 1 insertion(+)\n\n-- \n2.43.0\n", "ccccc"),
            ("See:\n\nDB.add_row (256, point(7, 49))\nDB.load_all('a/b',\n'c')\n\nBye.\n", "a.ccc.a"),
            ("It is slow.\n\n$ du -s /var\n17 /var\nwhich is much more than I would have thought\n", "a.cca"),
            (
                "Build: https://ci.example.org/7/\n\n" + "\tat org.A.f(A.java:3)\n" * 40 + "\nBUILD FAILED\n",
                "c." + "c" * 40 + ".c",
            ),
            ("GIT binary patch\nliteral 3\nKcmZQzV_{\n\nliteral 0\nHcmV?d00001\n\nBye.\n", "cccccc.a"),
        ]
    )


def test_code_known_by_its_shape_is_inferred_and_a_diff_is_not() -> None:
    assert [r["inferred"] for r in blocks_of(DIFF)[0]] == [False]
    assert [r["inferred"] for r in blocks_of("int f(void)\n{\n}\n")[0]] == [True]


LINES = st.sampled_from(
    [
        *(
            "", " ", "\t", "\r", "\x0b", "\x0c", "\x1b[0m", "\x85", "\u2028", "\u3000", "ü€𝄞", "x" * 500,
            "> " * 60,
        ),
        *(
            "> q", "> > q", ">>>", "  > q", "AB> x", ">From here", ">>> import os",
            '>>>>> "A" == A B <a@b> writes:',
        ),
        *("Hello there.", "Regards,", "Ann Example", "phone: +1 234", "On Mon, 1 Jan 2001, A wrote:", "wrote:"),
        *(
            "On Mon, 1 Jan 2001", "A <a@b.org>:", "-- ", "--", "---", "_" * 40, "=" * 40, "2.43.0",
            "Sent from my phone",
        ),
        *(
            "@@ -1,9 +1,9 @@", "@@ -1 +1 @@", "+x", "-y", " z", "diff --git a/f b/f", "--- a/f", "+++ b/f",
            "\\ No",
        ),
        *(
            "{", "};", "***************", "*** 1,2 ****", "--- 1,2 ----", "GIT binary patch", "literal 5",
            " f | 2 +-",
        ),
        *(
            "http://x.org/listinfo/y",
            "-----BEGIN PGP SIGNATURE-----",
            "-----END PGP SIGNATURE-----",
            "TIP 4: do",
        ),
        *(
            "-----Original Message-----", "From: A", "To: B", "Sent: C", "Subject: c", "01/02/2003 04:05 PM",
            "a\tb\tc",
        ),
        *(
            "$ ls -l", "A B (2):", "ERROR:  x", "at a.b(c:1)",
            "This message is confidential, for the addressee only",
        ),
    ]
)  # fmt: skip
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
    "line": "x" * 2_000_000, "marks": "> " * 1_000_000, "blanks": " " * 1_000_000 + "x",
    "log": "2024-01-01 00:00:00 LOG: checkpoint\n" * 100_000,
    "nested": "\n".join(">" * (i % 500) + " q" for i in range(10_000)),
    "headers": "On Mon, 1 Jan 2001\n" * 50_000, "dashes": "-- \n" * 50_000,
    "hunks": "@@ -1,99999999999999999999 +1,9 @@\n" * 20_000,
    "armour": "-----BEGIN PGP SIGNATURE-----\n" * 50_000,
    "banners": "-----Original Message-----\nFrom: a\n\n" * 20_000,
    "notes": "01/02/2003 04:05 PM\nTo: b\n" * 20_000, "folds": "On 1 a b c wrote\n" * 20_000 + "x:\n> q\n",
    "colon": "A" * 1_000_000 + ":\n> q\n",
}  # fmt: skip


@pytest.mark.parametrize("name", some(WORST, each=3))
def test_worst_cases_stay_whole(name: str) -> None:
    rows = blocks_of(WORST[name])[0]
    assert rows[-1]["byte_end"] == len(WORST[name].encode())
