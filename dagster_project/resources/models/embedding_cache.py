"""Vectors addressed by content, so that no text with a vector is embedded again; what is asked for is noted first."""

from __future__ import annotations

import fcntl
import os
import secrets
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dagster_project.resources.models.answer_cache import Damage, SQLiteAnswerCache
from dagster_project.resources.system.processes import is_left_over
from transforms.embedding.vectors import require_usable, stacked
from transforms.errors import EmbeddingError

_COMPACT_SEGMENTS = 64
_SMALL_BYTES = 64 << 20
"""A segment of this size is not merged any more."""
_MERGED_BYTES = 256 << 20
_ROW_GROUP = 16384
"""Vectors that are read at once: some 16 MB."""
_TABLE_ROWS = 1 << 16
_TEMPORARY = ".tmp-"
_CLAIMS = ".claims"
_SET_ASIDE = ".damaged"
Key = tuple[str, int, str]
"""Model, dimensions and task of vectors."""


@dataclass(frozen=True)
class Holding:
    """What the cache holds of one model, width and task."""

    model: str
    dimensions: int
    task: str
    vectors: int
    segments: int
    bytes: int


@dataclass
class _Known:
    """The segments that were read, and the hashes in them."""

    segments: set[str] = field(default_factory=set)
    hashes: set[str] = field(default_factory=set)


