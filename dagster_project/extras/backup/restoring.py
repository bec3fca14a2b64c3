"""Restoring a snapshot: whose it is, where each file goes, and the parts that are left out unless a
person asks for them.
"""

import os
import tomllib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import tomlkit
from upath import UPath

from dagster_project.composition.objects import make_lake
from dagster_project.config.places import DEFAULT_CONFIG
from dagster_project.config.settings import Settings, load_settings
from dagster_project.extensions import extras
from dagster_project.extras.backup.snapshots import (
    CONFIG,
    KEY,
    UNSIGNED,
    Backups,
    Snapshot,
    StoredFile,
    digest,
    known_signers,
    pattern_of_names,
    write_privately_to,
)
from dagster_project.lake.parquet_files import is_local
from dagster_project.outgoing.revoked import REVOKED, Revoked
from dagster_project.system.durable import make_private
from transforms.errors import CheckFailedError, SettingsError, shortened
from transforms.hashing import bytes_sha256

TOKENS, COMMANDS = "tokens", "commands"
ON_REQUEST = (TOKENS, COMMANDS)
"""The parts that a restore leaves out unless a person asks for them: by these, whoever wrote a
snapshot could read, or run a program.
"""
_COMMANDS = "alerts"
"""The one section of the settings whose values are run, or get messages about the storage."""
_NAME_BYTES = 200
"""Bytes of one part of a name: the name of an unfinished file has a number before it."""


@dataclass(frozen=True)
class _Admission:
    """The tokens of a snapshot by name, the folders that get them, and the hashes of all that are
    known to be revoked.
    """

    names: frozenset[str]
    folders: tuple[Path, ...]
    revoked: frozenset[str]


@dataclass(frozen=True)
class Restoration:
    """A snapshot that may be restored: where its files go, what is outside of the new folder
    (places, and values of its settings), and what is left out.
    """

    backups: Backups
    config: Path
    settings: bytes
    targets: dict[Path | UPath, str]
    admission: _Admission
    outside: list[str]
    left_out: list[str]

    def write(self) -> int:
        """Write the files that are not there yet, each readable by its owner alone; their number.

        CheckFailedError if one is damaged, SettingsError if a local file of another content is
        there.
        """
        count = 0
        if not _is_there(self.config, bytes_sha256(self.settings)):
            write_privately_to(BytesIO(self.settings), self.config)
            count += 1
        for folder in self.admission.folders:
            make_private(folder)  # without it, a server would ask nobody for a token
            if new := self.admission.revoked - Revoked(folder).hashes():
                Revoked(folder).add(new)
        for place, sha256 in sorted(self.targets.items(), key=str):
            if not _is_there(place, sha256):
                with self.backups.opened(sha256) as content:
                    _write(content, place)
                count += 1
        return count


def restoration(
    place: str,
    folder: Path,
    snapshot: str | None = None,
    *,
    signed_by: str | None = None,
    parts: Collection[str] = (),
) -> Restoration:
    """The restoration of a snapshot, by default the newest, to a folder; nothing is written yet.

    Storage and key go to the places that its settings name; the files of a lake on an object store
    stay. SettingsError for a signer that is neither known to this user nor `signed_by`,
    CheckFailedError if the snapshot has a file that no backup has.
    """
    backups, own = Backups(place), folder.absolute()
    chosen = backups.read(snapshot)
    _require_known(chosen, place, signed_by, own)
    _check_names(chosen, place)
    with backups.opened(chosen.files[CONFIG].sha256) as file:
        text = file.read()
    settings = _checked(text, own, f"weft.toml of snapshot {chosen.name} in {place}")
    is_changed = COMMANDS not in parts and _COMMANDS in tomllib.loads(_decoded(text))
    text = _without_commands(text) if is_changed else text
    admission = _admission(backups, chosen, settings.root)
    left_out = {
        name
        for name in admission.names
        if TOKENS not in parts or Path(name).stem in admission.revoked
    }
    names = {name for name in chosen.files if not name.endswith(f"/{REVOKED}")}
    targets = {
        _place_of(name, settings, own): chosen.files[name].sha256
        for name in names - left_out - {CONFIG}
    }
    return Restoration(
        backups=backups,
        config=own / DEFAULT_CONFIG,
        settings=text,
        targets=targets,
        admission=admission,
        outside=[
            *sorted(str(target) for target in targets if not _is_inside(target, own)),
            *_named_outside(tomllib.loads(_decoded(text)), own),
        ],
        left_out=[*sorted(left_out), *([f"[{_COMMANDS}] of weft.toml"] if is_changed else [])],
    )


def _require_known(chosen: Snapshot, place: str, signed_by: str | None, own: Path) -> None:
    if chosen.signer in ([signed_by] if signed_by else known_signers(own)):
        return
    what = f"snapshot {chosen.name} in {place}"
    if signed_by:
        raise SettingsError(f"{what} is signed by {chosen.signer}, not by {signed_by}")
    if chosen.signer == UNSIGNED:
        raise SettingsError(
            f"{what} has no signature: an earlier version of Weft wrote it, or a stranger; "
            f"--signed-by {UNSIGNED} restores it"
        )
    raise SettingsError(
        f"{what} is signed by {chosen.signer}, and this user here made no backup with that key: compare it with the one "
        f"that `weft backup` printed, then add --signed-by {chosen.signer}"
    )


