"""What a published file whose vectors are in Qdrant has in place of those tables, as DuckDB statements.

Whoever asks for a vector or a posting is told where it is; what needs neither is answered.
"""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from dagster_project.index.publish import table_sql
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


def create(connection: duckdb.DuckDBPyConnection, embedding: EmbeddingSettings) -> None:
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
