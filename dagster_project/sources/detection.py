"""The kind of source of a file or folder, by names and first bytes; it never reads files whole."""

import glob
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from dagster_project.config.settings import USUALLY_EXCLUDED
from dagster_project.sources.chat_exports import (
    FILE_PROGRAMS,
    is_slack,
    program_of_folder,
    zipped_format,
)
from dagster_project.sources.mail_places import begins_as_mail, month_of
from dagster_project.sources.public_inbox import is_inbox, repositories
from dagster_project.sources.reading_files import open_file, part
from dagster_project.sources.trees import CONFLUENCE_XML, NO_CONFLUENCE_XML
from dagster_project.sources.zip_exports import ZippedExport
from dagster_project.system.globs import is_file, is_folder, is_there
from transforms.conversations.exports import chat_columns
from transforms.conversations.programs import program_of
from transforms.conversations.whatsapp import looks_like_whatsapp
from transforms.documents.issues import looks_like_issues
from transforms.errors import ChatFormatError, SourceError
from transforms.mail.messages import split_mbox
from transforms.mail.mime import parsed_mail
from transforms.settings.documents import (
    DOCUMENT_FORMATS,
    ISSUE_FORMATS,
    PICTURE_FORMATS,
    WIKI_FORMATS,
)
from transforms.text.charsets import decode_text

_YEAR = re.compile(r"(?:19|20)\d\d")
_MOST_FILES = 5_000
"""Files of a folder that are looked at; the first of a large archive show its kind."""
_MOST_PARTS = 24
"""Folders below one that may each become a source."""
_ALMOST_ALL = 0.9
_SAMPLED, _SAMPLED_BYTES, _SAMPLED_MAILS = 60, 1 << 17, 10
"""Files of a source that are read for their language, bytes of each, and mails of an mbox file."""
_HEAD = 4096
_HEAD_OF_JSON = 1 << 16
"""As _HEAD, of files that may have the text of a whole issue before the sign of one."""
_BROKEN = (OSError, ChatFormatError)
_CHATS = (*FILE_PROGRAMS, "whatsapp", "slack", "table")
_TYPES = ("mail", "chat", "issues", "wiki", "document")
"""Types of files; of two with as many files the first counts."""
_WITHOUT_ZONE = (
    "whatsapp",
    "table",
    *(name for name, one in FILE_PROGRAMS.items() if not one.has_zone),
)


@dataclass(frozen=True)
class Detected:
    """A place as a source: its kind, the path or glob to configure, the facts seen there, its files
    and bytes.

    `has_zone` is False if the times in it name no zone; `name` is what its files have in common, if
    that says something.
    """

    kind: str
    path: str
    form: str
    files: int = 1
    bytes: int = 0
    has_zone: bool = True
    name: str = ""


def sources_at(place: Path) -> list[Detected]:
    """The sources at a file or folder: one, or those of its folders where they are of several
    kinds.

    SourceError if nothing is there, or nothing that Weft reads.
    """
    if not is_there(place):
        raise SourceError(
            f"{place}: no file or folder is there; give the place where the archive is"
        )
    sources = _of_folder(place) if is_folder(place) else _of_file(place)
    if not sources and (place.name == CONFLUENCE_XML or is_there(place / CONFLUENCE_XML)):
        raise SourceError(f"{place}: {NO_CONFLUENCE_XML}")
    if not sources:
        raise SourceError(
            f"{place}: neither mail nor notes, documents or exported chats were found there; "
            "`weft help sources` lists the kinds. If it is one of them, name its kind with --kind"
        )
    read = {s: [f for f in files_of(s) if is_file(f) and _reads(s, f)] for s in sources}
    return [replace(s, bytes=sum(map(os.path.getsize, files))) for s, files in read.items()]


def _of_file(file: Path) -> list[Detected]:
    if file.suffix.lower() == ".zip":
        return [_zipped(file)]
    kind = _kind_of(file)
    return [_source(kind, file, 1)] if kind and kind != "document" else []


def _zipped(file: Path) -> Detected:
    try:
        form = zipped_format(file)
    except ChatFormatError as error:
        raise SourceError(f"{file}: {error}; unpack other content, and give the folder") from error
    if form == "mbox":
        raise SourceError(f"{file}: it holds mail; unpack it, and give the folder")
    return _source(form, file, 1)


