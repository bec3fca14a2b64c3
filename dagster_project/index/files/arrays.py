"""The parts of a published file that search reads most, as arrays beside it that are mapped into
memory.

The file holds all of it; the arrays are made from it, can be deleted, and are then rebuilt. They
open without being read, share their memory between processes, and only the pages that a query
touches are loaded.
"""

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from dagster_project.index.files import checksums, posting_arrays, segments
from dagster_project.index.files.checksums import CheckedRows
from dagster_project.index.files.hit_rows import HitRows, write_hit_rows
from dagster_project.system.durable import put
from dagster_project.system.sql_files import SqlFile
from transforms.embedding.sign_codes import CodedVectors
from transforms.errors import IndexUnavailableError
from transforms.retrieval import bm25, fusion
from transforms.retrieval.hits import Patches
from transforms.retrieval.postings import GoneTerms, Postings, Slots, TermSegment
from transforms.schemas.chunks import UNEMBEDDED
from transforms.schemas.kinds import UNAUTHORED

_SQL = SqlFile(
    __file__,
    "arrays.sql",
    frequencies=posting_arrays.FREQUENCIES,
    unembedded=UNEMBEDDED,
    unauthored=UNAUTHORED,
)

FORMAT = "17"
_ROWS = 1 << 20
FIRST = segments.segment_name(1)
"""The segment that a full rebuild writes."""


@dataclass(frozen=True)
class SearchArrays:
    """The arrays of one published version, by chunk number; those in segments (`segments.py`) give
    the places of chunks.
    """

    postings: Postings
    places: fusion.Places
    logs: np.ndarray
    patches: Patches
    vectors: CodedVectors
    rows: HitRows
    ids: posting_arrays.KnownIds


def folder_of(index: Path) -> Path:
    """Where the arrays of a published file are kept."""
    return index.with_suffix(".arrays")


def open_arrays(
    connection: duckdb.DuckDBPyConnection, index: Path, facts: dict[str, str]
) -> SearchArrays:
    """The arrays of the published file at `index`, made first where they are missing or of another
    version.

    `facts` is its manifest. Where the folder of the file cannot be written to, they are made in a
    temporary folder, which costs their making in each process. IndexUnavailableError if that fails,
    if they are damaged, or if they cannot be read.
    """
    folder = folder_of(index)
    created = None
    if posting_arrays.VECTORS_IN in facts and not fits(folder, facts):
        raise IndexUnavailableError(
            f"{folder} is missing, or of another version, and cannot be made from {index.name}: `weft build` rebuilds both"
        )
    try:
        if not fits(folder, facts):
            created = _new_arrays(connection, folder, facts)
    except (ValueError, KeyError) as error:
        raise IndexUnavailableError(
            f"the arrays of {index} cannot be made from it ({error}): `weft build` makes a new one"
        ) from error
    except OSError as error:
        raise IndexUnavailableError(
            f"the arrays of {index} can be kept neither beside it nor in a temporary folder ({error}): make room, or set "
            "TMPDIR to a folder that can be written"
        ) from error
    try:
        if created is None and (damage := next(checksums.file_damages(folder), None)):
            raise checksums.damaged(folder, damage)
        return created or _mapped(folder)
    except (ValueError, LookupError, EOFError, OSError) as error:
        raise _explained(error, folder) from error


def _explained(error: Exception, folder: Path) -> IndexUnavailableError:
    """The error for a fault of opening arrays; it calls a folder damaged only if that has been seen."""
    try:
        damage = next(checksums.file_damages(folder, reads_all=True), None)
    except OSError as refused:
        return IndexUnavailableError(
            f"{folder} cannot be read ({refused}): look at its rights and at the disk, nothing says that it is damaged"
        )
    if damage is None:
        return IndexUnavailableError(
            f"the arrays in {folder} could not be opened ({error}), though all of them can be read: ask again; if it "
            "fails again, `weft doctor` says what else is not well"
        )
    return checksums.damaged(folder, damage)


def _new_arrays(
    connection: duckdb.DuckDBPyConnection, folder: Path, facts: dict[str, str]
) -> SearchArrays | None:
    """Make the arrays; those of a temporary folder, where `folder` cannot be written to, else None."""
    try:
        write_arrays(connection, folder, facts)
    except OSError:
        with tempfile.TemporaryDirectory(prefix="weft-arrays-") as temporary:
            write_arrays(connection, Path(temporary) / "arrays", facts)
            return _mapped(Path(temporary) / "arrays")  # mapped files live on until they are let go
    return None


