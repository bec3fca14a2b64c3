"""Texts that are built to be slow: four times the size takes about four times the processor's time,
whatever reads it.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from tests.cases import examples, some
from tests.documents import read
from tests.format_files import docx, epub
from tests.timing import growth
from transforms.conversations.pseudonyms import keyed_pseudonym, masked_texts
from transforms.conversations.whatsapp import read_whatsapp
from transforms.formats.read import read_format
from transforms.mail.blocks.table import message_blocks
from transforms.mail.html_text import html_text
from transforms.mail.messages import RawMail, read_mail
from transforms.settings.mail import BlockSettings, MailSettings
from transforms.text.shallow_markup import MAX_LEVELS, shallow_markup

TIMES, ALLOWED = 4, 9
"""A bomb of so many times the size, and what it may take: the square would be 16."""


def mail(text: str) -> None:
    raw = [RawMail("f:0", f"From: a@b.c\n{text}".encode())]
    messages = read_mail(
        raw, source="s", partition="u", list_id=None, settings=MailSettings()
    ).messages
    assert messages.num_rows == 1
    message_blocks(messages, BlockSettings(), threads=1)


def line_of_whatsapp(text: str) -> None:
    """Read a line without an author, between two messages."""
    head = "27.03.25, 18:02 - "
    read_whatsapp(f"{head}{text}\n{head}Ada: hello\n", "chat", "UTC")


def message_of_whatsapp(text: str) -> None:
    line_of_whatsapp(f"Ada: {text}")


def mentions(text: str) -> None:
    """Mask a chat in which each word is both a name and mentioned."""
    names = {word for word in text.split() if not word.startswith("@")}
    masked_texts([text], names, keyed_pseudonym(b"key"))


def document(ending: str) -> Callable[[str], object]:
    return lambda text: read({f"bomb.{ending}": text})


class Bomb(NamedTuple):
    """What reads a text, the text by its size, and a size that takes some hundredths of a second."""

    reader: Callable[[str], object]
    text: Callable[[int], str]
    size: int


TYPE = "Content-Type: multipart/mixed; boundary=b"
BOMBS = {
    "divs of a page": Bomb(document("html"), lambda n: "<div>x" * n, 8000),
    "divs of a mail": Bomb(html_text, lambda n: "<div>" * n + "x", 8000),
    "divs of a book": Bomb(
        lambda text: read_format(epub({"a.xhtml": text}), "epub"), lambda n: "<div>x" * n, 4000
    ),
    "divs in Markdown": Bomb(document("md"), lambda n: "<div>\n" * n, 20_000),
    "quotes of HTML": Bomb(html_text, lambda n: '<div class="gmail_quote">x' * n, 2000),
    "quotes of Outlook": Bomb(
        html_text, lambda n: '<div style="border:none;border-top:solid">x</div>' * n, 600
    ),
    "tags that nothing closes": Bomb(
        html_text, lambda n: "".join(f"<font size={i}>x<p>" for i in range(n)), 200
    ),
    "an attribute": Bomb(html_text, lambda n: f'<div style="{"border-left:a " * n}">x', 20_000),
    "attributes": Bomb(
        document("html"), lambda n: f"<div {' '.join(f'a{i}=1' for i in range(n))}>x", 8000
    ),
    "a table": Bomb(html_text, lambda n: "<table>" + "<tr><td>x<td>1" * n, 600),
    "tables": Bomb(html_text, lambda n: "<table><tr><td>x" * n, 300),
    "MIME in MIME": Bomb(
        mail, lambda n: "".join(f"{TYPE}{i}\n\n--b{i}\n" for i in range(n)) + "\nx\n", 450
    ),
    "parts of MIME": Bomb(mail, lambda n: f"{TYPE}\n\n" + "--b\n\nx\n" * n + "--b--\n", 1000),
    "a header": Bomb(
        mail, lambda n: f"References: {'<' * n}\nTo: {'(' * n}\nSubject: {'[a ' * n}\n\nx\n", 60_000
    ),
    "encoded words": Bomb(
        mail, lambda n: "Subject: " + "=?utf-8?q?a?= " * n + "\n y" * n + "\n\nx\n", 20_000
    ),
    "entities": Bomb(html_text, lambda n: "&ampx&amp;" * n, 20_000),
    "quotes of Markdown": Bomb(document("md"), lambda n: "> > > - - x\n" * n, 2000),
    "marks of quotes": Bomb(
        mail, lambda n: "\n" + ">" * n + "x\n" + "> " * n + f"x\n{'_' * 40}\n" * (n // 40), 60_000
    ),
    "runs of a text of Word": Bomb(
        lambda text: read_format(docx(f"<w:p>{text}</w:p>"), "docx"),
        lambda n: "<w:r><w:t>x</w:t></w:r>" * n,
        200,
    ),
    "sections of reStructuredText": Bomb(document("rst"), lambda n: "- x\n\n" * n, 60),
    "a line of a mail": Bomb(mail, lambda n: "\n" + "x" * n, 400_000),
    "a log in a mail": Bomb(
        mail, lambda n: "\n" + "2024-01-01 00:00:00 LOG: checkpoint\n" * n, 5000
    ),
    "dates of quotes": Bomb(mail, lambda n: "\n" + "On Mon, 1 Jan 2001\n" * n, 5000),
    "ends of mails": Bomb(mail, lambda n: "\n" + "-- \n" * n, 10_000),
    "hunks of a mail": Bomb(mail, lambda n: "\n" + "@@ -1,9 +1,9 @@\n" * n, 5000),
    "names of quotes": Bomb(mail, lambda n: "\n" + "a <b@c>:\n" * n, 10_000),
    "words of a line of WhatsApp": Bomb(line_of_whatsapp, lambda n: "The gate " * n, 20_000),
    "a word of WhatsApp": Bomb(line_of_whatsapp, lambda n: "x" * n, 200_000),
    "members of a group of WhatsApp": Bomb(
        line_of_whatsapp, lambda n: "Ada added " + "".join(f"Bo{i} Ek, " for i in range(n)), 20_000
    ),
    "beginnings of a form of WhatsApp": Bomb(
        line_of_whatsapp, lambda n: "Ada hat heeft call from " * n, 8000
    ),
    "ends of a form of WhatsApp": Bomb(
        line_of_whatsapp, lambda n: "hinzugefügt kişisini ekledi at " * n, 8000
    ),
    "short lines of WhatsApp": Bomb(line_of_whatsapp, lambda n: "added\nx hat y\n" * n, 8000),
    "numbers of a line of WhatsApp": Bomb(line_of_whatsapp, lambda n: "+49 (" * n, 40_000),
    "marks before a line of WhatsApp": Bomb(line_of_whatsapp, lambda n: "\u200e" * n, 400_000),
    "blanks before a mark of WhatsApp": Bomb(
        message_of_whatsapp, lambda n: "x" + " " * n + "x<a: b.pdf", 400_000
    ),
    "files of a message of WhatsApp": Bomb(
        message_of_whatsapp, lambda n: "<abc: x.pdf> " * n + "x", 40_000
    ),
    "mentions of a chat": Bomb(
        mentions, lambda n: "".join(f"Bo{i}x @Bo{i}x " for i in range(n)), 2000
    ),
}


@pytest.mark.parametrize("name", some(BOMBS, each=3))
def test_a_bomb_takes_time_by_its_size(name: str) -> None:
    reader, text, size = BOMBS[name]
    small, large = text(size), text(size * TIMES)
    assert growth(lambda: reader(small), lambda: reader(large), ALLOWED, 2e-3) < ALLOWED


NAMES = (
    "div span p li ul td tr table caption b font a nobr form select option optgroup button object svg math template title "
    "script textarea iframe h1 blockquote foo rt foreignObject br wbr input center frameset body plaintext"
)
TAGS = st.builds(
    str.format,
    st.sampled_from(
        ["<{0}>", "<{0}>", "<{0}>", "</{0}>", "</{0}>", "<{0}/>", "<{0} a=b/>", "<{0} a='</{0}>'>"]
    ),
    st.sampled_from(NAMES.split()),
)


@given(
    st.lists(TAGS, max_size=2),
    st.lists(TAGS | st.sampled_from(["x", "<!--", "-->", '<a x="']), min_size=1, max_size=6),
)
@examples(12)
def test_no_tags_nest_deeper_than_allowed(before: list[str], repeated: list[str]) -> None:
    markup = shallow_markup("".join(before) + "".join(repeated) * 1300)
    root = LexborHTMLParser(markup).root
    level, depth = [root], 0
    while level and depth < 3 * MAX_LEVELS:
        level, depth = (
            [child for node in level if node for child in node.iter(include_text=False)],
            depth + 1,
        )
    assert depth <= 2 * MAX_LEVELS
