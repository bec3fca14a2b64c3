"""The arrays beside a published file made of those of the version before: its segments, and one
with new chunks.
"""

import json
import shutil
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

from dagster_project.index.files.arrays import appearing, write_gone, write_lengths, write_narrow
from dagster_project.index.files.checksums import require_intact
from dagster_project.index.files.hit_rows import update_hit_rows
from dagster_project.index.files.posting_arrays import (
    FREQUENCIES,
    PostingArrays,
    frequencies,
    vectors_at,
)
from dagster_project.index.files.segments import (
    chunks_in,
    first_merged,
    merge,
    read_terms,
    segment_name,
    segments_of,
    share,
    write_terms,
)
from transforms.embedding.sign_codes import sign_codes


def update_arrays(
    connection: duckdb.DuckDBPyConnection, folder: Path, facts: dict[str, str], before: Path
) -> np.ndarray:
    """Write the arrays of the version that `connection` has updated to `folder`; `before` has those
    of the one before.

    They say the same as after a full rebuild; only the place of a chunk depends on when it came.
    Returns the numbers of the chunks that came or changed, which ascend. ValueError if they do not
    fit each other.
    """
    rows = connection.execute(_NUMBERS).fetchnumpy()
    old_no, new_no, is_recounted = (rows[name] for name in ("old_no", "new_no", "is_recounted"))
    was_there = old_no >= 0
    stays = was_there & ~is_recounted
    require_intact(before, [*before.glob("*.npy"), *(before / "gone").iterdir()])
    with appearing(folder, facts, before) as aside:
        slots = np.zeros(len(new_no), dtype=np.int32)
        slots[new_no[stays]] = np.load(before / "slots.npy")[old_no[stays]]
        came = np.sort(new_no[~stays])
        _write_segments(connection, aside, before, came, slots)
        # Counting the rows of the file would read for each posting whether it was deleted, all of
        # it into memory.
        stored = sum(
            int(np.load(part / "starts.npy", mmap_mode="r")[-1]) for part in segments_of(aside)
        )
        stored -= int(np.load(aside / "gone" / "df.npy").sum())
        if stored != (count := json.loads(facts["rows"])["postings"]):
            raise ValueError(f"they have {stored:,} postings, the file {count:,}")
        update_hit_rows(connection, aside, before)
        write_narrow(connection, aside, slots)
    return came


def _write_segments(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    before: Path,
    came: np.ndarray,
    slots: np.ndarray,
) -> None:
    """Share the segments of `before` and write one with the chunks that came, merged with the last
    ones if due.

    `slots` has the slots before of the chunks that stay, and gets those of now.
    """
    segments = segments_of(before)
    edges = np.cumsum([0, *map(chunks_in, segments), len(came)])
    slots[came] = edges[-2] + np.arange(len(came), dtype=np.int32)
    is_there = np.zeros(edges[-1], dtype=bool)
    is_there[slots] = True
    of_before = before / "gone"
    removed = pl.DataFrame({"term": read_terms(of_before), "df": np.load(of_before / "df.npy")})
    counts = [removed, connection.execute("SELECT term, df FROM gone_from_terms").pl()]
    first = len(segments)
    if len(came):
        new, name = folder / "came", segment_name(int(segments[-1].name.rpartition("-")[2]) + 1)
        _write_segment(connection, new, came, segments[0])
        stays = np.split(is_there, edges[1:-1])
        first = first_merged([int(np.count_nonzero(rows)) for rows in stays])
        if first < len(segments):
            for segment in segments[first:]:
                require_intact(before, segment.iterdir())
            dropped = merge([*segments[first:], new], stays[first:], folder / name)
            counts.append(dropped.with_columns(df=-pl.col("df")))
            shutil.rmtree(new)
        else:
            new.rename(folder / name)
    for segment in segments[:first]:
        share(segment, folder)
    start = int(edges[first])
    moved = np.flatnonzero(slots >= start)
    slots[moved] = start + np.cumsum(is_there[start:])[slots[moved] - start] - 1
    every = pl.concat([part.select("term", pl.col("df").cast(pl.Int64)) for part in counts])
    write_gone(folder, every.group_by("term").agg(pl.col("df").sum()).filter(pl.col("df") != 0))


def _write_segment(
    connection: duckdb.DuckDBPyConnection, folder: Path, chunks: np.ndarray, another: Path
) -> None:
    """The segment of the recounted chunks, whose numbers ascend; `another` has vectors of as many
    dimensions.
    """
    folder.mkdir()
    terms = connection.execute("SELECT term, df FROM came_to_terms ORDER BY term").to_arrow_table()
    write_terms(folder, terms.column("term"), terms.column("df").to_numpy())
    with PostingArrays(folder) as arrays:
        for batch in connection.execute(_ADDED).to_arrow_table().to_batches():
            arrays.add(
                np.searchsorted(chunks, batch.column("chunk_no").to_numpy()), frequencies(batch)
            )
    write_lengths(connection, folder, chunks)
    if (another / "vectors.npy").exists():
        dimensions = np.load(another / "vectors.npy", mmap_mode="r").shape[1]
        vectors = vectors_at(connection, _VECTORS_ANEW, chunks, dimensions)
        np.save(folder / "vectors.npy", vectors)
        np.save(folder / "vector_codes.npy", sign_codes(vectors))


_NUMBERS = """
SELECT coalesce(old_no, -1) AS old_no, new_no, chunk_key IN (SELECT chunk_key FROM recounted) AS is_recounted FROM numbers
"""
"""For each chunk its number before (-1 for none) and now, and whether its terms or its vector are
others.
"""
_ADDED = f"SELECT chunk_no, {FREQUENCIES} FROM added JOIN chunks USING (chunk_key) ORDER BY term, chunk_no"
# By the numbers of rows: else all vectors would be read before the rows are chosen.
_VECTORS_ANEW = """
SELECT chunk_no, vector FROM embeddings
WHERE rowid IN (SELECT rowid FROM embeddings WHERE chunk_id IN (SELECT chunk_id FROM recounted))
"""
