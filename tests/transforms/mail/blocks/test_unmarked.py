"""What carries no mark: footers, contact blocks, and code of many languages, in mails written for these tests."""

import pytest

from tests.transforms.mail.blocks.test_table import kinds

TEXT = "I tried it on Friday and the door still does not open for me.\n"


@pytest.mark.parametrize(
    "footer",
    [
        pytest.param("Ann Example\nHead of Doors\nExample Ltd\n12 Long Road\nLondon\nphone: +44 20 1234567\n",
            id="card"),
        pytest.param("Ann Example\nExample Ltd\n\nTel: +44 20 1234567\nFax: +44 20 1234568\nann@example.org\n",
            id="in parts"),
        pytest.param("Ann Example <ann@example.org>\n", id="name and address"),
        pytest.param("- Ann Example, London UK <ann@example.org>\n  Doors, windows, and all that one can shut and lock, at\n"
            "  http://example.org\n",
            id="name and place"),
        pytest.param("Ann Example\nT: +49 30 123456 | M: +49 170 123456\nwww.example.org\n",
            id="letters for numbers"),
        pytest.param("----\nAnn Example\nann at example dot org\n", id="a short rule"),
        pytest.param("=====\nAnn Example, Example Ltd\nhttp://example.org\n", id="signs of equality"),
        pytest.param("Example GmbH\nSitz der Gesellschaft: Berlin\nAmtsgericht Berlin HRB 1234\n",
            id="German law"),
        pytest.param("Registered in England and Wales, Company No. 01234567\n", id="British law"),
        pytest.param("Please consider the environment before printing this e-mail.\n", id="trees"),
        pytest.param("If you have received this message in error, please tell the sender and delete\nit from your system.\n",
            id="received in error"),
        pytest.param("View this message in context: http://forum.example.org/x.html\n", id="forum"),
        pytest.param("View the original post:\nhttp://example.org/1\n\nReply to the post:\nhttp://example.org/2\n",
            id="links"),
        pytest.param("Liste de diffusion portes\nhttp://example.org/portes\n", id="French list"),
        pytest.param("No virus found in this message.\nChecked by AVG - www.avg.com\n", id="scanner"),
        pytest.param("Para cancelar la suscripción: portes-request@example.org\n", id="Spanish list"),
    ],
)  # fmt: skip
def test_footers_without_a_mark_are_signatures(footer: str) -> None:
    lines = "".join("." if not line else "s" for line in footer.split("\n")[:-1])
    assert kinds(f"{TEXT}\n{footer}").replace(".", "") == f"a.{lines}".replace(".", "")


@pytest.mark.parametrize(
    "text",
    [
        "Thanks,\nAnn\n", "Best regards\n\nAnn Example\n", "See http://example.org/doors for all of it.\n",
        "The list of doors is long, and the mailing list has talked about it\nfor years, but nobody has\nwritten it down.\n",
        "Email: the thing that nobody reads any more.\n", "Work: done.\nPlay: tomorrow.\n", "---\nThanks,\nAnn\n",
        "Option A\n----\nWe open the door.\n", "Reviewed-by: Ann Example <ann@example.org>\n", "e.g. the door\n",
    ],
)  # fmt: skip
def test_last_words_stay_the_authors(text: str) -> None:
    assert "s" not in kinds(f"{TEXT}\n{text}")