def _check_names(chosen: Snapshot, place: str) -> None:
    """CheckFailedError unless the snapshot has settings, and files that a backup has alone."""
    patterns = pattern_of_names()
    for name in chosen.files:
        folders = {str(folder) for folder in PurePosixPath(name).parents}
        if not _is_plain(name) or folders & chosen.files.keys() or not _is_of(name, patterns):
            raise CheckFailedError(
                f"snapshot {chosen.name} in {place} has a file {shortened(name)!r}, as no backup has: "
                "restore another snapshot"
            )
    if CONFIG not in chosen.files:
        raise CheckFailedError(
            f"snapshot {chosen.name} in {place} has no settings: restore another snapshot"
        )


def _is_plain(name: str) -> bool:
    return name.isprintable() and all(
        part and part[0] != "." and len(part.encode()) <= _NAME_BYTES for part in name.split("/")
    )


def _is_of(name: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern matches a name; `*` of `fnmatch` matches slashes, too."""
    return any(
        fnmatchcase(name, pattern.replace("/**/", "/"))
        for pattern in patterns
        if "/**/" in pattern or pattern.count("/") == name.count("/")
    )


def _decoded(text: bytes) -> str:
    return text.decode("utf-8-sig")


def _checked(text: bytes, own: Path, name: str) -> Settings:
    """The settings as those of a file in the folder; SettingsError names the file `name`."""
    is_new = not own.exists()
    make_private(own)
    file = own / f".tmp-{os.getpid()}-{DEFAULT_CONFIG}"
    try:
        file.write_bytes(text)
        return load_settings(file)
    except SettingsError as error:
        raise SettingsError(str(error).replace(str(file), name)) from error
    finally:
        file.unlink(missing_ok=True)
        if is_new:
            own.rmdir()


def _without_commands(text: bytes) -> bytes:
    document = tomlkit.parse(_decoded(text))
    del document[_COMMANDS]
    return document.as_string().encode()


def _admission(backups: Backups, chosen: Snapshot, root: Path) -> _Admission:
    """The tokens of a snapshot. Every snapshot of the place, the folders that get them and this
    user's folder of states say which are revoked.
    """
    admits = {f"root/{folder}/": root / folder for extra in extras() for folder in extra.admits}
    names = {name for name in chosen.files if name.startswith(tuple(admits))}
    lists = {
        entry.sha256
        for name in backups.names()
        for file, entry in _readable(backups, name).items()
        if file.startswith(tuple(admits)) and file.endswith(f"/{REVOKED}")
    }
    revoked = {one for folder in admits.values() for one in Revoked(folder).hashes()}
    for sha256 in lists:
        with backups.opened(sha256) as file:
            revoked |= set(file.read().decode("ascii", "replace").split())
    return _Admission(
        names=frozenset(name for name in names if not name.endswith(f"/{REVOKED}")),
        folders=tuple(
            folder for head, folder in admits.items() if any(n.startswith(head) for n in names)
        ),
        revoked=frozenset(revoked),
    )


def _readable(backups: Backups, name: str) -> dict[str, StoredFile]:
    """The files of a snapshot; none of one that is damaged, as any but the one to be restored may
    be.
    """
    try:
        return backups.read(name).files
    except CheckFailedError:
        return {}


def _place_of(name: str, settings: Settings, own: Path) -> Path | UPath:
    if name == KEY:
        return settings.pseudonym_key_file
    head, _, rest = name.partition("/")
    bases = {"root": settings.root, "lake": make_lake(settings).base, "settings": own}
    return bases[head] / rest


def _is_inside(place: Path | UPath, own: Path) -> bool:
    return is_local(place) and Path(str(place)).resolve().is_relative_to(own.resolve())


def _named_outside(value: Any, own: Path, key: str = "") -> Iterator[str]:
    """The values in settings that name a place outside of a folder, or an address: `KEY = VALUE`."""
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _named_outside(inner, own, f"{key}.{name}".lstrip("."))
    elif isinstance(value, str) and (key.endswith(".host") or _leaves(value, own)):
        yield f"{key} = {value}"


def _leaves(value: str, own: Path) -> bool:
    """Whether a value is an address, or a path that leads out of the folder."""
    if "://" in value or value.startswith("~") or "\0" in value:
        return True
    is_path = value.startswith("/") or ".." in value.split("/")
    return is_path and not _is_inside(own / value, own)


def _is_there(place: Path | UPath, sha256: str) -> bool:
    """Whether a file has its place already; SettingsError if a local one has another content."""
    if place.exists() and is_local(place) and digest(Path(str(place))) != sha256:
        raise SettingsError(
            f"{place} has another content: restore to a new folder, or move it away"
        )
    return place.exists()


def _write(content: BinaryIO, place: Path | UPath) -> None:
    if is_local(place):
        write_privately_to(content, Path(str(place)))
    else:
        place.write_bytes(content.read())
