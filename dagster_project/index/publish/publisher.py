"""The published index: an immutable DuckDB file per version, built aside and switched by a rename."""

import contextlib
import fcntl
import gc
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any, Protocol

import duckdb

from assets.protocols.lake import Progress
from dagster_project.index.files.arrays import damage_of_arrays, folder_of, write_arrays
from dagster_project.index.files.posting_arrays import VECTORS_IN
from dagster_project.index.publish import macro_sql
from dagster_project.index.publish.full_build import IndexBuild
from dagster_project.index.publish.incremental_build import IndexUpdate
from dagster_project.index.publish.table_sql import COMMENTS, PUBLISHED_COLUMNS
from dagster_project.index.publish.version_inputs import (
    LAKE_WIDE,
    TABLES_OF_TYPE,
    LostTextError,
    Published,
    PublishSettings,
    UnfitBaseError,
    VersionInputs,
)
from dagster_project.index.publish.versions import CURRENT, LAYOUT, LENSES, damage_of, require_whole
from dagster_project.lake.forgotten import Forgotten
from dagster_project.lake.lake import ParquetLake
from dagster_project.sources.seen_partitions import SeenPartitions
from dagster_project.system.code import code_hashes
from dagster_project.system.disk_space import is_of_full_disk, raise_of_machine
from dagster_project.system.durable import put, remove, sync
from dagster_project.system.locks import require_leases
from dagster_project.system.long_work import LoggedProgress, Phases, give_memory_back
from dagster_project.system.processes import is_left_over
from transforms.errors import WeftError
from transforms.hashing import parts_hash

_OF_TEXTS = (
    "transforms.text.terms:chunk_terms",
    "transforms.embedding.embedded_text:published_chunks",
    "transforms.embedding.embedded_text:embedded_chunks",
)
"""The code that says which terms and vectors a chunk has."""
_REBUILD_SHARE = 0.25
"""Share of the postings; if more changed since the last full rebuild, the next publish is a full
rebuild, which restores the order of the inverted index and frees unused space.
"""
_LEAST_REBUILT = 600_000
"""Postings, a few row groups: as long as no more changed since the last full rebuild, queries are
no slower.
"""
_COPIED_AT_ONCE = 1 << 24
_MUCH_KILOBYTES = 1 << 20
"""Memory of a process that is worth a look for cycles, which takes a third of a second."""


class Mirror(Protocol):
    """Sends each publish to the service that ranks, and builds the files whose vectors the service
    has.

    `layout` are the texts by which the layout of these files differs from that of others.
    """

    full_build: type[IndexBuild]
    update: type[IndexUpdate]
    layout: tuple[str, ...]

    def require_answer(self) -> str:
        """The service in words; IndexUnavailableError unless it answers."""

    def state_of(self, published: Path) -> str | None:
        """The state of a published file at the service, in words; None if nothing says that it has
        it.

        IndexUnavailableError if it lacks some of it.
        """

    def holds(self, published: Path) -> bool:
        """True if all of a published file is there."""

    def publish(self, new: Path, before: Path | None) -> Mapping[str, Any]:
        """Send the changes of the file `new` from the current one; returns facts of that."""


