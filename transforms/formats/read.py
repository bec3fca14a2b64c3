"""One function for all formats that are read in a process of their own."""

from collections.abc import Callable, Mapping

from transforms.errors import not_installed
from transforms.formats.books import epub_markdown, notebook_markdown
from transforms.formats.calendars import calendar_markdown
from transforms.formats.contacts import contacts_markdown
from transforms.formats.converted import PAGE, Converted, FormatError
from transforms.formats.delimited import delimited_markdown
from transforms.formats.office import (
    docx_markdown,
    opendocument_markdown,
    pptx_markdown,
    sheets_markdown,
)
from transforms.formats.pdf import Ocr, pdf_markdown, pdf_page
from transforms.formats.pictures import picture_markdown
from transforms.formats.web_archives import web_archive_markdown


def _wikitext(data: bytes) -> Converted:
    try:
        from transforms.formats.wikitext import wikitext_markdown
    except ModuleNotFoundError as error:
        raise FormatError(f"needs_package: {not_installed(error, 'wiki')}") from error
    return wikitext_markdown(data)


_READERS: Mapping[str, Callable[[bytes], Converted]] = {
    "docx": docx_markdown,
    "pptx": pptx_markdown,
    "sheet": sheets_markdown,
    "opendocument": opendocument_markdown,
    "epub": epub_markdown,
    "notebook": notebook_markdown,
    "calendar": calendar_markdown,
    "wikitext": _wikitext,
    "table": delimited_markdown,
    "contacts": contacts_markdown,
    "web_archive": web_archive_markdown,
}


def read_format(
    data: bytes, kind: str, ocr: Ocr | None = None, *, seen_pixels: int | None = None
) -> Converted:
    """A file of one of `settings.documents.CONVERTED_FORMATS` as Markdown; FormatError if it has no
    text to be read.

    With `seen_pixels`, a picture of as many pixels is kept with its text, and need not have one.
    `page 7` is that page of a PDF as a picture.
    """
    if kind.startswith(PAGE):
        return pdf_page(data, int(kind.removeprefix(PAGE)))
    if kind == "pdf":
        return pdf_markdown(data, ocr)
    try:
        converted = (
            picture_markdown(data, ocr, seen_pixels) if kind == "picture" else _READERS[kind](data)
        )
    except RecursionError as error:
        raise FormatError("unreadable: its parts nest too deep") from error
    if not converted.text.strip():
        raise FormatError("no_text: it holds no text")
    if converted.page_starts is None:  # without pages whose places would change
        text = converted.text.encode("utf-8", "replace").decode()
        return converted._replace(text=text.replace("\0", "\ufffd"))
    return converted
