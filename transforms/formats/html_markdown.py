"""HTML pages and canvases of Obsidian (JSON Canvas 1.0) to Markdown."""

import json
import re
from collections.abc import Sequence
from typing import Any

from html_to_markdown import ConversionError, ConversionOptions, convert
from selectolax.lexbor import LexborHTMLParser

from transforms.formats.converted import Converted, heading, own_title
from transforms.text.shallow_markup import shallow_markup

_OPTIONS = ConversionOptions(extract_metadata=False, bullets="-")
_WITHOUT_PICTURES = ConversionOptions(extract_metadata=False, bullets="-", skip_images=True)
_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_PRESCAN_BYTES = 1024
"""Bytes in which a page says its charset (WHATWG HTML, 13.2.3.2)."""
_CONFLUENCE = '<span id="title-text">'
_FRAME = "#breadcrumb-section, #title-heading, .page-metadata, #footer, img[src^='images/icons/']"
"""The parts of a page in an export of Confluence that are not its text."""
_ICONS = ":is(span, i, svg, img):is([class='icon'], [class^='icon-'], [class^='icon '], [class*=' icon'])"
_SIZE = re.compile(r"\s*(\d{1,4}(?:\.\d+)?)\s*(?:px)?\s*$")
_STYLE_SIZES = re.compile(r"(?:^|;)\s*(width|height)\s*:([^;]*)")
_ICON_PIXELS = 32
"""Pixels of width or height up to which a picture is an icon, whose text says nothing."""
_DAY = re.compile(
    r"(?:(?P<month>[A-Z][a-z]{2}) (?P<day>\d\d?), |(?P<first>\d\d?) (?P<named>[A-Z][a-z]{2}) )(?P<year>\d{4})$"
)


def html_markdown(markup: str, *, has_pictures: bool = True) -> Converted | None:
    """The page as Markdown; None if the converter gives up. Scripts, styles and navigation are
    dropped.

    `fields` of a page that Confluence exported are its title, space, author, editor and time, which
    leave the text.
    """
    shallow, fields = shallow_markup(markup), None
    if _CONFLUENCE in markup:
        shallow, fields = _without_frame(LexborHTMLParser(shallow))
    if "icon" in shallow or "<img" in shallow:
        shallow = _without_icons(LexborHTMLParser(shallow))
    try:
        result = convert(shallow, _OPTIONS if has_pictures else _WITHOUT_PICTURES)
    except ConversionError:
        return None
    defects = [w.message for w in result.warnings if str(w.kind) == "depth_limit_exceeded"]
    title = heading(1, fields["title"]) if fields and fields["title"] else ""
    text = "\n\n".join(filter(None, (title, result.content)))
    return Converted(text, [f"nesting_too_deep: {message}" for message in defects], fields=fields)


def _without_icons(page: LexborHTMLParser) -> str:
    """The markup of a page without icons: elements of that class, and pictures as small as one."""
    for node in page.css(_ICONS):
        node.decompose()
    for node in page.css("img"):
        sizes = {
            **node.attributes,
            **dict(_STYLE_SIZES.findall(node.attributes.get("style") or "")),
        }
        matches = (_SIZE.match(sizes.get(side) or "") for side in ("width", "height"))
        if any(match and float(match[1]) <= _ICON_PIXELS for match in matches):
            node.decompose()
    return page.html or ""


def _without_frame(page: LexborHTMLParser) -> tuple[str, dict[str, str]]:
    """The markup of an exported page without what is around its text, and its properties by name."""
    names = (
        "#title-text",
        "#breadcrumbs .first",
        ".page-metadata .author",
        ".page-metadata .editor",
        ".page-metadata",
    )
    nodes = map(page.css_first, names)
    title, space, author, editor, line = (
        " ".join(node.text().split()) if node else "" for node in nodes
    )
    title = title.removeprefix(f"{space} : ").removesuffix(":")
    fields = {"title": title, "space": space, "author": author, "editor": editor}
    if day := _DAY.search(line):
        is_changed = editor or " modified on " in line
        date = f"{day['day'] or day['first']}-{day['month'] or day['named']}-{day['year']}"
        fields["modified" if is_changed else "created"] = date
    for node in page.css(_FRAME):
        node.decompose()
    return page.html or "", {
        name: value for name, value in fields.items() if value or name == "title"
    }


def html_title(markup: str) -> str | None:
    """The text of the page's title element, None if there is none or a program made it."""
    node = LexborHTMLParser(shallow_markup(markup)).css_first("head > title")
    return None if node is None else own_title(node.text())


def html_charset(data: bytes) -> str | None:
    """The charset that the page declares, as written."""
    match = _CHARSET.search(data, 0, _PRESCAN_BYTES)
    return match[1].decode() if match else None


def canvas_markdown(text: str) -> Converted | None:
    """A canvas as Markdown, from its top to its foot: cards with text, embeds of files, links; None
    if it is none.

    A group is a heading over the cards inside of it, and comes after those in none. Arrows with a
    label come last.
    """
    try:
        canvas = json.loads(text)
        nodes = sorted(canvas.get("nodes", []), key=lambda node: (node["y"], node["x"]))
        names = {node["id"]: _name(node) for node in nodes}
        arrows = [
            f"{names[edge['fromNode']]} → {edge['label']} → {names[edge['toNode']]}"
            for edge in canvas.get("edges", [])
            if edge.get("label")
        ]
        groups = [node for node in nodes if node["type"] == "group"]
        parts = [
            _text(node) for node in nodes if node["type"] != "group" and not _group(node, groups)
        ]
        for group in groups:
            parts.append(heading(2, group.get("label") or ""))
            parts += [
                _text(n) for n in nodes if n["type"] != "group" and _group(n, groups) == group["id"]
            ]
        return Converted("\n\n".join(part for part in [*parts, *arrows] if part) + "\n", [])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _group(node: dict[str, Any], groups: Sequence[dict[str, Any]]) -> str | None:
    """The smallest group that a card begins in."""
    around = [
        g
        for g in groups
        if g["x"] <= node["x"] < g["x"] + g["width"] and g["y"] <= node["y"] < g["y"] + g["height"]
    ]
    return min(around, key=lambda g: g["width"] * g["height"])["id"] if around else None


def _text(node: dict[str, Any]) -> str:
    if node["type"] == "file":
        return f"![[{node['file']}{node.get('subpath', '')}]]"
    return f"<{node['url']}>" if node["type"] == "link" else str(node.get("text", ""))


def _name(node: dict[str, Any]) -> str:
    """A card in few words: its first line, file, address or label."""
    rows = str(
        node.get("text") or node.get("file") or node.get("url") or node.get("label") or ""
    ).split("\n")
    return rows[0].lstrip("# ")
