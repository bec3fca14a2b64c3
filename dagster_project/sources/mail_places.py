"""Mail on disk: which files a source has, and which partition each belongs to by its name or its
month.
"""

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from dagster_project.config.settings import Settings, SourceSettings
from dagster_project.sources.reading_files import COMPRESSED, open_file, why_unreadable
from dagster_project.system import globs
from transforms.errors import SourceError
from transforms.hashing import text_hash

_DATED = re.compile(
    r"(?P<before>.*?)[._-]?(?P<year>(?:19|20)\d\d)[._-]?(?P<month>0[1-9]|1[0-2])(?!\d)"
)


_HEADER = re.compile(rb"(?:From |[!-9;-~]+:)")
_UTF7 = re.compile("&([A-Za-z0-9+,]*)-")
_MAILDIR_PARTS = ("cur", "new", "tmp")

_MAILS_OF_PART = 1_000
"""Mails of a year of a folder from which on they have partitions of their own, and mails that a
partition of fewer holds at most, on average: they are read in a second, and a partition costs as
much however few it holds.
"""


class MailPath(NamedTuple):
    """A file of a source, its name inside it, why it is not read, if it is not, and the mail folder
    it is in.
    """

    path: Path
    name: str
    fault: str | None = None
    folder: str = ""


def mail_paths(source: SourceSettings, settings: Settings) -> list[MailPath]:
    """The files of a source, sorted by name; nothing that Weft made.

    SourceError if there are none: a disk that is not mounted must not empty the index.
    """
    pattern = settings.place(source)
    roots = [pattern] if globs.is_there(pattern) else globs.matching_paths(pattern, settings.base)
    paths = [
        file
        for file in _matching_files(source, pattern, [r for r in roots if r != settings.root])
        if not settings.is_generated(file.path)
    ]
    if all(file.fault or globs.is_folder(file.path) for file in paths):
        raise SourceError(
            f"source {source.name}: no {source.kind} file at {pattern}; mend `path` in the settings, or "
            "remove the source from them to remove its mail from the index"
        )
    return paths


def _matching_files(source: SourceSettings, pattern: Path, roots: list[Path]) -> list[MailPath]:
    fixed = globs.fixed_folder(pattern)
    paths: list[MailPath] = []
    for root in roots:
        is_tree = globs.is_folder(root) and (source.kind != "mbox" or root == pattern)
        base = root if len(roots) == 1 and is_tree else fixed
        if source.kind == "mbox":
            inside = _archives(root) if is_tree else iter([(root, None, "")])
        elif source.kind == "maildir":
            inside = _maildir(root)
        else:
            inside = _single_mails(root)
        named = (
            (p, globs.valid_text(p.relative_to(base)), fault, folder) for p, fault, folder in inside
        )
        files = list(starmap(MailPath, named))
        is_empty = source.kind == "maildir" and not files
        if is_empty and all(p.name not in ("cur", "new") for p, _ in globs.entries_below(root)):
            raise SourceError(
                f"source {source.name}: {root} is not a Maildir: neither it nor a folder in it has cur/ or new/"
            )
        paths += files
    return sorted(paths, key=lambda file: file.name)


_Files = Iterator[tuple[Path, str | None, str]]
"""A file, why it is not read, and its mail folder."""


def _maildir(root: Path) -> _Files:
    """The mails of a Maildir and its subfolders, those loose in them, and files that cannot be a
    mail.

    Subfolders are those of Maildir++ (`.Work.Doors`) and nested ones. Mails under delivery are left
    alone.
    """
    places = [root]
    while places:
        place = places.pop()
        folder = _folder_name(place.relative_to(root))
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except OSError as error:
            yield place, why_unreadable(error), folder
            continue
        for entry in entries:
            path = Path(entry.path)
            if entry.name in _MAILDIR_PARTS:
                yield from _delivered(path, folder)
            elif entry.is_dir(follow_symlinks=False):
                places.append(path)
            elif not entry.name.startswith(".") and begins_as_mail(path):
                yield path, None, folder


