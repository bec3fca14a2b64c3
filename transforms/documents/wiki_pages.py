"""Exports of MediaWiki (Special:Export, dumps) to their pages: each is a document, redirects are
aliases of their pages.

It reads the XML; the text of a page is read by `transforms.formats.wikitext`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import cast
from xml.etree import ElementTree

from transforms.documents.files import RawFile
from transforms.formats.converted import Converted, FormatError

_CANONICAL = {"6": "File", "14": "Category"}
_WITHOUT_TEXT = {"8": "a message of the program", "10": "a template", "828": "a module"}
"""Namespaces whose pages no reader opens (MediaWiki, Extension default namespaces), in words."""
_PARTS = ("siteinfo", "revision", "page")


@dataclass(frozen=True)
class WikiPage:
    """A page as its last revision has it; `path` has the wiki's name before the title.

    `redirect` is the path of the page that it leads to, if it is one.
    """

    path: str
    title: str
    text: str
    editor: str
    modified: str
    redirect: str
    fault: str | None


def wiki_pages(blocks: Iterable[bytes], name: str, most: int) -> Iterator[WikiPage]:
    """The pages of an export, which is read in blocks, one at a time; `name` is that of its file.

    A wiki that does not name itself has that of the file. FormatError, behind the pages before, if
    it is not XML of MediaWiki or has an element of more than `most` bytes.
    """
    name = name.rpartition("/")[2].partition(".")[0]
    wiki, names, latest = name, dict[str, str](), ElementTree.Element("revision")
    for part, element in _elements(blocks, most):
        if part == "siteinfo":
            wiki = _value(element, "sitename") or name
            spaces = {
                one.get("key", ""): one.text or "" for one in element.iterfind(".//{*}namespace")
            }
            names = {spaces[key]: known for key, known in _CANONICAL.items() if key in spaces}
        elif part == "page":
            yield _page(wiki, element, latest, names)
            latest = ElementTree.Element("revision")
        elif _value(element, "timestamp") >= _value(latest, "timestamp"):
            latest = element


def _elements(blocks: Iterable[bytes], most: int) -> Iterator[tuple[str, ElementTree.Element]]:
    """The names and elements of an export that are `_PARTS`, each when it ends; nothing before is
    kept.
    """
    parser, above, pending = (
        ElementTree.XMLPullParser(("start", "end")),
        list[ElementTree.Element](),
        0,
    )
    try:
        for block in blocks:
            parser.feed(block)
            pending += len(block)
            for event, element in cast(
                "Iterator[tuple[str, ElementTree.Element]]", parser.read_events()
            ):
                pending = 0
                if event == "start":
                    above.append(element)
                    if not above[0].tag.endswith("mediawiki"):
                        raise FormatError("no_wiki: it is not an export of MediaWiki")
                elif (part := above.pop().tag.rpartition("}")[2]) in _PARTS:
                    yield part, element
                    above[-1].remove(element)
            if pending > most:
                raise FormatError(
                    f"too_large: an element has more than {most:,} bytes; the rest is not read"
                )
        parser.close()
    except ElementTree.ParseError as error:
        raise FormatError(f"broken_xml: the rest of it cannot be read: {error}") from error


def _value(element: ElementTree.Element, name: str) -> str:
    return element.findtext(f"{{*}}{name}") or ""


def _page(
    wiki: str, page: ElementTree.Element, revision: ElementTree.Element, names: dict[str, str]
) -> WikiPage:
    """A page with a revision; `names` are those of namespaces as this wiki has them, with those
    that all wikis know.
    """
    title, text, model = _value(page, "title"), _value(revision, "text"), _value(revision, "model")
    kind = _WITHOUT_TEXT.get(_value(page, "ns"), f"a page of {model}" if model else "")
    redirect = page.find("{*}redirect")
    target = "" if redirect is None else redirect.get("title", "").partition("#")[0]
    for own, known in names.items():
        text = re.sub(rf"(?i)\[\[\s*{re.escape(own)}\s*:", f"[[{known}:", text)
    return WikiPage(
        _path(wiki, title),
        title,
        text,
        _value(revision, "contributor/{*}username") or _value(revision, "contributor/{*}ip"),
        _value(revision, "timestamp"),
        target and _path(wiki, target),
        f"no_article: it is {kind}" if kind and kind != "a page of wikitext" else None,
    )


def _path(wiki: str, title: str) -> str:
    """The path of a page: no segment of dots, and no sign that nobody sees."""
    parts = (
        "".join(filter(str.isprintable, part)).strip(" .") for part in f"{wiki}/{title}".split("/")
    )
    return f"{'/'.join(filter(None, parts)) or 'untitled'}.mediawiki"


def latest_pages(pages: Iterable[WikiPage]) -> Iterator[tuple[WikiPage, tuple[str, ...]]]:
    """The pages of all exports with the titles that redirect to each; older copies, and redirects
    to none, have a fault.

    Both give the page that was changed last, whichever export is read first.
    """
    latest: dict[str, WikiPage] = {}
    for page in sorted(pages, key=lambda page: (page.modified, page.text)):
        if older := latest.get(page.path):
            yield replace(older, fault="duplicate: an export has the page again, changed later"), ()
        latest[page.path] = page
    aliases = {path: list[str]() for path, page in latest.items() if not page.redirect}
    for page in latest.values():
        aliases.get(page.redirect, []).append(page.title)
    for page in latest.values():
        if page.redirect not in aliases:
            why = (
                page.redirect
                and f"redirect: it leads to {page.redirect}, which is not in the export"
            )
            yield (
                replace(page, fault=page.fault or why or None),
                tuple(sorted(aliases.get(page.path, ()))),
            )


def page_file(page: WikiPage, aliases: Iterable[str], converted: Converted) -> RawFile:
    """A page whose text became Markdown, with its facts as properties."""
    facts = {"aliases": list(aliases), "editor": page.editor, "modified": page.modified}
    fields = {
        "title": page.title,
        **(converted.fields or {}),
        **{n: v for n, v in facts.items() if v},
    }
    return RawFile(page.path, b"", converted=converted._replace(title=page.title, fields=fields))
