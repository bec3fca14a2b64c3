"""The words and vectors of a lens: as they are published, but for the texts that the lens shows
otherwise.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from dagster_project.index.files.posting_arrays import FREQUENCIES
from dagster_project.index.files.segments import postings_of
from dagster_project.index.publish.table_sql import BUILD
from dagster_project.system.sql_files import SqlFile
from transforms.embedding.sign_codes import CodedVectors
from transforms.schemas.chunks import UNEMBEDDED
from transforms.settings.models import EmbeddingSettings

Embed = Callable[[Sequence[str]], np.ndarray]
"""Gives the vectors of texts as they are stored."""
_SQL = SqlFile(__file__, "words.sql", frequencies=FREQUENCIES, unembedded=UNEMBEDDED)
_BATCH = 5_000


def count_words(connection: duckdb.DuckDBPyConnection, folder: Path | None) -> None:
    """Create the inverted index: of `counted` chunks from their terms, of the others as in `src` or
    in `folder`.
    """
    run = connection.execute
    if folder is None:
        run(_SQL("postings_in_file"))
    else:
        rows = run(_SQL("unchanged_numbers")).fetchnumpy()["chunk_no"]
        connection.register("found", postings_of(folder, rows).to_arrow())
        run(_SQL("postings_in_arrays"))
        connection.unregister("found")
    run(BUILD("added"))
    run(_SQL("inverted", added_lengths=BUILD("added_lengths")))


def view_vectors(
    connection: duckdb.DuckDBPyConnection,
    settings: EmbeddingSettings,
    vectors: CodedVectors | None,
    embed: Embed | None,
) -> None:
    """Create `lake_embeddings` and `lake_embedding_refusals` of `embedded_texts`: from `src`, or
    `vectors` if these are elsewhere; those of other texts are made by `embed`, without which these
    have none.
    """
    run = connection.execute
    run(_SQL("vector_of", dimensions=str(settings.dimensions)))
    if vectors is not None:
        chunks = run(_SQL("embedded_elsewhere")).fetchnumpy()["chunk_no"]
        for start in range(0, len(chunks), _BATCH):
            some = chunks[start : start + _BATCH]
            _insert(
                connection, "found_vectors", {"chunk_no": some, "vector": list(vectors.of(some))}
            )
    published = "src.embeddings" if vectors is None else "found_vectors"
    run(_SQL("vectors", published=published, model=settings.model_id))
    texts = dict(run(_SQL("unembedded_texts")).fetchall())
    if texts and embed is None:
        run(_SQL("refused"), {"texts": list(texts), "model": settings.model_id})
    elif texts and embed:
        new = list(embed(list(texts.values())))
        _insert(connection, "new_vectors", {"text_hash": list(texts), "vector": new})


def _insert(connection: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, Any]) -> None:
    connection.register("found", pa.table(dict(columns)))
    connection.execute(f"INSERT INTO {table} FROM found")
    connection.unregister("found")
