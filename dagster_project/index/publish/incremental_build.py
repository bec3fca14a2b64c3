"""The incremental build of a published file on an earlier version, in which it replaces the rows
that differ.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from assets.partitions import IN_PARTS
from dagster_project.index.files.array_update import update_arrays
from dagster_project.index.files.arrays import fits, folder_of
from dagster_project.index.publish import table_sql, vector_index
from dagster_project.index.publish.full_build import IndexBuild
from dagster_project.index.publish.table_sql import BUILD
from dagster_project.index.publish.version_inputs import LostTextError, VersionInputs
from dagster_project.system.disk_space import is_of_full_disk
from dagster_project.system.long_work import MANY_BYTES
from dagster_project.system.sql_files import identifiers

_KEYS = {
    "memberships": "message_id",
    "threads": "thread_id",
    "thread_tree": "message_id",
    "people": "addr",
    "patch_series": "message_id",
    "corpus_measures": "list_id",
    "inferred_quotes": "message_id",
    "chunk_context": "chunk_id",
    "links": "from_id",
    **{name: t.key[0] for name, t in table_sql.ADDED.items()},
    "messages": "message_id",
    "attachments": "message_id",
    "blocks": "message_id",
    "trailers": "message_id",
    "documents": "doc_id",
    "nodes": "doc_id",
    "conversations": "conversation_id",
    "conversation_windows": "doc_id",
    "exclusions": "doc_id",
    "quarantine": "place",
    "chunks": "chunk_id",
    "readiness": "doc_id",
}
"""The column, without nulls, by which rows are compared: all rows of a table with the same value
are replaced together.
"""
_TEXTS = BUILD("texts", texts_of=table_sql.TEXT_SQL)
"""The statement that selects the words of chunks that differ."""
_CHANGED_PARTS_OF = "SELECT part FROM changed_parts WHERE table_name = ?"
DAMAGES = (OSError, EOFError, ValueError, LookupError, pa.ArrowException)
"""Exceptions of a read of damaged arrays."""


class IndexUpdate(IndexBuild):
    """Updates `file`, which is a copy of `previous`, the current version.

    The cost depends on the changes: of unchanged rows, only the narrow columns of numbers and
    statistics are updated.
    """

    came: np.ndarray
    """The numbers of the chunks that came or whose terms or vectors changed, once the arrays are
    updated.
    """
    _own_texts: Mapping[str, str] = {
        "messages": "concat_ws(chr(10), subject, body)",
        "attachments": "concat_ws(chr(10), filename, text)",
        "documents": "concat_ws(chr(10), path, text)",
        "conversation_windows": "markdown",
    }
    """The column of each table with the texts of people; all other tables come from these."""
    _is_update = True
    _memory_limit = "3GB"
    """More than in a full rebuild: scattered deletions cannot be spilled."""
    _change_tables: tuple[str, ...] = (
        "numbers",
        "recounted",
        "came_to_terms",
        "gone_from_terms",
        "added",
        "changed_facts",
        "changed_texts",
    )

    def __init__(self, inputs: VersionInputs, file: Path, previous: Path):
        super().__init__(inputs, file, previous)
        self.arrays = folder_of(previous)
        self._threads = 0 if file.stat().st_size > MANY_BYTES else 1

    def _fill(self) -> list[str]:
        run = self.connection.execute
        run("SET checkpoint_threshold = '1TB'")  # once, at the end
        run(vector_index.DROP)
        self.before = dict(run("FROM manifest").fetchall())
        with self._registered("parts_now", self.inputs.part_hashes()):
            run(BUILD("changed_parts"))
        scopes = {name: self._compare_whole(name) for name in table_sql.WHOLE_SQL}
        with self._registered("partitions_now", self.inputs.partition_hashes()):
            run(BUILD("changed"))
        changed = [r[0] for r in run("SELECT partition FROM changed ORDER BY partition").fetchall()]
        for name, scope in scopes.items():
            self._replace(name, scope)
        self.phases.begin("publish_tables")
        self._lake_rows_of(changed)
        for name in table_sql.PARTITIONED:
            self._compare(name, BUILD(f"rows_of_{name}"), BUILD("in_touched"))
        if run(f"{self._lost_text()} LIMIT 1").fetchone():
            raise LostTextError
        run(f"CREATE TEMP TABLE texts_before AS {_TEXTS}")
        for name in table_sql.PARTITIONED:
            self._replace(name, BUILD("in_touched"))
        self._first_seen()
        run(BUILD("numbers"))
        self._readiness(changed)
        self.phases.begin("publish_postings")
        run(BUILD("recounted"))
        run(BUILD("added"))
        self._remove_postings()
        run(BUILD("changed_terms"))
        self._add_postings()
        added, removed = (
            self._forms_in(self.connection, texts) for texts in (_TEXTS, "FROM texts_before")
        )
        with self._registered("added_forms", added), self._registered("removed_forms", removed):
            run(BUILD("changed_forms"))
        self.phases.begin("publish_vectors")
        self._vectors()
        run(BUILD("changed_documents"))
        return changed

    def _lost_text(self) -> str:
        """The statement that selects a row for each text that the earlier version has and the lake
        has lost.
        """
        return " UNION ALL ".join(
            BUILD("lost_text", table=table, key=_KEYS[table], text=text)
            for table, text in self._own_texts.items()
        )

    def _compare_whole(self, table: str) -> str:
        """Make `differing_<table>` of the changes of a table over the whole lake; returns the rows
        that can differ.
        """
        rows = table_sql.WHOLE_SQL[table]
        changed = {
            part
            for name in table_sql.MADE_OF[table]
            for (part,) in self.connection.execute(_CHANGED_PARTS_OF, [name]).fetchall()
        }
        if table in IN_PARTS:
            stored = [part for part in self.lake.parts(table) if part in changed]
            self.views.of_parts(self.connection, f"new_{table}", table, stored)
            rows = rows.replace(f"lake_{table}", f"new_{table}")
            scope = BUILD("in_changed_parts", table=table)
        elif changed:
            scope = "true"
        else:
            rows, scope = f"SELECT * FROM ({rows}) WHERE false", "false"
        self._compare(table, rows, scope)
        return scope

    def _compare(self, table: str, rows: str, scope: str) -> None:
        """Make `differing_<table>`: the keys of the rows that differ from the lake now."""
        self.connection.execute(f"CREATE TEMP VIEW rows_of_{table} AS {rows}")
        self._run("differing", table, scope)

    def _replace(self, table: str, scope: str) -> None:
        """Replace the rows that differ; of most tables none does."""
        if self.connection.execute(f"FROM differing_{table} LIMIT 1").fetchone():
            self._run("replaced", table, scope)

    def _run(self, statement: str, table: str, scope: str) -> None:
        own = table_sql.own_columns(table)
        columns = identifiers(name for name in self._columns_of_tables[table] if name not in own)
        self.connection.execute(
            BUILD(statement, table=table, key=_KEYS[table], columns=columns, scope=scope)
        )

    @cached_property
    def _columns_of_tables(self) -> dict[str, list[str]]:
        """The columns of each table of the file: asking for those of one lists all."""
        return dict(self.connection.execute(BUILD("columns_of_tables")).fetchall())

    def _readiness(self, changed: Sequence[str]) -> None:
        """Rows of the previous version keep their times."""
        run = self.connection.execute
        self._stored_readiness()
        run(BUILD("readiness_scope"))
        partitions = [partition for (partition,) in run("FROM scope").fetchall()]
        rows_before = self._of_previous(BUILD("published_readiness"), partitions)
        scope, before = (
            BUILD("in_scope"),
            f"{BUILD('stored_readiness')} UNION ALL FROM published_before",
        )
        with (
            self._registered("stage_times", self._stage_times(changed)),
            self._registered("published_before", rows_before),
        ):
            rows = BUILD("readiness", before=before, scope=scope)
            run(f"CREATE TEMP TABLE rows_of_readiness AS {rows}", {"now": self.now})
        self._run("differing", "readiness", scope)
        self._replace("readiness", scope)

    def _remove_postings(self) -> None:
        """Remove the postings of the chunks that go or are counted again; `gone_postings` has their
        terms.
        """
        self.connection.execute(BUILD("gone_postings"))

    def _add_postings(self) -> None:
        """Add the postings of the chunks that came or are counted again."""
        self.connection.execute(BUILD("added_postings"))

    def _vectors(self) -> None:
        run = self.connection.execute
        self._renumber_vectors()
        run(BUILD("embedded_texts", chunks=BUILD("chunks_embedded_anew")))
        # Reads only the hashes of the texts of most parts; the vectors, too, of the few with new
        # texts.
        parts = [part for (part,) in run(BUILD("parts_with_texts")).fetchall()]
        self.views.of_parts(self.connection, "needed_embeddings", "embeddings", parts)
        self._add_vectors()

    def _renumber_vectors(self) -> None:
        """Give the vectors that stay the numbers that their chunks have now."""
        self.connection.execute(BUILD("renumbered_vectors"))

    def _add_vectors(self) -> None:
        self.connection.execute(f"INSERT INTO embeddings {self._embedded('needed_embeddings')}")

    def _postings_since_rebuild(self) -> int:
        (moved,) = self.connection.execute(BUILD("moved_postings")).fetchone() or (0,)
        return int(self.before["postings_since_rebuild"]) + int(moved)

    def _write_arrays(self) -> None:
        """Update the arrays of the earlier version if they exist and are valid, else write all of
        them.
        """
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
        super()._write_arrays()
