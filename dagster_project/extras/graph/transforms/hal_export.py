"""The exported graph: documents and their chunks as linked files, each a path and bytes.

This module has the layout, `index.json` in HAL+JSON, and addresses (Information Graph). It lacks
similarities and orders, which come as tables; the exporter writes.
"""

import json
import posixpath
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pkgutil import get_data
from typing import Any, NamedTuple

import pyarrow as pa

from dagster_project.extras.graph.transforms.schema import DOCUMENT_GRAPH
from dagster_project.extras.graph.transforms.settings import GraphSettings
from dagster_project.extras.graph.transforms.stripes import similar_documents
from transforms.hashing import parts_hash
from transforms.schemas.table import rows_of

SCHEMA: dict[str, Any] = json.loads(get_data(__name__, "hal_schema.json") or b"")
"""The JSON Schema of every `index.json`."""

INDEX, SCHEMA_NAME, CHUNKS = "index.json", "schema.json", "_chunks"
MAX_NAME_BYTES = 200
"""Bytes of a document's name in the names of its chunks, which file systems limit to 255 in all."""
MAX_KEYWORDS = 20
"""Keywords that stand with a document; its chunks have all of theirs."""
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")


class GraphTables(NamedTuple):
    """The tables that a graph is built from.

    `documents` (doc_id, source, path, title), `chunks` (the result of
    `embedded_text.embedded_chunks`), the tables `chunk_classes`, `chunk_similarities`,
    `stripe_orders`, `chunk_keywords` and `prompt_hashes`, and of `document_links` from_id and
    to_id.
    """

    documents: pa.Table
    chunks: pa.Table
    classes: pa.Table
    similarities: pa.Table
    orders: pa.Table
    keywords: pa.Table
    prompts: pa.Table
    links: pa.Table


class Folder(NamedTuple):
    """The files of one folder of the graph, by name; `doc_id` is None for a folder above documents.

    A document's folder has all files below it. Another folder has `index.json` (and the topmost the
    schema); all else in it belongs to folders of their own.
    """

    path: str
    doc_id: str | None
    files: dict[str, bytes]


def graph_folders(tables: GraphTables, settings: GraphSettings) -> Iterator[Folder]:
    """The folders of the graph: documents in order of their ids, then the folders over them,
    deepest first.

    A document at `a/b.md` of the source `s` becomes the folder `s/a/b.md` with `index.json` and the
    texts of its chunks, `_chunks/b-0.md` and so on, in document order. One without chunks is left
    out.
    """
    graph = _Graph(tables, settings)
    for doc_id in graph.doc_ids:
        yield Folder(graph.folders[doc_id], doc_id, graph.document_files(doc_id))
    yield from graph.upper_folders()


def file_table(folders: Iterable[Folder]) -> pa.Table:
    """The files of folders as `schemas.DOCUMENT_GRAPH`, ordered by path."""
    rows = [
        {
            "path": posixpath.join(folder.path, name),
            "doc_id": folder.doc_id,
            "byte_count": len(data),
            "content_hash": parts_hash([data]),
        }
        for folder in folders
        for name, data in folder.files.items()
    ]
    return DOCUMENT_GRAPH.from_rows(sorted(rows, key=lambda row: str(row["path"])))


def urlpath(path: str) -> str:
    """A path as part of a URL (RFC 3986): all but unreserved characters and slashes
    percent-encoded.
    """
    return "".join(chr(b) if b in _UNRESERVED else f"%{b:02X}" for b in path.encode())


