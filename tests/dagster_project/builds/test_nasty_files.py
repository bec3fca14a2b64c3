"""One file never stops the others: fifty nasty files of each kind of source beside two good ones are
read or in quarantine with a reason, and the build ends well.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import format_files as made
from tests.archives import Mail, Workspace, mbox
from tests.cases import some
from tests.library import ATTACHED, TABLE
from tests.nasty_files import WORDS, Kind, assert_accounted_for, with_nasty_files
from transforms.conversations.slack import read_slack
from transforms.documents.files import RawFile
from transforms.documents.issues import issue_files
from transforms.documents.wiki_pages import wiki_pages
from transforms.errors import ChatFormatError
from transforms.formats.converted import FormatError

WIKI = (
    Path(__file__).parents[2] / "transforms" / "documents" / "files" / "werkstatt.xml"
).read_text()


def mail(word: str) -> bytes:
    text = TABLE.replace("segment", word)
    return (
        Mail(7, text, f"On {word}", ident=f"{word}@example.org", headers=ATTACHED).text().encode()
    )


def text(pattern: str) -> Callable[[str], bytes]:
    """Makes a file in which a word stands in the place of `heron`."""
    return lambda word: pattern.replace("heron", word).encode()


def issue(word: str) -> bytes:
    place = f"https://github.com/o/r/issues/{WORDS.index(word) + 1}"
    user, labels = {"login": "ann"}, [{"name": "bug"}]
    times = {"created_at": "2025-01-02T10:00:00Z", "updated_at": "2025-01-03T10:00:00Z"}
    record = {"html_url": place, "url": place, "number": WORDS.index(word) + 1, "title": word}
    return json.dumps(
        [{**record, "user": user, "labels": labels, "state": "open", **times}]
    ).encode()


def pages(name: str, data: bytes) -> object:
    try:
        return list(wiki_pages([data], name, 1 << 24))
    except FormatError:
        return None


def days(name: str, data: bytes) -> object:
    try:
        return read_slack([(name, data)], [], "x").entries
    except ChatFormatError:
        return None


def tree(ending: str, good: Callable[[str], bytes]) -> Kind:
    return Kind("tree", ending, good)


def chats(ending: str, good: Callable[[str], bytes]) -> Kind:
    return Kind("conversation", ending, good)


DISCORD = json.dumps(
    {
        "channel": {"name": "heron"},
        "messages": [
            {
                "timestamp": "2025-01-15T10:30:00+00:00",
                "author": {"id": "1", "name": "ada"},
                "content": "A heron nests.",
            }
        ],
    }
)
TELEGRAM = json.dumps(
    {
        "name": "heron",
        "type": "private_group",
        "id": 7,
        "messages": [
            {
                "id": 1,
                "type": "message",
                "date": "2025-03-27T18:02:00",
                "from": "Maud",
                "text": "A heron nests.",
            }
        ],
    }
)
CHAT = "12/31/23, 10:00 - Ann: Where does the heron nest?\n12/31/23, 10:05 - Bob: In 2023?\n"
NODE = '{"id": "1", "type": "text", "text": "A heron.", "x": 0, "y": 0, "width": 1, "height": 1}'
CANVAS = f'{{"nodes": [{NODE}], "edges": []}}'
EVENT = "BEGIN:VEVENT\nUID:heron\nDTSTART:20250102T100000Z\nSUMMARY:Count the heron\nEND:VEVENT\n"
SAVED = "MIME-Version: 1.0\nContent-Type: multipart/related; boundary=x\n\n--x\nContent-Type: text/html\n\n"
KINDS = {
    "vault": Kind("vault", ".md", text("---\ntags: [bird]\n---\n# A heron\n\nIt nests in 2023.\n")),
    "mbox": Kind("mbox", ".mbox", lambda word: mbox([Mail(7, word, ident=f"{word}@example.org")])),
    "maildir": Kind("maildir", ":2,S", mail, below="cur"),
    "eml": Kind("eml", ".eml", mail),
    "canvas": Kind("vault", ".canvas", text(CANVAS)),
    "rst": tree(".rst", text("Heron\n=====\n\n:a: b\n\nA heron.\n\n.. code::\n\n  x = 2023\n")),
    "html": tree(".html", text("<title>2023</title><h1>A heron</h1><p>It <b>nests</b>.</p>")),
    "text": tree(".txt", text("A heron nests in 2023.\n")),
    "asciidoc": tree(".adoc", text("= Heron\nAnn Lee\n\n== Nests\n\nA heron in 2023.\n")),
    "pdf": tree(".pdf", lambda word: made.pdf([[made.Text(f"A {word} nests.")]])),
    "docx": tree(".docx", lambda word: made.docx(made.paragraph(f"A {word} nests."))),
    "sheet": tree(".xlsx", lambda word: made.xlsx({"a": [[word, 1.5], ["y", 2]]})),
    "slides": tree(".pptx", lambda word: made.pptx([(word, "nests")])),
    "opendocument": tree(
        ".odt",
        lambda word: made.opendocument(f"<office:text><text:p>{word}</text:p></office:text>"),
    ),
    "epub": tree(".epub", lambda word: made.epub({"a.xhtml": f"<p>A {word} nests.</p>"})),
    "notebook": tree(".ipynb", lambda word: made.notebook(("markdown", word), ("code", "1 + 1"))),
    "calendar": tree(".ics", text(f"BEGIN:VCALENDAR\nVERSION:2.0\n{EVENT}END:VCALENDAR\n")),
    "table": tree(".csv", text("bird,count\nheron,2\nstork,2023\n")),
    "contacts": tree(".vcf", text("BEGIN:VCARD\nVERSION:3.0\nFN:Ann heron\nTEL:123\nEND:VCARD\n")),
    "web archive": tree(".mhtml", text(f"{SAVED}<p>A heron nests.</p>\n--x--\n")),
    "wikitext": tree(".mediawiki", text("== A heron ==\n{{x}} [[b|c]] {|\n|a\n|}\n")),
    "whatsapp": chats(".txt", text(CHAT)),
    "wiki": Kind("wiki", ".xml", lambda word: WIKI.replace("Drehtür", word).encode(), alone=pages),
    "issues": Kind("issues", ".json", issue, alone=lambda *file: [*issue_files([RawFile(*file)])]),
    "slack": Kind(
        "conversation",
        ".json",
        text('[{"ts": "1736937000.1", "user": "U1", "text": "A heron nests."}]'),
        below="general",
        alone=days,
    ),
    "discord": chats(".json", text(DISCORD)),
    "telegram": chats(".json", text(TELEGRAM)),
    "table of a chat": chats(
        ".csv", text("timestamp,author,message\n2025-01-15 10:30,ada,heron\n")
    ),
    "lines of a chat": chats(
        ".jsonl", text('{"timestamp": "2025-01-15 10:30", "author": "ada", "message": "heron"}\n')
    ),
    "mail as a chat": chats(
        ".mbox", lambda word: mbox([Mail(7, word, word), Mail(8, word, f"Re: {word}", reply_to=7)])
    ),
    "zip": chats(".zip", lambda word: made.zipped({"_chat.txt": CHAT.replace("heron", word)})),
}


@pytest.mark.parametrize("name", some(KINDS, each=99))
def test_fifty_nasty_files_stop_none_of_the_others(work: Workspace, name: str):
    with_nasty_files(work, KINDS[name])
    if name == "slack":
        work.put("src/users.json", '[{"id": "U1", "real_name": "Ada"}]')
    done = work.weft("build")
    assert done.exit_code == 0, done.output
    assert "Traceback" not in done.output
    assert_accounted_for(work, KINDS[name])
    assert work.plan().is_empty
