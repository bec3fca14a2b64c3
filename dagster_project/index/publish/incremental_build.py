"""The incremental build of a published file on an earlier version, in which it replaces the rows that differ."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from assets.partitions import IN_PARTS
from dagster_project.index.files.array_update import update_arrays
from dagster_project.index.files.arrays import fits, folder_of
from dagster_project.index.publish import change_sql, readiness_sql, table_sql, vector_index
from dagster_project.index.publish.change_sql import (
    DIFFERING,
    INSERTED,
    KEYS,
    OF_CHANGED_PARTS,
    OF_TOUCHED,
    REMOVED,
)
from dagster_project.index.publish.full_build import IndexBuild
from dagster_project.index.publish.readiness_sql import IN_SCOPE
from dagster_project.index.publish.version_inputs import LostTextError, VersionInputs
from dagster_project.system.disk_space import is_of_full_disk

_CHANGED_PARTS_OF = "SELECT part FROM changed_parts WHERE table_name = ?"
DAMAGES = (OSError, EOFError, ValueError, LookupError, pa.ArrowException)
"""What reading damaged arrays raises."""


class IndexUpdate(IndexBuild):
    """Updates `file`, which is a copy of `previous`, the current version.

    The cost depends on what changed: of unchanged rows, only the narrow columns of numbers and statistics are updated.
    """

    came: np.ndarray
    """The numbers of the chunks that came or whose terms or vectors changed, once the arrays are updated."""
    lost_text = change_sql.LOST_TEXT
    """Selects a row for each text that the earlier version has and the lake has lost."""
    _is_update = True
    _threads = 0
    _memory_limit = "3GB"
    """More than in a full rebuild: scattered deletions cannot be spilled."""
    _change_tables: tuple[str, ...] = (
        "numbers", "recounted", "came_to_terms", "gone_from_terms", "added", "changed_facts", "changed_texts",
    )  # fmt: skip

    def __init__(self, inputs: VersionInputs, file: Path, previous: Path):
        super().__init__(inputs, file, previous)
        self.arrays = folder_of(previous)

    def _fill(self) -> list[str]:
        run = self.connection.execute
        run("SET checkpoint_threshold = '1TB'")  # once, at the end
        run(vector_index.DROP)
        self.before = dict(run("FROM manifest").fetchall())
        with self._registered("parts_now", self.inputs.part_hashes()):
            run(change_sql.CHANGED_PARTS)
            run("CREATE OR REPLACE TABLE parts AS FROM parts_now")
        scopes = {name: self._compare_whole(name) for name in table_sql.WHOLE}
        changed = self._changed()
        for name, scope in scopes.items():
            self._replace(name, scope)
        self.phases.begin("publish_tables")
        self._lake_rows_of(changed)
        for name, rows in table_sql.PARTITIONED.items():
            self._compare(name, rows, OF_TOUCHED)
        if run(f"{self.lost_text} LIMIT 1").fetchone():
            raise LostTextError
        run(change_sql.TEXTS_BEFORE)
        for name in table_sql.PARTITIONED:
            self._replace(name, OF_TOUCHED)
        self._first_seen()
        run(table_sql.NUMBERS)
        run(table_sql.NUMBERED)
        self._readiness(changed)
        self.phases.begin("publish_postings")
        self._inverted_index()
        self._term_forms()
        self.phases.begin("publish_vectors")
        self._vectors()
        for statement in change_sql.CHANGED_DOCUMENTS:
            run(statement)
        return changed

    def _compare_whole(self, table: str) -> str:
        """Make `differing_<table>` of what changed of a table over the whole lake; which of its rows can differ."""
        rows = table_sql.WHOLE[table]
        changed = {
            part
            for name in table_sql.MADE_OF[table]
            for (part,) in self.connection.execute(_CHANGED_PARTS_OF, [name]).fetchall()
        }
        if table in IN_PARTS:
            stored = [part for part in self.lake.parts(table) if part in changed]
            self.views.of_parts(self.connection, f"new_{table}", table, stored)
            rows, scope = rows.replace(f"lake_{table}", f"new_{table}"), OF_CHANGED_PARTS.format(table=table)
        elif changed:
            scope = "true"
        else:
            rows, scope = f"SELECT * FROM ({rows}) WHERE false", "false"
        self._compare(table, rows, scope)
        return scope

    def _compare(self, table: str, rows: str, scope: str) -> None:
        """Make `differing_<table>`: the keys of the rows that are not what the lake has now."""
        self.connection.execute(f"CREATE TEMP VIEW rows_of_{table} AS {rows}")
        self._run(DIFFERING, table, scope)

    def _replace(self, table: str, scope: str) -> None:
        """Replace the rows that differ; of most tables none does."""
        if self.connection.execute(f"FROM differing_{table} LIMIT 1").fetchone():
            self._run(REMOVED, table, scope)
            self._run(INSERTED, table, scope)

    def _run(self, statement: str, table: str, scope: str) -> None:
        columns = ", ".join(self._columns(table))
        self.connection.execute(statement.format(table=table, key=KEYS[table], columns=columns, scope=scope))

    def _columns(self, table: str) -> list[str]:
        """The columns of a table that come from the lake."""
        made_here = table_sql.MADE_HERE.get(table, "").split()[:1]
        return [f'"{name}"' for name in self._columns_of_tables[table] if name not in made_here]

    @cached_property
    def _columns_of_tables(self) -> dict[str, list[str]]:
        """The columns of each table of the file: asking for those of one lists all."""
        rows = self.connection.execute(
            "SELECT table_name, list(column_name ORDER BY column_index) FROM duckdb_columns() "
            "WHERE database_name = current_database() GROUP BY table_name"
        ).fetchall()
        return dict(rows)

    def _changed(self) -> list[str]:
        """The partitions whose rows must be compared with the lake."""
        run = self.connection.execute
        with self._registered("partitions_now", self.inputs.partition_hashes()):
            run(change_sql.CHANGED)
            run(change_sql.TOUCHED)
            run("DELETE FROM partitions")
            run("INSERT INTO partitions FROM partitions_now")
        return [r[0] for r in run("SELECT partition FROM changed ORDER BY partition").fetchall()]

    def _readiness(self, changed: Sequence[str]) -> None:
        """Rows of the previous version keep their times."""
        run = self.connection.execute
        self._stored_readiness()
        run(readiness_sql.SCOPE)
        partitions = [partition for (partition,) in run("FROM scope").fetchall()]
        rows_before = self._of_previous(readiness_sql.BEFORE_PUBLISHED, partitions)
        before = [readiness_sql.BEFORE_STORED, "FROM published_before"]
        with (
            self._registered("stage_times", self._stage_times(changed)),
            self._registered("published_before", rows_before),
        ):
            run(
                f"CREATE TEMP TABLE rows_of_readiness AS {readiness_sql.rows(before, IN_SCOPE)}",
                {"now": self.now},
            )
        self._run(DIFFERING, "readiness", IN_SCOPE)
        self._replace("readiness", IN_SCOPE)

    def _inverted_index(self) -> None:
        run = self.connection.execute
        run(change_sql.REFUSED_BEFORE)
        run(table_sql.REFUSALS)
        run(change_sql.RECOUNTED)
        run(change_sql.COUNTED)
        run(change_sql.UNCOUNTED)
        for statement in table_sql.COUNTED:
            run(statement)
        self._remove_postings()
        for statement in change_sql.INVERTED:
            run(statement)
        self._add_postings()

    def _remove_postings(self) -> None:
        """Remove the postings of the chunks that go or are counted again; `gone_postings` has their terms."""
        for statement in change_sql.GONE_POSTINGS:
            self.connection.execute(statement)

    def _add_postings(self) -> None:
        """Add the postings of the chunks that came or are counted again."""
        self.connection.execute(change_sql.ADDED_POSTINGS)

    def _term_forms(self) -> None:
        added = self._forms_in(self.connection, change_sql.TEXTS_NOW)
        removed = self._forms_in(self.connection, "FROM texts_before")
        with self._registered("added_forms", added), self._registered("removed_forms", removed):
            for statement in change_sql.FORMS:
                self.connection.execute(statement)

    def _vectors(self) -> None:
        run = self.connection.execute
        self._renumber_vectors()
        run(table_sql.EMBEDDED_TEXTS.format(chunks=change_sql.CHUNKS_REEMBEDDED))
        # Of most parts only the hashes of the texts are read; of the few with new texts, the vectors too.
        parts = [part for (part,) in run(change_sql.PARTS_WITH_TEXTS).fetchall()]
        self.views.of_parts(self.connection, "needed_embeddings", "embeddings", parts)
        self._add_vectors()

    def _renumber_vectors(self) -> None:
        """Give the vectors that stay the numbers that their chunks have now."""
        for statement in change_sql.RENUMBERED:
            self.connection.execute(statement)

    def _add_vectors(self) -> None:
        """Add the vectors of `embedded_texts`."""
        self.connection.execute(f"INSERT INTO embeddings {self._embedded('needed_embeddings')}")

    def _postings_since_rebuild(self) -> int:
        (moved,) = self.connection.execute(change_sql.MOVED_POSTINGS).fetchone() or (0,)
        return int(self.before["postings_since_rebuild"]) + int(moved)

    def _write_arrays(self) -> None:
        """Update the arrays of the earlier version if they exist and are valid, else write all of them."""
        version = self.before["version"]
        try:
            if fits(self.arrays, self.before):
                folder = folder_of(self.file)
                self.came = update_arrays(self.connection, folder, self.facts, self.arrays)
                return
            self._unusable = f"the arrays of version {version} are missing, or of another one"
        except DAMAGES as error:
            if is_of_full_disk(error):
                raise
            self._unusable = f"the arrays of version {version} are damaged ({error})"
        self._write_all_arrays()

    def _write_all_arrays(self) -> None:
        """Write the arrays from the file."""
        super()._write_arrays()
