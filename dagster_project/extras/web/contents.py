"""The table of contents of a source of documents: its own if it brings one, else by folder and
path.

Its own is mdBook's `SUMMARY.md`, the toctrees of Sphinx below its index, or the `nav` of
`mkdocs.yml`.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import groupby, islice
from typing import Any, NamedTuple
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from dagster_project.config.settings import DocumentSourceSettings
from dagster_project.extras.web.files import inside
from dagster_project.extras.web.site import Site, parameter, rows_about
from dagster_project.index.search.lookup import Ask
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.outgoing.receipts import Disclosed
from dagster_project.sources.reading_files import TooLargeError, bounded
from transforms.documents.frontmatter import frontmatter

_PER_PAGE = 1_000
"""Entries of a table of contents on one page."""
_DOCUMENTS = "SELECT doc_id, title, path FROM documents WHERE source = $id"
_TEXT = "SELECT text FROM documents WHERE doc_id = $id"
_MOST, _DEEPEST, _MOST_BYTES = 20_000, 9, 1 << 20
"""Entries of a source's own table, their depth, and bytes of its mkdocs.yml."""
_SUMMARY = re.compile(r"^(?:( *)[-*+] +)?\[([^\]\n]*)\]\(<?([^)>\n]*)>?\)|^#+ +(.*)", re.MULTILINE)
_NAV = re.compile(r"^(?:nav|docs_dir):.*\n(?:[ \t#-].*\n|\n)*", re.MULTILINE)
_TOCTREE = re.compile(
    r"^( *)\.\. toctree::.*\n((?: *\n|\1 +\S.*\n)*)|^`{3,}\{toctree\}.*\n(?:---\n(?:.*\n)*?---\n)?((?:(?!```).*\n)*)",
    re.MULTILINE,
)
_FIRST = ("index", "_index", "readme")
_Line = tuple[int, str, str]
"""A line of a source's own table: its depth, a title, and the path of a document, empty for a
heading.
"""


class Chapter(NamedTuple):
    """A line of a table of contents: its depth, title and document, empty for a heading."""

    depth: int
    title: str
    doc_id: str = ""


def contents_page(site: Site, request: Request, index: SearchIndex) -> Response:
    """The table of contents of a source."""
    name, start = parameter(request), request.query_params.get("start", "0")
    entries = _contents_of(site, index, name)
    first = int(start) if start.isascii() and start.isdigit() and len(start) < 9 else 0
    shown, after = entries[first : first + _PER_PAGE], first + _PER_PAGE
    request.state.shown += [Disclosed(of.doc_id, of.title, of.doc_id) for of in shown if of.doc_id]
    more = after if after < len(entries) else None
    return site.page(
        "contents.html", request, index, source=name, entries=shown, start=first, after=more
    )


def beside(
    site: Site, index: SearchIndex, source: str, doc_id: str
) -> tuple[Chapter | None, Chapter | None]:
    """The documents before and after one in the contents of its source."""
    entries = [entry for entry in _contents_of(site, index, source) if entry.doc_id]
    at = next(n for n, entry in enumerate(entries) if entry.doc_id == doc_id)
    return (entries[at - 1] if at else None), (entries[at + 1] if at + 1 < len(entries) else None)


def _contents_of(site: Site, index: SearchIndex, source: str) -> list[Chapter]:
    """The contents of a source, which are made once for the latest version."""
    key = (index.version, source)
    if key not in site.contents:
        if any(version != index.version for version, _ in site.contents):
            site.contents.clear()
        site.contents[key] = order_of_reading(index.ask, source, _nav_of(site, index, source))
    return site.contents[key]


def order_of_reading(ask: Ask, source: str, nav: Sequence[_Line] = ()) -> list[Chapter]:
    """The documents of a source in the order of reading; `nav` are the lines of its mkdocs.yml.

    Documents that its own table does not name follow it by folder. UnknownIdError if the source has
    no documents.
    """
    rows = rows_about(ask, _DOCUMENTS, "source of documents", source)
    table = _Table(ask, {row["path"]: row for row in rows})
    entries = list(islice(table.own(nav), _MOST))
    named = {entry.doc_id for entry in entries}
    rest = sorted((row for row in rows if row["doc_id"] not in named), key=_by_folder)
    for folder, of in groupby(rest, key=lambda row: posixpath.dirname(row["path"])):
        entries += [Chapter(0, folder)] if folder else []
        entries += [Chapter(1 if folder else 0, row["title"], row["doc_id"]) for row in of]
    return entries


def _by_folder(row: Mapping[str, Any]) -> tuple[str, bool, str]:
    folder, name = posixpath.split(row["path"])
    return folder, posixpath.splitext(name)[0].lower() not in _FIRST, name.lower()


