"""The full rebuild of a published file from the lake: its tables, inverted index, vectors and
macros.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from assets.partitions import CHUNKS_OF, IN_PARTS
from dagster_project.extensions import published_tables
from dagster_project.index.files.arrays import (
    FIRST,
    folder_of,
    row_count,
    write_arrays,
    write_chunk_rows,
)
from dagster_project.index.files.posting_arrays import PostingArrays, frequencies
from dagster_project.index.publish import macro_sql, table_sql, vector_index
from dagster_project.index.publish.external_sort import PostingFiles, keyed
from dagster_project.index.publish.lake_views import LakeViews
from dagster_project.index.publish.table_sql import BUILD, RULES_SQL
from dagster_project.index.publish.version_inputs import (
    LAKE_WIDE,
    TABLES_OF_TYPE,
    Published,
    VersionInputs,
)
from dagster_project.index.publish.versions import LAYOUT
from dagster_project.system.long_work import give_memory_back, ordered_map, other_thread
from dagster_project.system.sql_files import literal
from transforms.errors import CheckFailedError, ModelMismatchError
from transforms.schemas.chunks import TERMS
from transforms.schemas.registry import REGISTRY
from transforms.schemas.table import TIME
from transforms.text.terms import word_forms

_STORAGE = "v1.2.0"
"""The storage format: older ones cannot compress long texts."""
_INSERTING_LIMIT = "600MB"
"""Memory limit of DuckDB while postings are inserted, which take memory that DuckDB does not count.
"""
_READING_LIMIT = "2GB"
"""Memory limit of DuckDB while arrays are written from the finished file, of two connections in a
full rebuild.
"""
# DuckDB takes a process that Python started for an interactive one and would draw progress bars, as
# in Dagster's runs.
_SESSION = "SET enable_progress_bar = false; SET TimeZone = 'UTC'"
"""Statements that each connection begins with."""
_TEXTS_AT_ONCE = 5_000
_MOST_AT_ONCE = 2
"""Batches of texts in memory at once, some 50 MB each."""

_STAGES = pa.schema(
    [
        ("partition", pa.string()),
        *((name, TIME) for name in ("seen_at", "parsed_at", "chunked_at", "embedded_at")),
    ]
)
"""When the partitions that changed got how far: the columns of the relation `stage_times`."""


class IndexBuild:
    """Builds `file` from the lake alone; `IndexUpdate` builds it on an earlier version."""

    def __init__(self, inputs: VersionInputs, file: Path, previous: Path | None = None):
        """`previous` is the current version, for the times that it alone knows."""
        self.inputs, self.settings, self.file, self.previous = (
            inputs,
            inputs.settings,
            file,
            previous,
        )
        self.lake, self.hashes, self.partitions = inputs.lake, inputs.hashes, inputs.partitions
        self.views = LakeViews(inputs.lake, texts_stay=self.texts_stay)
        self.phases = inputs.phases
        self.now = datetime.now(UTC)

    def run(self) -> Published:
        """Fill the file, check it, close it, write the arrays beside it."""
        with self._open(self._memory_limit) as connection:
            self._view_lake()
            changed = self._fill()
            for table, prefix in (("messages", "from_"), ("trailers", "")):
                connection.execute(
                    BUILD("persons", table=table, addr=f"{prefix}addr", name=f"{prefix}name")
                )
            connection.execute(BUILD("participant_counts"))
            self.phases.begin("publish_vectors")
            rows = self._manifest(self._index_vectors())
            self.phases.step("publish_vectors", rows["embeddings"])
            self.phases.begin("search_index")
            self._check()
            for table, key in () if self._is_update else table_sql.PRIMARY_KEYS.items():
                connection.execute(f"ALTER TABLE {table} ADD PRIMARY KEY ({key})")
            # One transaction for hundreds of small statements; if one fails, the build ends and the
            # file is deleted.
            connection.begin()
            macro_sql.create(connection, self.settings.search, self.settings.terms)
            macro_sql.comment(connection, self.further_views)
            connection.commit()
            connection.execute("CHECKPOINT")
            change_tables = {
                name: connection.execute(f"FROM {name}").to_arrow_table()
                for name in self._change_tables
            }
        # Opening the file again frees the memory of deleted rows, kilobytes for each two thousand
        # of them.
        with self._open(_READING_LIMIT, read_only=True) as connection:
            for name, table in change_tables.items():
                with self._registered("change_rows", table):
                    connection.execute(f"CREATE TEMP TABLE {name} AS FROM change_rows")
            self._write_arrays()
        version, count = self.inputs.facts["version"], len(changed)
        return Published(
            version,
            self.file,
            True,
            len(self.partitions),
            count,
            self._is_update,
            rows,
            self._unusable,
        )

    texts_stay = False  # in the lake, to which the file refers
    further_views: tuple[str, ...] = ()  # in place of tables
    _is_update = False
    _unusable: str | None = None
    _memory_limit = "1200MB"
    """Memory limit of DuckDB, beyond which it spills to disk; with one thread, more memory is
    hardly faster.
    """
    _threads = 1
    """Threads of DuckDB; 0 is one per processor. In long inserts, two spend twice the processor
    time on freeing memory.
    """
    _arrays: Path | None = None
    """The folder of the arrays that are written while the tables are."""
    _change_tables: tuple[str, ...] = ()
    """Temporary tables that say which rows of the arrays change."""

    @contextlib.contextmanager
    def _open(
        self, memory_limit: str, *, read_only: bool = False
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        config: dict[str, Any] = {
            "memory_limit": memory_limit,
            "temp_directory": f"{self.file}.tmp",
        }
        if self._threads:
            config["threads"] = self._threads
        place = self.file if read_only else ":memory:"
        with duckdb.connect(str(place), read_only=read_only, config=config) as connection:
            if not read_only:
                # A build that fails begins again, so that a log of its writes, synced some fifty
                # times, is of no use.
                options = f"RECOVERY_MODE 'no_wal_writes', STORAGE_VERSION '{_STORAGE}'"
                connection.execute(f"ATTACH {literal(self.file)} AS built ({options}); USE built")
            connection.execute(_SESSION)
            self.connection = connection
            yield connection

    def _view_lake(self) -> None:
        """Create a view `lake_<table>` over each table that the lake has whole or in parts."""
        for name in (*LAKE_WIDE, *published_tables()):
            if name in IN_PARTS:
                parts = self.lake.parts(name)
                # An update reads the parts that changed through views of its own.
                verifies = not self._is_update
                self.views.of_parts(self.connection, f"lake_{name}", name, parts, verifies=verifies)
                continue
            files = [None] if name in self.hashes[""] else []
            self.views.of_partitions(self.connection, f"lake_{name}", name, files)
        self._check_model()

    def _fill(self) -> list[str]:
        """Create all tables but the manifest; returns the partitions whose rows were read from the
        lake.
        """
        run = self.connection.execute
        changed = sorted(self.partitions)
        self._create("partitions", self.inputs.partition_hashes())
        self._create("parts", self.inputs.part_hashes())
        self._create_whole()
        self._lake_rows_of(changed)
        run(BUILD("numbered"))
        self._arrays = self.file.with_suffix(".begun_arrays")
        (self._arrays / FIRST).mkdir(parents=True)
        # While DuckDB writes tables, this thread sorts the lake's terms; while it inserts postings,
        # the other reads tables.
        self.phases.begin("publish_terms")
        with other_thread(
            self.connection, ("USE built", _SESSION, *self.views.statements)
        ) as start:
            tables = start(self._create_tables)
            files = self._posting_files()
            forms = self._forms_in(
                self.connection, f"{table_sql.TEXT_SQL} ({BUILD('rows_of_chunks')})"
            )
            self.phases.begin("publish_tables")
            tables.result()
            self.phases.step(
                "publish_tables", sum(row_count(self.connection, t) for t in table_sql.PARTITIONED)
            )
            self.phases.begin("publish_postings")
            run(f"SET memory_limit = '{_INSERTING_LIMIT}'")
            give_memory_back()
            dimensions = self.settings.embedding.dimensions
            chunk_rows = start(self._write_chunk_rows, self._arrays, dimensions)
            self._insert_postings(files, self._arrays)
            chunk_rows.result()
        run(f"SET memory_limit = '{self._memory_limit}'")
        with self._registered("added_forms", forms):
            run(BUILD("term_forms"))
        self._first_seen()
        self._readiness(changed)
        return changed

    def _create_whole(self) -> None:
        """Create the tables of the views `lake_<table>`."""
        for name, rows in table_sql.WHOLE_SQL.items():
            order = f" ORDER BY {', '.join(REGISTRY[name].schema.key)}" if name in IN_PARTS else ""
            self._create_from_lake(self.connection, name, f"{rows}{order}")
            self.phases.step("publish_relations", row_count(self.connection, name))

    def _create_tables(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create all tables made from partitions of the lake, and the vectors."""
        for table in table_sql.PARTITIONED:
            self._create_from_lake(connection, table, BUILD(f"rows_of_{table}"))
        connection.execute(BUILD("numbers"))
        connection.execute(BUILD("embedded_texts", chunks="FROM chunks"))
        self._create_vectors(connection)

    def _create_vectors(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute(f"CREATE TABLE embeddings AS {self._embedded('lake_embeddings')}")
        connection.execute(BUILD("refusals"))

    def _write_chunk_rows(
        self, connection: duckdb.DuckDBPyConnection, folder: Path, dimensions: int
    ) -> None:
        """Write the arrays that need no inverted index."""
        write_chunk_rows(connection, folder, dimensions)

    def _posting_files(self) -> PostingFiles:
        """The terms of all chunks, sorted in files beside this one."""
        run = self.connection.execute
        files = PostingFiles(
            self.file.with_suffix(".postings"), row_count(self.connection, "numbered")
        )
        restated = (
            run(f"{BUILD('restated')} ORDER BY chunk_id")
            .to_arrow_table()["chunk_id"]
            .combine_chunks()
        )
        for partition in sorted(self.partitions):
            (table,) = (
                t
                for t in TABLES_OF_TYPE[self.partitions[partition]]
                if TERMS is self.lake.tables[t]
            )
            chunks = run(BUILD("chunks_of_partition"), [partition]).to_arrow_table()
            files.add(self.lake.local(table, partition), chunks, restated)
            self.phases.step("publish_terms", chunks.num_rows)
        chunks = run(BUILD("chunks_with_context_terms")).to_arrow_table()
        for part in self.lake.parts("context_terms"):
            files.add(self.lake.local("context_terms", part), chunks, restated.slice(0, 0))
        files.number()
        return files

    def _insert_postings(self, files: PostingFiles, arrays_folder: Path) -> None:
        """Terms, postings and lengths of all chunks, and the arrays of postings."""
        run = self.connection.execute
        keys = run("SELECT chunk_key FROM numbered ORDER BY chunk_no").fetchnumpy()["chunk_key"]
        batches = files.batches()
        first = next(batches)
        self._store_postings(first, keys, is_first=True)
        self.phases.step("publish_postings", first.num_rows)
        with PostingArrays(arrays_folder / FIRST) as arrays:
            # Batch by batch: of a stream, DuckDB buffers far more than it has written, and does not
            # count that memory.
            for batch in batches:
                arrays.add(batch.column("chunk_no").to_numpy(), frequencies(batch))
                self._store_postings(batch, keys, is_first=False)
                self.phases.step("publish_postings", batch.num_rows)
        self._create("terms", files.terms())
        self._create("chunk_lengths", keyed(files.chunk_lengths(), keys))
        shutil.rmtree(files.folder)

    def _store_postings(self, batch: pa.RecordBatch, keys: np.ndarray, *, is_first: bool) -> None:
        """Store some postings; the first create the table.

        They are stored by chunk: the keys of a term's chunks, of 8 bytes in no order, were two
        thirds of the table.
        """
        order = np.argsort(batch.column("chunk_no").to_numpy(), kind="stable")
        rows = pa.Table.from_batches([keyed(batch.take(pa.array(order)), keys)])
        if is_first:
            self._create("postings", rows)
            return
        with self._registered("new_rows", rows):
            self.connection.execute("INSERT INTO postings FROM new_rows")

    def _create(self, table: str, rows: pa.Table) -> None:
        with self._registered("new_rows", rows):
            self.connection.execute(f"CREATE TABLE {table} AS FROM new_rows")

    @staticmethod
    def _create_from_lake(connection: duckdb.DuckDBPyConnection, table: str, rows: str) -> None:
        """Create a table from its rows in the lake; columns that are seldom read are compressed."""
        if table in table_sql.MADE_HERE:
            column, kind = table_sql.MADE_HERE[table].split()
            rows = f"SELECT *, NULL::{kind} AS {column} FROM ({rows})"
        compressed = table_sql.COMPRESSED_COLUMNS.get(table, ())
        columns = ", ".join(
            f'"{name}" {kind}' + (" USING COMPRESSION zstd" if name in compressed else "")
            for name, kind, *_ in connection.execute(f"DESCRIBE {rows}").fetchall()
        )
        if table in table_sql.GENERATED:
            columns += f", {table_sql.GENERATED[table]}"
        connection.execute(f"CREATE TABLE {table} ({columns})")
        connection.execute(f"INSERT INTO {table} {rows}")

    def _lake_rows_of(self, changed: Sequence[str]) -> None:
        """The views `new_<table>` over the files of these partitions."""
        for source_type, tables in TABLES_OF_TYPE.items():
            partitions = [p for p in changed if self.partitions[p] == source_type]
            for name in tables:
                self.views.of_partitions(self.connection, f"new_{name}", name, partitions)

    @contextlib.contextmanager
    def _registered(self, name: str, table: pa.Table | pa.RecordBatchReader) -> Iterator[None]:
        """Register a table under a name for some statements."""
        self.connection.register(name, table)
        yield
        self.connection.unregister(name)

    def _first_seen(self) -> None:
        """Say of each row of `quarantine` since when versions hold it."""
        if self.previous:
            with self._registered("seen_before", self._of_previous(BUILD("first_seen_before"))):
                self.connection.execute(BUILD("first_seen"))
        self.connection.execute(
            "UPDATE quarantine SET first_seen = ? WHERE first_seen IS NULL", [self.now]
        )

    def _of_previous(self, statement: str, *values: object) -> pa.Table:
        """Times that only the previous version knows, which is the one in `file` or a later one."""
        with duckdb.connect(str(self.previous), read_only=True) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return connection.execute(statement, values).to_arrow_table()

    def _readiness(self, changed: Sequence[str]) -> None:
        """Create the table `readiness`; rows that the lake has stored keep their times."""
        self._stored_readiness()
        rows = BUILD("readiness", before=BUILD("stored_readiness"), scope="true")
        with self._registered("stage_times", self._stage_times(changed)):
            self.connection.execute(f"CREATE TABLE readiness AS {rows}", {"now": self.now})

    def _stored_readiness(self) -> None:
        """Create the view `lake_readiness` of the stored rows, for when no previous version can be
        used.
        """
        stored = self.lake.footer("readiness") is not None
        self.views.of_partitions(
            self.connection, "lake_readiness", "readiness", [None] if stored else []
        )

    def _stage_times(self, changed: Sequence[str]) -> pa.Table:
        """The columns of `_STAGES` for each partition."""
        times = self.inputs.sightings.times() if self.inputs.sightings else {}
        embedded = self.lake.written_at("embeddings")
        rows = []
        for partition in changed:
            source_type = self.partitions[partition]
            parsed = self.lake.written_at(TABLES_OF_TYPE[source_type][0], partition)
            chunked = self.lake.written_at(CHUNKS_OF[source_type], partition)
            of_stages = (partition, times.get(partition) or parsed, parsed, chunked, embedded)
            rows.append(dict(zip(_STAGES.names, of_stages, strict=True)))
        return pa.Table.from_pylist(rows, _STAGES)

    def _forms_in(self, connection: duckdb.DuckDBPyConnection, statement: str) -> pa.Table:
        """The terms of the words (`word_forms`) in the texts that a statement selects, some texts
        at a time.
        """
        settings = self.settings.terms
        forms = [word_forms(pl.Series("text", [], dtype=pl.String), settings)]
        texts = connection.execute(statement).to_arrow_reader(_TEXTS_AT_ONCE)
        columns = (pl.Series("text", batch.column("text")) for batch in texts)
        forms += ordered_map(lambda column: word_forms(column, settings), columns, _MOST_AT_ONCE)
        return pl.concat(forms).group_by("form", "term").agg(pl.col("texts").sum()).to_arrow()

    def _check_model(self) -> None:
        """ModelMismatchError if the vectors of the lake are of another model than the settings
        name.
        """
        configured = (self.settings.embedding.model_id, self.settings.embedding.dimensions)
        if others := [
            row for row in self.connection.execute(BUILD("models")).fetchall() if row != configured
        ]:
            raise ModelMismatchError(
                f"nothing was published: the table embeddings of the lake holds vectors of {others[0][0]} with "
                f"{others[0][1]} dimensions, the settings name {configured[0]} with {configured[1]}: run `weft build`"
            )

    def _embedded(self, vectors: str) -> str:
        """The statement that selects the vectors of `embedded_texts` from a view."""
        return BUILD(
            "embedded", dimensions=str(self.settings.embedding.dimensions), vectors=vectors
        )

    def _index_vectors(self) -> dict[str, str]:
        """Make the HNSW index unless the vectors are too many; returns its entries of the manifest."""
        if not 0 < row_count(self.connection, "embeddings") <= self.settings.index.ann_max_vectors:
            return {"vector_search": "exact"}
        seconds = vector_index.create_hnsw(self.connection)
        return {"vector_search": vector_index.HNSW, "vector_index_seconds": f"{seconds:.3f}"}

    def _manifest(self, of_vectors: Mapping[str, str]) -> dict[str, int]:
        tables = self.connection.execute(BUILD("tables")).fetchall()
        rows = {
            name: row_count(self.connection, name) for (name,) in sorted(tables)
        } | self._further_rows()
        self.facts = {
            **self.inputs.facts,
            "layout_version": LAYOUT,
            "model": self.settings.embedding.model_id,
            "dimensions": str(self.settings.embedding.dimensions),
            **of_vectors,
            "duckdb": duckdb.__version__,
            "rows": json.dumps(rows, sort_keys=True),
            "published_at": self.now.isoformat(timespec="seconds"),
            "postings_since_rebuild": str(self._postings_since_rebuild()),
            **self._further_facts(),
        }
        self.connection.execute("CREATE OR REPLACE TABLE manifest (key VARCHAR, value VARCHAR)")
        self.connection.executemany(
            "INSERT INTO manifest VALUES (?, ?)", sorted(self.facts.items())
        )
        return rows

    def _further_rows(self) -> dict[str, int]:
        return {}  # of views in place of tables

    def _further_facts(self) -> dict[str, str]:
        return {}  # for the manifest

    def _postings_since_rebuild(self) -> int:
        """Postings added or removed since the last full rebuild."""
        return 0

    def _check(self) -> None:
        """CheckFailedError for the first rule that the new file breaks."""
        for rule in RULES_SQL:
            if not (broken := (self.connection.execute(RULES_SQL(rule)).fetchone() or (0,))[0]):
                continue
            if twins := self.connection.execute(BUILD("twin_keys")).fetchone():
                raise CheckFailedError(
                    f"nothing was published: chunks {twins[0]} and {twins[1]} have the same number in the inverted index, "
                    "the first 16 digits of their ids; change a word of one of the two texts, or exclude its file"
                )
            raise CheckFailedError(
                f"nothing was published: {broken} rows break the rule that {rule}"
            )

    def _write_arrays(self) -> None:
        write_arrays(self.connection, folder_of(self.file), self.facts, self._arrays)