def write_arrays(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    facts: dict[str, str],
    started: Path | None = None,
) -> None:
    """Write the arrays of the version that `connection` reads to `folder`, which appears whole or
    not at all.

    `started` is a folder with `PostingArrays` of it and the files of `write_chunk_rows`, if they
    are there; they are moved.
    """
    with appearing(folder, facts) as aside:
        if started:
            for path in started.iterdir():
                path.rename(aside / path.name)
        else:
            (aside / FIRST).mkdir()
            with connection.cursor() as other, ThreadPoolExecutor(1) as executor:
                other.execute("SET TimeZone = 'UTC'")
                rows = executor.submit(write_chunk_rows, other, aside, int(facts["dimensions"]))
                with posting_arrays.PostingArrays(aside / FIRST) as arrays:
                    for batch in connection.execute(_SQL("postings")).to_arrow_reader(_ROWS):
                        arrays.add(
                            batch.column("chunk_no").to_numpy(), posting_arrays.frequencies(batch)
                        )
                rows.result()
        terms = connection.execute("SELECT term, df FROM terms ORDER BY term").to_arrow_table()
        segments.write_terms(aside / FIRST, terms.column("term"), terms.column("df").to_numpy())
        chunks = row_count(connection, "chunks")
        write_lengths(connection, aside / FIRST, np.arange(chunks))
        write_gone(aside, pl.DataFrame(schema={"term": pl.String, "df": pl.Int64}))
        write_narrow(connection, aside, np.arange(chunks, dtype=np.int32))


def write_chunk_rows(connection: duckdb.DuckDBPyConnection, folder: Path, dimensions: int) -> None:
    """Write the arrays with a row for each chunk that need no inverted index: the rows of hits, and
    vectors.
    """
    chunks = row_count(connection, "chunks")
    write_hit_rows(connection, folder)
    posting_arrays.write_vectors(connection, folder / FIRST, chunks, dimensions, "embeddings")


