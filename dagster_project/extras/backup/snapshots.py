"""Backups of what no build can make again, in a folder or on an object store: the work behind `weft
backup`.

`files/` has each content once, named after its SHA-256; `snapshots/` the names and hashes of each
backup. A snapshot is written last, so that an interrupted backup changes no earlier one.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import file_digest
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from upath import UPath

from dagster_project.composition.objects import make_lake
from dagster_project.config.places import DEFAULT_CONFIG, LABEL_FILE, SYNONYMS
from dagster_project.config.settings import Settings, faults_of
from dagster_project.extensions import extras
from dagster_project.lake.forgotten import FILE as FORGOTTEN
from dagster_project.lake.parquet_files import is_local
from dagster_project.models.answer_cache import SQLiteAnswerCache
from dagster_project.orchestration.upkeep.erasure import MADE_ON_REQUEST
from dagster_project.outgoing.receipt_seals import Heads, hash_of, is_signed
from dagster_project.outgoing.receipts import FOLDER, Receipts
from dagster_project.outgoing.revoked import REVOKED
from dagster_project.system.durable import make_private, put, remove, sync, write_privately
from dagster_project.system.locks import alone
from transforms.errors import CheckFailedError, ServiceError, SettingsError, WeftError
from transforms.hashing import bytes_sha256
from transforms.settings.models import BUNDLED

_COPIES = "cache/backup"
"""The folder below the root for copies of files that change."""
CONFIG, KEY = f"settings/{DEFAULT_CONFIG}", "settings/pseudonym.key"
"""The names of the settings file and of the key of pseudonyms in each snapshot."""
_COMPLETE = ("*.jsonl", "*.json", "*.html", "*.sqlite", "key", "key.next", "keys")
"""Patterns of complete files; others are locks, or of processes that were killed."""
_FINAL = re.compile(r"root/receipts/receipts-\d+\.jsonl")
"""The names of files that never change."""
_TRIES = 5


_NAME = re.compile(r"(\d{8}T\d{6}\.\d{6}Z)-[0-9a-f]{16}")
UNSIGNED = "unsigned"
"""The signer of a snapshot that has no signature, as those of earlier versions."""


class StoredFile(NamedTuple):
    """A file of a snapshot: the SHA-256 of its content, and its size in bytes."""

    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    bytes: Annotated[int, Field(ge=0)]


class _Content(BaseModel):
    """The content of a snapshot's file; `at` is the beginning of its name."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    root: str
    files: dict[str, StoredFile]
    at: str = ""
    key: str = ""
    hash: str = ""
    signature: str = ""


