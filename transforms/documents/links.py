"""References of documents, of each document, and their targets over all documents.

This module has wiki links, embeds, Markdown links and URLs of documents, not the references of
mails. A target is compared with the paths of known documents, never opened.
"""

import posixpath
import re
import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.documents.files import file_name
from transforms.documents.markdown import Link, masked, parse
from transforms.documents.nodes import slug_base
from transforms.schemas.documents import DOCUMENT_REFERENCES
from transforms.schemas.relations import LINKS
from transforms.schemas.table import rows_of
from transforms.settings.documents import PLAIN_FORMATS
from transforms.text.charsets import percent_decoded

INDEX_NAMES = ("index", "readme", "_index")
"""File names that a link to their folder opens."""
MAX_SUFFIX_PARTS = 8
"""Last segments of a path by which a wiki link may name a document."""

_NOT_IN_URL = r"\s<>\"`\\^{|}"
_URL = re.compile(rf"\bhttps?://[^{_NOT_IN_URL}]+".encode(), re.IGNORECASE)
_URL_END = b".,;:!?'*_~)]"
URL_PATTERN = rf"(?i)https?://[^{_NOT_IN_URL}]*[^{_NOT_IN_URL}.,;:!?'*_~\]]"
"""The same for RE2, which cuts no bracket off."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_BLOCK_ID = re.compile(rb"(?:^|(?<=[ \t]))\^([A-Za-z0-9-]+)[ \t]*\r?$", re.MULTILINE)
_PROPERTY_LINK = re.compile(rb"\[\[([^\[\]|\r\n]+)(?:\|([^\[\]\r\n]*))?\]\]")
_ID_EDGES = "<>/ "


class _Doc(NamedTuple):
    doc_id: str
    path: str
    folder: tuple[str, ...]


def document_references(documents: pa.Table) -> pa.Table:
    """The references of each document, conforming to `schemas.DOCUMENT_REFERENCES`, in its order.

    References in code and in comments do not count. URLs count that stand bare in the text, as
    GitHub and Obsidian show them, and wiki links in the frontmatter, which Obsidian calls
    properties.
    """
    columns: dict[str, list[Any]] = {name: [] for name in DOCUMENT_REFERENCES.names}
    names = ("doc_id", "source", "partition", "format", "text", "body_start")
    for doc_id, source, partition, kind, text, start in rows_of(documents, *names):
        links = sorted(_references(text, start, kind), key=lambda link: (link.start, -link.end))
        for link in links:
            values = (
                doc_id,
                source,
                partition,
                link.start,
                link.end,
                link.kind,
                link.target,
                link.text,
            )
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
    return DOCUMENT_REFERENCES.from_columns(columns)


def document_links(
    references: pa.Table,
    documents: pa.Table,
    nodes: pa.Table,
    message_ids: Collection[str] = frozenset(),
) -> pa.Table:
    """The targets of the references, conforming to `schemas.LINKS`, ordered by `from_id` and
    `byte_start`.

    `documents` has `doc_id`, `source`, `path`, `title` and `aliases`, and `nodes` `node_id`,
    `doc_id`, `position`, `title`, `slug` and `heading_start`, both of all partitions. `from_id` is
    the node a reference is in. A reference leads to a document of its source, or to the node that
    its fragment names by slug, by the text of the heading or by a block id; a fragment that names
    nothing leads to the document. `to_id` is null without such a document, where a path leaves the
    root of the source, and for a URL, unless a known Message-ID is part of it (`mid:` of RFC 2392,
    and the addresses of mail archives).

    Wiki links are looked up as Obsidian does, whatever the case: by path from the root or from the
    folder, by the last parts of a path, by file name, and then by title and by alias; of several
    documents the nearest by folders counts, then the shallowest, then the first by path. Markdown
    links are paths from the folder, or from the root if they begin with a slash; the extension and
    the name of a folder's index file may be left out.
    """
    outlines = _Outlines(nodes, references)
    vaults: dict[str, _Vault] = defaultdict(_Vault)
    known = ("doc_id", "source", "path", "title", "aliases")
    for doc_id, source, path, title, aliases in rows_of(
        documents.select(known).sort_by("doc_id"), *known
    ):
        vaults[source].add(doc_id, path, title, aliases)
    columns: dict[str, list[Any]] = {name: [] for name in LINKS.names}
    names = ("doc_id", "source", "kind", "target", "byte_start", "byte_end", "text")
    for doc_id, source, kind, target, start, end, text in rows_of(references, *names):
        if kind == "block_id":
            continue
        if kind == "url":
            to_id = next((name for name in ids_in_url(target) if name in message_ids), None)
        else:
            to_id = (
                vaults[source].resolve(doc_id, kind, target, outlines) if source in vaults else None
            )
        link = (outlines.node_at(doc_id, start), "document", start, end, to_id, target, kind, text)
        for column, value in zip(columns.values(), link, strict=True):
            column.append(value)
    return LINKS.from_columns(columns).sort_by(
        [("from_id", "ascending"), ("byte_start", "ascending")]
    )


def _references(text: str, body_start: int, kind: str) -> Iterator[Link]:
    data = text.encode()
    hidden_ranges: list[tuple[int, int]] = [(0, body_start)]
    if kind not in PLAIN_FORMATS:
        markdown = parse(text, body_start, notes=kind in ("markdown", "canvas", "wikitext"))
        hidden_ranges = sorted([*hidden_ranges, *markdown.opaque, *markdown.comments])
        for link in markdown.links:
            target = link.target
            if link.kind in ("wiki", "embed"):
                target = target.rstrip("\\").strip()
            elif _SCHEME.match(target):
                link = link._replace(kind="url")
            yield link._replace(target=target)
    if kind == "markdown":
        for match in _PROPERTY_LINK.finditer(data, 0, body_start):
            target, alias = match[1].decode().strip(), (match[2] or match[1]).decode().strip()
            yield Link("wiki", *match.span(), target, alias)
    if b"://" in data or b"^" in data:
        visible = masked(data, hidden_ranges)
        for match in _URL.finditer(visible):
            url = _trimmed(match[0])
            yield Link("url", match.start(), match.start() + len(url), url.decode(), "")
        for match in _BLOCK_ID.finditer(visible) if kind == "markdown" else ():
            yield Link("block_id", match.start(1) - 1, match.end(1), match[1].decode(), "")


def _trimmed(url: bytes) -> bytes:
    """The URL without the punctuation of the sentence around it; a bracket stays if it is a pair."""
    end, surplus = len(url), url.count(b")") - url.count(b"(")
    while url[end - 1] in _URL_END:
        if url[end - 1 : end] == b")":
            if surplus <= 0:
                break
            surplus -= 1
        end -= 1
    return url[:end]


class _Outlines:
    """The nodes and block ids of all documents."""

    def __init__(self, nodes: pa.Table, references: pa.Table) -> None:
        self.ids: dict[str, list[str]] = defaultdict(list)
        self.starts: dict[str, list[int]] = defaultdict(list)
        self.slugs: dict[str, dict[str, str]] = defaultdict(dict)
        self.titles: dict[str, dict[str, str]] = defaultdict(dict)
        self.blocks: dict[tuple[str, str], int] = {}
        nodes = nodes.sort_by([("doc_id", "ascending"), ("position", "ascending")])
        names = ("doc_id", "node_id", "heading_start", "slug", "title")
        for doc_id, node_id, start, slug, title in rows_of(nodes, *names):
            self.ids[doc_id].append(node_id)
            self.starts[doc_id].append(start)
            if slug is not None:
                self.slugs[doc_id][slug] = node_id
                self.titles[doc_id].setdefault(_folded(title), node_id)
        for doc_id, kind, target, start in rows_of(
            references, "doc_id", "kind", "target", "byte_start"
        ):
            if kind == "block_id":
                self.blocks.setdefault((doc_id, target.lower()), start)

    def node_at(self, doc_id: str, offset: int) -> str:
        """The innermost node at a byte of a document."""
        starts = self.starts.get(doc_id)
        return self.ids[doc_id][max(bisect_right(starts, offset) - 1, 0)] if starts else doc_id

    def node_named(self, doc_id: str, fragment: str) -> str:
        """The node that a fragment names, the document if none does."""
        last = fragment.rpartition("#")[2].strip()
        if last.startswith("^"):
            offset = self.blocks.get((doc_id, last[1:].lower()))
            return doc_id if offset is None else self.node_at(doc_id, offset)
        slugs, titles = self.slugs.get(doc_id, {}), self.titles.get(doc_id, {})
        node_id = slugs.get(last) or titles.get(_folded(last))
        return node_id or slugs.get(last.lower()) or slugs.get(slug_base(last)) or doc_id


class _Vault:
    """The documents of one source and the names they go by, all in lower case."""

    def __init__(self) -> None:
        self.docs: dict[str, _Doc] = {}
        self.exact: dict[str, _Doc] = {}
        self.paths: dict[str, _Doc] = {}
        self.suffixes = _Names()
        self.titles = _Names()
        self.aliases = _Names()

    def add(self, doc_id: str, path: str, title: str, aliases: list[str]) -> None:
        """Add a document; of two paths that differ only in case, either finds the first."""
        doc = _Doc(doc_id, path, tuple(_folded(path).split("/")[:-1]))
        self.docs[doc_id] = doc
        self.exact[path] = doc
        parts = _folded(path).split("/")
        stem = _folded(file_name(path))
        for last in dict.fromkeys((parts[-1], stem)):
            self.paths.setdefault("/".join([*parts[:-1], last]), doc)
            for count in range(min(len(parts), MAX_SUFFIX_PARTS)):
                self.suffixes.add("/".join([*parts[len(parts) - 1 - count : -1], last]), doc)
        self.titles.add(_folded(title), doc)
        for alias in aliases:
            self.aliases.add(_folded(alias), doc)

    def resolve(self, doc_id: str, kind: str, target: str, outlines: _Outlines) -> str | None:
        """The id of the document or node that a target of this vault names."""
        origin = self.docs.get(doc_id)
        if origin is None:
            return None
        name, mark, fragment = target.partition("#")
        if kind in ("wiki", "embed"):
            if not mark and "^" in name:  # `Note^block`
                name, mark, block = name.partition("^")
                fragment = f"^{block}"
            doc = self._wiki(origin, name.strip()) if name.strip() else origin
        else:
            fragment = percent_decoded(fragment)
            path = percent_decoded(name.partition("?")[0])
            doc = self._path(origin, path) if path else origin
        if doc is None:
            return None
        return outlines.node_named(doc.doc_id, fragment) if mark and fragment else doc.doc_id

    def _wiki(self, origin: _Doc, name: str) -> _Doc | None:
        folded = _folded(name)
        from_root = folded.lstrip("/")
        if "/" in folded:
            relative = _resolved_path(origin.folder, folded)
            doc = self.paths.get(from_root) or (self.paths.get(relative) if relative else None)
            if doc is not None or folded.startswith(("./", "../")):
                return doc
        return (
            self.suffixes.nearest(from_root, origin)
            or self.titles.nearest(folded, origin)
            or self.aliases.nearest(folded, origin)
        )

    def _path(self, origin: _Doc, path: str) -> _Doc | None:
        full_path = _resolved_path(tuple(origin.path.split("/")[:-1]), path)
        if full_path is None:
            return None
        if full_path in self.exact:
            return self.exact[full_path]
        folded = _folded(full_path)
        inside = f"{folded}/" if folded else ""
        candidates = (folded, *(f"{inside}{name}" for name in INDEX_NAMES))
        return next((self.paths[name] for name in candidates if name in self.paths), None)


class _Names:
    """Documents by a name that several may share, and the nearest of those to a place."""

    def __init__(self) -> None:
        self._docs: dict[str, list[_Doc]] = defaultdict(list)
        self._best: dict[str, dict[tuple[str, ...], _Doc]] = {}

    def add(self, name: str, doc: _Doc) -> None:
        """Add a name of a document."""
        self._docs[name].append(doc)

    def nearest(self, name: str, origin: _Doc) -> _Doc | None:
        """The document of this name with the fewest steps between its folder and that of `origin`."""
        docs = self._docs.get(name)
        if docs is None or len(docs) == 1:
            return docs[0] if docs else None
        best = self._best.get(name)
        if best is None:
            best = self._best[name] = self._by_folder(docs)
        candidates = []
        for up in range(len(origin.folder) + 1):
            depth = len(origin.folder) - up
            doc = best.get(origin.folder[:depth])
            if doc is not None:
                candidates.append((up + len(doc.folder) - depth, len(doc.folder), doc.path, doc))
        return min(candidates)[3]

    @staticmethod
    def _by_folder(docs: list[_Doc]) -> dict[tuple[str, ...], _Doc]:
        """For every folder the document below it that is nearest to it."""
        best: dict[tuple[str, ...], _Doc] = {}
        for doc in sorted(docs, key=lambda doc: (len(doc.folder), doc.path)):
            for depth in range(len(doc.folder) + 1):
                best.setdefault(doc.folder[:depth], doc)
        return best


def _folded(text: str) -> str:
    """The form in which names are compared: composed characters, case-folded, single blanks."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _resolved_path(folder: tuple[str, ...], path: str) -> str | None:
    """A path from a folder, or from the root if it begins with a slash; None if it leaves the root.

    >>> _resolved_path(("a", "b"), "../c.md"), _resolved_path((), "../c.md")
    ('a/c.md', None)
    """
    place = posixpath.normpath(
        path.lstrip("/") if path.startswith("/") else "/".join((*folder, path))
    )
    if place == ".." or place.startswith("../"):
        return None
    return "" if place == "." else place


def ids_in_url(url: str) -> Iterator[str]:
    """The parts of a URL that may be the Message-ID of the mail that it shows."""
    scheme, _, rest = url.partition(":")
    # A Message-ID may hold the signs that part the fields of a query.
    fields = [*re.split(r"[/?#]", rest), *re.split(r"[/?&=#]", rest)]
    segments = [rest.partition("/")[0]] if scheme.lower() == "mid" else fields
    return (percent_decoded(segment).strip(_ID_EDGES) for segment in segments if segment)
