"""Files as their sources hold them at that moment: raw mails, attachments, files of documents,
pictures that notes embed.
"""

import os
import re
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response

from dagster_project.config.settings import (
    USUALLY_EXCLUDED,
    ConversationSourceSettings,
    DocumentSourceSettings,
)
from dagster_project.extras.web.html_mail import HtmlMail, html_mail, policy
from dagster_project.extras.web.question import PICTURES
from dagster_project.extras.web.site import Site, parameter, rows_about, tagged
from dagster_project.extras.web.unpacked import UnpackedResponse
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.sources.raw_mail import readable_mail
from dagster_project.sources.reading_files import TooLargeError, bounded, open_file
from dagster_project.sources.trees import matcher
from dagster_project.system.globs import is_file, is_folder, real_path
from transforms.conversations.windows import window_id
from transforms.errors import (
    ChatFormatError,
    DisclosureLimitError,
    QueryError,
    SourceError,
    shortened,
)
from transforms.formats.converted import PAGE, FormatError
from transforms.mail.mbox import mbox_entry
from transforms.mail.mime import parsed_mail
from transforms.text.visible import picture_of

_PLACES = "SELECT source, place, message_id, raw_bytes FROM messages WHERE message_id = $id ORDER BY source"
_ATTACHED = """
SELECT source, partition, message_id, part_index, byte_count, filename FROM attachments WHERE attachment_id = $id
"""
_THREAD = """
SELECT t.message_id, m.effective_at, m.raw_bytes FROM thread_tree t JOIN messages m USING (message_id)
WHERE t.thread_id = $id ORDER BY t.position
"""
_DOCUMENT = "SELECT source, path FROM documents WHERE doc_id = $id"
_SHOWN = (
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"RIFF....WEBP", "image/webp"),
    (rb"%PDF-", "application/pdf"),
    (rb"ID3|\xff[\xf2\xf3\xfb]", "audio/mpeg"),
    (rb"OggS", "audio/ogg"),
    (rb"fLaC", "audio/flac"),
    (rb"RIFF....WAVE", "audio/wav"),
    (rb"....ftypM4A", "audio/mp4"),
    (rb"....ftyp(?:isom|iso2|mp4[12]|avc1|M4V|qt|3gp.)", "video/mp4"),
    (rb"\x1aE\xdf\xa3", "video/webm"),
)
"""How files begin that a browser shows without running anything in them; all others, SVG and HTML
too, are to save.
"""
_MEDIA = r"(?:image|audio|video)/"
_HEAD_BYTES, _BYTES = 16, "application/octet-stream"
_MOST_BYTES = 256 << 20
_MOST_LOOKED_AT = 200_000
"""Entries of a source in which an embedded picture is looked for by its name."""


def media_type(head: bytes) -> str | None:
    """The media type of a file that a browser may show, by its first bytes; None if it is to save.

    >>> media_type(b"%PDF-1.7"), media_type(b"<svg onload=alert(1)>")
    ('application/pdf', None)
    """
    return next((kind for form, kind in _SHOWN if re.match(form, head, re.DOTALL)), None)


def raw_mail(site: Site, request: Request, index: SearchIndex) -> Response:
    """A mail as a source of its own holds it, to save."""
    _refuse_unseen(site, index)
    mails = map(partial(_mail, site, index), [parameter(request)])
    return UnpackedResponse(site.unpacker.file(mails), f"{parameter(request)}.eml", "text/plain")


def sent_html(site: Site, request: Request, index: SearchIndex) -> Response:
    """The HTML of a mail as it was sent, for a frame; with `?pictures=1` pictures of other hosts,
    too.
    """
    _refuse_unseen(site, index)
    remote = request.query_params.get("pictures") == "1"
    shown = html_mail(_mail(site, index, parameter(request)), media_type, remote=remote)
    if shown is None:
        raise SourceError("this mail has no HTML")
    # A page in a sandbox of its own is not opened at all where it asks for that header.
    headers = {
        "Content-Security-Policy": policy(remote=remote),
        "Cross-Origin-Opener-Policy": "unsafe-none",
    }
    return HTMLResponse(shown.html, headers=headers)