class Snapshot(NamedTuple):
    """A snapshot: the storage root, the files by name, and the public key of who wrote it."""

    name: str
    root: str
    files: dict[str, StoredFile]
    signer: str


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
        names = (name.removesuffix(".json") for name in self._sizes("snapshots"))
        return sorted(filter(_NAME.fullmatch, names))

    def read(self, name: str | None = None) -> Snapshot:
        """A snapshot, by default the newest.

        SettingsError if the place does not have it, CheckFailedError if it is damaged.
        """
        names = self.names()
        if (name := name or (names or [""])[-1]) not in names:
            raise SettingsError(
                f"{self.base} has no snapshot {name}; it has {', '.join(names) or 'none'}"
            )
        with self._opened("snapshots", f"{name}.json") as file:
            text = file.read()
        damaged = f"snapshot {name} in {self.base} is not what was written"
        if not name.endswith(bytes_sha256(text)[:16]):
            raise CheckFailedError(f"{damaged}: delete it")
        try:
            content = _Content.model_validate_json(text, strict=True)
        except ValidationError as error:
            raise CheckFailedError(f"{damaged} ({faults_of(error)}): delete it") from error
        if not content.signature:
            return Snapshot(name, content.root, content.files, UNSIGNED)
        record = content.model_dump()
        if hash_of(record) != content.hash or not is_signed(record):
            raise CheckFailedError(f"{damaged}: its signature is of another content; delete it")
        if not name.startswith(f"{content.at}-"):
            raise CheckFailedError(f"{damaged}: it is the one of {content.at}; delete it")
        return Snapshot(name, content.root, content.files, content.key)

    def add(self, root: Path, files: Mapping[str, Path], keep: int) -> dict[str, Any]:
        """Store files by name, signed with the key of receipts, and drop all snapshots but the
        newest `keep`; the output of `weft backup --json`.

        SettingsError if the place has those of another root. A file that never changes is not read
        if the last snapshot of the same signer has its name and size.
        """
        receipts, last = Receipts(root), self.read() if self.names() else None
        if last and last.root != str(root):
            raise SettingsError(
                f"{self.base} has the backups of {last.root}: give another folder for {root}"
            )
        signer = receipts.sign({})["key"]
        known = last.files if last and last.signer == signer else {}
        there, stored, new = self._sizes("files"), dict[str, StoredFile](), list[int]()
        for name, file in sorted(files.items()):
            size = file.stat().st_size
            is_same = _FINAL.fullmatch(name) and name in known and known[name].bytes == size
            stored[name] = known[name] if is_same else StoredFile(digest(file), size)
            if there.get(stored[name].sha256) != size:
                self._write(file, "files", stored[name].sha256)
                there[stored[name].sha256] = size
                new.append(size)
        if stored != known:
            at = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
            file = root / _COPIES / "snapshot"
            content = receipts.sign({"root": str(root), "files": stored, "at": at})
            file.write_text(json.dumps(content, indent=1))
            self._write(file, "snapshots", f"{at}-{digest(file)[:16]}.json")
        self._drop_all_but(keep)
        return {
            "outcome": "STORED" if stored != known else "UNCHANGED",
            "snapshot": self.names()[-1],
            "signed_by": signer,
            "files": len(stored),
            "bytes": sum(entry.bytes for entry in stored.values()),
            "new_files": len(new),
            "new_bytes": sum(new),
        }

    def verified(self) -> list[dict[str, Any]]:
        """Every snapshot, its files and bytes and its signer, after all of it is read;
        CheckFailedError names missing or damaged files.
        """
        self.read()
        snapshots = [self.read(name) for name in self.names()]
        used = {entry.sha256: name for one in snapshots for name, entry in one.files.items()}
        if bad := [one for one in sorted(used) if not self._is_whole(one)]:
            raise CheckFailedError(
                f"{len(bad)} of {len(used)} files in {self.base / 'files'} are missing or not what was written, such as "
                f"{bad[0]} ({used[bad[0]]}): delete them, and `weft backup` stores again what the storage still has"
            )
        return [
            {
                "snapshot": one.name,
                "files": len(one.files),
                "bytes": sum(entry.bytes for entry in one.files.values()),
                "signed_by": one.signer,
            }
            for one in snapshots
        ]

    @contextmanager
    def opened(self, sha256: str) -> Iterator[BinaryIO]:
        """A file of the backup, open; CheckFailedError if it is damaged."""
        if not self._is_whole(sha256):
            raise CheckFailedError(
                f"{self.base}/files/{sha256} is damaged or gone: restore another snapshot"
            )
        with self._opened("files", sha256) as file:
            yield file

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
            write_privately_to(content, Path(place)) if self._local else self._store.put_file(
                str(file), place
            )

    def _drop_all_but(self, keep: int) -> None:
        """Delete older snapshots, and then the files that no other has."""
        old = [f"snapshots/{name}.json" for name in self.names()[:-keep]]
        used = {
            entry.sha256
            for name in self.names()[-keep:]
            for entry in self.read(name).files.values()
        }
        for name in [*old, *(f"files/{one}" for one in self._sizes("files").keys() - used)]:
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


