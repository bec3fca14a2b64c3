"""The embedding cache: vectors by hash of their text, so that no text is embedded twice; requests are noted first."""

import fcntl
import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from upath import UPath

from dagster_project.models.answer_cache import Damage, SQLiteAnswerCache
from dagster_project.models.vector_segments import (
    TEMPORARY,
    CacheLookup,
    Key,
    LaidOutVectors,
    SharedSegments,
    matches_in,
    read_segment,
    segment_damage,
    size_of,
    table_of,
    vector_count,
    write_segment,
)
from dagster_project.system.disk_space import may_be_made, raise_of_machine
from dagster_project.system.processes import is_left_over
from transforms.embedding.vectors import require_usable

_COMPACT_SEGMENTS = 64
_SMALL_BYTES = 64 << 20
"""A segment of this size is not merged any more."""
_MERGED_BYTES = 256 << 20
_CLAIMS = ".claims"
_SET_ASIDE = ".damaged"


@dataclass(frozen=True)
class Holding:
    """The vectors of the cache for one model, number of dimensions and task."""

    model: str
    dimensions: int
    task: str
    vectors: int
    segments: int
    bytes: int


class ParquetEmbeddingCache:
    """Segments of (text_hash, vector) below `<root>/<model>/<dimensions>/<task>/`.

    Every stored batch is a file of its own, renamed into place when it is complete, so that any
    number of processes may store at once and a killed one loses at most its batches in flight.
    Equal hashes in two segments carry equal vectors. Many small segments are merged now and then.
    Pages carry checksums, so a flipped bit is damage and not a wrong vector.

    A claim is a lock on one byte of the file `.claims`, at an offset computed from the hash: the system
    releases it when the process ends, however it ends. One file for all models stores why texts were
    refused, another one which texts were requested and have no answer yet."""

    def __init__(self, root: Path, shared: UPath | None = None):
        """`shared` is a place on an object store with the segments of all machines; notes of requests stay here."""
        self.root = root
        self._shared = None if shared is None else SharedSegments(root, shared)
        self._refusals = SQLiteAnswerCache(root / "refusals.sqlite")
        self._requests = SQLiteAnswerCache(root / "requests.sqlite")
        self._claims: dict[Key, IO[bytes]] = {}

    def lookup(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> CacheLookup:
        """Which of the texts with `hashes` have a vector; no memory is taken for those of others."""
        return CacheLookup((model, dimensions, task), hashes, self.segments, self.hashes_in)

    def count(self, model: str, dimensions: int, task: str) -> int:
        """How many vectors there are; one that two processes made at once counts twice."""
        return sum(map(vector_count, self.segments(model, dimensions, task).values()))

    def hashes(self, model: str, dimensions: int, task: str) -> set[str]:
        """The text hashes that have a vector, all in memory."""
        while True:
            try:
                names = self.segments(model, dimensions, task)
                return {
                    h for name in names for h in self.hashes_in((model, dimensions, task), name).to_pylist()
                }
            except FileNotFoundError:
                continue  # merged meanwhile

    def segments(self, model: str, dimensions: int, task: str) -> dict[str, Path]:
        """The files with vectors by their names, those of other machines among them."""
        if self._shared:
            self._shared.bring(self._folder(model, dimensions, task))
        return {segment.name: segment for segment in self._segments(model, dimensions, task)}

    def hashes_in(self, key: Key, segment: str) -> pa.ChunkedArray:
        """The text hashes of a segment, none if it is damaged; FileNotFoundError if it vanished in a merge."""
        table = read_segment(self._folder(*key) / segment, ["text_hash"])
        return pa.chunked_array([], pa.string()) if table is None else table.column("text_hash")

    def store(
        self, model: str, dimensions: int, task: str, hashes: Sequence[str], vectors: np.ndarray
    ) -> None:
        """Keep vectors, float32 of shape (hashes, dimensions); durable when the call returns.

        EmbeddingError, and nothing kept, if one is not of unit length and of that width."""
        if not hashes:
            return
        require_usable(vectors, len(hashes), dimensions)
        self._write(
            self._folder(model, dimensions, task), table_of(pa.array(list(hashes), pa.string()), vectors)
        )

    def vectors(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> pa.Table:
        """Columns `text_hash` and `vector`, sorted by hash, for those of `hashes` that are known."""
        names = sorted(set(hashes))
        while True:
            try:
                return self._collected((model, dimensions, task), names)
            except FileNotFoundError:
                continue  # merged meanwhile

    def laid_out(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> LaidOutVectors:
        """The vectors of those of `hashes` that are known, in their order; `hashes` are distinct."""
        self.root.mkdir(parents=True, exist_ok=True)
        while True:
            vectors = LaidOutVectors(tempfile.TemporaryFile(dir=self.root), hashes, dimensions)  # noqa: SIM115
            try:
                for indexes, rows in self._matches((model, dimensions, task), hashes):
                    vectors.add(indexes, rows)
                return vectors
            except FileNotFoundError:
                continue  # merged meanwhile

    def refuse(self, model: str, dimensions: int, task: str, reasons: Mapping[str, str]) -> None:
        """Keep why the model will not embed texts, by their hash; durable when the call returns."""
        key = model, dimensions, task
        self._refusals.store({_entry(key, name): why for name, why in reasons.items()})

    def refusals(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> dict[str, str]:
        """Why those of `hashes` that the model refused have no vector."""
        refusals = self._refusals.known([_entry((model, dimensions, task), name) for name in hashes])
        return {key.rpartition("/")[2]: reason for key, reason in refusals.items()}

    def begin(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> set[str]:
        """Note texts, which this process claims, before they are sent; durable when the call returns.

        Returns those that are noted already: a process sent them and ended before it saw the answer."""
        unfinished = self.unfinished(model, dimensions, task, hashes)
        self._requests.store({_entry((model, dimensions, task), name): "" for name in hashes})
        return unfinished

    def finish(self, model: str, dimensions: int, task: str, hashes: Iterable[str]) -> None:
        """Take texts off the notes of `begin`: their vectors are kept, or nothing was answered."""
        self._requests.drop(_entry((model, dimensions, task), name) for name in hashes)

    def unfinished(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> set[str]:
        """Those of `hashes` that were sent, or about to be, without a known answer."""
        requests = self._requests.known([_entry((model, dimensions, task), name) for name in hashes])
        return {key.rpartition("/")[2] for key in requests}

    def refusal_counts(self) -> Counter[Key]:
        """How many texts each model refused, by model, width and task."""
        keys = (key.rsplit("/", 3) for key in self._refusals.all_keys())
        return Counter((model, int(dimensions), task) for model, dimensions, task, _ in keys)

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
        """Release claims."""
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
        """Merge small segments if there are many; readers see all vectors at any moment."""
        while True:
            small = [s for s in self._segments(model, dimensions, task) if size_of(s) < _SMALL_BYTES]
            if len(small) <= _COMPACT_SEGMENTS:
                return
            chosen: list[Path] = []
            for segment in small:
                if sum(map(size_of, chosen)) + size_of(segment) <= _MERGED_BYTES:
                    chosen.append(segment)
            if not self._merge(chosen, self._folder(model, dimensions, task)):
                return

    def verify(self) -> list[Damage]:
        """Every file that cannot be read or holds a vector of wrong width or length, with the reason."""
        damages = self._refusals.verify() + self._requests.verify()
        for key in self._keys():
            folder = self._folder(*key)
            damages += [Damage(s, "set aside as damaged") for s in sorted(folder.glob(f"*{_SET_ASIDE}"))]
            for segment in self._segments(*key):
                if reason := segment_damage(segment, key[1]):
                    damages.append(Damage(segment, reason))
        return damages

    def stats(self) -> list[Holding]:
        """The vectors of the cache for each model, width and task, sorted."""
        holdings = []
        for key in self._keys():
            segments = self._segments(*key)
            if segments:
                size = sum(map(size_of, segments))
                holdings.append(Holding(*key, len(self.hashes(*key)), len(segments), size))
        return holdings

    def prune(self, keep: Iterable[str], models: Iterable[str] | None = None) -> int:
        """Drop the vectors of texts that are not in `keep` and, if given, of models not in `models`.

        Returns how many were dropped. Their refusals and requests are forgotten, too. To be called while
        nothing is embedded."""
        hashes = pa.array(sorted(set(keep)), pa.string())
        allowed = None if models is None else set(models)
        dropped = 0
        if self._shared:
            self._shared.bring(self.root)
        for key in self._keys():
            for segment in self._segments(*key):
                table = read_segment(segment)
                if table is None:
                    continue
                used = pc.is_in(table.column("text_hash"), value_set=hashes)
                rest = table.slice(0, 0) if allowed and key[0] not in allowed else table.filter(used)
                dropped += table.num_rows - rest.num_rows
                if rest.num_rows < table.num_rows:
                    if rest.num_rows:
                        self._write(self._folder(*key), rest)
                    self._unlink(segment)
        for notes in (self._refusals, self._requests):
            _prune_notes(notes, set(hashes.to_pylist()), allowed)
        return dropped

    def sweep(self) -> int:
        """Delete the temporary files of killed processes; returns their number."""
        count = 0
        for orphan in self.root.rglob(f"{TEMPORARY}*"):
            pid = orphan.name.removeprefix(TEMPORARY).split("-")[0]
            if is_left_over(orphan, pid):
                orphan.unlink(missing_ok=True)
                count += 1
        return count

    def _keys(self) -> list[Key]:
        """Model, dimensions and task of every folder, sorted."""
        folders = sorted(f for f in self.root.glob("*/*/*") if f.is_dir() and f.parent.name.isdigit())
        return [(unquote(f.parents[1].name), int(f.parent.name), f.name) for f in folders]

    def _folder(self, model: str, dimensions: int, task: str) -> Path:
        return self.root / quote(model, safe="+@") / str(dimensions) / task

    def _segments(self, model: str, dimensions: int, task: str) -> list[Path]:
        return sorted(self._folder(model, dimensions, task).glob("*.parquet"))

    def _collected(self, key: Key, names: list[str]) -> pa.Table:
        """The stored vectors of `names` in one matrix; FileNotFoundError if a segment vanished."""
        matrix = np.empty((len(names), key[1]), dtype=np.float32)
        has_vector = np.zeros(len(names), dtype=bool)
        for indexes, rows in self._matches(key, names):
            matrix[indexes] = rows
            has_vector[indexes] = True
        if not has_vector.all():
            matrix = matrix[has_vector]
        return table_of(pa.array(names, pa.string()).filter(pa.array(has_vector)), matrix)

    def _matches(self, key: Key, names: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Indexes among `names` and their vectors, segment by segment; FileNotFoundError if a segment vanished.

        A damaged segment is set aside; its texts count as never embedded."""
        index_of = {name: index for index, name in enumerate(names)}
        for segment in self._segments(*key):
            try:
                yield from matches_in(segment, index_of, key[1])
            except FileNotFoundError:
                raise
            except (pa.ArrowException, OSError) as error:
                raise_of_machine(error)
                if may_be_made(segment.parent):
                    segment.replace(segment.with_suffix(_SET_ASIDE))

    def _merge(self, segments: Sequence[Path], folder: Path) -> bool:
        """Replace many segments by one; False if another process does so already or there is nothing to merge."""
        try:
            tables = {s: read_segment(s) for s in segments}
        except FileNotFoundError:
            return False
        valid = {s: t for s, t in tables.items() if t is not None}
        if len(valid) < 2:
            return False
        merged = pa.concat_tables(valid.values())
        hashes = merged.column("text_hash").combine_chunks()
        first = pc.index_in(pc.unique(hashes), value_set=hashes)
        self._write(folder, merged.take(first))
        for segment in valid:
            self._unlink(segment)
        return True

    def _write(self, folder: Path, table: pa.Table) -> None:
        segment = write_segment(folder, table)
        if self._shared:
            self._shared.put(segment)

    def _unlink(self, segment: Path) -> None:
        segment.unlink(missing_ok=True)
        if self._shared:
            self._shared.drop(segment)

    def _claims_file(self, key: Key) -> IO[bytes]:
        """The only open handle of the file: closing another one would release all claims."""
        if key not in self._claims:
            folder = self._folder(*key)
            folder.mkdir(parents=True, exist_ok=True)
            claims = self._claims[key] = (folder / _CLAIMS).open("ab")
            weakref.finalize(self, claims.close)
        return self._claims[key]


class QueryVectorCache(ParquetEmbeddingCache):
    """The cache as searches use it: they work where nothing may be written, too, and keep nothing there."""

    def store(
        self, model: str, dimensions: int, task: str, hashes: Sequence[str], vectors: np.ndarray
    ) -> None:
        """As in an `EmbeddingCache`, if that may be written."""
        if may_be_made(self._folder(model, dimensions, task)):
            super().store(model, dimensions, task, hashes, vectors)

    def refuse(self, model: str, dimensions: int, task: str, reasons: Mapping[str, str]) -> None:
        """As in an `EmbeddingCache`, if that may be written."""
        if may_be_made(self.root) and may_be_made(self._refusals.path):
            super().refuse(model, dimensions, task, reasons)

    def compact(self, model: str, dimensions: int, task: str) -> None:
        """As in an `EmbeddingCache`, if that may be written."""
        if may_be_made(self._folder(model, dimensions, task)):
            super().compact(model, dimensions, task)


def _entry(key: Key, text_hash: str) -> str:
    model, dimensions, task = key
    return f"{model}/{dimensions}/{task}/{text_hash}"


def _prune_notes(notes: SQLiteAnswerCache, hashes: set[str], models: set[str] | None) -> None:
    """Forget the notes on texts that are not wanted, and of models that are not."""
    noted = [(key, *key.rsplit("/", 3)) for key in notes.all_keys()]
    notes.drop(
        key
        for key, model, _, _, name in noted
        if name not in hashes or (models is not None and model not in models)
    )


def _offset(text_hash: str) -> int:
    """The byte of the claims file for a text: 60 bits of its hash."""
    return int(text_hash[:15], 16)
