"""How sensitive the chunks of a published index are: by all that stands in their mail, document, window or attachment."""

from __future__ import annotations

import duckdb
import polars as pl

from transforms.text.redaction import sensitivity

_TEXTS = """
SELECT message_id AS doc_id, '' AS attachment_id, concat_ws(chr(10), subject, body) AS text FROM messages
UNION ALL SELECT message_id, attachment_id, concat_ws(chr(10), filename, text) FROM attachments
UNION ALL SELECT doc_id, '', concat_ws(chr(10), title, text) FROM documents
UNION ALL SELECT doc_id, '', concat_ws(chr(10), title, markdown) FROM conversation_windows
"""
_CHUNKS = (
    "SELECT chunk_no::BIGINT AS chunk_no, doc_id, coalesce(attachment_id, '') AS attachment_id FROM chunks"
)
_BATCH = 2_000


def chunk_sensitivity(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """Columns chunk_no and sensitivity of all chunks: public, personal or secret; secret if their text is not there.

    All stored texts are read, once for each version that is opened and asked for it.
    """
    reader = connection.execute(_TEXTS).to_arrow_reader(_BATCH)
    schema = {"doc_id": pl.String, "attachment_id": pl.String, "sensitivity": pl.String}
    found = [pl.DataFrame(schema=schema)]
    for batch in reader:
        texts = pl.DataFrame(pl.from_arrow(batch))
        found.append(texts.select("doc_id", "attachment_id", sensitivity=sensitivity(texts["text"])))
    chunks = pl.DataFrame(connection.execute(_CHUNKS).to_arrow_table())
    joined = chunks.join(pl.concat(found), on=["doc_id", "attachment_id"], how="left")
    return joined.select("chunk_no", pl.col("sensitivity").fill_null("secret"))
