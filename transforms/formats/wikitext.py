"""Wikitext of MediaWiki to Markdown, as mwparserfromhell parses it."""

import re
from collections.abc import Callable, Iterator, Mapping

import mwparserfromhell
from mwparserfromhell import nodes
from mwparserfromhell.wikicode import Wikicode

from transforms.formats.converted import Converted, as_table, heading, plain
from transforms.text.charsets import decode_text

_MAGIC = re.compile(r"__[^\W\d_a-z]+__")
_OTHER_LANGUAGE = re.compile(r"[a-z]{1,3}(?:-[a-z]+)*:")
_OPTION = re.compile(r"[a-z0-9]+(?:=.*)?")
"""An option of a picture, as `thumb` or `alt=A door`, where its caption would be."""
_BLANK_LINES = re.compile(r"[ \t]*\n(?:[ \t]*\n)+")
_LIST_TAGS = ("li", "dt", "dd")
_BLOCKS = frozenset(
    ("blockquote", "center", "div", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "li", "ol", "p", "ul")
)
_CODE = ("pre", "source", "syntaxhighlight")
_UNSHOWN = frozenset(("references", "script", "style", "templatestyles"))


def wikitext_markdown(data: bytes) -> Converted:
    """A page as Markdown: headings, lists, tables, code and links; `[[Page|text]]` leads to a page
    by its title.

    A template is its values, with the names of those that have one; a reference is in parentheses
    at its place. Categories are the `tags` of the fields. Styles, comments and links to the page in
    other languages are lost.
    """
    code = mwparserfromhell.parse(decode_text(data, "utf-8").text)
    categories = (
        _titled(link)[1] for link in code.ifilter_wikilinks() if _titled(link)[0] == "category"
    )
    text = _BLANK_LINES.sub("\n\n", _markdown(code)).strip()
    return Converted(text + "\n", [], fields={"tags": list(dict.fromkeys(categories))})


def _titled(link: nodes.Wikilink) -> tuple[str, str]:
    """The namespace of a link's title in lower case, empty of an article, and the rest of it."""
    namespace, colon, name = str(link.title).partition(":")
    return (namespace.strip().lower(), " ".join(name.split())) if colon else ("", namespace)


def _markdown(code: Wikicode | None) -> str:
    parts: list[str] = []
    markers = ""
    for node in code.nodes if code else ():
        if isinstance(node, nodes.Tag) and node.tag in _LIST_TAGS and node.wiki_markup:
            markers += str(node.wiki_markup)
            continue
        if markers:
            parts.append(_bullet(markers))
        is_item, markers = bool(markers), ""
        is_begun = bool(parts) and not parts[-1].endswith("\n")
        convert = _NODES.get(type(node))
        parts.append(_text(str(node), is_begun) if convert is None else convert(node))
        if is_item:
            parts[-1] = parts[-1].lstrip(" ")
    return "".join(parts)


def _bullet(markers: str) -> str:
    r"""The beginning of a line of a list with these markers.

    >>> _bullet("*#"), _bullet(":")
    ('  1. ', '\n\n')
    """
    above = sum({"*": 2, "#": 3}.get(marker, 0) for marker in markers[:-1])
    sign = {"*": "- ", "#": "1. "}.get(markers[-1], "")
    return " " * above + sign if sign or above else "\n\n"


def _text(text: str, is_begun: bool) -> str:
    first, line_end, rest = _MAGIC.sub("", text).replace("[[", r"\[\[").partition("\n")
    return (first if is_begun else plain(first)) + line_end + plain(rest)


def _inline(code: Wikicode | None) -> str:
    return " ".join(_markdown(code).split())


def _wikilink(link: nodes.Wikilink) -> str:
    namespace, _ = _titled(link)
    text = _inline(link.text)
    if namespace == "category":
        return ""
    if namespace in ("file", "image", "media"):
        caption = text.rpartition("|")[2]
        return "" if _OPTION.fullmatch(caption) else caption
    title = " ".join(str(link.title).split()).lstrip(":")
    if _OTHER_LANGUAGE.match(str(link.title)):
        return text
    return f"[[{title}|{text}]]" if text and text != title else f"[[{title}]]"


