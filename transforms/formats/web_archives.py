"""Pages that a browser saved with their parts in one file (MHTML, RFC 2557) to Markdown."""

from email.message import Message
from email.parser import BytesParser

from transforms.formats.converted import Converted, FormatError, own_title
from transforms.formats.html_markdown import html_markdown, html_title
from transforms.text.charsets import decode_text


def web_archive_markdown(data: bytes) -> Converted:
    """The first page of a web archive as Markdown, without pictures; its address as `fields`."""
    archive = BytesParser().parsebytes(data)
    page = next((part for part in archive.walk() if part.get_content_type() == "text/html"), None)
    if page is None:
        raise FormatError("unreadable: it has no part of the type text/html")
    content = page.get_payload(decode=True)
    markup = decode_text(content if isinstance(content, bytes) else b"", _charset(page)).text
    converted = html_markdown(markup, has_pictures=False)
    if converted is None:
        raise FormatError("unreadable: it cannot be converted from HTML to Markdown")
    address = " ".join(str(archive.get("Snapshot-Content-Location") or "").split())
    fields = {**(converted.fields or {}), **({"url": address} if address else {})}
    return converted._replace(title=own_title(html_title(markup)), fields=fields or None)


def _charset(page: Message) -> str:
    """The charset that a part names, else that of all browsers."""
    return page.get_content_charset() or "utf-8"