@pytest.mark.parametrize(
    "code",
    [
        pytest.param('x <- read.csv("doors.csv")\nsummary(x)\nplot(x$width, x$height)\n', id="R"),
        pytest.param("> x <- c(1, 2)\n> mean(x)\n[1] 1.5\n", id="an R session"),
        pytest.param("doors = open_doors()\nfor door in doors:\n    door.close()\n", id="Python"),
        pytest.param("try:\n    door.open()\nexcept DoorError:\n    raise LockedError(door)\n",
            id="Python errors"),
        pytest.param("| door |\ndoor := Door new.\ndoor open: 3.\n^ door\n", id="Smalltalk"),
        pytest.param("Door(Object)>>doesNotUnderstand: #open\n[] in Door>>open\nBlockClosure>>on:do:\n",
            id="its stack"),
        pytest.param("Object subclass: #Door\n\tinstanceVariableNames: 'isOpen'\n\tcategory: 'Doors'!\n\n"
            "!Door methodsFor: 'opening'!\nopen\n\tlock ifNil: [^ self].\n\t^ keys do: [:each | each turn]! !\n",
            id="a class of it"),
        pytest.param("Item was changed:\n  ----- Method: Door>>open (in category 'opening') -----\n  open\n"
            "+ \t^ self openWith: nil\n- \t^ self!\n",
            id="its changes"),
        pytest.param("cd /usr/ports/doors\nmake\nmake install\n", id="shell without prompts"),
        pytest.param("$ ls /doors\nfront  back\n$ rm -r /doors\n", id="shell with prompts"),
        pytest.param("java.lang.IllegalStateException: locked\n\tat org.doors.Door.open(Door.java:12)\n",
            id="Java"),
        pytest.param("[INFO] Building doors\n[ERROR] no key in lock\n", id="Maven"),
        pytest.param("2015-01-05 10:00:00,123 WARN door is open\n2015-01-05 10:00:01,456 INFO shut\n",
            id="log4j"),
        pytest.param("Jan  5 10:00:00 house doord[12]: opened\nJan  5 10:00:01 house doord[12]: shut\n",
            id="syslog"),
        pytest.param("BUG: KASAN: use-after-free in door_open+0x10/0x20 lib/door.c:12\n"
            "Read of size 4 at addr ffff888057feb0b0 by task a/1\n"
            "Call Trace:\n <TASK>\n door_open lib/door.c:12 [inline]\n key_turn+0x1d/0x2b0 lib/key.c:4\n\n"
            "Allocated by task 9865:\n lock_alloc mm/lock.c:3 [inline]\nRIP: 0033:0x446d1a\n"
            "RAX: ffffffffffffffda RBX: 00007fff684198c0\n",
            id="a kernel's last words"),
        pytest.param("(defun open (door)\n  (setq locked nil)\n  (push door))\n", id="Lisp"),
        pytest.param("use strict;\nmy $door = shift;\nprint $door->name;\n", id="Perl"),
        pytest.param("\\begin{door}\n\\section{Front}\n\\end{door}\n", id="LaTeX"),
        pytest.param("[door]\nwidth = 90\nkey=front.pem\n", id="configuration"),
        pytest.param("checking for gcc... yes\nconfigure: error: no door\n", id="configure"),
        pytest.param(f"{'H4sIAAAA+/9r' * 6}\n{'Zm9vYmFy' * 8}\nAAAA{'b2s/' * 14}=\n", id="base 64"),
        pytest.param("C:\\doors> dir\nC:\\doors> open front\n", id="DOS"),
    ],
)  # fmt: skip
def test_code_and_logs(code: str) -> None:
    got = kinds(f"{TEXT}\n{code}\nWhat do I do wrong, and where is the key?\n")
    assert set(got[2:-2]) == {"c"}, got


@pytest.mark.parametrize(
    "text",
    [
        "with two doors opened by open_all():\nall is well.\n",
        "For example in this case:\nthe door opens.\n",
        "use DOOR only in summer, and the\nother one (the back door) in winter.\n",
        "cc: Ann Example <ann@example.org>\ncc: doors@example.org\n",
        "Signed-off-by: Ann Example <ann@example.org>\nReviewed-by: Bob Example <bob@example.org>\n",
        "if you think so:\nsay it.\n",
    ],
)
def test_prose_and_trailers_are_no_code(text: str) -> None:
    assert "c" not in kinds(f"{TEXT}\n{text}")


def test_a_list_may_be_what_a_mail_is_about() -> None:
    news = "This mailing list is now managed by another\nprogram: to subscribe, mail to\ndoors-subscribe@example.org.\n"
    assert kinds(f"Hi all,\n\n{news}") == "a.aaa"
    assert kinds(f"{TEXT}\n{news}") == "a.sss"


def test_quoted_statements_of_r_stay_quotes() -> None:
    assert kinds("Ann wrote:\n> x <- c(1, 2)\n> mean(x)\n\nThat is 1.5 here.\n")[1:3] == "11"


def test_a_signature_below_blank_lines_alone_is_the_first_paragraph() -> None:
    assert kinds("\nphone: +1 234 567 890\n") == ".s"