def _delivered(place: Path, folder: str) -> _Files:
    """The mails in `cur` or `new`, and files that cannot be a mail; none of `tmp`."""
    if place.name == "tmp":
        return
    try:
        names = sorted(entry.name for entry in os.scandir(place))
    except OSError as error:
        yield place, why_unreadable(error), folder
        return
    yield from ((place / n, _fault(place / n), folder) for n in names if not n.startswith("."))


def _archives(root: Path) -> _Files:
    """The mbox files at any depth below a folder, as Thunderbird and Google Takeout store mail, by
    their first bytes.

    One in the folder itself whose name has a month is an archive of a list, and not a mail folder.
    """
    for path, error in globs.entries_below(root):
        is_dated = path.parent == root and month_of(path.name)
        folder = (
            "" if is_dated else _folder_name(path.relative_to(root).with_name(_stem(path.name)))
        )
        if error:
            yield path, why_unreadable(error), folder
        elif not globs.is_folder(path) and not path.name.startswith(".") and is_archive(path):
            yield path, None, folder


def is_archive(path: Path) -> bool:
    """True if a file is an mbox by its ending or its first bytes."""
    return path.suffix in (".mbox", *COMPRESSED) or begins_as_mail(path, only=b"From ")


def begins_as_mail(path: Path, only: bytes = b"") -> bool:
    """True if a file begins with a header, or with the `only` bytes; one that cannot be read is a
    mail, and faulty.
    """
    try:
        with open_file(path) as stream:
            head = stream.read(200)
    except OSError:
        return not only
    return head.startswith(only) if only else bool(_HEADER.match(head))


def _folder_name(place: Path) -> str:
    """The mail folder that a place is: parts divided by `/`, in letters; empty for the top.

    Maildir++ divides by dots, Thunderbird writes `.sbd` and Apple Mail `.mbox` behind a part, and
    IMAP writes letters outside ASCII in modified UTF-7 (RFC 3501, section 5.1.3).
    """
    parts = [part for part in PurePosixPath(globs.valid_text(place)).parts if part != "."]
    names = [
        name
        for part in parts
        for name in (
            part[1:].split(".") if part.startswith(".") else [re.sub(r"\.(?:sbd|mbox)$", "", part)]
        )
    ]
    return "/".join(_UTF7.sub(_utf7_letters, name) for name in names if name)


def _utf7_letters(match: re.Match[str]) -> str:
    try:
        return f"+{match[1].replace(',', '/')}-".encode().decode("utf-7") if match[1] else "&"
    except ValueError:
        return match[0]


def _single_mails(root: Path) -> _Files:
    """The files `*.eml` and `*.emlx` at any depth below a folder, files that cannot be a mail, and
    unreadable folders.

    The mail folder of a file is that of Apple Mail, whose folders end in `.mbox`.
    """
    if not globs.is_folder(root):
        yield root, None, ""
        return
    for path, error in globs.entries_below(root):
        boxes = [part for part in path.relative_to(root).parts[:-1] if part.endswith(".mbox")]
        folder = _folder_name(Path(*boxes))
        if error:
            yield path, why_unreadable(error), folder
        elif path.name.endswith((".eml", ".emlx")) and not path.name.startswith("."):
            yield path, _fault(path), folder


def _fault(path: Path) -> str | None:
    return "not_a_file: the path is a folder" if globs.is_folder(path) else None


class FolderFile(NamedTuple):
    """A file of a mail folder, the month of its mail (`YYYY-MM`) if one is known, and how many
    mails it holds.
    """

    folder: str
    month: str | None
    mails: int

    @property
    def year(self) -> str:
        """The year of the mail; empty if unknown."""
        return (self.month or "")[:4]