def _of_folder(folder: Path) -> list[Detected]:
    """The sources of a folder: by its layout, else the kind of nearly all of its files, else its
    folders' own.
    """
    if is_inbox(folder):
        return [Detected("public_inbox", str(folder), "public-inbox", len(repositories(folder)))]
    if is_slack(folder):
        return [Detected("conversation", str(folder), "slack")]
    if program := program_of_folder(folder):
        return [Detected("conversation", str(folder), program)]
    files = list(islice(_files(folder), _MOST_FILES))
    if is_folder(folder / ".obsidian"):
        return [Detected("vault", str(folder), "Obsidian", len(files))]
    kinds = {file: kind for file in files if (kind := _kind_of(file))}
    counts = Counter(map(_source_type, kinds.values()))
    parts = _folders(folder)
    if not counts:
        return [
            source for part in parts if len(parts) <= _MOST_PARTS for source in _of_folder(part)
        ]
    most = max(_TYPES, key=lambda type_: counts[type_])
    # Monthly archives name their list in the part before the month, which only a glob over them
    # shows.
    is_by_list = any(
        k == "mbox" and f.parent != folder and month_of(f.name) for f, k in kinds.items()
    )
    if (is_by_list or counts[most] < _ALMOST_ALL * counts.total()) and len(parts) <= _MOST_PARTS:
        below = [source for part in parts for source in _of_folder(part)]
        if below and (is_by_list or len(below) > 1):
            return below
    return [
        _of_files(folder, [f for f, kind in kinds.items() if _source_type(kind) == most], kinds)
    ]


def _of_files(folder: Path, files: Sequence[Path], kinds: dict[Path, str]) -> Detected:
    """The source that the files of one type in a folder are."""
    kind = Counter(kinds[file] for file in files).most_common(1)[0][0]
    if kind == "document":
        return Detected(
            "vault" if _links_by_name(files) else "tree", str(folder), "documents", len(files)
        )
    if kind == "mbox" and all(file.parent == folder and month_of(file.name) for file in files):
        pattern = Path(glob.escape(str(folder))) / _pattern(folder, files)
        lists = {_YEAR.split(file.name)[0] for file in files}
        name = lists.pop().strip("._-") if len(lists) == 1 else ""
        return replace(_source(kind, pattern, len(files)), name=name)
    return _source(kind, folder, len(files))


def _source(kind: str, path: Path, files: int) -> Detected:
    if kind not in _CHATS:
        return Detected(kind, str(path), kind, files)
    return Detected("conversation", str(path), kind, files, has_zone=kind not in _WITHOUT_ZONE)


def _source_type(kind: str) -> str:
    return kind if kind in ("document", "issues", "wiki") else "chat" if kind in _CHATS else "mail"


def _kind_of(file: Path) -> str | None:
    """The kind of a file by its name and first bytes; None if Weft does not read it."""
    suffix = file.suffix.lower()
    try:
        if {file.parent.name, file.parent.parent.name} & {"cur", "new"}:
            return "maildir"
        if suffix in (".eml", ".emlx"):
            return "eml"
        if suffix == ".zip":
            return zipped_format(file)
        head = part(file, 0, _HEAD_OF_JSON if suffix.removeprefix(".") in ISSUE_FORMATS else _HEAD)
    except _BROKEN:
        return None
    if head.startswith(b"From ") or suffix == ".mbox":
        return "mbox"
    if file.name.lower().endswith(WIKI_FORMATS) and b"<mediawiki" in head:
        return "wiki"
    if looks_like_issues(head, suffix):
        return "issues"
    if suffix == ".txt" and looks_like_whatsapp(head.decode(errors="replace")):
        return "whatsapp"
    if program := program_of(FILE_PROGRAMS, head[:_HEAD], suffix):
        return program
    if suffix in (".csv", ".jsonl", ".ndjson") and _is_chat_table(
        head.decode(errors="replace").partition("\n")[0], suffix
    ):
        return "table"
    if file.name.isdigit() and begins_as_mail(file):  # a folder of MH
        return "maildir"
    return "document" if suffix.removeprefix(".") in DOCUMENT_FORMATS else None


def files_of(source: Detected) -> Iterator[Path]:
    """The files of a source, up to `_MOST_FILES`."""
    place = Path(source.path)
    alone = map(Path, [place] if is_file(place) else glob.glob(source.path))
    return islice(_files(place) if is_folder(place) else alone, _MOST_FILES)


