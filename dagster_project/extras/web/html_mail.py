"""HTML of a mail as it was sent: without elements and attributes that run or load something, its
own pictures in it.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

from dagster_project.extras.web.marks import followed
from transforms.mail.header_block import read_headers
from transforms.mail.mime import ParsedMail, decoded_part
from transforms.mail.mime_tree import is_body, leaves, parsed_tree
from transforms.text.charsets import decode_text
from transforms.text.shallow_markup import shallow_markup

_DROPPED = [
    "audio",
    "base",
    "button",
    "canvas",
    "embed",
    "frame",
    "frameset",
    "iframe",
    "input",
    "link",
    "math",
    "meta",
    "noframes",
    "noscript",
    "object",
    "script",
    "select",
    "svg",
    "template",
    "textarea",
    "title",
    "video",
]
"""Elements that go with all that is in them."""
_KEPT = {
    "abbr",
    "align",
    "alt",
    "bgcolor",
    "border",
    "cellpadding",
    "cellspacing",
    "class",
    "color",
    "cols",
    "colspan",
    "dir",
    "face",
    "height",
    "hspace",
    "id",
    "lang",
    "name",
    "nowrap",
    "noshade",
    "open",
    "reversed",
    "rows",
    "rowspan",
    "size",
    "span",
    "start",
    "style",
    "summary",
    "title",
    "type",
    "valign",
    "value",
    "vspace",
    "width",
}
"""Attributes that show something and load nothing but what a style names."""
_LOADS = re.compile(r"@import\b|\burl\s*\(|\bimage-set\s*\(", re.I)
"""Calls by which a style loads something; the policy of the page refuses that in any spelling."""
_OWN_DATA = tuple(f"data:image/{kind};" for kind in ("png", "jpeg", "jpg", "gif", "webp"))
_MOST_PICTURES = 32 << 20
"""Characters of pictures that are put in: a mail may name one picture many times."""
_HEAD = (
    '<!doctype html><meta charset="utf-8"><title>Mail as it was sent</title>'
    "<style>:root{color-scheme:light;background:#fff;color:#222;font:1rem/1.45 system-ui,sans-serif}"
    "body{margin:.6rem;overflow-wrap:break-word}img{max-width:100%;height:auto}</style>"
)


class HtmlMail(NamedTuple):
    """The page of one mail, and the hosts that hold pictures of it; `url()` means addresses in its
    styles.
    """

    html: str
    hosts: set[str]


def policy(*, remote: bool) -> str:
    """The Content-Security-Policy of such a page: it shows, and loads nothing, or `remote` pictures
    alone.
    """
    return (
        "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'unsafe-inline'; "
        f"img-src data:{' https:; upgrade-insecure-requests' if remote else ''}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )


def html_mail(
    data: bytes, media_type: Callable[[bytes], str | None], *, remote: bool
) -> HtmlMail | None:
    """The HTML of a raw mail with pictures of the mail itself, `remote` ones too; None if it has no
    HTML.

    `media_type` says of the first bytes of a file whether they are a picture that may be shown.
    """
    headers, faults = read_headers(data), ParsedMail()
    # The quick way through the parts leaves their Content-ID out.
    tree = parsed_tree(headers.fields, data[headers.body_start :])
    texts, pictures, hosts = list[str](), dict[str, str](), set[str]()
    for leaf in leaves(tree.root, 32, faults.note, 0):
        name = str(leaf.part.get("content-id", "")).strip().strip("<>")
        if leaf.declared.kind == "text/html" and is_body(leaf):
            texts.append(decode_text(decoded_part(leaf, faults), leaf.declared.charset).text)
        elif name and name not in pictures:
            content = decoded_part(leaf, faults)
            kind = media_type(content[:16]) or ""
            if kind.startswith("image/"):
                pictures[name] = f"data:{kind};base64,{b64encode(content).decode()}"
    shown = [_shown(text, pictures, hosts, remote=remote) for text in texts]
    return HtmlMail(_HEAD + "".join(shown), hosts) if texts else None


def _shown(text: str, pictures: Mapping[str, str], hosts: set[str], *, remote: bool) -> str:
    """One HTML part as it is shown; `hosts` gets those of its remote pictures."""
    tree, room = LexborHTMLParser(shallow_markup(text)), _MOST_PICTURES
    tree.strip_tags(_DROPPED, recursive=True)
    for node in tree.css("*"):
        before = dict(node.attributes)
        for name in before.keys() - _KEPT:
            del node.attrs[name]
        _bound_style(node, before.get("style") or "", hosts, remote=remote)
        shown = _link(node, (before.get("href") or "").strip())
        place = "src" if node.tag == "img" else "background"
        picture = _picture((before.get(place) or "").strip(), pictures, hosts, remote=remote)
        room -= len(picture)
        if picture and room >= 0:
            shown[place] = picture
        for name, value in shown.items():
            node.attrs[name] = value
    return tree.html or ""


def _bound_style(node: LexborNode, own: str, hosts: set[str], *, remote: bool) -> None:
    """Take what loads something from elsewhere out of a style, unless it is asked for."""
    style = node.text(deep=True) if node.tag == "style" else own
    if not _LOADS.search(style):
        return
    hosts.add("url()")
    if not remote and node.tag == "style":
        node.inner_html = _LOADS.sub("none(", style)
    elif not remote:
        node.attrs["style"] = _LOADS.sub("none(", style)


def _link(node: LexborNode, address: str) -> dict[str, str]:
    """The attributes of a link that may be followed, in the mail or elsewhere."""
    if node.tag == "a" and address.startswith("#"):
        return {"href": address}
    if node.tag == "a" and followed(address):
        return {"href": address, "target": "_blank", "rel": "noreferrer noopener"}
    return {}


def _picture(address: str, pictures: Mapping[str, str], hosts: set[str], *, remote: bool) -> str:
    """The address of a picture that is shown; empty if it is not."""
    scheme = address[:8].lower()
    if scheme.startswith("cid:"):
        return pictures.get(unquote(address[4:]), "")
    if scheme.startswith(("http:", "https:", "//")):
        try:
            hosts.add(urlsplit(address).hostname or address[:60])
        except ValueError:
            return ""
        return address if remote else ""
    return address if address.lower().startswith(_OWN_DATA) else ""
