"""A search as an Atom feed (RFC 4287), and the description by which a browser adds the search box (OpenSearch)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from xml.etree import ElementTree

from starlette.requests import Request
from starlette.responses import Response

from dagster_project.extras.web.question import page_of_hit, question_of
from dagster_project.extras.web.results import newest_first
from dagster_project.extras.web.site import Site
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.outgoing.receipts import Disclosed
from transforms.errors import QueryError

_ATOM = "http://www.w3.org/2005/Atom"
_OPENSEARCH = "http://a9.com/-/spec/opensearch/1.1/"
_ENTRIES = 50
_NOT_XML = {*range(9), 11, 12, *range(14, 32), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF}
_WITHOUT = dict.fromkeys(_NOT_XML)


def feed(_site: Site, request: Request, index: SearchIndex) -> Response:
    """The best hits of a search, the newest first; of a query without words the newest that meet it."""
    question = question_of(request.query_params)
    if question.is_empty:
        raise QueryError("there is nothing to follow: add a query to the address")
    searched = index.search([question.query], question.filters, _ENTRIES, question.plain)
    rows = newest_first(searched.hits.to_pylist())
    root = ElementTree.Element("feed", xmlns=_ATOM)
    base = str(request.base_url).rstrip("/")
    _add(root, "title", f"{question.query or 'All that meets the filters'} · Weft")
    _add(root, "id", f"{base}{question.address('/feed')}")
    ElementTree.SubElement(root, "link", rel="self", href=f"{base}{question.address('/feed')}")
    page = f"{base}{question.address()}"
    ElementTree.SubElement(root, "link", rel="alternate", type="text/html", href=page)
    published = datetime.fromisoformat(index.manifest["published_at"])
    newest = rows[0]["effective_at"] if rows else None
    _add(root, "updated", (newest or published).isoformat())
    request.state.shown += [Disclosed(row["citation"], row["snippet"], row["doc_id"]) for row in rows]
    for row in rows:
        _entry(root, row, base, published)
    return _xml(root, "application/atom+xml")


def opensearch(request: Request) -> Response:
    """The description of the search box."""
    base = str(request.base_url).rstrip("/")
    root = ElementTree.Element("OpenSearchDescription", xmlns=_OPENSEARCH)
    _add(root, "ShortName", "Weft")
    _add(root, "Description", "Search mail, notes and chats")
    ElementTree.SubElement(root, "Url", type="text/html", template=f"{base}/?q={{searchTerms}}")
    return _xml(root, "application/opensearchdescription+xml")


def _entry(root: ElementTree.Element, row: Mapping[str, Any], base: str, published: datetime) -> None:
    entry = ElementTree.SubElement(root, "entry")
    _add(entry, "title", row["subject"] or "(no subject)")
    _add(entry, "id", f"{base}{page_of_hit(row).partition('?')[0]}")
    ElementTree.SubElement(entry, "link", rel="alternate", type="text/html", href=f"{base}{page_of_hit(row)}")
    _add(entry, "updated", (row["effective_at"] or published).isoformat())
    author = row["from_name"] or row["from_addr"] or row["source"]
    _add(ElementTree.SubElement(entry, "author"), "name", author)
    _add(entry, "summary", row["snippet"])


def _add(parent: ElementTree.Element, name: str, text: str) -> None:
    ElementTree.SubElement(parent, name).text = text.translate(_WITHOUT)


def _xml(root: ElementTree.Element, media_type: str) -> Response:
    content = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return Response(content, media_type=media_type)