class DuckDBPublisher:
    """Builds `weft-<version>.duckdb` from the lake and points `CURRENT` at it."""

    def __init__(
        self,
        lake: ParquetLake,
        folder: Path,
        settings: PublishSettings,
        *,
        sightings: SeenPartitions | None = None,
        guards: Iterable[Callable[[Path, Path | None], None]] = (),
        mirror: Mirror | None = None,
    ):
        """`sightings` knows when the partitions of the lake were first seen.

        Each of `guards` gets a new file before it is published, and the current one; it may raise
        to refuse the new one. `mirror` gets it before that.
        """
        self.lake, self.folder, self.settings = lake, folder, settings
        self.sightings, self.guards, self.mirror = sightings, tuple(guards), mirror

    @property
    def layout(self) -> str:
        """Hash of everything that must be equal for rows of an older version to be reused."""
        of_code = LAYOUT, repr(PUBLISHED_COLUMNS), *code_hashes([_OF_TEXTS])
        of_settings = self.settings.terms.digest(), self.settings.embedding.digest()
        return parts_hash([*of_code, *(self.mirror.layout if self.mirror else ()), *of_settings])[
            :16
        ]

    def publish(self, partitions: Mapping[str, str], progress: Progress | None = None) -> Published:
        """Publish the lake's tables restricted to `partitions`, which maps each to its source type.

        If the current version holds just that, nothing is built. An incremental build replaces the
        rows that differ in a copy of the current version; if that cannot be used, or much changed
        since the last full rebuild, all is built from the lake. A crash at any point leaves the
        current version unchanged. CheckFailedError names the rule that the new file breaks.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock():
            self._sweep()
            hashes = self._content_hashes(partitions)
            version = self._version(hashes)
            place = self.folder / f"weft-{version}.duckdb"
            previous = self._usable_previous()
            rewrites = self._rewrites()
            if previous and self.mirror and not self.mirror.holds(previous):
                previous = None  # it lacks the vectors to send
            if (
                previous
                and previous.name == place.name
                and not rewrites
                and self._has_arrays(previous)
            ):
                return Published(version, place, False, len(partitions), 0, True)
            if getrusage(RUSAGE_SELF).ru_maxrss > _MUCH_KILOBYTES:
                gc.collect()  # frees cycles left by relations, half a gigabyte for a quarter of a million mails
            give_memory_back()
            phases = Phases(progress or LoggedProgress())
            phases.begin("publish_relations")
            recorded = json.dumps(self.settings.recorded, sort_keys=True)
            facts = {"version": version, "layout": self.layout, "settings": recorded}
            inputs = VersionInputs(
                self.lake, partitions, hashes, self.sightings, self.settings, facts, phases
            )
            result = self._build_on_previous(inputs, previous, place)
            self._prune(place, 1 if rewrites else self.settings.index.keep_versions)
            return result

    def _has_arrays(self, version: Path) -> bool:
        """True if a version has its arrays, which are made again from its file if they are damaged."""
        facts = dict(_rows_of(version))
        if damage_of_arrays(version, facts) is None:
            return True
        if VECTORS_IN in facts:
            return False
        with _open(version) as connection:
            write_arrays(connection, folder_of(version), facts)
        return True

    def _rewrites(self) -> bool:
        """True if earlier versions may hold texts to forget: nothing is built on them, and none is
        kept.
        """
        return Forgotten(self.lake.base).unfinished

    def _build_on_previous(
        self, inputs: VersionInputs, previous: Path | None, place: Path
    ) -> Published:
        """Build the version on the current one if possible; the result says why it proved unusable,
        if it did.
        """
        unusable, base = None, None
        if previous and not self._rewrites() and self._can_be_updated(previous):
            try:
                return self._build(inputs, previous, place, on_previous=True)
            except LostTextError:
                base = previous
            except (duckdb.Error, UnfitBaseError) as error:
                if is_of_full_disk(error):
                    raise
                unusable = str(error).splitlines()[0]
        return replace(self._build(inputs, None if unusable else base, place), unusable=unusable)

    def _can_be_updated(self, previous: Path) -> bool:
        """False if a full rebuild is due: when enough postings changed since the last one."""
        facts = dict(_rows_of(previous))
        since = int(facts["postings_since_rebuild"])
        limit = max(_LEAST_REBUILT, _REBUILD_SHARE * json.loads(facts["rows"])["postings"])
        return since <= limit

    def _build(
        self,
        inputs: VersionInputs,
        previous: Path | None,
        place: Path,
        *,
        on_previous: bool = False,
    ) -> Published:
        """Build a version aside, of the lake or on `previous`, which knows times, and switch to it."""
        building = self.folder / f".build-{os.getpid()}-{secrets.token_hex(4)}.duckdb"
        try:
            if previous and on_previous:
                _copy(previous, building)
                update = self.mirror.update if self.mirror else IndexUpdate
                result = replace(update(inputs, building, previous).run(), path=place)
            else:
                full = self.mirror.full_build if self.mirror else IndexBuild
                result = replace(full(inputs, building, previous).run(), path=place)
            if self.mirror:
                result = replace(result, mirrored=self.mirror.publish(building, self.current()))
            for guard in self.guards:
                guard(building, self.current())
            sync([building])
            require_leases()
            remove([folder_of(place)])
            put(folder_of(building), folder_of(place))
            put(building, place)
            self._switch(place)
        finally:
            remove(self.folder.glob(f"*{building.stem}*"))
        return result

    def is_current(self, partitions: Mapping[str, str]) -> bool:
        """True if the current version is readable and shows the lake as it is now."""
        previous = self._usable_previous()
        if previous is None or self._rewrites() or self.damage():
            return False
        try:
            version = self._version(self._content_hashes(partitions))
            is_held = self.mirror is None or self.mirror.holds(previous)
        except WeftError:
            return False
        return is_held and previous.name == f"weft-{version}.duckdb"

    def _version(self, hashes: Mapping[str, Mapping[str, str]]) -> str:
        contents = json.dumps([self.settings.recorded, hashes], sort_keys=True)
        shown = repr((COMMENTS, macro_sql.statements(self.settings.search, self.settings.terms)))
        return parts_hash([self.layout, self.settings.index.digest(), shown, contents])[:16]

    def current(self) -> Path | None:
        """The file that `CURRENT` names; None if nothing is published."""
        link = self.folder / CURRENT
        return link.resolve() if link.is_symlink() and link.exists() else None

    def damage(self) -> str | None:
        """The fault of the file that `CURRENT` names; None if it opens, or nothing was ever
        published.
        """
        link = self.folder / CURRENT
        if not link.is_symlink():
            return None
        if not link.exists():
            return f"{link.readlink()} is missing"
        try:
            facts = dict(_rows_of(link.resolve()))
        except duckdb.Error as error:
            raise_of_machine(error)
            return f"{link.readlink()} cannot be read ({str(error).splitlines()[0]})"
        return (
            damage_of_arrays(link.resolve(), facts) if facts.get("layout") == self.layout else None
        )

    def discard_damaged(self) -> dict[str, str]:
        """Delete the current file or its arrays if any byte differs from the written ones; path and
        fault of each.
        """
        current = self.current()
        if current is None or self._usable_previous() is None:
            return {}
        if damage := damage_of(current):
            current.unlink()
            return {str(current): damage}
        if damage := damage_of_arrays(current, dict(_rows_of(current)), reads_all=True):
            remove([folder_of(current)])
            return {str(folder_of(current)): damage}
        return {}

    def _content_hashes(self, partitions: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Content hash of every table of every partition, and under the key '' of the tables
        without partitions.
        """
        hashes = {
            p: {t: self._content_hash(t, p) for t in TABLES_OF_TYPE[partitions[p]]}
            for p in sorted(partitions)
        }
        hashes[""] = {
            table: self._content_hash(table, None) for table in (*LAKE_WIDE, *self.settings.added)
        }
        return hashes

    def _content_hash(self, table: str, partition: str | None) -> str:
        footer = self.lake.footer(table, partition)
        if footer is None:
            place = self.lake.path(table, partition)
            raise WeftError(
                f"cannot publish: {place} is missing or damaged; `weft build` makes it again"
            )
        return footer.content_hash

    def fits_settings(self) -> bool:
        """True unless the published version has another layout, tokenizer or model than the
        settings.
        """
        return self.current() is None or self._usable_previous() is not None

    def published_partitions(self) -> dict[str, dict[str, str]]:
        """By partition of the current version the content hash of each table that it was published
        with.
        """
        hashes: dict[str, dict[str, str]] = {}
        if previous := self._usable_previous():
            for partition, table, content in _rows_of(previous, "partitions"):
                hashes.setdefault(partition, {})[table] = content
        return hashes

    def _usable_previous(self) -> Path | None:
        """The current version if its rows can be reused."""
        current = self.current()
        try:
            return (
                current
                if current and dict(_rows_of(current)).get("layout") == self.layout
                else None
            )
        except (duckdb.Error, FileNotFoundError) as error:
            raise_of_machine(error)
            return None

    def _switch(self, place: Path) -> None:
        link = self.folder / f".{CURRENT}-{os.getpid()}"
        link.unlink(missing_ok=True)
        link.symlink_to(place.name)
        put(link, self.folder / CURRENT)

    def _prune(self, keep: Path, count: int) -> None:
        """Delete all versions but `keep` and the newest, so that `count` are left."""
        versions = sorted(
            self.folder.glob("weft-*.duckdb"), key=lambda p: (p == keep, p.stat().st_mtime_ns)
        )
        for version in versions[:-count]:
            version.unlink()
        arrays = self.folder.glob("weft-*.arrays")
        remove(folder for folder in arrays if not folder.with_suffix(".duckdb").exists())

    def sweep(self) -> int:
        """Remove the files and folders of killed publishes; returns their number, 0 while another
        process publishes.
        """
        with contextlib.suppress(BlockingIOError, FileNotFoundError), self._lock(fcntl.LOCK_NB):
            return self._sweep()
        return 0

    def _sweep(self) -> int:
        """Remove the files and folders of killed publishes; the caller holds the lock, so that none
        is running.
        """
        orphans = [
            p for name in (".build-*", "..build-*", f".{CURRENT}-*") for p in self.folder.glob(name)
        ]
        of_searches = (
            *self.folder.glob(".weft-*.arrays-*"),
            *self.folder.parent.glob(f"{LENSES}/*/.*-*-*"),
        )
        orphans += [p for p in of_searches if is_left_over(p, p.name.rsplit("-", 2)[1])]
        remove(orphans)
        return len(orphans)

    @contextlib.contextmanager
    def _lock(self, how: int = 0) -> Iterator[None]:
        """Allow one publish at a time; the system releases the lock when the process ends.

        With LOCK_NB, BlockingIOError if another publishes.
        """
        with (self.folder / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | how)
            yield