class _Table:
    def __init__(self, ask: Ask, documents: Mapping[str, Mapping[str, Any]]):
        self.ask, self.documents = ask, documents
        self.by_stem = {
            posixpath.splitext(path)[0]: path for path in sorted(documents, reverse=True)
        }
        self.visited = set[str]()

    def own(self, nav: Sequence[_Line]) -> Iterator[Chapter]:
        """The entries of the source's own table, if it has one."""
        by_depth = sorted(self.documents, key=lambda path: (path.count("/"), path))
        summary = next((p for p in by_depth if posixpath.basename(p).lower() == "summary.md"), None)
        index = next(
            (p for p in by_depth if posixpath.splitext(posixpath.basename(p))[0] == "index"), None
        )
        if nav:
            yield from self._entries(nav)
        elif summary:
            self.visited.add(summary)
            yield from self._entries(_of_summary(self._text(summary), posixpath.dirname(summary)))
        elif index and _TOCTREE.search(self._text(index)):
            yield from self._entries(self._of_toctrees(index, posixpath.dirname(index), 0))

    def _entries(self, lines: Iterable[_Line]) -> Iterator[Chapter]:
        for depth, title, path in lines:
            if row := self.documents.get(path):
                yield Chapter(min(depth, _DEEPEST), row["title"], row["doc_id"])
            elif title and not path:
                yield Chapter(min(depth, _DEEPEST), title)

    def _text(self, path: str) -> str:
        return str(
            rows_about(self.ask, _TEXT, "document", self.documents[path]["doc_id"])[0]["text"]
        )

    def _of_toctrees(self, path: str, root: str, depth: int) -> Iterator[_Line]:
        """A document and those that its toctrees name, each with its own; a name is a path without
        its ending.
        """
        if path in self.visited or depth > _DEEPEST:
            return
        self.visited.add(path)
        yield depth, "", path
        for tree in _TOCTREE.finditer(self._text(path)):
            for line in map(str.strip, (tree[2] or tree[3] or "").splitlines()):
                name = match[1] if (match := re.search(r"<(.+)>$", line)) else line
                if name[:1] in ("", ":"):
                    continue
                above = root if name.startswith("/") else posixpath.dirname(path)
                stem = posixpath.normpath(posixpath.join(above, name.lstrip("/")))
                for below in self._named(stem):
                    yield from self._of_toctrees(below, root, depth + 1)

    def _named(self, stem: str) -> list[str]:
        if any(sign in stem for sign in "*?["):
            return [self.by_stem[name] for name in sorted(self.by_stem) if fnmatchcase(name, stem)]
        path = stem if stem in self.documents else self.by_stem.get(stem)
        return [path] if path else []


def _of_summary(text: str, folder: str) -> Iterator[_Line]:
    for match in _SUMMARY.finditer(text):
        indent, title, target, heading = match.groups()
        path = unquote((target or "").partition("#")[0])
        depth = 0 if indent is None else 1 + len(indent) // 2
        yield (
            depth,
            heading or title,
            posixpath.normpath(posixpath.join(folder, path)) if path else "",
        )


def _of_nav(items: Any, folder: str, depth: int) -> Iterator[_Line]:
    """The lines of a `nav`: paths in a folder, or titles with a path or with items of their own."""
    for item in items if isinstance(items, list) else ():
        for title, below in item.items() if isinstance(item, dict) else [("", item)]:
            path = (
                posixpath.normpath(posixpath.join(folder, below)) if isinstance(below, str) else ""
            )
            yield depth, str(title), path
            yield from _of_nav(below, folder, depth + 1)


def _nav_of(site: Site, index: SearchIndex, name: str) -> list[_Line]:
    """The `nav` of the mkdocs.yml at the root of a source; empty where there is none, or files are
    not shown.
    """
    source = next((s for s in site.settings.sources if s.name == name), None)
    if not isinstance(source, DocumentSourceSettings) or not site.shows_files(index):
        return []
    root = site.settings.place(source)
    file = inside(root, "mkdocs.yml", lambda _: False) if root.is_dir() else None
    with suppress(OSError, TooLargeError):
        return nav_lines(
            bounded(file, _MOST_BYTES, "the cap").decode(errors="replace") if file else ""
        )
    return []


def nav_lines(mkdocs: str) -> list[_Line]:
    """The lines of the `nav` of a mkdocs.yml; the rest of it, which may name functions of Python,
    is not parsed.
    """
    lines = "".join(match[0] for match in _NAV.finditer(mkdocs + "\n"))
    own = frontmatter(f"---\n{lines}---\n").fields
    return list(_of_nav(own.get("nav"), str(own.get("docs_dir", "docs")), 0))