def _template(template: nodes.Template) -> str:
    """The values of a template, those with a name as `name: value`; each on its own line if it is
    written so.
    """
    values = [
        f"{_inline(one.name)}: {value}" if one.showkey else value
        for one in template.params
        if (value := _inline(one.value))
    ]
    if "\n" not in str(template):
        return (
            "; ".join(values) if any(one.showkey for one in template.params) else " ".join(values)
        )
    return "".join(f"\n- {value}" for value in values) + "\n"


def _tag(tag: nodes.Tag) -> str:
    name = str(tag.tag).strip().lower()
    if name in _UNSHOWN:
        return ""
    if name in _CODE:
        return _code(tag)
    if (write := _WRITTEN.get(name)) is not None:
        return write(tag)
    text = _markdown(tag.contents)
    if name not in _BLOCKS:
        return text
    return f"\n- {text.strip()}\n" if name == "li" else f"\n{text}\n"


def _table(tag: nodes.Tag) -> str:
    """A table below its caption."""
    rows = list(_rows(tag))
    if not rows or not rows[0][0].startswith("+"):
        return f"\n\n\n\n{as_table(rows)}\n\n"
    caption = rows[0][0].removeprefix("+").lstrip()
    return f"\n\n{caption}\n\n{as_table([rows[0][1:], *rows[1:]])}\n\n"


def _note(tag: nodes.Tag) -> str:
    note = _inline(tag.contents)
    return f" ({note})" if note else ""


def _code(tag: nodes.Tag) -> str:
    language = next((str(a.value) for a in tag.attributes if a.name == "lang"), "")
    content = str(tag.contents).strip("\n").replace("```", "` ` `")
    return f"\n\n```{language}\n{content}\n```\n\n"


def _gallery(tag: nodes.Tag) -> str:
    """The captions of pictures, a line each."""
    lines = [line for line in str(tag.contents).split("\n") if "|" in line]
    captions = (mwparserfromhell.parse(line.rpartition("|")[2]) for line in lines)
    return "".join(f"\n{_inline(caption)}\n" for caption in captions)


def _inline_code(tag: nodes.Tag) -> str:
    return f"`{_inline(tag.contents)}`"


def _as_it_is(tag: nodes.Tag) -> str:
    return _text(str(tag.contents), is_begun=True)


_WRITTEN: dict[str, Callable[[nodes.Tag], str]] = {
    "table": _table,
    "ref": _note,
    "gallery": _gallery,
    "code": _inline_code,
    "tt": _inline_code,
    "kbd": _inline_code,
    "br": lambda _: "\n",
    "hr": lambda _: "\n\n",
    "nowiki": _as_it_is,
    "math": _as_it_is,
}
"""How a tag is written in Markdown; others are their content."""


def _rows(table: nodes.Tag) -> Iterator[list[str]]:
    """The rows of a table; cells that are not in a row are one row."""
    row: list[str] = []
    for node in table.contents.nodes if table.contents else ():
        if not isinstance(node, nodes.Tag):
            continue
        if node.tag in ("tr", "tbody", "thead"):
            yield from filter(None, (row, *_rows(node)))
            row = []
        elif node.tag in ("td", "th"):
            row.append(_inline(node.contents))
        elif node.tag == "caption":
            row.append(f"+{_inline(node.contents)}")
    yield from filter(None, (row,))


_NODES: Mapping[type, Callable[..., str]] = {
    nodes.Argument: lambda argument: _markdown(argument.default),
    nodes.Comment: lambda _: "",
    nodes.ExternalLink: lambda link: (
        f"[{title}]({link.url})" if (title := _inline(link.title)) else str(link.url)
    ),
    nodes.Heading: lambda title: f"\n\n{heading(title.level, _inline(title.title))}\n\n",
    nodes.HTMLEntity: lambda entity: entity.normalize().replace("\xa0", " ").replace("<", "\\<"),
    nodes.Tag: _tag,
    nodes.Template: _template,
    nodes.Wikilink: _wikilink,
}
