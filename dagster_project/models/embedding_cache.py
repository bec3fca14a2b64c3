"""The embedding cache: vectors by hash of their text, so that no text is embedded twice; requests
are noted first.
"""

import fcntl
import weakref
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
from upath import UPath

from assets.protocols.models import Key
from dagster_project.models.answer_cache import Damage, SQLiteAnswerCache, SQLiteCache
from dagster_project.models.shared_vectors import SharedVectors, segment_rows
from dagster_project.system.disk_space import may_be_made, raise_of_machine
from transforms.embedding.vectors import fixed_point, from_fixed_point, require_usable, table_of
from transforms.errors import EmbeddingError

_VECTORS = "vectors.sqlite"
_CLAIMS = ".claims"
_SET_ASIDE = ".damaged"
_AT_ONCE = 1 << 14
"""Vectors that are read at once: some 16 MB."""


@dataclass(frozen=True)
class Holding:
    """The vectors of the cache for one model, number of dimensions and task."""

    model: str
    dimensions: int
    task: str
    count: int
    bytes: int


class SQLiteEmbeddingCache:
    """A file of vectors in 16-bit fixed point, by hash of their text, for each
    `<root>/<model>/<dimensions>/<task>/`.

    Any number of processes may store at once, and a killed one loses at most its batches in flight.
    Each vector has a checksum: a damaged one counts as missing. Files of vectors in Parquet, as
    earlier versions wrote them, are read into it and deleted.

    A claim is a lock on one byte of the file `.claims`, at an offset computed from the hash: the
    system releases it when the process ends, however it ends. One file for all models stores why
    texts were refused, another one which texts were requested and have no answer yet.
    """

    def __init__(self, root: Path, shared: UPath | None = None):
        """`shared` is a place on an object store with the vectors of all machines; notes of
        requests stay here.
        """
        self.root = root
        self._shared = None if shared is None else SharedVectors(root, shared)
        self._refusals = SQLiteAnswerCache(root / "refusals.sqlite")
        self._requests = SQLiteAnswerCache(root / "requests.sqlite")
        self._claims: dict[Key, IO[bytes]] = {}

    def missing(self, key: Key, hashes: Sequence[str]) -> set[str]:
        """Those of `hashes` without a vector."""
        stored = self._vectors(key)
        parts = (hashes[start : start + _AT_ONCE] for start in range(0, len(hashes), _AT_ONCE))
        return {name for part in parts for name in {*part} - stored.known(part).keys()}

    def count(self, key: Key) -> int:
        """How many vectors there are."""
        return self._vectors(key).count()

    def store(self, key: Key, hashes: Sequence[str], vectors: np.ndarray) -> None:
        """Keep vectors, float32 of shape (hashes, dimensions); durable when the call returns.

        EmbeddingError, and nothing kept, if one is not of unit length and of that width.
        """
        require_usable(vectors, len(hashes), key[1])
        self._store(self._vectors(key), hashes, vectors)
        if self._shared and hashes:
            self._shared.put(self._folder(key), table_of(hashes, vectors))

    def vectors(self, key: Key, hashes: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """Those of `hashes` that have a vector, and their vectors, float32 of shape (texts,
        dimensions).
        """
        known = self._vectors(key).known(hashes)
        numbers = np.frombuffer(b"".join(known.values()), np.int16).reshape(-1, key[1])
        return list(known), from_fixed_point(numbers)

    def refuse(self, key: Key, reasons: Mapping[str, str]) -> None:
        """Keep why the model will not embed texts, by their hash; durable when the call returns."""
        self._refusals.store({_entry(key, name): why for name, why in reasons.items()})

    def refusals(self, key: Key, hashes: Sequence[str]) -> dict[str, str]:
        """Why those of `hashes` that the model refused have no vector."""
        refusals = self._refusals.known([_entry(key, name) for name in hashes])
        return {entry.rpartition("/")[2]: reason for entry, reason in refusals.items()}

    def begin(self, key: Key, hashes: Sequence[str]) -> set[str]:
        """Note texts, which this process claims, before they are sent; durable when the call
        returns.

        Returns those that are noted already: a process sent them and ended before it saw the
        answer.
        """
        unfinished = self.unfinished(key, hashes)
        self._requests.store({_entry(key, name): "" for name in hashes})
        return unfinished

    def finish(self, key: Key, hashes: Iterable[str]) -> None:
        """Take texts off the notes of `begin`: their vectors are kept, or nothing was answered."""
        self._requests.drop(_entry(key, name) for name in hashes)

    def unfinished(self, key: Key, hashes: Sequence[str]) -> set[str]:
        """Those of `hashes` that were sent, or about to be, without a known answer."""
        requests = self._requests.known([_entry(key, name) for name in hashes])
        return {entry.rpartition("/")[2] for entry in requests}

    def refusal_counts(self) -> Counter[Key]:
        """How many texts each model refused, by model, width and task."""
        entries = (entry.rsplit("/", 3) for entry in self._refusals.all_keys())
        return Counter((model, int(dimensions), task) for model, dimensions, task, _ in entries)

    def forget_refusals(self) -> int:
        """Let every refused text be asked for again; returns how many there were."""
        return self._refusals.drop(self._refusals.all_keys())

    def claim(self, key: Key, hashes: Sequence[str]) -> set[str]:
        """Those of `hashes` that no other process has claimed; they are this one's until released."""
        claims = self._claims_file(key)
        claimed = set()
        for name in hashes:
            try:
                fcntl.lockf(claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _offset(name))
            except (BlockingIOError, PermissionError):
                continue
            claimed.add(name)
        return claimed

    def release(self, key: Key, hashes: Iterable[str]) -> None:
        """Release claims."""
        claims = self._claims_file(key)
        for name in hashes:
            fcntl.lockf(claims, fcntl.LOCK_UN, 1, _offset(name))

    def await_others(self, key: Key, hashes: Iterable[str]) -> None:
        """Return when no other process claims any of `hashes`; to be called while nothing is
        claimed here.
        """
        for name in hashes:
            claims = self._claims_file(key)
            fcntl.lockf(claims, fcntl.LOCK_EX, 1, _offset(name))
            fcntl.lockf(claims, fcntl.LOCK_UN, 1, _offset(name))

    def verify(self) -> list[Damage]:
        """Every file that cannot be read whole or has a damaged vector, with the reason."""
        damages = self._refusals.verify() + self._requests.verify()
        for key in self._keys():
            damages += self._vectors(key).verify()
            aside = sorted(self._folder(key).glob(f"*{_SET_ASIDE}"))
            damages += [Damage(segment, "set aside as damaged") for segment in aside]
        return damages

    def stats(self) -> list[Holding]:
        """The vectors of the cache for each model, width and task, sorted."""
        caches = ((key, self._vectors(key)) for key in self._keys())
        return [
            Holding(*key, count, cache.path.stat().st_size)
            for key, cache in caches
            if (count := cache.count())
        ]

    def prune(self, keep: Iterable[str], models: Iterable[str] | None = None) -> int:
        """Drop the vectors of texts that are not in `keep` and, if given, of models not in
        `models`.

        Returns how many were dropped. Their refusals and requests are forgotten, too. To be called
        while nothing is embedded.
        """
        used, allowed = set(keep), None if models is None else set(models)
        dropped = 0
        for key in self._keys():
            vectors = self._vectors(key)
            is_other = allowed is not None and key[0] not in allowed
            own = vectors.drop(name for name in vectors.all_keys() if is_other or name not in used)
            if own and self._shared:
                rest = vectors.all_keys()
                parts = (rest[start : start + _AT_ONCE] for start in range(0, len(rest), _AT_ONCE))
                self._shared.replace(
                    self._folder(key), (table_of(*self.vectors(key, part)) for part in parts)
                )
            dropped += own
        for notes in (self._refusals, self._requests):
            noted = [(entry, *entry.rsplit("/", 3)) for entry in notes.all_keys()]
            notes.drop(
                entry
                for entry, model, _, _, name in noted
                if name not in used or (allowed is not None and model not in allowed)
            )
        return dropped

    def _keys(self) -> list[Key]:
        """Model, dimensions and task of every folder, sorted."""
        folders = sorted(
            f for f in self.root.glob("*/*/*") if f.is_dir() and f.parent.name.isdigit()
        )
        return [(unquote(f.parents[1].name), int(f.parent.name), f.name) for f in folders]

    def _folder(self, key: Key) -> Path:
        model, dimensions, task = key
        return self.root / quote(model, safe="+@") / str(dimensions) / task

    def _vectors(self, key: Key) -> SQLiteCache[bytes]:
        """The file of vectors, with those of other machines and of earlier versions."""
        folder = self._folder(key)
        cache = SQLiteCache[bytes](folder / _VECTORS)
        for rows in self._shared.new(folder) if self._shared else ():
            self._store(cache, *rows)
        for segment in sorted(folder.glob("*.parquet")) if may_be_made(folder) else ():
            try:
                for hashes, vectors in segment_rows(segment):
                    require_usable(vectors, len(hashes), key[1])
                    self._store(cache, hashes, vectors)
                segment.unlink(missing_ok=True)
            except FileNotFoundError:
                continue  # another process reads it in
            except (pa.ArrowException, OSError, EmbeddingError, ValueError, LookupError) as error:
                raise_of_machine(error)
                segment.replace(segment.with_suffix(_SET_ASIDE))
        return cache

    def _store(self, cache: SQLiteCache[bytes], hashes: Sequence[str], vectors: np.ndarray) -> None:
        cache.store(
            {name: row.tobytes() for name, row in zip(hashes, fixed_point(vectors), strict=True)}
        )

    def _claims_file(self, key: Key) -> IO[bytes]:
        """The only open handle of the file: closing another one would release all claims."""
        if key not in self._claims:
            folder = self._folder(key)
            folder.mkdir(parents=True, exist_ok=True)
            claims = self._claims[key] = (folder / _CLAIMS).open("ab")
            weakref.finalize(self, claims.close)
        return self._claims[key]


class QueryVectorCache(SQLiteEmbeddingCache):
    """The cache as searches use it: they work where nothing may be written, too, and keep nothing
    there.
    """

    def store(self, key: Key, hashes: Sequence[str], vectors: np.ndarray) -> None:
        """As in an `EmbeddingCache`, if that may be written."""
        if may_be_made(self._folder(key)):
            super().store(key, hashes, vectors)

    def refuse(self, key: Key, reasons: Mapping[str, str]) -> None:
        """As in an `EmbeddingCache`, if that may be written."""
        if may_be_made(self.root) and may_be_made(self._refusals.path):
            super().refuse(key, reasons)


def _entry(key: Key, text_hash: str) -> str:
    model, dimensions, task = key
    return f"{model}/{dimensions}/{task}/{text_hash}"


def _offset(text_hash: str) -> int:
    """The byte of the claims file for a text: 60 bits of its hash."""
    return int(text_hash[:15], 16)
