"""Backups of what no build can make again, in a folder or on an object store: the work behind `weft backup`.

`files/` has each content once, named after its SHA-256; `snapshots/` the names and hashes of each backup. A snapshot is
written last, so that an interrupted backup changes no earlier one.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from hashlib import file_digest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from upath import UPath

from dagster_project.composition.objects import make_lake
from dagster_project.config.file_faults import SYNONYMS
from dagster_project.config.settings import DEFAULT_CONFIG, Settings, load_settings
from dagster_project.extras.registry import extras
from dagster_project.index.search.conditions.sensitive import LABEL_FILE
from dagster_project.lake.forgotten import FILE as FORGOTTEN
from dagster_project.lake.parquet_files import is_local
from dagster_project.models.answer_cache import SQLiteAnswerCache
from dagster_project.orchestration.upkeep.erasure import MADE_ON_REQUEST
from dagster_project.outgoing.receipts import FOLDER, Receipts
from dagster_project.system.durable import make_private, put, remove, sync
from dagster_project.system.locks import alone
from transforms.errors import CheckFailedError, ServiceError, SettingsError, WeftError
from transforms.hashing import bytes_sha256
from transforms.settings.models import BUNDLED

_COPIES = "cache/backup"
"""The folder below the root for copies of files that change."""
_CONFIG, _KEY = f"settings/{DEFAULT_CONFIG}", "settings/pseudonym.key"
_COMPLETE = ("*.jsonl", "*.json", "*.html", "*.sqlite", "key", "key.next", "keys")
"""Patterns of complete files; others are locks, or of processes that were killed."""
_DERIVED = ("files.json", "chats.json", "unchanged.json", "seen.json", "looked.json")
_FINAL = re.compile(r"root/receipts/receipts-\d+\.jsonl")
"""The names of files that never change."""
_TRIES = 5


class StoredFile(NamedTuple):
    """A file of a snapshot: the SHA-256 of its content, and its size in bytes."""

    sha256: str
    bytes: int


class Backups:
    """The snapshots of one storage root at a place."""

    def __init__(self, place: str):
        """SettingsError for an address that no installed package opens."""
        try:
            self.base = (
                UPath(place) if is_local(UPath(place)) else UPath(place, use_listings_cache=False)
            )
            self._store, self._local = self.base.fs, is_local(self.base)
        except (ImportError, ValueError) as error:
            raise SettingsError(f"{place} cannot be opened: {error}") from error

    def names(self) -> list[str]:
        """The names of the snapshots, oldest first."""
        return sorted(name.removesuffix(".json") for name in self._sizes("snapshots"))

    def read(self, name: str | None = None) -> tuple[str, dict[str, StoredFile]]:
        """The storage root and the files by name of a snapshot, by default the newest.

        SettingsError if the place does not have it, CheckFailedError if it is damaged.
        """
        names = self.names()
        if (name := name or (names or [""])[-1]) not in names:
            raise SettingsError(
                f"{self.base} has no snapshot {name}; it has {', '.join(names) or 'none'}"
            )
        with self._opened("snapshots", f"{name}.json") as file:
            text = file.read()
        if not name.endswith(bytes_sha256(text)[:16]):
            raise CheckFailedError(
                f"snapshot {name} in {self.base} is not what was written: delete it"
            )
        content = json.loads(text)
        return content["root"], {
            name: StoredFile(*entry) for name, entry in content["files"].items()
        }

    def add(self, root: Path, files: Mapping[str, Path], keep: int) -> dict[str, Any]:
        """Store files by name, and drop all snapshots but the newest `keep`; the output of `weft backup --json`.

        SettingsError if the place has those of another root. A file that never changes is not read if the last snapshot has
        its name and size.
        """
        owner, last = self.read() if self.names() else (str(root), {})
        if owner != str(root):
            raise SettingsError(
                f"{self.base} has the backups of {owner}: give another folder for {root}"
            )
        there, stored, new = self._sizes("files"), dict[str, StoredFile](), list[int]()
        for name, file in sorted(files.items()):
            size = file.stat().st_size
            is_same = _FINAL.fullmatch(name) and name in last and last[name].bytes == size
            stored[name] = last[name] if is_same else StoredFile(_digest(file), size)
            if there.get(stored[name].sha256) != size:
                self._write(file, "files", stored[name].sha256)
                there[stored[name].sha256] = size
                new.append(size)
        if stored != last:
            file = root / _COPIES / "snapshot"
            file.write_text(json.dumps({"root": str(root), "files": stored}, indent=1))
            self._write(
                file,
                "snapshots",
                f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{_digest(file)[:16]}.json",
            )
        self._drop_all_but(keep)
        return {
            "outcome": "STORED" if stored != last else "UNCHANGED",
            "snapshot": self.names()[-1],
            "files": len(stored),
            "bytes": sum(entry.bytes for entry in stored.values()),
            "new_files": len(new),
            "new_bytes": sum(new),
        }

    def verified(self) -> list[dict[str, Any]]:
        """Every snapshot, its files and bytes, after all of it is read; CheckFailedError names missing or damaged files."""
        self.read()
        snapshots = {name: self.read(name)[1] for name in self.names()}
        used = {entry.sha256: name for files in snapshots.values() for name, entry in files.items()}
        if bad := [digest for digest in sorted(used) if not self._is_whole(digest)]:
            raise CheckFailedError(
                f"{len(bad)} of {len(used)} files in {self.base / 'files'} are missing or not what was written, such as "
                f"{bad[0]} ({used[bad[0]]}): delete them, and `weft backup` stores again what the storage still has"
            )
        sizes = {
            name: sum(entry.bytes for entry in files.values()) for name, files in snapshots.items()
        }
        return [
            {"snapshot": name, "files": len(snapshots[name]), "bytes": sizes[name]}
            for name in snapshots
        ]

    def bring(self, digest: str, place: Path | UPath) -> bool:
        """Write a file of the backup to its place, readable by its owner alone; False if it is there.

        CheckFailedError if it is damaged, SettingsError if a local file of another content is there.
        """
        if place.exists():
            if is_local(place) and _digest(Path(str(place))) != digest:
                raise SettingsError(
                    f"{place} has another content: restore to a new folder, or move it away"
                )
            return False
        if not self._is_whole(digest):
            raise CheckFailedError(
                f"{self.base}/files/{digest} is damaged or gone: restore another snapshot"
            )
        with self._opened("files", digest) as file:
            if is_local(place):
                _write_privately(file, Path(str(place)))
            else:
                place.write_bytes(file.read())
        return True

    def _is_whole(self, name: str) -> bool:
        if not self._store.exists((self.base / "files" / name).path):
            return False
        with self._opened("files", name) as file:
            return file_digest(file, "sha256").hexdigest() == name

    @contextmanager
    def _opened(self, folder: str, name: str) -> Iterator[Any]:
        with self._faults(), self._store.open((self.base / folder / name).path, "rb") as file:
            yield file

    def _sizes(self, folder: str) -> dict[str, int]:
        with self._faults():
            place = (self.base / folder).path
            places = self._store.find(place, detail=True) if self._store.exists(place) else {}
        return {path.rpartition("/")[2]: int(facts["size"]) for path, facts in places.items()}

    def _write(self, file: Path, folder: str, name: str) -> None:
        place = (self.base / folder / name).path
        with self._faults(), file.open("rb") as content:
            _write_privately(content, Path(place)) if self._local else self._store.put_file(
                str(file), place
            )

    def _drop_all_but(self, keep: int) -> None:
        """Delete older snapshots, and then the files that no other has."""
        old = [f"snapshots/{name}.json" for name in self.names()[:-keep]]
        used = {
            entry.sha256 for name in self.names()[-keep:] for entry in self.read(name)[1].values()
        }
        for name in [*old, *(f"files/{digest}" for digest in self._sizes("files").keys() - used)]:
            with self._faults():
                self._store.rm_file((self.base / name).path)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  # stores have faults of their own
            if self._local or isinstance(error, WeftError):
                raise
            raise ServiceError(
                f"{self.base} cannot be used ({error}): check place and key"
            ) from error


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return file_digest(content, "sha256").hexdigest()


def back_up(settings: Settings, config: Path, place: str, keep: int) -> dict[str, Any]:
    """Store the files that no build can make again, while builds and searches go on; the output of `weft backup --json`."""
    backups, aside = Backups(place), settings.root / _COPIES
    with alone(settings.root / ".backup.lock"):
        for _ in range(_TRIES):
            remove([aside])  # a killed backup left it
            aside.mkdir(mode=0o700, parents=True)
            try:
                return backups.add(settings.root, _collected(settings, config, aside), keep)
            except FileNotFoundError:
                continue  # a file was replaced meanwhile
            finally:
                remove([aside])
    raise WeftError(
        f"files of {settings.root} went {_TRIES} times meanwhile: begin again when no build runs"
    )


def restore(place: str, folder: Path, snapshot: str | None = None) -> int:
    """Write a snapshot, by default the newest, with its settings to a folder; returns how many files were written.

    Storage and key go to the places that these settings name. SettingsError if a file there has another content; the files
    of a lake on an object store stay.
    """
    backups, own = Backups(place), folder.absolute()
    _, files = backups.read(snapshot)
    count = backups.bring(files[_CONFIG].sha256, own / DEFAULT_CONFIG)
    settings = load_settings(own / DEFAULT_CONFIG)
    lake = make_lake(settings).base
    places: dict[str, Path | UPath] = {"root": settings.root, "lake": lake, "settings": own}
    targets: dict[str, Path | UPath] = {}
    for name in files:
        head, *parts = name.split("/")
        if head not in places or not parts or not {"", ".", ".."}.isdisjoint(parts):
            raise CheckFailedError(
                f"{place} has a file {name!r}, as no backup has: restore another snapshot"
            )
        targets[name] = (
            settings.pseudonym_key_file if name == _KEY else places[head].joinpath(*parts)
        )
    return count + sum(
        backups.bring(files[name].sha256, target) for name, target in sorted(targets.items())
    )


def _collected(settings: Settings, config: Path, aside: Path) -> dict[str, Path]:
    """The files that no build can make again, by name; of those that change, copies of this moment in the folder `aside`."""
    root, base, receipts = settings.root, make_lake(settings).base, Receipts(settings.root)
    vectors, bundled = root / "cache" / "embeddings", tuple(BUNDLED.values())
    folders = (
        FOLDER,
        "sessions",
        "eval",
        "cache",
        *(folder for extra in extras() for folder in extra.keeps),
    )
    with receipts.locked() if receipts.path.parent.exists() else nullcontext():
        places = [
            path
            for folder in folders
            for pattern in _COMPLETE
            for path in (root / folder).glob(pattern)
        ]
        places += [
            p
            for p in vectors.rglob("*.*")
            if not p.relative_to(vectors).parts[0].startswith(bundled)
        ]
        files: dict[str, Path | UPath] = {
            f"root/{p.relative_to(root).as_posix()}": p for p in places
        }
        tables = (f"{table}.parquet" for table in MADE_ON_REQUEST)
        files |= {f"lake/{name}": base / name for name in (FORGOTTEN, *tables)}
        names = (SYNONYMS, LABEL_FILE, *(name for extra in extras() for name in extra.keeps_beside))
        beside = (path for name in names for path in settings.base.glob(name))
        files |= {f"settings/{p.relative_to(settings.base).as_posix()}": p for p in beside}
        files |= {_CONFIG: config, _KEY: settings.pseudonym_key_file}
        return {
            name: _stable(name, path, aside / bytes_sha256(name.encode("utf-8", "replace")))
            for name, path in files.items()
            if not path.name.startswith(".") and path.name not in _DERIVED and path.is_file()
        }


def _stable(name: str, path: Path | UPath, copy: Path) -> Path:
    """The file of a name if it never changes, else a `copy` of it at this moment."""
    if _FINAL.fullmatch(name):
        return Path(str(path))
    if path.suffix == ".sqlite":
        SQLiteAnswerCache(Path(str(path))).copy(copy)
    else:
        copy.write_bytes(path.read_bytes())
    return copy


def _write_privately(content: BinaryIO, place: Path) -> None:
    """Write a file that only the owner can read, with the missing folders above; durable when the call returns."""
    make_private(place.parent)
    aside = place.with_name(f".tmp-{os.getpid()}-{place.name}"[:200])
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        shutil.copyfileobj(content, file)
    sync([aside])
    put(aside, place)
