"""One version of the published file being made from the lake alone: its tables, inverted index, vectors and macros."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from assets.partitions import CHUNKS_OF, DOCUMENTS, GRAPH, IN_PARTS, SOURCE_TYPES
from dagster_project.resources.arrays.arrays import folder_of, write_arrays, write_chunk_rows
from dagster_project.resources.arrays.posting_arrays import PostingArrays, frequencies
from dagster_project.resources.lake.lake import ParquetLake
from dagster_project.resources.lake.oversize import files_of
from dagster_project.resources.publish import macro_sql, readiness_sql, table_sql
from dagster_project.resources.publish.external_sort import PostingFiles
from dagster_project.resources.publish.versions import LAYOUT
from dagster_project.resources.sources.seen_partitions import SeenPartitions
from dagster_project.resources.system.duckdb_extensions import load_vss
from dagster_project.resources.system.duckdb_types import nulls
from dagster_project.resources.system.prefetch import made_ahead
from dagster_project.resources.system.processes import give_memory_back
from transforms.errors import CheckFailedError, ModelMismatchError
from transforms.schemas.chunks import TERMS
from transforms.schemas.registry import GRAPH_TABLES, REGISTRY, lake_wide_inputs
from transforms.settings.models import EmbeddingSettings
from transforms.settings.operations import IndexSettings
from transforms.settings.search import SearchSettings, TermSettings
from transforms.text.terms import word_forms

_STORAGE = "v1.2.0"
"""Files that DuckDB before this version could read have no compression for long texts."""
_INSERTING_LIMIT = "600MB"
"""What DuckDB may hold while postings are inserted, which take memory that it does not count."""
_READING_LIMIT = "2GB"
"""What DuckDB may hold while arrays are made of the finished file, by two connections where all are."""
# DuckDB takes a process that Python began for a person's and draws for it, as in runs of Dagster's.
_SESSION = (
    "SET enable_progress_bar = false",
    "SET TimeZone = 'UTC'",
    "SET preserve_insertion_order = true",
)
"""What holds for each connection."""
_TEXTS_AT_ONCE = 5_000
_MOST_AT_ONCE = 2
"""Batches of texts in memory at once, some 50 MB each."""
WHOLE = lake_wide_inputs()
"""What the lake has whole and each published file is made from; the tables of the graph come to it where there is one."""
_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)
TABLES = {source_type.name: source_type.tables for source_type in SOURCE_TYPES}
"""The tables of the partitions of each source type."""


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
    """What of the version before could not be taken over, and why."""
    in_place: bool = False
    """True if an older version was changed, which spares a copy of the one before."""


@dataclass(frozen=True)
class Ingredients:
    """What a version is made from: the lake, the partitions in it with their source types, hashes and settings.

    `hashes` has those of the tables of each partition, and of the tables that are whole below the key ''.
    """

    lake: ParquetLake
    partitions: Mapping[str, str]
    hashes: Mapping[str, Mapping[str, str]]
    seen: SeenPartitions | None
    index: IndexSettings
    embedding: EmbeddingSettings
    terms: TermSettings
    search: SearchSettings
    facts: Mapping[str, str]
    """What the manifest says beside what the file itself gives: version, layout, settings as JSON."""


def whole_parts(table: str, partitions: Mapping[str, str]) -> Sequence[str | None]:
    """The files of a table that is published whole: one, or for the graph one per partition of documents."""
    if table not in GRAPH.tables:
        return [None]
    return [p for p in sorted(partitions) if partitions[p] == DOCUMENTS.name]


class IndexBuild:
    """The file at `place`, made from nothing. `IndexUpdate` makes it of another."""

    def __init__(self, made_of: Ingredients, place: Path):
        self.made_of, self.lake, self.place = made_of, made_of.lake, place
        self.hashes, self.partitions = made_of.hashes, made_of.partitions
        self.now = datetime.now(UTC)
        self._views: list[str] = []

    def run(self) -> Published:
        """Fill the file at `place`, check it, close it, write the arrays beside it."""
        with self._opened(self._memory_limit) as connection:
            for name in (*WHOLE, *GRAPH_TABLES):
                if name in IN_PARTS:
                    files = [self.lake.local(name, part) for part in self.lake.parts(name)]
                    self._from_parts(f"lake_{name}", name, files)
                    continue
                parts = whole_parts(name, self.partitions) if name in self.hashes[""] else []
                self._from_lake(f"lake_{name}", name, parts)
            self._check_model()
            changed = self._fill()
            vector_search = self._hnsw()
            rows = self._manifest(vector_search)
            self._check()
            with self._one_transaction():
                self._views_and_macros()
                self._comment()
            connection.execute("CHECKPOINT")
            left = {
                name: connection.execute(f"FROM {name}").to_arrow_table() for name in self._told_to_arrays
            }
        # Opened again: what deleted rows take in memory, kilobytes for each two thousand, goes with the connection.
        with self._opened(_READING_LIMIT, read_only=True) as connection:
            for name, table in left.items():
                with self._registered("rows_left", table):
                    connection.execute(f"CREATE TEMP TABLE {name} AS FROM rows_left")
            self._write_arrays()
        return Published(
            self.made_of.facts["version"],
            self.place,
            True,
            len(self.partitions),
            len(changed),
            self._is_update,
            rows,
            vector_search,
            self._unusable,
        )

    _is_update = False
    _unusable: str | None = None
    _memory_limit = "1200MB"
    """What DuckDB may hold in memory; beyond it spills to disk. By one thread, more is hardly faster."""
    _threads = 1
    """Threads of DuckDB's; 0 for one a processor. At long inserts two take twice the processor time to make room."""
    _arrays: Path | None = None
    """Those of the arrays that were written with the tables."""
    _told_to_arrays: tuple[str, ...] = ()
    """Temporary tables that the arrays are made by."""

    @contextlib.contextmanager
    def _opened(self, memory_limit: str, *, read_only: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """The file at `place`, as `connection` too."""
        config: dict[str, Any] = {"memory_limit": memory_limit, "storage_compatibility_version": _STORAGE}
        if self._threads:
            config["threads"] = self._threads
        with duckdb.connect(str(self.place), read_only=read_only, config=config) as connection:
            # They double the size of vectors, whose digits follow no rule, and make reading one ten times slower.
            connection.execute("SET disabled_compression_methods = 'alp,alprd'")
            for statement in _SESSION:
                connection.execute(statement)
            self.connection = connection
            yield connection

    def _fill(self) -> list[str]:
        """Make all tables but the manifest; returns the partitions whose rows were taken from the lake."""
        run = self.connection.execute
        changed = sorted(self.partitions)
        with self._registered("partitions_now", self._tables_of_partitions()):
            run("CREATE TABLE partitions AS FROM partitions_now")
        for name, rows in table_sql.WHOLE.items():
            run(f"CREATE TABLE {name} AS {rows}")
        self._lake_rows_of(changed)
        run(table_sql.NUMBERED_AHEAD)
        self._arrays = self.place.with_suffix(".begun_arrays")
        self._arrays.mkdir()
        # What is sorted and counted beside DuckDB writing is of the lake; then it writes postings, and is read beside.
        with self._beside() as begin:
            tables = begin(self._create_tables)
            files = self._posting_files()
            forms = self._forms_in(self.connection, f"{table_sql.TEXTS} ({table_sql.PARTITIONED['chunks']})")
            tables.result()
            run(f"SET memory_limit = '{_INSERTING_LIMIT}'")
            give_memory_back()
            dimensions = self.made_of.embedding.dimensions
            chunk_rows = begin(write_chunk_rows, self._arrays, dimensions)
            self._insert_postings(files, self._arrays)
            chunk_rows.result()
        run(f"SET memory_limit = '{self._memory_limit}'")
        with self._registered("added_forms", forms):
            run(table_sql.TERM_FORMS)
        run("UPDATE quarantine SET first_seen = $now", {"now": self.now})
        self._readiness(changed)
        return changed

    def _create_tables(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create all that is made of partitions of the lake, and the vectors."""
        for table in table_sql.PARTITIONED:
            self._create_partitioned(connection, table)
        connection.execute(table_sql.NUMBERS)
        connection.execute(table_sql.NUMBERED)
        connection.execute(table_sql.EMBEDDED_TEXTS.format(chunks="FROM chunks"))
        connection.execute(f"CREATE TABLE embeddings AS {self._embedded('lake_embeddings')}")
        connection.execute(table_sql.REFUSALS)

    @contextlib.contextmanager
    def _beside(self) -> Iterator[Callable[..., Future[Any]]]:
        """What begins work in a thread, on another connection to the file with the views over the lake.

        `begin(work, *given)` calls `work(connection, *given)`, one after another. If this thread fails, so does the work.
        """
        begun: list[Future[Any]] = []
        with self.connection.cursor() as connection, ThreadPoolExecutor(1) as thread:
            for statement in (*_SESSION, *self._views):
                connection.execute(statement)

            def begin(work: Callable[..., Any], *given: Any) -> Future[Any]:
                begun.append(thread.submit(work, connection, *given))
                return begun[-1]

            try:
                yield begin
            except BaseException:
                # Again and again: it ends a statement, and there may be none at the moment.
                while wait(begun, timeout=0.05).not_done:
                    connection.interrupt()
                raise

    def _posting_files(self) -> PostingFiles:
        """The terms of all chunks, sorted in files beside this one."""
        run = self.connection.execute
        files = PostingFiles(self.place.with_suffix(".postings"), self._count("numbered"))
        restated = run(table_sql.RESTATED_NOW).to_arrow_table()["chunk_id"].combine_chunks()
        for partition in sorted(self.partitions):
            (table,) = (t for t in TABLES[self.partitions[partition]] if TERMS is self.lake.tables[t])
            chunks = run(table_sql.CHUNKS_OF_PARTITION, [partition]).to_arrow_table()
            for file in files_of(table, self.hashes[partition]):
                files.add(self.lake.local(file, partition), chunks, restated)
        chunks = run(table_sql.CHUNKS_WITH_CONTEXT_TERMS).to_arrow_table()
        files.add(self.lake.local("context_terms"), chunks, restated.slice(0, 0))
        files.number()
        return files

    def _insert_postings(self, files: PostingFiles, arrays_folder: Path) -> None:
        """Terms, postings and lengths of all chunks, and the arrays of postings."""
        run = self.connection.execute
        keys = (
            run("SELECT chunk_key FROM numbered ORDER BY chunk_no").to_arrow_table()["chunk_key"].to_numpy()
        )
        batches = files.batches()
        self._create("postings", pa.Table.from_batches([_keyed(next(batches), keys)]))
        with PostingArrays(arrays_folder) as arrays:
            # One by one: of a stream DuckDB takes in far more than it has written, and counts none of it.
            for batch in batches:
                arrays.add(batch.column("chunk_no").to_numpy(), frequencies(batch))
                with self._registered("made", pa.Table.from_batches([_keyed(batch, keys)])):
                    run("INSERT INTO postings FROM made")
        self._create("terms", files.terms())
        self._create("chunk_lengths", _keyed(files.chunk_lengths(), keys))
        shutil.rmtree(files.folder)

    def _create(self, table: str, rows: pa.Table) -> None:
        """Create a table of rows in their order."""
        with self._registered("made", rows):
            self.connection.execute(f"CREATE TABLE {table} AS FROM made")

    @staticmethod
    def _create_partitioned(connection: duckdb.DuckDBPyConnection, table: str) -> None:
        """Create a table of the lake's partitions, columns that are seldom read compressed."""
        rows = table_sql.PARTITIONED[table]
        if table in table_sql.MADE_HERE:
            column, kind = table_sql.MADE_HERE[table].split()
            rows = f"SELECT NULL::{kind} AS {column}, * FROM ({rows})"
        compressed = table_sql.COMPRESSED.get(table, ())
        columns = ", ".join(
            f'"{name}" {kind}' + (" USING COMPRESSION zstd" if name in compressed else "")
            for name, kind, *_ in connection.execute(f"DESCRIBE {rows}").fetchall()
        )
        connection.execute(f"CREATE TABLE {table} ({columns})")
        connection.execute(f"INSERT INTO {table} {rows}")

    def _count(self, table: str) -> int:
        (count,) = self.connection.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,)
        return int(count)

    def _from_lake(self, view: str, table: str, partitions: Sequence[str | None]) -> None:
        """A temporary view over stored files; those of partitions have the column `partition`."""
        declared = self.lake.tables[table]
        adds = "partition" not in declared.names and REGISTRY[table].partitions is not None
        files = [
            (p, self.lake.verified(file, p) if p else self.lake.local(file))
            for p in partitions
            for file in files_of(table, self.hashes.get(p or "", {}))
        ]
        if not files:
            self._view(
                view, f"SELECT {nulls(declared)}{', NULL::VARCHAR AS partition' if adds else ''} LIMIT 0"
            )
            return
        columns = ", ".join(f'"{c.name}"' for c in declared.columns)
        selects = [
            f"SELECT {columns}{_constant(p) if adds else ''} FROM read_parquet('{quoted(file)}')"
            for p, file in files
        ]
        self._view(view, " UNION ALL ".join(selects))

    def _from_parts(self, view: str, table: str, files: Sequence[str | Path]) -> None:
        """A temporary view over the files of some parts of a table, with the column `_file`.

        It is one scan: each of several would keep the memory that it reads into until the last has ended.
        """
        declared = self.lake.tables[table]
        names = ", ".join(f'"{name}"' for name in declared.names)
        paths = ", ".join(f"'{quoted(file)}'" for file in files)
        rows = f"SELECT {names}, _file FROM read_parquet([{paths}], filename = '_file')"
        if not files:
            rows = f"SELECT {nulls(declared)}, NULL::VARCHAR AS _file LIMIT 0"
        self._view(view, rows)

    def _view(self, name: str, rows: str) -> None:
        """A temporary view, which belongs to one connection; it is known for others."""
        self._views.append(f"CREATE TEMP VIEW {name} AS {rows}")
        self.connection.execute(self._views[-1])

    def _lake_rows_of(self, changed: Sequence[str]) -> None:
        """The views `new_<table>` over the files of these partitions."""
        for source_type, tables in TABLES.items():
            for name in tables:
                self._from_lake(
                    f"new_{name}", name, [p for p in changed if self.partitions[p] == source_type]
                )

    def _tables_of_partitions(self) -> pa.Table:
        """The table `partitions`."""
        rows = [(p, t, h) for p in sorted(self.partitions) for t, h in self.hashes[p].items()]
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        names = ("partition", "table_name", "hash")
        return pa.table({n: pa.array(c, pa.string()) for n, c in zip(names, columns, strict=True)})

    @contextlib.contextmanager
    def _registered(self, name: str, table: pa.Table | pa.RecordBatchReader) -> Iterator[None]:
        """A table under a name of its own for some statements."""
        self.connection.register(name, table)
        yield
        self.connection.unregister(name)

    def _readiness(self, changed: Sequence[str]) -> None:
        """What can be found and when it got how far; what the lake keeps of before keeps its times."""
        self._stored_readiness()
        rows = readiness_sql.rows([readiness_sql.BEFORE_STORED])
        with self._registered("stage_times", self._stage_times(changed)):
            self.connection.execute(f"CREATE TABLE readiness AS {rows}", {"now": self.now})

    def _stored_readiness(self) -> None:
        """The view `lake_readiness` of what the lake keeps, in case that no earlier version can be used."""
        stored = self.lake.footer("readiness") is not None
        self._from_lake("lake_readiness", "readiness", [None] if stored else [])

    def _stage_times(self, changed: Sequence[str]) -> pa.Table:
        """The columns of `published_readiness.STAGES` for each partition."""
        seen = self.made_of.seen.times() if self.made_of.seen else {}
        embedded = self.lake.written_at("embeddings")
        rows = []
        for partition in changed:
            source_type = self.partitions[partition]
            parsed = self.lake.written_at(TABLES[source_type][0], partition)
            chunked = self.lake.written_at(CHUNKS_OF[source_type], partition)
            slow = self.lake.written_at("slow_chunks", partition) or chunked
            rows.append((partition, seen.get(partition) or parsed, parsed, chunked, slow, embedded))
        columns = list(zip(*rows, strict=True)) or [()] * len(readiness_sql.STAGES)
        return pa.table(dict(zip(readiness_sql.STAGES.names, columns, strict=True)), readiness_sql.STAGES)

    def _forms_in(self, connection: duckdb.DuckDBPyConnection, statement: str) -> pa.Table:
        """`word_forms` of the texts that a statement selects, some at a time: which words are which terms."""
        settings = self.made_of.terms
        found = [word_forms(pl.Series("text", [], dtype=pl.String), settings)]
        texts = connection.execute(statement).to_arrow_reader(_TEXTS_AT_ONCE)
        columns = (pl.Series("text", batch.column("text")) for batch in texts)
        found += made_ahead(lambda column: word_forms(column, settings), columns, _MOST_AT_ONCE)
        return pl.concat(found).group_by("form", "term").agg(pl.col("texts").sum()).to_arrow()

    def _check_model(self) -> None:
        """ModelMismatchError if the vectors of the lake are of another model than the settings name."""
        wanted = (self.made_of.embedding.model_id, self.made_of.embedding.dimensions)
        held = self.connection.execute("SELECT DISTINCT model, dimensions FROM lake_embeddings ORDER BY ALL")
        if others := [row for row in held.fetchall() if row != wanted]:
            raise ModelMismatchError(
                f"nothing was published: the table embeddings of the lake holds vectors of {others[0][0]} with "
                f"{others[0][1]} dimensions, the settings name {wanted[0]} with {wanted[1]}: run `weft build`"
            )

    def _embedded(self, vectors: str) -> str:
        """The statement that selects the vectors of `embedded_texts` from a view."""
        return table_sql.EMBEDDED.format(dimensions=self.made_of.embedding.dimensions, vectors=vectors)

    def _hnsw(self) -> str:
        """Build the HNSW index where there are enough vectors; returns how vectors are searched."""
        least = self.made_of.index.ann_min_vectors
        if least is None or self._count("embeddings") < least:
            return "exact"
        load_vss(self.connection)
        self.connection.execute("SET hnsw_enable_experimental_persistence = true")
        self.connection.execute(
            "CREATE INDEX embeddings_hnsw ON embeddings USING HNSW (vector) WITH (metric = 'cosine')"
        )
        return "hnsw"

    def _manifest(self, vector_search: str) -> dict[str, int]:
        names = [
            r[0]
            for r in self.connection.execute(
                "SELECT table_name FROM duckdb_tables() WHERE NOT temporary AND table_name <> 'manifest' AND "
                "database_name = current_database()"
            ).fetchall()
        ]
        rows = {name: self._count(name) for name in sorted(names)}
        self.facts = {
            **self.made_of.facts,
            "layout_version": LAYOUT,
            "model": self.made_of.embedding.model_id,
            "dimensions": str(self.made_of.embedding.dimensions),
            "vector_search": vector_search,
            "duckdb": duckdb.__version__,
            "rows": json.dumps(rows, sort_keys=True),
            "published_at": self.now.isoformat(timespec="seconds"),
            "postings_since_rebuild": str(self._postings_since_rebuild()),
        }
        self.connection.execute("CREATE OR REPLACE TABLE manifest (key VARCHAR, value VARCHAR)")
        self.connection.executemany("INSERT INTO manifest VALUES (?, ?)", sorted(self.facts.items()))
        return rows

    def _postings_since_rebuild(self) -> int:
        """Postings that came or went since all tables were made from nothing."""
        return 0

    def _check(self) -> None:
        """CheckFailedError for the first rule that the new file breaks."""
        if twins := self.connection.execute(table_sql.TWIN_KEYS).fetchone():
            raise CheckFailedError(
                f"nothing was published: chunks {twins[0]} and {twins[1]} have the same number in the inverted index, "
                "the first 16 digits of their ids; change a word of one of the two texts, or exclude its file"
            )
        for rule, statement in table_sql.RULES.items():
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
        for name, statement in macro_sql.VIEWS.items():
            self.connection.execute(f'CREATE OR REPLACE VIEW "{name}" AS {statement}')
        made = macro_sql.macros(self.made_of.search, self.made_of.terms)
        for name, macro in made.items():
            self.connection.execute(
                f'CREATE OR REPLACE MACRO "{name}"({macro.parameters}) AS TABLE {macro.query}'
            )
            self.connection.execute(f"COMMENT ON MACRO TABLE \"{name}\" IS '{quoted(macro.comment)}'")

    def _comment(self) -> None:
        for name, (comment, columns) in table_sql.COMMENTS.items():
            what = "VIEW" if name in macro_sql.VIEWS else "TABLE"
            self.connection.execute(f"COMMENT ON {what} \"{name}\" IS '{quoted(comment)}'")
            for column, meaning in columns.items():
                self.connection.execute(f'COMMENT ON COLUMN "{name}"."{column}" IS \'{quoted(meaning)}\'')

    def _write_arrays(self) -> None:
        write_arrays(self.connection, folder_of(self.place), self.facts, self._arrays)


def _keyed(rows: _Rows, keys: np.ndarray) -> _Rows:
    """Rows with the key of their chunk in place of its number."""
    place = rows.schema.get_field_index("chunk_no")
    return rows.set_column(place, "chunk_key", pa.array(keys[rows.column(place).to_numpy()]))


def _constant(partition: str | None) -> str:
    """A column that says the partition."""
    return f", '{quoted(partition or '')}' AS partition"


def quoted(value: object) -> str:
    """A value inside a SQL string literal."""
    return str(value).replace("'", "''")
