"""reStructuredText to Markdown, by way of the HTML that docutils makes of it."""

import re

from docutils import nodes
from docutils.core import publish_doctree, publish_from_doctree
from docutils.parsers.rst import Parser

from transforms.formats.converted import Converted
from transforms.formats.html_markdown import html_markdown

_SETTINGS = {
    "_disable_config": True,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": 2,
    "halt_level": 5,
    "warning_stream": False,
    "doctitle_xform": False,
    "docinfo_xform": False,
    "sectnum_xform": False,
    "initial_header_level": 1,
    "syntax_highlight": "none",
    "math_output": "LaTeX",
    "embed_stylesheet": False,
    "stylesheet_path": "",
    "toc_backlinks": False,
    "footnote_backlinks": False,
    "output_encoding": "unicode",
}
"""No file is read, no raw HTML is passed on, nothing is printed; faults stay in the tree."""
DOCUTILS_FAULTS = (
    RecursionError,
    LookupError,
    AttributeError,
    ValueError,
    TypeError,
    AssertionError,
)
"""Exceptions of docutils on nested and on malformed text."""
_ROLE = re.compile(r":[\w:.+-]+:`([~!.]*)(?P<text>[^`]*?)(?:\s*<[^<>`]*>)?`", re.DOTALL)


_MAIL_HEADER = re.compile(r"\s*(?:[A-Z][\w-]*:(?:[ \t].*)?\n(?:[ \t]+\S.*\n)*){2,}[ \t]*\n")
"""Fields as in a mail, with which a Python enhancement proposal begins."""


def rst_markdown(text: str) -> Converted | None:
    """The text as Markdown; None if docutils fails or keeps nothing of it (a line over 10,000
    characters).

    Directives that docutils does not know (those of Sphinx) or that are switched off stay as code
    blocks of their source, roles it does not know as their text. `fields` are those at the top.
    """
    try:
        tree = publish_doctree(
            text,
            settings_overrides=_SETTINGS,
            parser=Parser(rfc2822=bool(_MAIL_HEADER.match(text))),
        )
        _replace_complaints(tree)
        fields = _fields(tree)
        page = publish_from_doctree(tree, writer="html5", settings_overrides=_SETTINGS)
    except DOCUTILS_FAULTS:
        return None
    html = html_markdown(page)
    if html is None or not html.text:
        return None
    return html._replace(fields=fields)


def _fields(tree: nodes.document) -> dict[str, str] | None:
    """The fields at the top of a text, or below its title, by name; in the tree a paragraph takes
    their place.
    """
    first = next((node for node in tree if not isinstance(node, nodes.Invisible)), None)
    if isinstance(first, nodes.section):
        first = next(
            (node for node in first if not isinstance(node, nodes.title | nodes.Invisible)), None
        )
    if not isinstance(first, nodes.field_list):
        return None
    pairs = [(field[0].astext(), " ".join(field[1].astext().split())) for field in first]
    lines = "\n".join(f"{name}: {value}" for name, value in pairs)
    first.replace_self(nodes.paragraph("", nodes.Text(lines)))
    return dict(pairs)


def _replace_complaints(tree: nodes.document) -> None:
    """Put the source that a message of docutils is about in the place of the message."""
    for message in list(tree.findall(nodes.system_message)):
        sources = [child for child in message.children if isinstance(child, nodes.literal_block)]
        message.parent.replace(message, sources)
    tree.transform_messages.clear()
    for place in list(tree.findall(nodes.problematic)):
        role = _ROLE.fullmatch(source := place.astext())
        place.parent.replace(place, nodes.literal("", role["text"]) if role else nodes.Text(source))
    for literal in tree.findall(nodes.literal):
        literal["classes"].append("code")
