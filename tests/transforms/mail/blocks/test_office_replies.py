"""Replies of many programs and languages, top-posted in offices and on lists: which lines their
author wrote.

The files were written for this project after descriptions of what the programs put above the mail
that they quote, before the rules saw them; each line begins with its label, a closing above
a name with that of the signature. Names, companies and
addresses in them are invented.
"""

from pathlib import Path

from tests.transforms.mail.blocks.test_table import kinds_of, labelled

MAILS = [
    mail for file in sorted(Path(__file__).parent.glob("*_replies*.txt")) for mail in labelled(file)
]


def test_the_authors_lines_and_no_others_are_text() -> None:
    found = kinds_of([body for body, _ in MAILS])
    wrong = [
        (number, label, kind, text)
        for number, ((body, labels), kinds) in enumerate(zip(MAILS, found, strict=True))
        for text, label, kind in zip(body.split("\n")[:-1], labels, kinds, strict=True)
        if text.strip() and (label == "a") != (kind == "a")
    ]
    assert not wrong