@contextlib.contextmanager
def appearing(folder: Path, facts: dict[str, str], before: Path | None = None) -> Iterator[Path]:
    """A folder to write arrays to, which takes the place of `folder` when all is written.

    It may share files with `before`, the arrays of another version.
    """
    aside = folder.with_name(f".{folder.name}-{os.getpid()}-{secrets.token_hex(4)}")
    aside.mkdir(parents=True)
    try:
        yield aside
        checksums.write_facts(aside, _identity(facts), before)
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(FileExistsError):
            put(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def write_narrow(connection: duckdb.DuckDBPyConnection, folder: Path, slots: np.ndarray) -> None:
    """Write the small arrays, of a few bytes for each chunk and id; `slots` are those of all
    chunks.

    They are key, document, thread, class and patch of each chunk; chunks by thread; the chunks
    without a vector; ids.
    """
    np.save(folder / "slots.npy", slots)
    absent = connection.execute(_SQL("without_vector")).fetchnumpy()
    np.save(folder / "absent.npy", absent["chunk_no"].astype(np.int64))
    columns = connection.execute(_SQL("chunks")).fetchnumpy()
    by_number = {name: np.empty_like(values) for name, values in columns.items()}
    for name, values in columns.items():
        by_number[name][columns["chunk_no"]] = values
    del by_number["chunk_no"]
    thread = by_number["thread"]
    alone = np.flatnonzero(thread < 0)
    thread[alone] = thread.max(initial=-1) + 1 + np.arange(len(alone), dtype=np.int32)
    chunks, starts = fusion.members(thread)
    for name, values in {**by_number, "members": chunks, "member_starts": starts}.items():
        np.save(folder / f"{name}.npy", values)
    hashes = connection.execute(posting_arrays.ID_HASHES).fetchnumpy()["hash"]
    np.save(folder / "ids.npy", np.sort(hashes).astype(np.uint64))


def _identity(facts: dict[str, str]) -> dict[str, str]:
    return {"format": FORMAT} | {key: facts[key] for key in ("version", "published_at")}


def fits(folder: Path, facts: dict[str, str]) -> bool:
    """True if a folder holds the arrays of the version with this manifest."""
    return checksums.facts_of(folder).items() >= _identity(facts).items()


def damage_of_arrays(index: Path, facts: dict[str, str], *, reads_all: bool = False) -> str | None:
    """The damage of the arrays of the published file at `index`, whose manifest is `facts`; None
    without damage.

    Files that a search reads in parts are read once a day, unless it `reads_all`. OSError if one
    cannot be read.
    """
    folder = folder_of(index)
    if not fits(folder, facts):
        return f"{folder.name} is missing, damaged, or of another version"
    is_comparison_due = checksums.is_comparison_due(folder)
    if damage := next(
        checksums.file_damages(folder, reads_all=reads_all or is_comparison_due), None
    ):
        return f"{folder.name} is damaged: {damage}"
    if is_comparison_due:
        checksums.note_comparison(folder)
    return None


def damage_of_the_day(index: Path) -> IndexUnavailableError | None:
    """The fault of a damaged file beside the published file at `index`, which loses its facts; None
    without damage, or if all bytes were compared in the last day.
    """
    folder = folder_of(index)
    if not checksums.is_comparison_due(folder):
        return None
    if damage := next(checksums.file_damages(folder, reads_all=True), None):
        return checksums.damaged(folder, damage)
    checksums.note_comparison(folder)
    return None


def _mapped(folder: Path) -> SearchArrays:
    arrays: dict[str, Any] = {
        str(path.relative_to(folder).with_suffix("")): _array(folder, path)
        for path in folder.rglob("*.npy")
    }
    names = [segment.name for segment in segments.segments_of(folder)]
    slots = Slots(arrays["slots"], sum(arrays[f"{name}/lengths"].shape[1] for name in names))
    gone_terms = GoneTerms(_terms_of(arrays, "gone"), arrays["gone/df"])
    vectors = [
        (arrays[f"{name}/vectors"], arrays[f"{name}/vector_codes"])
        for name in names
        if f"{name}/vectors" in arrays
    ]
    parts = ("starts", "chunks", "codes", "counts", "lengths")
    postings = [
        TermSegment(_terms_of(arrays, n), *(arrays[f"{n}/{part}"] for part in parts)) for n in names
    ]
    members = arrays["members"], arrays["member_starts"]
    return SearchArrays(
        Postings(postings, slots, gone_terms),
        fusion.Places(
            arrays["document"], arrays["thread"], arrays["mails"], arrays["pages"], members
        ),
        arrays["logs"],
        Patches(arrays["patch"], arrays["version"], arrays["latest"]),
        CodedVectors(vectors, slots, arrays["absent"]),
        HitRows(folder, arrays["chunk_keys"]),
        posting_arrays.KnownIds(arrays["ids"], arrays["chunk_keys"]),
    )


def _terms_of(arrays: Mapping[str, Any], name: str) -> segments.SortedTerms:
    return segments.SortedTerms(arrays[f"{name}/term_bytes"], arrays[f"{name}/term_ends"])


def _array(folder: Path, path: Path) -> CheckedRows | np.ndarray:
    if checksums.is_read_in_parts(path):
        return CheckedRows(folder, str(path.relative_to(folder)))
    # An empty file cannot be mapped; a plain view spares each operation the subclass.
    array = np.load(path, mmap_mode="r") if path.stat().st_size > 4096 else np.load(path)
    return np.asarray(array.view(np.ndarray))


def row_count(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    """The rows of a table."""
    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,)
    return int(count)


def write_gone(folder: Path, counts: pl.DataFrame) -> None:
    """Write for each term the number of gone chunks with postings in the segments: columns term and
    df.
    """
    (folder / "gone").mkdir()
    in_order = counts.sort("term")
    segments.write_terms(
        folder / "gone", pa.chunked_array([in_order.get_column("term").to_arrow()])
    )
    np.save(folder / "gone" / "df.npy", in_order.get_column("df").to_numpy())


def write_lengths(connection: duckdb.DuckDBPyConnection, segment: Path, chunks: np.ndarray) -> None:
    """Field lengths of the chunks of a segment, whose numbers ascend."""
    lengths = np.zeros((len(bm25.FIELDS), len(chunks)), dtype=np.int32)
    connection.register("segment_chunks", pa.table({"chunk_no": chunks.astype(np.int32)}))
    for batch in connection.execute(_SQL("lengths")).to_arrow_reader(_ROWS):
        rows = np.searchsorted(chunks, batch.column("chunk_no").to_numpy())
        for row, field in enumerate(bm25.FIELDS):
            lengths[row, rows] = batch.column(f"{field}_length").to_numpy()
    connection.unregister("segment_chunks")
    np.save(segment / "lengths.npy", lengths)