def shared_partitions(files: Sequence[FolderFile]) -> list[str]:
    """The name of the partition of each file by the number of mails.

    A year of a folder with `_MAILS_OF_PART` mails or more has partitions of its own, one for each
    month if it is the youngest. Smaller ones share partitions: those of the youngest year, which new
    mail goes to, and those of all others (`earlier`), dealt by a hash into a power of two of parts,
    so that neither the order of files nor earlier partitions matter. Fewer mails than that are the
    partition `all`.
    """
    if sum(file.mails for file in files) < _MAILS_OF_PART:
        return ["all" for _ in files]
    youngest = youngest_year(file.month for file in files if file.month)
    sizes = Counter[tuple[str, str]]()
    for file in files:
        sizes[file.folder, file.year] += file.mails
    small = Counter[bool]()
    for (_, year), mails in sizes.items():
        small[year == youngest] += mails if mails < _MAILS_OF_PART else 0
    parts = {
        is_young: 1 << max(math.ceil(mails / _MAILS_OF_PART) - 1, 0).bit_length()
        for is_young, mails in small.items()
    }
    names = {
        (folder, year): _shared_name(folder, year, youngest, parts[year == youngest])
        for (folder, year), mails in sizes.items()
        if mails < _MAILS_OF_PART
    }
    return [names.get((file.folder, file.year)) or _own_name(file, youngest) for file in files]


def _shared_name(folder: str, year: str, youngest: str, parts: int) -> str:
    name = (youngest or "folders") if year == youngest else "earlier"
    number = int(text_hash(f"{folder}/{year}")[:8], 16) % parts
    return name if parts == 1 else f"{name}-{number:03}-of-{parts}"


def _own_name(file: FolderFile, youngest: str) -> str:
    period = file.month if file.year == youngest else file.year
    ending = period or ("undated" if youngest else "")
    return globs.partition_name(".".join(filter(None, (file.folder, ending))))


def mail_partition(
    source: SourceSettings, name: str, folder: str, period: str | None
) -> tuple[str, str | None]:
    """Name of the partition a file of a period belongs to, and the list it holds; a mail folder is
    a list.
    """
    if folder:
        whole = source.kind == "mbox" or source.grain == "archive"
        ending = "" if whole else f".{period or 'undated'}"
        return globs.partition_name(
            f"{folder}{ending}"
        ), f"{source.list_id or source.name}/{folder}"
    if source.kind != "mbox":
        partition = "all" if source.grain == "archive" else period or "undated"
        return partition, source.list_id or source.name
    stem = _stem(name)
    dated = _DATED.fullmatch(stem)
    before = dated["before"].strip("._-") if dated else ""
    list_id = source.list_id or before or source.name
    prefix = "" if source.list_id or not before else f"{before}."
    if period is None or source.grain == "archive":
        return globs.partition_name(stem), list_id
    return globs.partition_name(f"{prefix}{period}"), list_id


def without_source(source: str, names: Iterable[str]) -> dict[str, str]:
    """Names of partitions without that of their source at the beginning, by the whole name; two
    never become one.

    >>> without_source("dev", ["dev.2004-01", "docs.2004-01"])
    {'dev.2004-01': '2004-01', 'docs.2004-01': 'docs.2004-01'}
    """
    short = {name: re.sub(rf"^{re.escape(source)}[._-]+(?=\w)", "", name) for name in names}
    counts = Counter(short.values())
    return {name: rest if counts[rest] == 1 else name for name, rest in short.items()}


def month_of(name: str) -> str | None:
    """The month (`YYYY-MM`) that the name of an archive carries, if it does."""
    dated = _DATED.fullmatch(_stem(name))
    return f"{dated['year']}-{dated['month']}" if dated else None


def _stem(name: str) -> str:
    """The last part of a file's name without the endings of archives."""
    stem = Path(name).name
    while Path(stem).suffix in (*COMPRESSED, ".mbox", ".eml", ".mbx"):
        stem = stem.removesuffix(Path(stem).suffix)
    return stem


def period_of(month: str, grain: str | None, youngest: str) -> str:
    """The year or the month (`YYYY-MM`) of a partition that holds mail of a month, without a grain
    the month; `youngest` is the youngest year.
    """
    year = month.partition("-")[0]
    return year if grain == "year" or (grain == "auto" and year < youngest) else month


def youngest_year(months: Iterable[str]) -> str:
    """The year of the last month; empty if no mail has a date."""
    return max((month for month in months if month[0].isdigit()), default="")[:4]