def unread_files(place: Path, sources: Sequence[Detected]) -> Counter[str]:
    """By ending the number of files at a place that none of its sources reads, of the first
    `_MOST_FILES`; pictures among notes and documents are shown with these.
    """
    read = {
        file
        for source in sources
        for file in files_of(source)
        if _reads(source, file) or _is_picture_of(source, file)
    }
    rest = (file for file in islice(_files(place), _MOST_FILES) if file not in read)
    return Counter(file.suffix.lower() or "without ending" for file in rest)


def _is_picture_of(source: Detected, file: Path) -> bool:
    suffix = file.suffix.lower().removeprefix(".")
    return source.kind in ("vault", "tree") and (suffix == "svg" or suffix in PICTURE_FORMATS)


def _reads(source: Detected, file: Path) -> bool:
    """True if a file of a source is of its kind; exports of chats have all their files."""
    if source.kind in ("conversation", "public_inbox"):
        return True
    type_ = "document" if source.kind in ("tree", "vault") else _source_type(source.kind)
    return (kind := _kind_of(file)) is not None and _source_type(kind) == type_


def sample_texts(source: Detected) -> Iterator[str]:
    """Texts of a source: of some of its files the first part, of an mbox file its first mails.

    It leaves out files that are not text, as PDFs, or cannot be read, and each public-inbox.
    """
    files = sorted(files_of(source))
    for file in files[:: len(files) // _SAMPLED + 1]:
        try:
            yield from _texts_of(file)
        except _BROKEN:
            continue


def _texts_of(file: Path) -> Iterator[str]:
    kind = _kind_of(file)
    if file.suffix.lower() == ".zip":
        with ZippedExport(file, _SAMPLED_BYTES) as archive:
            heads = [archive.head(name, _SAMPLED_BYTES) for name in archive.names[:_SAMPLED_MAILS]]
    else:
        heads = [part(file, 0, _SAMPLED_BYTES)]
    if kind == "mbox":
        heads = [
            mail.data
            for head in heads
            for mail in islice(split_mbox(head, name="")[0], _SAMPLED_MAILS)
        ]
    if kind in ("mbox", "maildir", "eml"):
        yield from (mail.body for mail in map(parsed_mail, heads) if mail)
    elif kind:
        yield from (decode_text(head, None).text for head in heads if b"\0" not in head)


def _is_chat_table(line: str, suffix: str) -> bool:
    """True if the first line of a table names a time, an author and a text."""
    try:
        names = (
            [n.strip('" \r') for n in line.split(",")]
            if suffix == ".csv"
            else list(json.loads(line))
        )
        chat_columns(names)
    except (ChatFormatError, ValueError, TypeError):
        return False
    return True


def _pattern(folder: Path, files: Sequence[Path]) -> str:
    """The narrowest glob of one beginning or ending that all `files`, and no other in their folder,
    match.
    """
    names = [file.name for file in files]
    # Up to the year only: the archives of the years to come must match as well.
    start = os.path.commonprefix([_YEAR.split(name)[0] for name in names])
    end = os.path.commonprefix([name[::-1] for name in names])[::-1]
    end = end.lstrip("0123456789")
    rest = [
        p.name
        for p in folder.iterdir()
        if is_file(p) and p not in files and not p.name.startswith(".")
    ]
    pairs = (("", ""), (start, ""), ("", end), (start, end))
    apart = (p for p in pairs if not any(n.startswith(p[0]) and n.endswith(p[1]) for n in rest))
    start, end = next(apart, pairs[-1])
    return f"{glob.escape(start)}*{glob.escape(end)}"


def _links_by_name(files: Sequence[Path]) -> bool:
    """True if notes link as `[[name]]`, as those of a vault do."""
    for file in islice((f for f in files if f.suffix.lower() == ".md"), 200):
        try:
            with open_file(file) as stream:
                if b"[[" in stream.read(1 << 16):
                    return True
        except OSError:
            continue
    return False


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if is_folder(p) and not p.name.startswith("."))
    except OSError:
        return []


def _files(folder: Path) -> Iterator[Path]:
    """The files below a folder that are neither hidden nor in folders that are usually left out;
    links are not followed.
    """
    for place, folders, names in os.walk(folder):
        # Maildir++ names its folders with a dot.
        of_mail = {
            n for n in folders if any(is_folder(Path(place, n, part)) for part in ("cur", "new"))
        }
        folders[:] = sorted(
            n for n in folders if (n[0] != "." or n in of_mail) and f"{n}/" not in USUALLY_EXCLUDED
        )
        yield from (Path(place, name) for name in sorted(names) if not name.startswith("."))