def digest(file: Path) -> str:
    """The SHA-256 of a local file."""
    with file.open("rb") as content:
        return file_digest(content, "sha256").hexdigest()


def back_up(settings: Settings, config: Path, place: str, keep: int) -> dict[str, Any]:
    """Store the files that no build can make again, while builds and searches go on; the output of
    `weft backup --json`.

    A restore by this user knows the signer from then on.
    """
    backups, aside = Backups(place), settings.root / _COPIES
    Receipts(settings.root).sign({})  # makes the key if there is none, which is to be in the backup
    with alone(settings.root / ".backup.lock"):
        for _ in range(_TRIES):
            remove([aside])  # a killed backup left it
            aside.mkdir(mode=0o700, parents=True)
            try:
                facts = backups.add(settings.root, _collected(settings, config, aside), keep)
            except FileNotFoundError:
                continue  # a file was replaced meanwhile
            finally:
                remove([aside])
            note = _note_of_signer(settings.root)
            make_private(note.parent)
            write_privately(note, facts["signed_by"])
            return facts
    raise WeftError(
        f"files of {settings.root} went {_TRIES} times meanwhile: begin again when no build runs"
    )


def known_signers(root: Path) -> set[str]:
    """The public keys that signed the last backup of each storage of this user."""
    return {file.read_text() for file in _note_of_signer(root).parent.glob("*.signer")}


def _note_of_signer(root: Path) -> Path:
    return Heads(root).file.with_suffix(".signer")


def pattern_of_names() -> list[str]:
    """Patterns of the names of all files that a backup has; `**` is any number of folders."""
    admits = [folder for extra in extras() for folder in extra.admits]
    folders = [
        FOLDER,
        "sessions",
        "eval",
        "cache",
        *admits,
        *(folder for extra in extras() for folder in extra.keeps),
    ]
    beside = [SYNONYMS, LABEL_FILE, *(name for extra in extras() for name in extra.keeps_beside)]
    return [
        CONFIG,
        KEY,
        "root/cache/embeddings/**/*.*",
        *(f"root/{folder}/{pattern}" for folder in folders for pattern in _COMPLETE),
        *(f"root/{folder}/{REVOKED}" for folder in admits),
        *(f"lake/{name}" for name in (FORGOTTEN, *(f"{t}.parquet" for t in MADE_ON_REQUEST))),
        *(f"settings/{name}" for name in beside),
    ]


def _collected(settings: Settings, config: Path, aside: Path) -> dict[str, Path]:
    """The files that no build can make again, by name; of those that change, copies of this moment
    in the folder `aside`.
    """
    lake, receipts = make_lake(settings).base, Receipts(settings.root)
    vectors, bundled = settings.root / "cache" / "embeddings", tuple(BUNDLED.values())
    bases = {"root": settings.root, "settings": settings.base}
    with receipts.locked():
        files: dict[str, Path | UPath] = {}
        for pattern in pattern_of_names():
            head, _, rest = pattern.partition("/")
            if head == "lake":
                files[pattern] = lake / rest
                continue
            files |= {
                f"{head}/{place.relative_to(bases[head]).as_posix()}": place
                for place in bases[head].glob(rest)
                if not (
                    place.is_relative_to(vectors)
                    and place.relative_to(vectors).parts[0].startswith(bundled)
                )
            }
        files |= {CONFIG: config, KEY: settings.pseudonym_key_file}
        return {
            name: _stable(name, path, aside / bytes_sha256(name.encode("utf-8", "replace")))
            for name, path in files.items()
            if not path.name.startswith(".") and path.is_file()
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


def write_privately_to(content: BinaryIO, place: Path) -> None:
    """Write a file that only the owner can read, with the missing folders above; durable when the
    call returns.
    """
    make_private(place.parent)
    aside = place.with_name(f".tmp-{os.getpid()}-{place.name}"[:200])
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        shutil.copyfileobj(content, file)
    sync([aside])
    put(aside, place)