class _Graph:
    def __init__(self, tables: GraphTables, settings: GraphSettings):
        self.settings = settings
        documents = {row["doc_id"]: row for row in tables.documents.to_pylist()}
        of_documents = (tables.chunks.drop_columns(["vector"]), tables.similarities, tables.orders)
        self.items, self.similarities, self.orders = (
            _grouped((row["doc_id"], row) for row in table.to_pylist()) for table in of_documents
        )
        self.doc_ids = sorted(doc_id for doc_id in documents if doc_id in self.items)
        self.documents = documents
        self.folders = {
            d: posixpath.join(documents[d]["source"], documents[d]["path"]) for d in self.doc_ids
        }
        self.code = dict(rows_of(tables.classes, "chunk_id", "is_code"))
        keywords = rows_of(tables.keywords, "chunk_id", "keyword", "score")
        self.keywords = _grouped((chunk_id, keyword) for chunk_id, *keyword in keywords)
        self.prompts = _grouped(rows_of(tables.prompts, "chunk_id", "simhash"))
        self.similar = similar_documents(tables.chunks)
        self.links, self.linked_from = self._relations(tables.links)

    def document_files(self, doc_id: str) -> dict[str, bytes]:
        """The files of a document's folder."""
        row, base = self.documents[doc_id], self.folders[doc_id]
        stem = posixpath.splitext(posixpath.basename(row["path"]))[0]
        cut = stem.encode()[:MAX_NAME_BYTES].decode(errors="ignore")
        texts = [_text_of(item) for item in self.items[doc_id]]
        names = [f"{CHUNKS}/{cut}-{number}.md" for number in range(len(texts))]
        entry = self._chunks(doc_id, base, names, texts)
        links: dict[str, Any] = self._links(base, posixpath.dirname(base))
        for relation, related in (("links", self.links), ("linked_from", self.linked_from)):
            links[relation] = [
                self._link(base, linked) for linked in sorted(related.get(doc_id, ()))
            ]
        links["similar"] = [
            self._link(base, near.doc_id) | {"similarity": near.similarity}
            for near in self.similar.get(doc_id, ())
        ]
        index = {
            "id": doc_id,
            "title": row["title"],
            "keywords": self._document_keywords(doc_id),
            "_links": links,
            "_embedded": {"topics": [], "chunks": {stem: entry}},
        }
        return {**dict(zip(names, texts, strict=True)), INDEX: _json(index)}

    def upper_folders(self) -> Iterator[Folder]:
        """The folders over the documents, deepest first, the topmost with the schema."""
        topics: dict[str, set[str]] = defaultdict(set)
        documents: dict[str, list[str]] = defaultdict(list)
        for doc_id in self.doc_ids:
            folder = posixpath.dirname(self.folders[doc_id])
            documents[folder].append(doc_id)
            while folder:
                topics[posixpath.dirname(folder)].add(folder)
                folder = posixpath.dirname(folder)
        every = {"", *topics, *documents}
        for path in sorted(every, key=lambda p: (-len(p.split("/")) if p else 0, p)):
            links = self._links(path, posixpath.dirname(path) if path else None)
            index = {
                "id": self._folder_id(path),
                "title": posixpath.basename(path) or "Weft",
                "_links": links,
                "_embedded": {
                    "topics": [self._folder_entry(path, topic) for topic in sorted(topics[path])],
                    "documents": [self._entry(path, doc_id) for doc_id in documents[path]],
                },
            }
            files = {INDEX: _json(index)}
            yield Folder(path, None, files if path else {SCHEMA_NAME: _json(SCHEMA), **files})

    def _chunks(
        self, doc_id: str, base: str, names: list[str], texts: list[bytes]
    ) -> dict[str, Any]:
        """The entry of a document in `_embedded.chunks`."""
        entry: dict[str, Any] = {
            "source": posixpath.basename(self.folders[doc_id]),
            "count": len(names),
        }
        by_baseline: dict[str, dict[int, float]] = {"conceptual": {}, "technical": {}}
        for row in self.similarities[doc_id]:
            by_baseline[row["baseline"]][row["chunk_index"]] = row["similarity"]
            entry[f"baseline_{row['baseline']}"] = row["baseline_index"]
        for baseline, key in (
            ("conceptual", "stripe_order"),
            ("technical", "stripe_order_technical"),
        ):
            order = [r for r in self.orders[doc_id] if r["baseline"] == baseline]
            if order:
                ranked = sorted(order, key=lambda r: r["place"])
                entry[key] = [r["chunk_index"] for r in ranked[1:]]
        titles: Counter[str] = Counter()
        entry["items"] = []
        for item, name, text in zip(self.items[doc_id], names, texts, strict=True):
            chunk = self._item(item, base, name, len(text), by_baseline)
            titles[chunk["title"]] += 1
            if titles[chunk["title"]] > 1:
                chunk["title"] += f" ({titles[chunk['title']]})"
            entry["items"].append(chunk)
        return entry

    def _item(
        self,
        item: Mapping[str, Any],
        base: str,
        name: str,
        size: int,
        by_baseline: Mapping[str, Mapping[int, float]],
    ) -> dict[str, Any]:
        chunk_id, index = item["chunk_id"], item["chunk_index"]
        entry = {
            "index": index,
            "id": chunk_id,
            "href": self._href(base, posixpath.join(base, name)),
            "title": item["heading_path"][-1]
            if item["heading_path"]
            else self.documents[item["doc_id"]]["title"],
            "is_code": self.code[chunk_id],
            "bytes": size,
            "similarity_conceptual": by_baseline["conceptual"][index],
        }
        if by_baseline["technical"]:
            entry["similarity_technical"] = by_baseline["technical"][index]
        if hashes := sorted(set(self.prompts.get(chunk_id, ()))):
            entry["prompt_hashes"] = [str(value) for value in hashes]
        entry["keywords"] = [{"name": n, "score": s} for n, s in self.keywords.get(chunk_id, ())]
        return entry

    def _document_keywords(self, doc_id: str) -> list[dict[str, Any]]:
        """The keywords of all chunks of a document with the highest scores."""
        scores = dict(
            pair for item in self.items[doc_id] for pair in self.keywords.get(item["chunk_id"], ())
        )
        best = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:MAX_KEYWORDS]
        return [{"name": name, "score": score} for name, score in best]

    def _relations(self, links: pa.Table) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        """By document the documents it links to, and those that link to it."""
        out: dict[str, set[str]] = defaultdict(set)
        back: dict[str, set[str]] = defaultdict(set)
        for from_id, to_id in rows_of(links, "from_id", "to_id"):
            linking, linked = self._document_of(from_id), self._document_of(to_id)
            if linking and linked and linking != linked:
                out[linking].add(linked)
                back[linked].add(linking)
        return out, back

    def _document_of(self, node_id: str | None) -> str | None:
        """The exported document that a document or node id belongs to; a path may hold a `#`
        itself.
        """
        while node_id and node_id not in self.folders:
            node_id = node_id.rpartition("#")[0]
        return node_id or None

    def _links(self, base: str, above: str | None) -> dict[str, Any]:
        links = {"self": {"href": self._href(base, posixpath.join(base, INDEX))}}
        if above is not None:
            links["parent"] = {"href": self._href(base, posixpath.join(above, INDEX))}
        return links | {"describedby": {"href": self._href(base, SCHEMA_NAME)}}

    def _link(self, base: str, doc_id: str) -> dict[str, Any]:
        target = posixpath.join(self.folders[doc_id], INDEX)
        return {"href": self._href(base, target), "title": self.documents[doc_id]["title"]}

    def _entry(self, base: str, doc_id: str) -> dict[str, Any]:
        link = self._link(base, doc_id)
        return {
            "id": doc_id,
            "title": link["title"],
            "count": len(self.items[doc_id]),
            "_links": {"self": {"href": link["href"]}},
        }

    def _folder_entry(self, base: str, folder: str) -> dict[str, Any]:
        href = self._href(base, posixpath.join(folder, INDEX))
        title = posixpath.basename(folder)
        return {"id": self._folder_id(folder), "title": title, "_links": {"self": {"href": href}}}

    @staticmethod
    def _folder_id(path: str) -> str:
        """`source:path` of a folder, as documents have it; empty for the topmost."""
        source, _, below = path.partition("/")
        return f"{source}:{below}" if source else ""

    def _href(self, base: str, target: str) -> str:
        """The address of a file of the graph, as the file `index.json` in the folder `base` says
        it.
        """
        if self.settings.base_url:
            return f"{self.settings.base_url.rstrip('/')}/{urlpath(target)}"
        return urlpath(posixpath.relpath(f"/{target}", f"/{base}"))


def _grouped(pairs: Iterable[tuple[Any, ...]]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def _text_of(item: Mapping[str, Any]) -> bytes:
    """The text of a chunk below the headings that stand above it, each a level deeper than the one
    before.
    """
    text, path = item["text_display"], list(item["heading_path"])
    if path and text.startswith("#") and text.partition("\n")[0].strip("# \t\r") == path[-1]:
        path.pop()
    above = [f"{'#' * min(level, 6)} {title}" for level, title in enumerate(path, 1)]
    return ("\n\n".join([*above, text]).removesuffix("\n") + "\n").encode()


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
