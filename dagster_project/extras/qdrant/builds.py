"""The builds of a published file whose vectors and postings go to a collection: the file has neither, and refers to texts.

The vectors that are to be sent are written to a folder aside, which the publish removes.
"""

from collections.abc import Mapping
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from dagster_project.index.files.arrays import fits
from dagster_project.index.files.hit_rows import write_hit_rows
from dagster_project.index.files.posting_arrays import VECTORS_IN, vectors_of, write_vectors
from dagster_project.index.files.segments import postings_of
from dagster_project.index.publish import change_sql, table_sql
from dagster_project.index.publish.full_build import IndexBuild
from dagster_project.index.publish.incremental_build import DAMAGES, IndexUpdate
from dagster_project.index.publish.version_inputs import UnfitBaseError
from dagster_project.lake.lake_texts import PLACE, place_from
from transforms.errors import CheckFailedError
from transforms.schemas.chunks import UNEMBEDDED
from transforms.settings.models import EmbeddingSettings

_ELSEWHERE = "error('{what} of this version are in Qdrant, which {asked}')"
_VECTOR = _ELSEWHERE.format(
    what="vectors",
    asked="`weft search` and `weft similar` ask; `weft sql --lake` reads those of texts in embeddings",
)
_POSTING = _ELSEWHERE.format(
    what="postings", asked="`weft search` asks; `weft sql --lake` reads the words of chunks in message_terms"
)

_VIEWS: Mapping[str, str] = {
    "embeddings": f"""
SELECT chunk_no, chunk_id, '{{model}}' AS model, {_VECTOR}::FLOAT[{{dimensions}}] AS vector FROM chunks
WHERE checksum <> '{UNEMBEDDED}' AND chunk_no NOT IN (SELECT chunk_no FROM embedding_refusals)
""",
    "postings": f"""
SELECT {_POSTING}::INTEGER AS term_id, {_POSTING}::UBIGINT AS chunk_key,
  {", ".join(f"{_POSTING}::USMALLINT AS {tf}" for tf in table_sql.TFS.split(", "))}
WHERE {_POSTING} IS NULL
""",
}
VIEWS = tuple(_VIEWS)
COUNTED = {
    "embeddings": "SELECT count(*) FROM embeddings",
    "postings": "SELECT coalesce(sum(df), 0)::BIGINT FROM terms",
}
"""How many rows there would be."""

_WITHOUT_VECTOR = f"""
SELECT count(*) FROM embedded_texts JOIN chunks c USING (chunk_no)
WHERE c.checksum <> '{UNEMBEDDED}' AND chunk_no NOT IN (SELECT chunk_no FROM vectors)
  AND chunk_no NOT IN (SELECT chunk_no FROM embedding_refusals)
"""


def create_elsewhere(connection: duckdb.DuckDBPyConnection, embedding: EmbeddingSettings) -> None:
    """Create the views; CheckFailedError if one of `embedded_texts` has neither a vector in `vectors` nor a reason."""
    (count,) = connection.execute(_WITHOUT_VECTOR).fetchone() or (0,)
    if count:
        raise CheckFailedError(
            f"nothing was published: {count} rows break the rule that a chunk has one vector, or a reason why it has none"
        )
    model = embedding.model_id.replace("'", "''")
    for name, rows in _VIEWS.items():
        statement = rows.format(model=model, dimensions=embedding.dimensions)
        connection.execute(f"CREATE OR REPLACE VIEW {name} AS {statement}")


LAYOUT = (PLACE, VECTORS_IN)
"""By these the layout of such a file differs from that of others."""
_GONE_TERMS = "CREATE TEMP TABLE gone_postings AS SELECT term_id FROM gone_terms JOIN terms USING (term)"


def unsent_of(file: Path) -> Path:
    """The folder with the vectors that a publish of this file is to send: `chunks.npy` has their numbers."""
    return file.with_suffix(".unsent")


class PointBuild(IndexBuild):
    """The full rebuild: all vectors are to be sent."""

    texts_stay = True
    further_views = VIEWS

    def _create_vectors(self, connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute(f"CREATE TEMP TABLE vectors AS {self._embedded('lake_embeddings')}")
        connection.execute(table_sql.REFUSALS)
        create_elsewhere(connection, self.settings.embedding)

    def _store_postings(self, batch: pa.RecordBatch, keys: np.ndarray, *, is_first: bool) -> None:
        """Nothing: the segments beside the file have them."""

    def _write_chunk_rows(self, connection: duckdb.DuckDBPyConnection, folder: Path, dimensions: int) -> None:
        (chunks,) = connection.execute("SELECT count(*) FROM chunks").fetchone() or (0,)
        write_hit_rows(connection, folder)
        unsent = unsent_of(self.file)
        write_vectors(connection, unsent, chunks, dimensions, "vectors")
        np.save(unsent / "chunks.npy", np.arange(chunks))

    def _index_vectors(self) -> dict[str, str]:
        return {"vector_search": "exact"}

    def _further_rows(self) -> dict[str, int]:
        rows = {}
        for name, statement in COUNTED.items():
            (rows[name],) = self.connection.execute(statement).fetchone() or (0,)
        return rows

    def _further_facts(self) -> dict[str, str]:
        return {PLACE: place_from(self.file, self.lake.base), VECTORS_IN: self.settings.index.target}


class PointUpdate(PointBuild, IndexUpdate):
    """The build on the current version: the vectors of chunks that came or changed are to be sent."""

    lost_text = change_sql.LOST_WORDS
    _change_tables = (*IndexUpdate._change_tables, "vectors")

    def _remove_postings(self) -> None:
        with self._registered("gone_terms", self._gone_terms()):
            self.connection.execute(_GONE_TERMS)

    def _gone_terms(self) -> pa.Table:
        """The terms of the chunks that go or are counted again, a row for each of them, as the arrays before have them."""
        keys = self.connection.execute("SELECT chunk_key FROM uncounted ORDER BY chunk_key").fetchnumpy()
        if not fits(self.arrays, self.before):
            raise UnfitBaseError(f"the arrays of version {self.before['version']} are missing")
        with duckdb.connect(str(self.previous), read_only=True) as connection:
            before = connection.execute("SELECT chunk_key FROM chunks ORDER BY chunk_no").fetchnumpy()
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
        self.connection.execute(f"CREATE TEMP TABLE vectors AS {self._embedded('needed_embeddings')}")
        create_elsewhere(self.connection, self.settings.embedding)

    def _write_arrays(self) -> None:
        super()._write_arrays()
        unsent, dimensions = unsent_of(self.file), int(self.facts["dimensions"])
        unsent.mkdir()
        np.save(unsent / "chunks.npy", self.came)
        vectors = vectors_of(self.connection, "SELECT chunk_no, vector FROM vectors", self.came, dimensions)
        np.save(unsent / "vectors.npy", vectors)

    def _write_all_arrays(self) -> None:
        raise UnfitBaseError(self._unusable)
