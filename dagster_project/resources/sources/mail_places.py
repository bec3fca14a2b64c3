"""Mail on disk: which files a source has, and which partition each belongs to by its name or its month."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from dagster_project.config.settings import Settings, SourceSettings
from dagster_project.resources.sources.reading_files import COMPRESSED, why_unreadable
from dagster_project.resources.system.globs import (
    entries_below,
    fixed_folder,
    is_folder,
    is_there,
    matching_paths,
    partition_name,
    valid_text,
)
from transforms.errors import SourceError

_DATED = re.compile(r"(?P<before>.*?)[._-]?(?P<year>(?:19|20)\d\d)[._-]?(?P<month>0[1-9]|1[0-2])(?!\d)")


class MailPath(NamedTuple):
    """A file of a source, its name inside it, and why it is not read, if it is not."""

    path: Path
    name: str
    fault: str | None = None


def mail_paths(source: SourceSettings, settings: Settings) -> list[MailPath]:
    """The files of a source, sorted by name; nothing that Weft made.

    SourceError if there are none: a disk that is not mounted must not empty the index.
    """
    pattern = settings.place(source)
    roots = [pattern] if is_there(pattern) else matching_paths(pattern, settings.base)
    paths = [
        file
        for file in _matching_files(source, pattern, [r for r in roots if r != settings.root])
        if not settings.is_generated(file.path)
    ]
    if all(file.fault or is_folder(file.path) for file in paths):
        raise SourceError(
            f"source {source.name}: no {source.kind} file at {pattern}; mend `path` in the settings, or "
            "remove the source from them to remove its mail from the index"
        )
    return paths


def _matching_files(source: SourceSettings, pattern: Path, roots: list[Path]) -> list[MailPath]:
    """The files below the matches of a source's path."""
    folder = fixed_folder(pattern)
    if source.kind == "mbox":
        named_roots = (MailPath(root, valid_text(root.relative_to(folder))) for root in roots)
        return sorted(named_roots, key=lambda file: file.name)
    paths: list[MailPath] = []
    for root in roots:
        if source.kind == "maildir" and not any(is_folder(root / f) for f in ("cur", "new")):
            raise SourceError(f"source {source.name}: {root} is no Maildir: it has neither cur/ nor new/")
        base = root if len(roots) == 1 and is_folder(root) else folder
        inside = _maildir(root) if source.kind == "maildir" else _single_mails(root)
        paths += [MailPath(path, valid_text(path.relative_to(base)), fault) for path, fault in inside]
    return sorted(paths, key=lambda file: file.name)


def _maildir(root: Path) -> Iterator[tuple[Path, str | None]]:
    """The mails of a Maildir, and what cannot be one; what is still being delivered is left alone."""
    for folder in (root / "cur", root / "new"):
        try:
            names = [entry.name for entry in os.scandir(folder)]
        except FileNotFoundError:
            continue
        except OSError as error:
            yield folder, why_unreadable(error)
            continue
        yield from ((folder / n, _fault(folder / n)) for n in names if not n.startswith("."))


def _single_mails(root: Path) -> Iterator[tuple[Path, str | None]]:
    """The files `*.eml` at any depth below a folder, what cannot be one, and folders that cannot be listed."""
    if not is_folder(root):
        yield root, None
        return
    for path, error in entries_below(root):
        if error:
            yield path, why_unreadable(error)
        elif path.name.endswith(".eml") and not path.name.startswith("."):
            yield path, _fault(path)


def _fault(path: Path) -> str | None:
    """Why something is not a mail, though it lies where mails do."""
    return "not_a_file: the path is a folder" if is_folder(path) else None


def mail_partition(source: SourceSettings, name: str, period: str | None) -> tuple[str, str | None]:
    """Name of the partition a file of a period belongs to, and the list it holds."""
    if source.kind != "mbox":
        partition = "all" if source.grain == "archive" else period or "undated"
        return partition, source.list_id or source.name
    stem = _stem(name)
    dated = _DATED.fullmatch(stem)
    before = dated["before"].strip("._-") if dated else ""
    list_id = source.list_id or before or source.name
    prefix = "" if source.list_id or not before else f"{before}."
    if period is None or source.grain == "archive":
        return partition_name(stem), list_id
    return partition_name(f"{prefix}{period}"), list_id


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


def period_of(month: str, grain: str, youngest: str) -> str:
    """The year or the month (`YYYY-MM`) of a partition that holds mail of a month; `youngest` is the youngest year."""
    year = month.partition("-")[0]
    return year if grain == "year" or (grain == "auto" and year < youngest) else month


def youngest_year(months: Iterable[str]) -> str:
    """The year of the last month; mail without a date has none."""
    return max((month for month in months if month[0].isdigit()), default="")[:4]
