"""Replies of many programs and languages, top-posted in offices and on lists: which lines their author wrote.

The files were written for this project after descriptions of what the programs put above the mail that they quote,
before the rules saw them; each line begins with its label. Names, companies and addresses in them are invented."""

from pathlib import Path

from tests.transforms.mail.blocks.test_table import kinds_of

MAILS = [
    mail
    for file in sorted(Path(__file__).parent.glob("*_replies*.txt"))
    for mail in file.read_text(encoding="utf-8").split("\n%%\n")
]


def labelled(mail: str) -> list[tuple[str, str]]:
    return [(line[0], line[2:]) for line in mail.rstrip("\n").split("\n")]


def test_the_authors_lines_and_no_others_are_text() -> None:
    mails = [labelled(mail) for mail in MAILS]
    found = kinds_of(["".join(f"{text}\n" for _, text in rows) for rows in mails])
    wrong = [
        (number, label, kind, text)
        for number, (rows, kinds) in enumerate(zip(mails, found, strict=True))
        for (label, text), kind in zip(rows, kinds, strict=True)
        if text.strip() and (label == "a") != (kind == "a")
    ]
    assert not wrong