def html_of(site: Site, index: SearchIndex, message_id: str, *, is_read: bool) -> HtmlMail | bool:
    """The HTML of a mail if it is to be read, else whether the mail may have some; False where it
    is not shown.
    """
    try:
        data = _mail(site, index, message_id) if site.shows_files(index) else b""
    except SourceError:
        return False
    has_html = b"text/html" in data.lower()
    return (
        (html_mail(data, media_type, remote=False) or False) if has_html and is_read else has_html
    )


def thread_mbox(site: Site, request: Request, index: SearchIndex) -> Response:
    """The raw mails of a thread as mbox (mboxrd); SourceError if one of them is not at its source
    any more.
    """
    _refuse_unseen(site, index)
    rows = rows_about(index.ask, _THREAD, "thread", parameter(request))
    if (size := sum(row["raw_bytes"] for row in rows)) > _MOST_BYTES:
        raise QueryError(f"the mails of this thread have {size:,} bytes: save them one by one")
    mails = (mbox_entry(_mail(site, index, row["message_id"]), row["effective_at"]) for row in rows)
    file, name = site.unpacker.file(mails), f"{parameter(request)}.mbox"
    return tagged(request, UnpackedResponse(file, name, "application/mbox"))


def attached(site: Site, request: Request, index: SearchIndex) -> Response:
    """The file that a mail or a chat has attached; with `?page=N` that page of a PDF as a picture.

    A chat whose people have pseudonyms gives pictures, sounds and films alone: other files may hold
    names.
    """
    _refuse_unseen(site, index)
    (row,) = rows_about(index.ask, _ATTACHED, "attachment", parameter(request))
    name = row["filename"] or f"part-{row['part_index']}"
    if (chats := source_of(site, row["source"])) is None:
        mails = map(partial(_mail, site, index), [row["message_id"]])
        return _sent(site, request, site.unpacker.file(_part(mail, row) for mail in mails), name)
    return _sent(
        site,
        request,
        _chat_file(site, chats, row),
        name,
        only=_MEDIA if chats.pseudonyms is True else "",
    )


def _part(mail: bytes, row: dict[str, Any]) -> bytes:
    """The part of a mail that is a row of `attachments`."""
    parsed = parsed_mail(mail)
    for leaf in parsed.parts if parsed else ():
        if leaf.position == row["part_index"] and leaf.data and len(leaf.data) == row["byte_count"]:
            return leaf.data
    raise SourceError(
        "the mail has no file of its own at that place: it is a text, or a mail inside the mail"
    )


def source_of(site: Site, name: str) -> ConversationSourceSettings | None:
    """The source of chats with that name; None for a source of another kind."""
    source = next((s for s in site.settings.sources if s.name == name), None)
    return source if isinstance(source, ConversationSourceSettings) else None


def _chat_file(
    site: Site, source: ConversationSourceSettings, row: Mapping[str, Any]
) -> Path | IO[bytes]:
    """The path of a file of a chat, a row of `attachments`, or that file unpacked if it is in a
    zip.

    SourceError if its export changed since the build, or does not hold it.
    """
    partition = row["partition"].removeprefix(f"{source.name}/")
    chats = site.chats
    listings = chats.recorded()
    with site.reading_chats:
        for export in chats.exports_of_source(source, lambda path: site.sources.identify(path)[0]):
            if partition not in (
                name for name, _ in listings.get(export.digest, {}).get("windows", ())
            ):
                continue
            for chat in chats.chats(export):
                for _, window in chats.windows(chat, source):
                    if window_id(f"{source.name}:{chat.name}", window.key) == row["message_id"]:
                        named_files = [file for entry in window.entries for file in entry.files]
                        try:
                            content = chats.files(export).content(
                                named_files[row["part_index"]].place
                            )
                            return (
                                content
                                if isinstance(content, Path)
                                else site.unpacker.file(content)
                            )
                        except (ChatFormatError, IndexError) as fault:
                            raise SourceError(f"source {source.name}: {fault}") from fault
    raise SourceError(f"source {source.name}: the export changed since the last build; build again")


