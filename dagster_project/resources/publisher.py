"""The published index: an immutable DuckDB file per version, built aside and switched by a rename."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from assets import graph
from assets.partitions import CHUNKS_OF, DOCUMENTS, FAMILIES, GRAPH, MAIL
from assets.protocols import Readiness
from dagster_project.resources import published, published_macros, published_readiness
from dagster_project.resources.ahead import made_ahead
from dagster_project.resources.backlog import Backlog
from dagster_project.resources.duckdb_extensions import load_vss
from dagster_project.resources.full_disk import is_of_full_disk
from dagster_project.resources.lake import ParquetLake
from dagster_project.resources.posting_files import PostingFiles
from dagster_project.resources.published_files import CURRENT, LAYOUT, version_of
from dagster_project.resources.search_arrays import folder_of, write_arrays
from dagster_project.resources.seen_units import SeenUnits
from dagster_project.resources.slow_lane import files_of, slow_hashes
from dagster_project.resources.sources import FileSources
from transforms import schemas
from transforms.errors import CheckFailedError, IndexUnavailableError, ModelMismatchError, WeftError
from transforms.hashing import parts_hash
from transforms.merged_postings import GONE, merged_postings
from transforms.settings import EmbeddingSettings, IndexSettings, SearchSettings, TermSettings
from transforms.terms import word_forms

_MEMORY_LIMIT = "2GB"
"""What DuckDB may hold in memory; beyond it spills to disk, which costs processor time, too."""
_READING_LIMIT = "1GB"
"""What DuckDB may hold while arrays are made of the finished file: beside them, and little is won by more."""
_TEXTS_AT_ONCE = 10_000
_MOST_AT_ONCE = 4
"""Batches of texts in memory at once, some 100 MB each."""
_DUCKDB_HEADERS = 3 * 4096
"""Bytes of a DuckDB file before its first block."""
_POSTINGS_AT_ONCE = 1 << 20
_WHOLE = (
    "memberships",
    "threads",
    "thread_tree",
    "families",
    "inferred_quotes",
    *published.LINKS_FROM,
    "chunk_context",
    "context_terms",
    "corpus_measures",
    "embeddings",
    "embedding_refusals",
)
_TABLES = {family.name: family.tables for family in FAMILIES}


@dataclass(frozen=True)
class Published:
    """What a publish did."""

    version: str
    path: Path
    is_new: bool
    partitions: int
    changed: int
    reused: bool
    rows: Mapping[str, int] = field(default_factory=dict)
    vector_search: str = "exact"
    unusable: str | None = None


def whole_parts(table: str, partitions: Mapping[str, str]) -> Sequence[str | None]:
    """The files of a table that is published whole: one, or for the graph one per partition of documents."""
    if table not in GRAPH.tables:
        return [None]
    return [p for p in sorted(partitions) if partitions[p] == DOCUMENTS.name]


class DuckDBPublisher:
    """Builds `weft-<version>.duckdb` from the lake and points `CURRENT` at it."""

    def __init__(
        self,
        lake: ParquetLake,
        folder: Path,
        index: IndexSettings,
        embedding: EmbeddingSettings,
        terms: TermSettings,
        search: SearchSettings,
        recorded: Mapping[str, object],
        *,
        has_graph: bool = False,
        seen: SeenUnits | None = None,
        guard: Callable[[Path, Path | None], None] | None = None,
    ):
        """`search` gives the SQL macros their defaults, `seen` says when the units of the lake were found.

        `guard` is shown each new file before it is published, and the current one; it may refuse.
        """
        self.guard, self.seen = guard, seen
        self.lake, self.folder = lake, folder
        self.index, self.embedding, self.terms = index, embedding, terms
        self.recorded, self.search = recorded, search
        self.whole = (*_WHOLE, *graph.TABLES) if has_graph else _WHOLE

    @property
    def layout(self) -> str:
        """Hash of what must be equal for rows of an older version to be taken over."""
        return parts_hash([LAYOUT, self.terms.digest(), self.embedding.digest()])[:16]

    def publish(self, partitions: Mapping[str, str]) -> Published:
        """Publish the lake's tables restricted to `partitions`, which maps each to its family.

        Nothing is built when the current version holds just that. Rows of unchanged partitions
        come from the current version, all others from the lake. A crash at any point leaves the
        current version as it is. CheckFailedError names the rule that the new file breaks.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock():
            self._sweep()
            hashes = self._content_hashes(partitions)
            settings = json.dumps(self.recorded, sort_keys=True)
            version = self._version(hashes)
            place = self.folder / f"weft-{version}.duckdb"
            previous = self._usable_previous()
            if previous and previous.name == place.name:
                return Published(version, place, False, len(partitions), 0, True)
            try:
                result = self._build(previous, partitions, hashes, version, settings, place)
            except duckdb.Error as error:
                if previous is None or is_of_full_disk(error):
                    raise
                # The previous version is damaged where its manifest does not show it: do without.
                made = self._build(None, partitions, hashes, version, settings, place)
                result = replace(made, unusable=str(error).splitlines()[0])
            self._prune(keep=place)
            return result

    def _build(
        self,
        previous: Path | None,
        partitions: Mapping[str, str],
        hashes: Mapping[str, Mapping[str, str]],
        version: str,
        settings: str,
        place: Path,
    ) -> Published:
        """Build a version aside and switch to it."""
        building = self.folder / f".build-{os.getpid()}-{secrets.token_hex(4)}.duckdb"
        try:
            result = _Build(self, building, previous, hashes, partitions).run(version, settings)
            if self.guard:
                self.guard(building, self.current())
            _durable(building)
            _remove([folder_of(place)])
            folder_of(building).replace(folder_of(place))
            building.replace(place)
            self._switch(place)
        finally:
            _remove(self.folder.glob(f"*{building.stem}*"))
        return result

    def is_current(self, partitions: Mapping[str, str]) -> bool:
        """True if the current version is readable and shows the lake as it is now."""
        previous = self._usable_previous()
        if previous is None:
            return False
        try:
            hashes = self._content_hashes(partitions)
        except WeftError:
            return False
        return previous.name == f"weft-{self._version(hashes)}.duckdb"

    def _version(self, hashes: Mapping[str, Mapping[str, str]]) -> str:
        made_from = json.dumps([self.recorded, hashes], sort_keys=True)
        return parts_hash([self.layout, self.index.digest(), made_from])[:16]

    def current(self) -> Path | None:
        """The file that `CURRENT` names; None if nothing is published."""
        link = self.folder / CURRENT
        return link.resolve() if link.is_symlink() and link.exists() else None

    def damage(self) -> str | None:
        """What is wrong with the file that `CURRENT` names; None if it opens, or nothing was ever published."""
        link = self.folder / CURRENT
        if not link.is_symlink():
            return None
        if not link.exists():
            return f"{link.readlink()} is missing"
        try:
            with _opened(link.resolve()) as connection:
                connection.execute("FROM manifest LIMIT 1")
        except duckdb.Error as error:
            return f"{link.readlink()} cannot be read ({str(error).splitlines()[0]})"
        return None

    def _content_hashes(self, partitions: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """Content hash of every table of every partition, and of what is published whole under the key ''."""
        hashes = {
            p: {t: self._content_hash(t, p) for t in _TABLES[partitions[p]]} for p in sorted(partitions)
        }
        for partition in (p for p in hashes if partitions[p] == MAIL.name):
            hashes[partition] |= slow_hashes(self.lake, partition)
        hashes[""] = {
            table: parts_hash(parts) if table in GRAPH.tables else parts[0]
            for table in self.whole
            for parts in [[self._content_hash(table, p) for p in whole_parts(table, partitions)]]
        }
        return hashes

    def _content_hash(self, table: str, partition: str | None) -> str:
        footer = self.lake.footer(table, partition)
        if footer is None:
            place = self.lake.path(table, partition)
            raise WeftError(f"cannot publish: {place} is missing or damaged; `weft build` makes it again")
        return footer.content_hash

    def fits_settings(self) -> bool:
        """True unless what is published is of another layout, tokenizer or model than the settings."""
        return self.current() is None or self._usable_previous() is not None

    def published_partitions(self) -> set[str]:
        """The partitions in the current version."""
        previous = self._usable_previous()
        if previous is None:
            return set()
        with duckdb.connect(str(previous), read_only=True) as connection:
            return {
                row[0] for row in connection.execute("SELECT DISTINCT partition FROM partitions").fetchall()
            }

    def _usable_previous(self) -> Path | None:
        """The current version if its rows can be taken over."""
        current = self.current()
        if current is None:
            return None
        try:
            with _opened(current) as connection:
                row = connection.execute("SELECT value FROM manifest WHERE key = 'layout'").fetchone()
        except duckdb.Error:
            return None
        return current if row and row[0] == self.layout else None

    def _switch(self, place: Path) -> None:
        link = self.folder / f".{CURRENT}-{os.getpid()}"
        link.unlink(missing_ok=True)
        link.symlink_to(place.name)
        link.replace(self.folder / CURRENT)
        _durable(self.folder)

    def _prune(self, keep: Path) -> None:
        versions = sorted(self.folder.glob("weft-*.duckdb"), key=lambda p: (p == keep, p.stat().st_mtime_ns))
        for old in versions[: -self.index.keep_versions]:
            old.unlink()
        arrays = self.folder.glob("weft-*.arrays")
        _remove(folder for folder in arrays if not folder.with_suffix(".duckdb").exists())

    def sweep(self) -> int:
        """Remove what killed publishes left, the number of files and folders; 0 while another publishes."""
        if not self.folder.is_dir():
            return 0
        with contextlib.suppress(BlockingIOError), self._lock(fcntl.LOCK_NB):
            return self._sweep()
        return 0

    def _sweep(self) -> int:
        """Remove what killed publishes left; the lock says that none is running."""
        left = [p for name in (".build-*", "..build-*", f".{CURRENT}-*") for p in self.folder.glob(name)]
        _remove(left)
        return len(left)

    @contextlib.contextmanager
    def _lock(self, how: int = 0) -> Iterator[None]:
        """One publish at a time; the lock goes with the process that holds it.

        With LOCK_NB, BlockingIOError if another publishes.
        """
        with (self.folder / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | how)
            yield


class _Build:
    """One version being built."""

    def __init__(
        self,
        publisher: DuckDBPublisher,
        place: Path,
        previous: Path | None,
        hashes: Mapping[str, Mapping[str, str]],
        partitions: Mapping[str, str],
    ):
        self.publisher, self.lake, self.place = publisher, publisher.lake, place
        self.previous, self.hashes, self.partitions = previous, hashes, partitions
        self.now = datetime.now(UTC)

    def run(self, version: str, settings: str) -> Published:
        """Fill the file at `place`, check it, close it."""
        with duckdb.connect(str(self.place), config={"memory_limit": _MEMORY_LIMIT}) as connection:
            # DuckDB takes a process that Python began for a person's and draws for it, as in runs of Dagster's.
            connection.execute("SET enable_progress_bar = false")
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET preserve_insertion_order = true")
            self.connection = connection
            self._attach_previous()
            changed = self._changed()
            self._tables(changed)
            self._readiness(changed)
            self._inverted_index()
            self._term_forms()
            self._vectors()
            vector_search = self._hnsw()
            rows = self._manifest(version, settings, vector_search)
            self._check()
            with self._one_transaction():
                self._views_and_macros()
                self._comment()
            if self.previous:
                connection.execute("DETACH prev")
            connection.execute("CHECKPOINT")
            connection.execute(f"SET memory_limit = '{_READING_LIMIT}'")
            write_arrays(connection, folder_of(self.place), self.facts)
        place = self.publisher.folder / f"weft-{version}.duckdb"
        return Published(
            version,
            place,
            True,
            len(self.partitions),
            len(changed),
            self.previous is not None,
            rows,
            vector_search,
        )

    def _attach_previous(self) -> None:
        if self.previous:
            self.connection.execute(f"ATTACH '{_quoted(self.previous)}' AS prev (READ_ONLY)")
        else:
            self.connection.execute("ATTACH ':memory:' AS prev")
            self.connection.execute(
                "CREATE TABLE prev.partitions (partition VARCHAR, table_name VARCHAR, hash VARCHAR)"
            )
        for name in (*_WHOLE, *graph.TABLES):
            parts = whole_parts(name, self.partitions) if name in self.publisher.whole else []
            self._from_lake(f"lake_{name}", name, parts)

    def _from_lake(self, view: str, table: str, partitions: Sequence[str | None]) -> None:
        """A temporary view over stored files, with the column `partition`."""
        declared = self.lake.tables[table]
        if not partitions:
            columns = ", ".join(f'NULL::{published.sql_type(c.type)} AS "{c.name}"' for c in declared.columns)
            self.connection.execute(
                f"CREATE TEMP VIEW {view} AS SELECT {columns}, NULL::VARCHAR AS partition LIMIT 0"
            )
            return
        columns = ", ".join(f'"{c.name}"' for c in declared.columns)
        selects = [
            f"SELECT {columns}, '{_quoted(p or '')}' AS partition "
            f"FROM read_parquet('{_quoted(self.lake.verified(file, p) if p else self.lake.local(file))}')"
            for p in partitions
            for file in files_of(table, self.hashes.get(p or "", {}))
        ]
        self.connection.execute(f"CREATE TEMP VIEW {view} AS {' UNION ALL '.join(selects)}")

    def _changed(self) -> list[str]:
        """Partitions whose rows must be taken from the lake."""
        now = [(p, t, h) for p in sorted(self.partitions) for t, h in self.hashes[p].items()]
        self.connection.execute(
            "CREATE TABLE partitions (partition VARCHAR, table_name VARCHAR, hash VARCHAR)"
        )
        if now:
            self.connection.executemany("INSERT INTO partitions VALUES (?, ?, ?)", now)
        self.connection.execute(
            published.CHANGED_FROM_NOTHING if self.previous is None else published.CHANGED
        )
        return [
            r[0]
            for r in self.connection.execute("SELECT partition FROM changed ORDER BY partition").fetchall()
        ]

    def _tables(self, changed: list[str]) -> None:
        for family, tables in _TABLES.items():
            for name in tables:
                self._from_lake(f"new_{name}", name, [p for p in changed if self.partitions[p] == family])
        for name, statement in published.TABLES.items():
            made_here = published.MADE_HERE.get(name)
            columns = f"* EXCLUDE ({made_here})" if made_here else "*"
            kept = published.KEPT.format(name=name, columns=columns) if self.previous else ""
            before = "prev.quarantine" if self.previous else published.NO_QUARANTINE
            self.connection.execute(statement.format(kept=kept, before=before))

    def _readiness(self, changed: Sequence[str]) -> None:
        """What can be found and when it got how far; what was there before keeps its times."""
        stored = self.lake.footer("readiness") is not None
        self._from_lake("lake_readiness", "readiness", [None] if stored else [])
        before = [published_readiness.BEFORE_STORED]
        if self.previous:
            before.append(published_readiness.BEFORE_PUBLISHED)
        statement = published_readiness.READINESS.format(before=" UNION ALL ".join(before))
        self.connection.register("stage_times", self._stage_times(changed))
        self.connection.execute(statement, {"now": self.now})
        self.connection.unregister("stage_times")

    def _stage_times(self, changed: Sequence[str]) -> pa.Table:
        """The columns of `published_readiness.STAGES` for each partition."""
        seen = self.publisher.seen.times() if self.publisher.seen else {}
        embedded = self.lake.written_at("embeddings")
        rows = []
        for partition in changed:
            family = self.partitions[partition]
            parsed = self.lake.written_at(_TABLES[family][0], partition)
            chunked = self.lake.written_at(CHUNKS_OF[family], partition)
            slow = self.lake.written_at("slow_chunks", partition) or chunked
            rows.append((partition, seen.get(partition) or parsed, parsed, chunked, slow, embedded))
        columns = list(zip(*rows, strict=True)) or [()] * len(published_readiness.STAGES)
        return pa.table(
            dict(zip(published_readiness.STAGES.names, columns, strict=True)), published_readiness.STAGES
        )

    def _inverted_index(self) -> None:
        if not self.previous:
            self._inverted_index_anew()
            return
        for statement in published.COUNTED_ONTO:
            self.connection.execute(statement)
        reading = self.connection.cursor()
        merged = merged_postings(
            reading.execute(published.KEPT_POSTINGS).to_arrow_reader(_POSTINGS_AT_ONCE),
            self._numbers(published.TERM_NUMBERS, "terms"),
            self._numbers(published.CHUNK_NUMBERS, "chunks"),
            table := self.connection.execute(published.ADDED_POSTINGS).to_arrow_table(),
        )
        self._create("postings", pa.RecordBatchReader.from_batches(table.schema, merged))

    def _inverted_index_anew(self) -> None:
        """Terms, postings and lengths of all chunks, sorted in files beside this one."""
        files = PostingFiles(self.place.with_suffix(".postings"), self._count("chunks"))
        restated = (
            self.connection.execute(published.RESTATED_NOW).to_arrow_table()["chunk_id"].combine_chunks()
        )
        for partition in sorted(self.partitions):
            (table,) = (
                t for t in _TABLES[self.partitions[partition]] if schemas.TERMS is self.lake.tables[t]
            )
            chunks = self.connection.execute(published.CHUNKS_OF_PARTITION, [partition]).to_arrow_table()
            for file in files_of(table, self.hashes[partition]):
                files.add(self.lake.local(file, partition), chunks, restated)
        chunks = self.connection.execute(published.CHUNKS_WITH_CONTEXT_TERMS).to_arrow_table()
        files.add(self.lake.local("context_terms"), chunks, restated.slice(0, 0))
        batches = files.batches()
        first = next(batches)
        self._create("postings", pa.RecordBatchReader.from_batches(first.schema, batches))
        self._create("terms", files.terms())
        self._create("chunk_lengths", files.chunk_lengths())
        _remove([files.folder])

    def _create(self, table: str, rows: pa.Table | pa.RecordBatchReader) -> None:
        """Create a table of rows in their order."""
        self.connection.register("made", rows)
        self.connection.execute(f"CREATE TABLE {table} AS FROM made")
        self.connection.unregister("made")

    def _count(self, table: str) -> int:
        (count,) = self.connection.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,)
        return int(count)

    def _numbers(self, statement: str, table: str) -> np.ndarray:
        """The new number of each row of a table of the previous version, by its old one; GONE where it has none."""
        found = self.connection.execute(statement).fetchnumpy()
        numbers = np.full(self._count(f"prev.{table}"), GONE, dtype=np.int32)
        numbers[found["old_no"]] = found["new_no"]
        return numbers

    def _term_forms(self) -> None:
        """Which words of the texts are which terms, for searching without a stemmer."""
        removed = published.REMOVED_TEXTS if self.previous else None
        for name, statement in (("added_forms", published.ADDED_TEXTS), ("removed_forms", removed)):
            self.connection.register(name, self._forms_in(statement).to_arrow())
        kept = published.KEPT_FORMS if self.previous else ""
        self.connection.execute(published.TERM_FORMS.format(kept=kept))
        for name in ("added_forms", "removed_forms"):
            self.connection.unregister(name)

    def _forms_in(self, statement: str | None) -> pl.DataFrame:
        """`word_forms` of the texts that a statement selects, some at a time."""
        settings = self.publisher.terms
        found = [word_forms(pl.Series("text", [], dtype=pl.String), settings)]
        if statement:
            texts = self.connection.execute(statement).to_arrow_reader(_TEXTS_AT_ONCE)
            columns = (pl.Series("text", batch.column("text")) for batch in texts)
            found += made_ahead(lambda column: word_forms(column, settings), columns, _MOST_AT_ONCE)
        return pl.concat(found).group_by("form", "term").agg(pl.col("texts").sum())

    def _vectors(self) -> None:
        """The vector of each chunk; ModelMismatchError if those in the lake are of another model."""
        wanted = (self.publisher.embedding.model_id, self.publisher.embedding.dimensions)
        held = self.connection.execute("SELECT DISTINCT model, dimensions FROM lake_embeddings ORDER BY ALL")
        if others := [row for row in held.fetchall() if row != wanted]:
            raise ModelMismatchError(
                f"nothing was published: the table embeddings of the lake holds vectors of {others[0][0]} with "
                f"{others[0][1]} dimensions, the settings name {wanted[0]} with {wanted[1]}: run `weft build`"
            )
        self.connection.execute(published.EMBEDDINGS.format(dimensions=self.publisher.embedding.dimensions))
        self.connection.execute(published.REFUSALS)

    def _hnsw(self) -> str:
        """Build the HNSW index where there are enough vectors; returns how vectors are searched."""
        least = self.publisher.index.ann_min_vectors
        if least is None or self._count("embeddings") < least:
            return "exact"
        load_vss(self.connection)
        self.connection.execute("SET hnsw_enable_experimental_persistence = true")
        self.connection.execute(
            "CREATE INDEX embeddings_hnsw ON embeddings USING HNSW (vector) WITH (metric = 'cosine')"
        )
        return "hnsw"

    def _manifest(self, version: str, settings: str, vector_search: str) -> dict[str, int]:
        names = [
            r[0]
            for r in self.connection.execute(
                "SELECT table_name FROM duckdb_tables() WHERE NOT temporary AND "
                "database_name = current_database()"
            ).fetchall()
        ]
        rows = {
            name: int((self.connection.execute(f'SELECT count(*) FROM "{name}"').fetchone() or (0,))[0])
            for name in sorted(names)
        }
        entries = {
            "version": version,
            "layout": self.publisher.layout,
            "layout_version": LAYOUT,
            "model": self.publisher.embedding.model_id,
            "dimensions": str(self.publisher.embedding.dimensions),
            "vector_search": vector_search,
            "settings": settings,
            "duckdb": duckdb.__version__,
            "rows": json.dumps(rows, sort_keys=True),
            "published_at": self.now.isoformat(timespec="seconds"),
        }
        self.facts = entries
        self.connection.execute("CREATE TABLE manifest (key VARCHAR, value VARCHAR)")
        self.connection.executemany("INSERT INTO manifest VALUES (?, ?)", sorted(entries.items()))
        return rows

    def _check(self) -> None:
        """CheckFailedError for the first rule that the new file breaks."""
        for rule, statement in published.RULES.items():
            (broken,) = self.connection.execute(statement).fetchone() or (0,)
            if broken:
                raise CheckFailedError(f"nothing was published: {broken} rows break the rule that {rule}")

    @contextlib.contextmanager
    def _one_transaction(self) -> Iterator[None]:
        """Hundreds of small statements are written once; one that fails ends the build, and the file with it."""
        self.connection.begin()
        yield
        self.connection.commit()

    def _views_and_macros(self) -> None:
        for name, statement in published_macros.VIEWS.items():
            self.connection.execute(f'CREATE VIEW "{name}" AS {statement}')
        made = published_macros.macros(self.publisher.search, self.publisher.terms)
        for name, macro in made.items():
            self.connection.execute(f'CREATE MACRO "{name}"({macro.parameters}) AS TABLE {macro.query}')
            self.connection.execute(f"COMMENT ON MACRO TABLE \"{name}\" IS '{_quoted(macro.comment)}'")

    def _comment(self) -> None:
        for name, (comment, columns) in published.COMMENTS.items():
            what = "VIEW" if name in published_macros.VIEWS else "TABLE"
            self.connection.execute(f"COMMENT ON {what} \"{name}\" IS '{_quoted(comment)}'")
            for column, meaning in columns.items():
                self.connection.execute(f'COMMENT ON COLUMN "{name}"."{column}" IS \'{_quoted(meaning)}\'')


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A published file, read-only; duckdb.IOException if its end is missing, which DuckDB meets when it reads there."""
    with duckdb.connect(str(file), read_only=True) as connection:
        (blocks,) = connection.execute(
            "SELECT block_size * total_blocks FROM pragma_database_size()"
        ).fetchone() or (0,)
        if file.stat().st_size < (whole := blocks + _DUCKDB_HEADERS):
            raise duckdb.IOException(f"{file.name} is cut off: {file.stat().st_size:,} of {whole:,} bytes")
        yield connection


def _quoted(value: object) -> str:
    """A value inside a SQL string literal."""
    return str(value).replace("'", "''")


def _remove(paths: Iterable[Path]) -> None:
    """Delete files, and the folders that DuckDB spills to."""
    for path in list(paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _durable(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class PartitionPublisher:
    """The publisher as the assets see it: publishes the units that the sources have now.

    A unit that turned up after the run began is left for the next one, one that a backfill has begun for that.
    """

    def __init__(self, publisher: DuckDBPublisher, sources: FileSources, backlog: Backlog):
        self.publisher, self.sources, self.backlog = publisher, sources, backlog

    def publish(self) -> Mapping[str, Any]:
        """Publish; returns version, path, what was reused, and the row counts of the published tables."""
        lake = self.publisher.lake
        made = {p for family in FAMILIES for p in lake.partitions(family.tables[0])}
        made |= self.publisher.published_partitions()
        left = self.backlog.left() or ()
        partitions = {
            u.partition: u.family
            for u in self.sources.discover()
            if u.partition in made
            and (u.partition not in left or lake.has_tables(_TABLES[u.family], u.partition))
        }
        done = self.publisher.publish(partitions)
        return {
            "version": done.version,
            "path": str(done.path),
            "index_bytes": done.path.stat().st_size,
            "new_version": done.is_new,
            "partitions": done.partitions,
            "changed_partitions": done.changed,
            "built_on_previous": done.reused,
            **({"previous_version_unusable": done.unusable} if done.unusable else {}),
            "vector_search": done.vector_search,
            **{f"rows_{name}": count for name, count in done.rows.items()},
        }

    def readiness(self) -> Readiness:
        """The table `readiness` of the current version."""
        current = self.publisher.current()
        if current is None:
            raise IndexUnavailableError("nothing is published; run `weft build`")
        with duckdb.connect(str(current), read_only=True) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            rows = connection.execute("FROM readiness ORDER BY doc_id, kind").to_arrow_table()
        return Readiness(version_of(current), schemas.READINESS.conform(rows))
