"""Parts of notes beside their text: properties, the pages that links lead to, and the notes that
they embed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from dagster_project.extras.web.marks import Marked, followed, linked, markdown_html
from dagster_project.extras.web.question import PICTURES, condition, page_of, with_parameters
from dagster_project.index.search.lookup import Ask
from transforms.settings.documents import PLAIN_FORMATS

_LINKS = """
WITH places AS (SELECT unnest($ids::VARCHAR[]) AS node_id, node_id AS doc_id
  UNION SELECT node_id, doc_id FROM nodes WHERE doc_id IN (SELECT unnest($ids::VARCHAR[])))
SELECT p.doc_id, l.byte_start, l.to_id, l.target, l.kind, l.to_id IN (SELECT message_id FROM messages) AS is_mail
FROM links l JOIN places p ON p.node_id = l.from_id WHERE l.kind <> 'url' OR l.to_id IS NOT NULL ORDER BY ALL
"""
_EMBEDDED = """
SELECT n.node_id, d.doc_id, d.text, d.format, if(n.depth = 0, d.body_start, n.heading_start) AS first,
  if(n.depth = 0, strlen(d.text), n.byte_end) AS last
FROM nodes n JOIN documents d USING (doc_id) WHERE n.node_id IN (SELECT unnest($ids::VARCHAR[]))
"""
_MOST_EMBEDDED, _MOST_BYTES = 20, 20_000
"""Notes that a page shows in place, and bytes of each."""
_MOST_PROPERTIES, _MOST_VALUES, _MOST_CHARACTERS = 40, 20, 300
SHOWN_ELSEWHERE = {"title", "tags", "tag", "aliases", "description", "cssclasses", "cssclass"}
"""Properties with a place of their own on the page, or that only name a style."""
_WIKI = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]]*))?\]\]")


class Links(NamedTuple):
    """The pages that a document's links lead to, by byte; empty for a link whose target the index
    does not hold.
    """

    targets: dict[int, str]
    named: dict[str, str]
    embeds: dict[int, Markup]
    texts: list[tuple[str, str]]


def links_of(ask: Ask, doc_id: str, *, has_files: bool) -> Links:
    """The links of a document; `named` has the targets by name, `texts` the ids and texts that
    `embeds` show.
    """
    rows = ask(_LINKS, {"ids": [doc_id]}).to_pylist()
    references = [row for row in rows if row["kind"] == "embed" and row["to_id"]][:_MOST_EMBEDDED]
    notes = (
        ask(_EMBEDDED, {"ids": [row["to_id"] for row in references]}).to_pylist()
        if references
        else []
    )
    below = ask(_LINKS, {"ids": [row["doc_id"] for row in notes]}).to_pylist() if notes else []
    by_id, embeds, texts = {row["node_id"]: row for row in notes}, {}, []
    for row in references:
        if (of := by_id.get(row["to_id"])) and of["doc_id"] != doc_id:
            span = _span(of, row["target"])
            shown = of["doc_id"] if has_files else None
            html = _html(of, span, _targets(r for r in below if r["doc_id"] == of["doc_id"]), shown)
            embeds[row["byte_start"]] = Markup('<section class="embed">{}</section>').format(html)
            texts.append(
                (of["node_id"], of["text"].encode()[slice(*span)].decode(errors="replace"))
            )
    return Links(_targets(rows), {row["target"]: _page(row) for row in rows}, embeds, texts)


def _targets(rows: Any) -> dict[int, str]:
    return {
        r["byte_start"]: _page(r)
        for r in rows
        if not r["target"].lower().endswith(PICTURES) or r["to_id"]
    }


def _page(row: Mapping[str, Any]) -> str:
    return page_of("message" if row["is_mail"] else "node", row["to_id"]) if row["to_id"] else ""


def _span(row: Mapping[str, Any], target: str) -> tuple[int, int]:
    """The bytes of a note or section that an embed shows: of `^id` the paragraph, of a long one the
    first lines.
    """
    data, (first, last) = row["text"].encode(), (row["first"], row["last"])
    mark = re.compile(
        rb"[ \t]*(\^%b)[ \t\r]*$" % re.escape(target.rpartition("^")[2].encode()), re.M | re.I
    )
    if "^" in target and (match := mark.search(data, first, last)):
        last = len(data[: match.start()].rstrip())
        start = max(data.rfind(b"\n\n", first, last), data.rfind(b"\n\r\n", first, last))
        return (start + 1 if start >= 0 else first), last
    if last - first > _MOST_BYTES:
        last = max(data.rfind(b"\n", first, first + _MOST_BYTES), first)
    return first, last


def _html(
    row: Mapping[str, Any], span: tuple[int, int], targets: Mapping[int, str], shown_of: str | None
) -> Markup:
    text = Marked(row["text"])
    if row["format"] in PLAIN_FORMATS:
        return Markup('<pre class="text">{}</pre>').format(Markup(text.html(*span)))
    return markdown_html(text, {}, targets, shown_of, span)


def properties(frontmatter: str | None, named: Mapping[str, str]) -> list[tuple[str, Markup]]:
    """The properties of a document by name, with links; a value leads to the documents that have
    it, too.

    `named` has the pages of wiki links by their targets.
    """
    shown: list[tuple[str, Markup]] = []
    for name, values in flat(json.loads(frontmatter or "{}")).items():
        if name.casefold() not in SHOWN_ELSEWHERE and values:
            htmls = [
                _value(name, value[:_MOST_CHARACTERS], named) for value in values[:_MOST_VALUES]
            ]
            shown.append((name, Markup(", ").join(htmls)))
    return shown[:_MOST_PROPERTIES]


def flat(fields: Any, above: str = "") -> dict[str, list[str]]:
    """The values of a frontmatter as texts by their keys, `a.b` for b below a.

    >>> flat({"by": {"name": "ann"}, "rating": [4, None]})
    {'by.name': ['ann'], 'rating': ['4']}
    """
    if isinstance(fields, dict):
        below = [
            flat(value, f"{above}.{key}" if above else str(key)) for key, value in fields.items()
        ]
        return {name: values for of in below for name, values in of.items()}
    values: Sequence[Any] = fields if isinstance(fields, list) else [fields]
    texts = [
        json.dumps(v, ensure_ascii=False) if isinstance(v, bool | dict | list) else str(v)
        for v in values
        if v is not None
    ]
    return {above: [text for text in texts if text.strip()]}


def _value(name: str, value: str, named: Mapping[str, str]) -> Markup:
    if match := _WIKI.fullmatch(value.strip()):
        return linked(escape(match[2] or match[1]), named.get(match[1].strip(), ""))
    if followed(value):
        return linked(escape(value), value)
    if not (query := condition(f"meta.{name.casefold()}", value)):
        return escape(value)
    return Markup('<a href="{}">{}</a>').format(with_parameters("/", {"q": query}), value)