class ParquetEmbeddingCache:
    """Segments of (text_hash, vector) below `<root>/<model>/<dimensions>/<task>/`.

    Every stored batch is a file of its own, renamed into place when it is complete, so that any
    number of processes may store at once and a killed one loses at most its batches in flight.
    Equal hashes in two segments carry equal vectors. Many small segments are merged now and then.
    Pages carry checksums, so a flipped bit is damage and not a wrong vector.

    A claim is a lock on one byte of the file `.claims`, at an offset made of the hash: the system
    gives it back when its process ends, however it ends. Why texts were refused is kept in one file
    for all models, and in another one which texts are asked for and have no answer yet.
    """

    def __init__(self, root: Path):
        self.root = root
        self._refusals = SQLiteAnswerCache(root / "refusals.sqlite")
        self._requests = SQLiteAnswerCache(root / "requests.sqlite")
        self._known: dict[Key, _Known] = {}
        self._claims: dict[Key, IO[bytes]] = {}

    def hashes(self, model: str, dimensions: int, task: str) -> set[str]:
        """The text hashes that have a vector; segments read before are not read again."""
        known = self._known.setdefault((model, dimensions, task), _Known())
        while True:
            segments = {s.name: s for s in self._segments(model, dimensions, task)}
            if known.segments - segments.keys():
                known.segments, known.hashes = set(), set()
            try:
                for name in segments.keys() - known.segments:
                    known.hashes |= self._hashes_of(segments[name])
                    known.segments.add(name)
            except FileNotFoundError:
                continue  # merged meanwhile
            return known.hashes

    def forget(self) -> None:
        """Let go of the hashes that were read: a quarter of a gigabyte of two million."""
        self._known.clear()

    def store(
        self, model: str, dimensions: int, task: str, hashes: Sequence[str], vectors: np.ndarray
    ) -> None:
        """Keep vectors, float32 of shape (hashes, dimensions); durable when the call returns.

        EmbeddingError, and nothing kept, if one is not of unit length and of that width.
        """
        if not hashes:
            return
        require_usable(vectors, len(hashes), dimensions)
        self._write(
            self._folder(model, dimensions, task), _table(pa.array(list(hashes), pa.string()), vectors)
        )

    def vectors(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> pa.Table:
        """Columns `text_hash` and `vector`, sorted by hash, for those of `hashes` that are known."""
        wanted = sorted(set(hashes))
        while True:
            try:
                return self._gathered((model, dimensions, task), wanted)
            except FileNotFoundError:
                continue  # merged meanwhile

    def laid_out(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> LaidOutVectors:
        """The vectors of those of `hashes` that are known, in their order; `hashes` are distinct."""
        self.root.mkdir(parents=True, exist_ok=True)
        while True:
            found = LaidOutVectors(tempfile.TemporaryFile(dir=self.root), hashes, dimensions)  # noqa: SIM115
            try:
                for places, rows in self._found((model, dimensions, task), hashes):
                    found.add(places, rows)
                return found
            except FileNotFoundError:
                continue  # merged meanwhile

    def refuse(self, model: str, dimensions: int, task: str, reasons: Mapping[str, str]) -> None:
        """Keep why the model will not embed texts, by their hash; durable when the call returns."""
        key = model, dimensions, task
        self._refusals.store({_entry(key, name): why for name, why in reasons.items()})

    def refusals(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> dict[str, str]:
        """Why those of `hashes` that the model refused have no vector."""
        found = self._refusals.known([_entry((model, dimensions, task), name) for name in hashes])
        return {key.rpartition("/")[2]: why for key, why in found.items()}

    def begin(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> set[str]:
        """Note texts, which this process claims, before they are sent; durable when the call returns.

        Returns those that are noted already: a process sent them and ended before it saw the answer.
        """
        unfinished = self.unfinished(model, dimensions, task, hashes)
        self._requests.store({_entry((model, dimensions, task), name): "" for name in hashes})
        return unfinished

    def finish(self, model: str, dimensions: int, task: str, hashes: Iterable[str]) -> None:
        """Take texts off the notes of `begin`: their vectors are kept, or nothing was answered."""
        self._requests.drop(_entry((model, dimensions, task), name) for name in hashes)

    def unfinished(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> set[str]:
        """Those of `hashes` that were sent, or about to be, and of which no answer is known."""
        found = self._requests.known([_entry((model, dimensions, task), name) for name in hashes])
        return {key.rpartition("/")[2] for key in found}

    def refusal_counts(self) -> Counter[Key]:
        """How many texts each model refused, by model, width and task."""
        found = (key.rsplit("/", 3) for key in self._refusals.all_keys())
        return Counter((model, int(dimensions), task) for model, dimensions, task, _ in found)

    def forget_refusals(self) -> int:
        """Let every refused text be asked for again; returns how many there were."""
        return self._refusals.drop(self._refusals.all_keys())

    def claim(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> set[str]:
        """Those of `hashes` that no other process has claimed; they are this one's until released."""
        claims = self._claims_file((model, dimensions, task))
        claimed = set()
        for name in hashes:
            try:
                fcntl.lockf(claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _offset(name))
            except (BlockingIOError, PermissionError):
                continue
            claimed.add(name)
        return claimed

    def release(self, model: str, dimensions: int, task: str, hashes: Iterable[str]) -> None:
        """Give claims back."""
        claims = self._claims_file((model, dimensions, task))
        for name in hashes:
            fcntl.lockf(claims, fcntl.LOCK_UN, 1, _offset(name))

    def await_others(self, model: str, dimensions: int, task: str, hashes: Iterable[str]) -> None:
        """Return when no other process claims any of `hashes`; to be called while nothing is claimed here."""
        for name in hashes:
            claims = self._claims_file((model, dimensions, task))
            fcntl.lockf(claims, fcntl.LOCK_EX, 1, _offset(name))
            fcntl.lockf(claims, fcntl.LOCK_UN, 1, _offset(name))

    def compact(self, model: str, dimensions: int, task: str) -> None:
        """Merge the small segments where they are many; readers see all vectors at any moment."""
        while True:
            small = [s for s in self._segments(model, dimensions, task) if _size(s) < _SMALL_BYTES]
            if len(small) <= _COMPACT_SEGMENTS:
                return
            chosen: list[Path] = []
            for segment in small:
                if sum(map(_size, chosen)) + _size(segment) <= _MERGED_BYTES:
                    chosen.append(segment)
            if not self._merge(chosen, self._folder(model, dimensions, task)):
                return

    def verify(self) -> list[Damage]:
        """Every file that cannot be read whole, or holds a vector of wrong width or length, with the reason."""
        found = self._refusals.verify() + self._requests.verify()
        for key in self._keys():
            folder = self._folder(*key)
            found += [Damage(s, "set aside as damaged") for s in sorted(folder.glob(f"*{_SET_ASIDE}"))]
            for segment in self._segments(*key):
                if reason := _damage(segment, key[1]):
                    found.append(Damage(segment, reason))
        return found

    def stats(self) -> list[Holding]:
        """What is held of each model, width and task, sorted."""
        found = []
        for key in self._keys():
            segments = self._segments(*key)
            if segments:
                size = sum(map(_size, segments))
                found.append(Holding(*key, len(self.hashes(*key)), len(segments), size))
        return found

    def prune(self, keep: Iterable[str], models: Iterable[str] | None = None) -> int:
        """Drop the vectors of texts that are not in `keep` and, if given, of models not in `models`.

        Returns how many were dropped. Their refusals and requests are forgotten, too. To be called while
        nothing is embedded.
        """
        wanted = pa.array(sorted(set(keep)), pa.string())
        allowed = None if models is None else set(models)
        dropped = 0
        for key in self._keys():
            for segment in self._segments(*key):
                table = _read(segment)
                if table is None:
                    continue
                used = pc.is_in(table.column("text_hash"), value_set=wanted)
                kept = table.slice(0, 0) if allowed and key[0] not in allowed else table.filter(used)
                dropped += table.num_rows - kept.num_rows
                if kept.num_rows < table.num_rows:
                    if kept.num_rows:
                        self._write(self._folder(*key), kept)
                    segment.unlink()
        for notes in (self._refusals, self._requests):
            _prune_notes(notes, set(wanted.to_pylist()), allowed)
        return dropped

    def sweep(self) -> int:
        """Delete what killed processes left of batches in flight; the number of files."""
        count = 0
        for left in self.root.rglob(f"{_TEMPORARY}*"):
            pid = left.name.removeprefix(_TEMPORARY).split("-")[0]
            if is_left_over(pid):
                left.unlink(missing_ok=True)
                count += 1
        return count

    def _keys(self) -> list[Key]:
        """Model, dimensions and task of every folder that is there, sorted."""
        folders = sorted(f for f in self.root.glob("*/*/*") if f.is_dir() and f.parent.name.isdigit())
        return [(unquote(f.parents[1].name), int(f.parent.name), f.name) for f in folders]

    def _folder(self, model: str, dimensions: int, task: str) -> Path:
        return self.root / quote(model, safe="+@") / str(dimensions) / task

    def _segments(self, model: str, dimensions: int, task: str) -> list[Path]:
        return sorted(self._folder(model, dimensions, task).glob("*.parquet"))

    def _hashes_of(self, segment: Path) -> set[str]:
        table = _read(segment, ["text_hash"])
        return set(table.column("text_hash").to_pylist() if table else ())

    def _gathered(self, key: Key, wanted: list[str]) -> pa.Table:
        """The vectors of `wanted` that are there, in memory once; FileNotFoundError if a segment vanished."""
        matrix = np.empty((len(wanted), key[1]), dtype=np.float32)
        is_found = np.zeros(len(wanted), dtype=bool)
        for places, rows in self._found(key, wanted):
            matrix[places] = rows
            is_found[places] = True
        if not is_found.all():
            matrix = matrix[is_found]
        return _table(pa.array(wanted, pa.string()).filter(pa.array(is_found)), matrix)

    def _found(self, key: Key, wanted: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Places among `wanted` and the vectors of these, segment by segment; FileNotFoundError if one vanished.

        A damaged segment is set aside; its texts count as never embedded.
        """
        place_of = {name: place for place, name in enumerate(wanted)}
        for segment in self._segments(*key):
            try:
                yield from _found_in(segment, place_of, key[1])
            except FileNotFoundError:
                raise
            except (pa.ArrowException, OSError):
                segment.replace(segment.with_suffix(_SET_ASIDE))

    def _merge(self, segments: Sequence[Path], folder: Path) -> bool:
        """One segment in place of many; False if another process is at it or nothing was won."""
        try:
            tables = {s: _read(s) for s in segments}
        except FileNotFoundError:
            return False
        whole = {s: t for s, t in tables.items() if t is not None}
        if len(whole) < 2:
            return False
        merged = pa.concat_tables(whole.values())
        hashes = merged.column("text_hash").combine_chunks()
        first = pc.index_in(pc.unique(hashes), value_set=hashes)
        self._write(folder, merged.take(first))
        for segment in whole:
            segment.unlink(missing_ok=True)
        return True

    def _write(self, folder: Path, table: pa.Table) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{os.getpid()}-{secrets.token_hex(8)}"
        temporary = folder / f"{_TEMPORARY}{name}"
        with temporary.open("wb") as stream:
            pq.write_table(
                table,
                stream,
                row_group_size=_ROW_GROUP,
                compression="none",
                use_dictionary=False,
                write_page_checksum=True,
            )
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(folder / f"{name}.parquet")
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _claims_file(self, key: Key) -> IO[bytes]:
        """The one open handle: closing any other of the same file would give all claims back."""
        if key not in self._claims:
            folder = self._folder(*key)
            folder.mkdir(parents=True, exist_ok=True)
            claims = self._claims[key] = (folder / _CLAIMS).open("ab")
            weakref.finalize(self, claims.close)
        return self._claims[key]


class LaidOutVectors:
    """Vectors that come in any order, laid down in a file and taken up again in the order of their places."""

    def __init__(self, file: IO[bytes], names: Sequence[str], dimensions: int):
        """`names` are the hashes of the texts at all places; `file` is written to, and closed when nobody needs it."""
        self.file, self.names, self.dimensions = file, names, dimensions
        weakref.finalize(self, file.close)
        self._rows = 0
        self._parts: dict[int, list[tuple[int, np.ndarray]]] = {}
        """By block of places the parts of the file that hold vectors of it: the first row there, and the place of each."""
        self._block = lru_cache(1)(self._taken_up)

    def add(self, places: np.ndarray, vectors: np.ndarray) -> None:
        """Lay down the vectors of some places; equal places have equal vectors."""
        order = np.argsort(places, kind="stable")
        places = places[order]
        self.file.write(np.ascontiguousarray(vectors[order], dtype=np.float32).data)
        numbers = places // _TABLE_ROWS
        for number in np.unique(numbers).tolist():
            first, last = np.searchsorted(numbers, [number, number + 1])
            self._parts.setdefault(number, []).append((self._rows + int(first), places[first:last]))
        self._rows += len(places)

    @property
    def count(self) -> int:
        """How many places have a vector."""
        parts = ([places for _, places in held] for held in self._parts.values())
        return sum(len(np.unique(np.concatenate(held))) for held in parts)

    def between(self, first: int, end: int) -> Iterator[pa.Table]:
        """Columns `text_hash` and `vector` of those of the places `first` to `end` - 1 that have one."""
        for number in range(first // _TABLE_ROWS, -(-end // _TABLE_ROWS)):
            start = number * _TABLE_ROWS
            low, high = max(first, start), min(end, start + _TABLE_ROWS)
            made, is_found = (held[low - start : high - start] for held in self._block(number))
            own = pa.array(self.names[low:high], pa.string())
            yield _table(own.filter(pa.array(is_found)), made if is_found.all() else made[is_found])

    def _taken_up(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The vectors of a block of places, and which of these have one."""
        self.file.flush()
        start, width = number * _TABLE_ROWS, 4 * self.dimensions
        made = np.empty((min(_TABLE_ROWS, len(self.names) - start), self.dimensions), dtype=np.float32)
        is_found = np.zeros(len(made), dtype=bool)
        for first, places in self._parts.get(number, []):
            read = os.pread(self.file.fileno(), len(places) * width, first * width)
            made[places - start] = np.frombuffer(read, dtype=np.float32).reshape(-1, self.dimensions)
            is_found[places - start] = True
        return made, is_found


def _entry(key: Key, text_hash: str) -> str:
    """What a text is called in the notes on all models."""
    model, dimensions, task = key
    return f"{model}/{dimensions}/{task}/{text_hash}"


def _prune_notes(notes: SQLiteAnswerCache, wanted: set[str], models: set[str] | None) -> None:
    """Forget the notes on texts that are not wanted, and of models that are not."""
    noted = [(key, *key.rsplit("/", 3)) for key in notes.all_keys()]
    notes.drop(
        key
        for key, model, _, _, name in noted
        if name not in wanted or (models is not None and model not in models)
    )


def _schema(dimensions: int) -> pa.Schema:
    return pa.schema([("text_hash", pa.string()), ("vector", pa.list_(pa.float32(), dimensions))])


def _table(hashes: pa.Array, vectors: np.ndarray) -> pa.Table:
    """`hashes` with the rows of a float32 matrix, which is not copied where it is in one piece."""
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
    vector = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    return pa.table({"text_hash": hashes, "vector": vector})


def _offset(text_hash: str) -> int:
    """The byte of the claims file that stands for a text: 60 bits of its hash."""
    return int(text_hash[:15], 16)


def _size(segment: Path) -> int:
    try:
        return segment.stat().st_size
    except FileNotFoundError:
        return 0


def _read(segment: Path, columns: list[str] | None = None) -> pa.Table | None:
    """The columns of a segment; None if it is damaged, FileNotFoundError if it vanished in a merge."""
    try:
        # A file of Python's would be let go of by Arrow's threads, perhaps when Python has ended (see `lake.py`).
        with pa.OSFile(str(segment)) as file:
            return pq.ParquetFile(file, page_checksum_verification=True).read(columns)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError):
        return None


def _found_in(
    segment: Path, place_of: Mapping[str, int], dimensions: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The places of those texts that a segment has, and their vectors, of row groups that have some.

    ArrowException or OSError if it is damaged, FileNotFoundError if it vanished in a merge.
    """
    with pa.OSFile(str(segment)) as file:
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        if not parquet.schema_arrow.equals(_schema(dimensions)):
            raise pa.ArrowInvalid(f"{segment} holds other columns than a cache of vectors")
        for number in range(parquet.num_row_groups):
            names = parquet.read_row_group(number, ["text_hash"]).column(0).to_pylist()
            places = np.array([place_of.get(name, -1) for name in names], dtype=np.int64)
            rows = np.flatnonzero(places >= 0)
            if len(rows):
                yield places[rows], stacked(parquet.read_row_group(number, ["vector"]), dimensions)[rows]


def _damage(segment: Path, dimensions: int) -> str | None:
    """Why a segment cannot be trusted; None if it can, or is gone."""
    try:
        table = _read(segment)
    except FileNotFoundError:
        return None
    if table is None:
        return "truncated or corrupt"
    if not table.schema.equals(_schema(dimensions)):
        return f"holds other columns than text_hash and a vector of width {dimensions}"
    flat = table.column("vector").combine_chunks().flatten().to_numpy(zero_copy_only=False)
    try:
        require_usable(flat.reshape(-1, dimensions), table.num_rows, dimensions)
    except EmbeddingError as error:
        return str(error)
    return None