def document_file(site: Site, request: Request, index: SearchIndex) -> Response:
    """The file of a document; with `?embeds=NAME` a picture that it embeds, beside it or anywhere
    in its source.

    With `?page=N` that page of a PDF as a picture.
    """
    _refuse_unseen(site, index)
    (row,) = rows_about(index.ask, _DOCUMENT, "document", parameter(request))
    source = next((s for s in site.settings.sources if s.name == row["source"]), None)
    if not isinstance(source, DocumentSourceSettings):
        raise SourceError(f"source {row['source']} is not in the settings any more")
    root, path = site.settings.place(source), row["path"]
    if (name := request.query_params.get("embeds")) is not None:
        path = _picture_path(root, path, unquote(name))
    file = inside(root, path, matcher((*USUALLY_EXCLUDED, *source.exclude))) if path else None
    if file is None:
        raise SourceError(
            f"source {source.name}: {shortened(name or row['path'])} is not there to be shown"
        )
    return _sent(site, request, file, file.name, only="image/" if name is not None else "")


def _sent(
    site: Site, request: Request, file: Path | IO[bytes], name: str, *, only: str = ""
) -> Response:
    """A file to show or to save, or the page of it that a request names; SourceError unless its
    type matches `only`.
    """
    try:
        with open_file(file) if isinstance(file, Path) else nullcontext(file) as stream:
            kind = media_type(stream.read(_HEAD_BYTES))
            stream.seek(0)
    except OSError as error:
        raise SourceError(f"{shortened(name)} cannot be read: {error}") from error
    if not re.match(only, kind or ""):
        raise SourceError(f"{shortened(name)} is not of a kind that is shown here")
    if "page" in request.query_params:
        return _page_picture(site, request, file)
    disposition = "inline" if kind else "attachment"
    if not isinstance(file, Path):
        return UnpackedResponse(file, name, kind or _BYTES, disposition)
    return FileResponse(
        file, media_type=kind or _BYTES, filename=name, content_disposition_type=disposition
    )


def _page_picture(site: Site, request: Request, file: Path | IO[bytes]) -> Response:
    """The page of a PDF that a request names, drawn in a process of its own."""
    number = request.query_params["page"]
    if not (number.isascii() and number.isdigit() and len(number) < 6):
        raise QueryError(f"page takes a number, not {shortened(number)!r}")
    cap = site.settings.documents.max_file_bytes
    try:
        with site.drawing:
            data = bounded(file, cap, "the cap") if isinstance(file, Path) else file.read()
            converted = site.readers.read(data, f"{PAGE}{int(number)}")
    except (FormatError, TooLargeError, OSError) as fault:
        raise SourceError(f"page {number} of this file cannot be shown: {fault}") from fault
    return picture_response(converted.picture or "")


def picture_response(address: str) -> Response:
    """A picture that Weft made, by its address with the bytes in it."""
    image = picture_of(address)
    assert image is not None
    return Response(image.data, media_type=image.media_type)


def _refuse_unseen(site: Site, index: SearchIndex) -> None:
    if not site.shows_files(index):
        raise DisclosureLimitError(
            "No lens and no mask looks into raw mails and files; the stored text can be read."
        )


def _mail(site: Site, index: SearchIndex, message_id: str) -> bytes:
    """A mail as the first of its sources that can be read holds it."""
    return readable_mail(site.settings, rows_about(index.ask, _PLACES, "mail", message_id))


def _picture_path(root: Path, beside: str, name: str) -> str | None:
    """The path below the root of a picture that a note names: from its folder, from the root, or by
    the name alone.
    """
    if not name.lower().endswith(PICTURES) or "\0" in name:
        return None
    folder = PurePosixPath(beside).parent
    for path in (os.path.normpath(folder / name), os.path.normpath(name.lstrip("/"))):
        if not path.startswith("..") and is_file(root / path):
            return path
    file_name, count = PurePosixPath(name).name.lower(), 0
    for above, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        match = next((f for f in sorted(files) if f.lower() == file_name), None)
        if match is not None:
            return str((Path(above) / match).relative_to(root))
        if (count := count + len(files)) > _MOST_LOOKED_AT:
            break
    return None


def inside(root: Path, path: str, excluded: Any) -> Path | None:
    """The file at a path below the root; None if it is not there, hidden, excluded or behind a link
    out of the root.
    """
    parts = PurePosixPath(path).parts
    folders = ["/".join(parts[:n]) + "/" for n in range(1, len(parts))]
    if any(p.startswith(".") for p in parts) or excluded(path) or any(map(excluded, folders)):
        return None
    file = real_path(root / path if is_folder(root) else root)
    return file if file.is_relative_to(real_path(root)) and is_file(file) else None
