"""Zulip: a topic as a page of HTML, as zulip-archive publishes it."""

import html
import re
from collections.abc import Iterator
from datetime import datetime

from transforms.conversations.exports import Chat, Entry, decoded, in_utc, kind_of, no_time
from transforms.conversations.programs import Program
from transforms.errors import ChatFormatError
from transforms.formats.html_markdown import html_markdown

_SIGN = b'alt="view this post on Zulip"'
_HEAD = re.compile(
    r'<a name="(?P<id>\d+)"></a>\s*<h4><a [^>]*><img [^>]*alt="view this post on Zulip"[^>]*></a>'
    r"(?P<line>.*?)</h4>",
    re.DOTALL,
)
_LINE = re.compile(r"\s*(?P<author>.+?)\s*\((?P<at>\w{3} \d\d? \d{4} at \d\d:\d\d)[^)]*\)+\s*:?\s*")
_TITLE = re.compile(
    r"<h([23])>\s*(?:Stream|Channel|Topic):\s*(?P<title>.*?)(?:</h\1>|(?=<h3>|<hr))", re.DOTALL
)
_END = re.compile(r"\{% endraw %\}|<hr>\s*<p>Last updated:")
_TAG = re.compile(r"<[^<>]*>")
_INDEX = "index.html"
"""The list of topics beside their pages."""


def looks_like_zulip_page(head: bytes) -> bool:
    """True if HTML begins with posts that lead to Zulip."""
    return _SIGN in head and b"<h3>Topic:" in head


def read_zulip_page(data: bytes, name: str, timezone: str) -> Iterator[Chat]:
    """The chat of a page, in the order of its posts; ChatFormatError without posts.

    Times are UTC, as zulip-archive writes them. The title is channel and topic.
    """
    text = decoded(data)
    heads = list(_HEAD.finditer(text))
    if not heads:
        raise ChatFormatError("no_zulip: the page has no posts of Zulip")
    ends = [*(head.start() for head in heads[1:]), len(text)]
    entries, names, faults = list[Entry](), set[str](), []
    for head, end in zip(heads, ends, strict=True):
        line = _LINE.fullmatch(_plain(head["line"]))
        at = _moment(line["at"]) if line else None
        if line is None or at is None:
            faults.append(no_time(f"{name}:{head['id']}", {"line": _plain(head["line"])}))
            continue
        content = _END.split(text[head.end() : end], maxsplit=1)[0]
        converted = html_markdown(content)
        body = converted.text.strip() if converted else _plain(content)
        names.add(line["author"])
        entries.append(
            Entry(
                in_utc(at, "UTC"), line["author"], body, kind_of(body, line["author"]), head["id"]
            )
        )
    titles = (_plain(match["title"]) for match in _TITLE.finditer(text, 0, heads[0].start()))
    yield Chat(name, entries, frozenset(names), faults, " > ".join(filter(None, titles)))


def _plain(text: str) -> str:
    """HTML of one line as text."""
    return " ".join(html.unescape(_TAG.sub("", text)).split())


def _moment(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%b %d %Y at %H:%M")
    except ValueError:
        return None


PROGRAM = Program((".html",), looks_like_zulip_page, read_zulip_page, True, _INDEX, (_INDEX,))
