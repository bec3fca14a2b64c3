"""The bytes of one mail as its source holds them now, by the place at which a build read it."""

import re
from collections.abc import Iterable, Iterator
from glob import escape
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from dagster_project.config.settings import Settings, SourceSettings
from dagster_project.sources.file_sources import stored_mail
from dagster_project.sources.public_inbox import mail_at
from dagster_project.sources.reading_files import part
from dagster_project.system.globs import (
    fixed_folder,
    is_folder,
    is_there,
    matching_paths,
    valid_text,
)
from transforms.errors import SourceError
from transforms.mail.messages import RawMail, id_and_author, split_mbox

_COPY = re.compile(r"(?:\+[0-9a-f]{8})+$")
"""The suffix of the id of a copy: a partition stores a mail once for each of its lists."""
_AROUND = 1 << 16
"""Bytes read beside those of a mail: its From_ line, the escapes of mbox, and the next From_ line,
which ends it.
"""


def source_mail(
    settings: Settings, source: str, place: str, message_id: str, raw_bytes: int
) -> bytes:
    """The mail of that row of `messages`, with its headers and its encodings.

    SourceError if the source is not here, cannot be read, or holds something else at that place by
    now.
    """
    try:
        for _, data in mails_at(settings, source, place, raw_bytes):
            identity = id_and_author(RawMail(place, data)) if len(data) == raw_bytes else None
            if identity and _COPY.sub("", message_id) == _COPY.sub("", identity[0]):
                return data
    except OSError as error:
        raise SourceError(f"source {source}: {place} cannot be read: {error}") from error
    raise SourceError(
        f"source {source}: the mail is no longer at {place}; build again, or look for it there"
    )


def readable_mail(settings: Settings, places: Iterable[dict[str, Any]]) -> bytes:
    """The mail of the first of these rows of `messages` whose source can be read, as `source_mail`
    reads it.

    SourceError of the last of them if none can.
    """
    fault = SourceError("the index does not hold the mail; build again")
    for row in places:
        try:
            return source_mail(settings, **row)
        except SourceError as unreadable:
            fault = unreadable
    raise fault


def mails_at(settings: Settings, name: str, place: str, size: int) -> Iterator[tuple[Path, bytes]]:
    """Files or repositories that a place may mean, and the mail; SourceError or OSError if there is
    none to be read.
    """
    source = next((s for s in settings.sources if s.name == name), None)
    if not isinstance(source, SourceSettings):
        raise SourceError(f"source {name} is not in the settings any more")
    pattern = settings.place(source)
    fixed = fixed_folder(pattern)
    roots = [pattern] if is_there(pattern) else matching_paths(pattern, settings.base)
    if source.kind == "public_inbox":
        for root in filter(is_folder, roots):
            yield from mail_at(root, valid_text(root.relative_to(fixed)), place, size)
        return
    file_name, _, offset = place.rpartition(":") if source.kind == "mbox" else (place, "", "0")
    if ".." in PurePosixPath(file_name).parts or not offset.isdecimal():
        return
    for path in dict.fromkeys(base / file_name for base in (*roots, fixed)):
        for file in _now(path) if source.kind == "maildir" else [path]:
            if not is_there(file):
                continue
            data = part(file, int(offset), 2 * size + _AROUND)
            if source.kind == "mbox":
                mails, _ = split_mbox(data, name=file_name, dialect=source.dialect)
                yield from ((file, mail.data) for mail in islice(mails, 1))
            else:
                yield file, stored_mail(file, data)


def _now(path: Path) -> list[Path]:
    """Where a mail of a Maildir is now: mail programs move it from `new` to `cur`, and write its
    flags into its name.
    """
    if is_there(path):
        return [path]
    unique = path.name.partition(":")[0]
    files = (
        f for name in ("cur", "new") for f in path.parent.with_name(name).glob(f"{escape(unique)}*")
    )
    return [file for file in files if file.name.partition(":")[0] == unique]
