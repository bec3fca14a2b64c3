"""The builds of a published file whose vectors and postings go to a collection: the file has
neither, and refers to texts.

The vectors that are to be sent are written to a folder aside, which the publish removes.
"""

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from dagster_project.index.files.arrays import fits
from dagster_project.index.files.hit_rows import write_hit_rows
from dagster_project.index.files.posting_arrays import (
    FREQUENCIES,
    VECTORS_IN,
    vectors_at,
    write_vectors,
)
from dagster_project.index.files.segments import postings_of
from dagster_project.index.publish import table_sql
from dagster_project.index.publish.full_build import IndexBuild
from dagster_project.index.publish.incremental_build import DAMAGES, IndexUpdate
from dagster_project.index.publish.version_inputs import UnfitBaseError
from dagster_project.lake.referenced_texts import place_from
from dagster_project.lake.text_references import PLACE
from dagster_project.system.sql_files import SqlFile
from transforms.errors import CheckFailedError
from transforms.schemas.chunks import UNEMBEDDED
from transforms.settings.models import EmbeddingSettings

_VIEWS = ("embeddings", "postings")
_SQL = SqlFile(__file__, "builds.sql")


def create_elsewhere(connection: duckdb.DuckDBPyConnection, embedding: EmbeddingSettings) -> None:
    """Create the views; CheckFailedError if one of `embedded_texts` has neither a vector in
    `vectors` nor a reason.
    """
    (count,) = connection.execute(_SQL("without_vector", unembedded=UNEMBEDDED)).fetchone() or (0,)
    if count:
        raise CheckFailedError(
            f"nothing was published: {count} rows break the rule that a chunk has one vector, or a reason why it has none"
        )
    elsewhere = _SQL("elsewhere")
    values = {
        "model": embedding.model_id,
        "dimensions": str(embedding.dimensions),
        "unembedded": UNEMBEDDED,
        "frequencies": ", ".join(
            f"{elsewhere}::USMALLINT AS {tf}" for tf in FREQUENCIES.split(", ")
        ),
    }
    for name in _VIEWS:
        connection.execute(_SQL(name, **values))


COLLECTION_LAYOUT = (PLACE, VECTORS_IN)
"""By these the layout of such a file differs from that of others."""
_GONE_TERMS = (
    "CREATE TEMP TABLE gone_postings AS SELECT term_id FROM gone_terms JOIN terms USING (term)"
)


def unsent_of(file: Path) -> Path:
    """The folder with the vectors that a publish of this file is to send: `chunks.npy` has their
    numbers.
    """
    return file.with_suffix(".unsent")


class PointBuild(IndexBuild):
    """The full rebuild: all vectors are to be sent."""

    texts_stay = True
    further_views = tuple(_VIEWS)

    def _create_vectors(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute(f"CREATE TEMP TABLE vectors AS {self._embedded('lake_embeddings')}")
        connection.execute(table_sql.BUILD("refusals"))
        create_elsewhere(connection, self.settings.embedding)

    def _store_postings(self, batch: pa.RecordBatch, keys: np.ndarray, *, is_first: bool) -> None:
        """Nothing: the segments beside the file have them."""

    def _write_chunk_rows(
        self, connection: duckdb.DuckDBPyConnection, folder: Path, dimensions: int
    ) -> None:
        (chunks,) = connection.execute("SELECT count(*) FROM chunks").fetchone() or (0,)
        write_hit_rows(connection, folder)
        unsent = unsent_of(self.file)
        write_vectors(connection, unsent, chunks, dimensions, "vectors")
        np.save(unsent / "chunks.npy", np.arange(chunks))

    def _index_vectors(self) -> dict[str, str]:
        return {"vector_search": "exact"}

    def _further_rows(self) -> dict[str, int]:
        counted = {
            name: self.connection.execute(_SQL(f"count of {name}")).fetchone() for name in _VIEWS
        }
        return {name: (row or (0,))[0] for name, row in counted.items()}

    def _further_facts(self) -> dict[str, str]:
        return {PLACE: place_from(self.file, self.lake.base), VECTORS_IN: "qdrant"}


class PointUpdate(PointBuild, IndexUpdate):
    """The build on the current version: the vectors of chunks that came or changed are to be sent."""

    _own_texts = {
        "messages": "subject",
        "attachments": "filename",
        "documents": "concat_ws(chr(10), path, frontmatter)",
        "nodes": "title",
    }
    """Texts of people in a file that refers to its texts, beside the words of chunks."""
    _change_tables = (*IndexUpdate._change_tables, "vectors")

    def _lost_text(self) -> str:
        fields = [f"coalesce({field}, '')" for field in table_sql.TEXT_PARTS]
        of_documents = ", ".join(
            f"string_agg({field}, chr(10) ORDER BY chunk_index)" for field in fields
        )
        words = _SQL("lost_words", fields=", ".join(fields), document_fields=of_documents)
        return f"{super()._lost_text()} UNION ALL ({words})"

    def _remove_postings(self) -> None:
        with self._registered("gone_terms", self._gone_terms()):
            self.connection.execute(_GONE_TERMS)

    def _gone_terms(self) -> pa.Table:
        """The terms of the chunks that go or are counted again, a row for each of them, as the
        arrays before have them.
        """
        keys = self.connection.execute(
            "SELECT chunk_key FROM uncounted ORDER BY chunk_key"
        ).fetchnumpy()
        if not fits(self.arrays, self.before):
            raise UnfitBaseError(f"the arrays of version {self.before['version']} are missing")
        with duckdb.connect(str(self.previous), read_only=True) as connection:
            before = connection.execute(
                "SELECT chunk_key FROM chunks ORDER BY chunk_no"
            ).fetchnumpy()
        chunks = np.searchsorted(before["chunk_key"], keys["chunk_key"])
        try:
            return postings_of(self.arrays, chunks).select("term").to_arrow()
        except DAMAGES as error:
            raise UnfitBaseError(
                f"the arrays of version {self.before['version']} are damaged ({error})"
            ) from error

    def _add_postings(self) -> None:
        """Nothing, as in a full rebuild."""

    def _renumber_vectors(self) -> None:
        """Nothing: points are known by the keys of chunks."""

    def _add_vectors(self) -> None:
        self.connection.execute(
            f"CREATE TEMP TABLE vectors AS {self._embedded('needed_embeddings')}"
        )
        create_elsewhere(self.connection, self.settings.embedding)

    def _write_arrays(self) -> None:
        super()._write_arrays()
        unsent, dimensions = unsent_of(self.file), int(self.facts["dimensions"])
        unsent.mkdir()
        np.save(unsent / "chunks.npy", self.came)
        vectors = vectors_at(
            self.connection, "SELECT chunk_no, vector FROM vectors", self.came, dimensions
        )
        np.save(unsent / "vectors.npy", vectors)

    def _write_all_arrays(self) -> None:
        raise UnfitBaseError(self._unusable)