@contextlib.contextmanager
def _open(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a published file read-only; duckdb.IOException if its end is missing."""
    with duckdb.connect(str(file), read_only=True) as connection:
        require_whole(connection, file)
        yield connection


def _rows_of(file: Path, table: str = "manifest") -> tuple[Any, ...]:
    """The rows of a small table of a published file; duckdb.Error if it cannot be read."""
    state = file.stat()
    return _read_once(file, state.st_ino, state.st_size, state.st_mtime_ns)[table]


@lru_cache(maxsize=4)
def _read_once(file: Path, *state: int) -> dict[str, tuple[Any, ...]]:
    """The rows of the small tables of a published file in this state: a build asks for them ten
    times.
    """
    with _open(file) as connection:
        return {
            t: tuple(connection.execute(f"FROM {t}").fetchall()) for t in ("manifest", "partitions")
        }


def _copy(source: Path, target: Path) -> None:
    """Copy a file; where the file system can, the copy shares its blocks until they are written to."""
    with source.open("rb") as reader, target.open("xb") as writer:
        remaining = source.stat().st_size
        try:
            while remaining and (
                copied := os.copy_file_range(reader.fileno(), writer.fileno(), remaining)
            ):
                remaining -= copied
        except OSError:
            if remaining != source.stat().st_size:
                raise
            shutil.copyfileobj(reader, writer, _COPIED_AT_ONCE)
