"""Mail in an archive that was exported, as Google Takeout gives it: unpacked under caps of size and
ratio.
"""

import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from shutil import disk_usage

from dagster_project.sources.reading_files import plausible_bytes
from dagster_project.sources.zip_exports import ZippedExport
from dagster_project.system.durable import make_private, put, remove, sync
from transforms.errors import ChatFormatError, SourceError

_TARS = (".tgz", ".tar.gz")
_MOST_BYTES = 1 << 40
_BLOCK = 1 << 20
_SPARE_BYTES = 1 << 30
"""Bytes of a disk that stay free."""
_BROKEN = (tarfile.TarError, EOFError, zlib.error, OSError)


def holds_mail(file: Path) -> bool:
    """True if an archive (`.zip`, `.tgz`) has a file `*.mbox`; False for other files, and for an
    archive that is broken before one.
    """
    try:
        if file.suffix.lower() == ".zip":
            with ZippedExport(file, 0) as archive:
                return any(map(_is_mail, archive.names))
        if not file.name.lower().endswith(_TARS):
            return False
        cap = plausible_bytes(file.stat().st_size)
        with tarfile.open(file, "r|gz") as tar:
            # A member is decompressed to be passed over.
            for member in tar:
                if member.isfile() and _is_mail(member.name):
                    return True
                if tar.offset + member.size > cap:
                    return False
        return False
    except (ChatFormatError, *_BROKEN):
        return False


def unpack(file: Path, folder: Path) -> str:
    """Write the mail of an archive into a folder that only the owner can enter, whole or not at
    all, and return words on it.

    SourceError for an archive that is broken, needs a password, becomes more than is plausible or
    than the disk has.
    """
    aside = folder.with_name(f"{folder.name}.part")
    remove([aside])
    make_private(aside)
    try:
        for count, (name, blocks) in enumerate(_mails(file), 1):
            _write(aside / f"{count:03d}-{PurePosixPath(name).name}", blocks)
    except (ChatFormatError, *_BROKEN) as error:
        raise SourceError(
            f"{file}: {error}; export it again, or unpack it and give the folder"
        ) from error
    else:
        remove([folder])
        put(aside, folder)
    finally:
        remove([aside])
    return f"{file}: its mail is unpacked in {folder}"


def _mails(file: Path) -> Iterator[tuple[str, Iterator[bytes]]]:
    """The names and bytes of the files of mail in an archive."""
    if file.suffix.lower() == ".zip":
        with ZippedExport(file, _MOST_BYTES) as archive:
            yield from ((name, archive.blocks(name)) for name in archive.names if _is_mail(name))
        return
    cap = plausible_bytes(file.stat().st_size)
    with tarfile.open(file, "r|gz") as tar:
        for member in tar:
            if tar.offset + member.size > cap:
                raise ChatFormatError(f"too_large: the archive unpacks to more than {cap:,} bytes")
            stream = tar.extractfile(member) if _is_mail(member.name) else None
            if stream:
                yield member.name, iter(lambda stream=stream: stream.read(_BLOCK), b"")


def _write(place: Path, blocks: Iterator[bytes]) -> None:
    with place.open("wb") as out:
        for block in blocks:
            if disk_usage(place.parent).free < _SPARE_BYTES:
                raise ChatFormatError("no_space: the disk is nearly full")
            out.write(block)
    sync([place])


def _is_mail(name: str) -> bool:
    return name.lower().endswith(".mbox")
