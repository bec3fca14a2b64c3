"""What embedding would cost, and the upkeep of the cache of vectors: the work of `weft cost` and `weft cache`."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import ibis
import pyarrow as pa

from assets.embedding import TASK, Estimate, estimate
from assets.publish import published_texts
from dagster_project.build import only_build
from dagster_project.composition import make_embedding_cache, make_lake
from dagster_project.resources.embedders import make_embedder
from dagster_project.resources.embedding_cache import ParquetEmbeddingCache
from dagster_project.resources.lake import LakeIOManager
from dagster_project.settings import Settings
from transforms.errors import IndexUnavailableError, WeftError
from transforms.hashing import text_hash
from transforms.prompt_hashes import FILE_NAME, document_questions
from transforms.safety import screened, texts_sent
from transforms.settings import SafetySettings

_CHUNKS = ("message_chunks", "document_chunks", "conversation_chunks")
_IMPORTED_ROWS = 20_000


def embedding_estimate(settings: Settings) -> Estimate:
    """What embedding the texts in the lake would take now."""
    lake = make_lake(settings)
    manager = LakeIOManager(lake)
    texts = published_texts(
        manager.table("message_chunks", lake.partitions("message_chunks")),
        manager.table("document_chunks", lake.partitions("document_chunks")),
        manager.table("conversation_chunks", lake.partitions("conversation_chunks")),
        manager.table("memberships", [None]),
        manager.table("chunk_context", [None]),
    )
    return estimate(
        texts,
        make_embedder(settings.embedding, settings.gemini, settings.safety),
        make_embedding_cache(settings),
    )


def prune(settings: Settings, other_models: bool, refused: bool) -> dict[str, int]:
    """Drop the vectors of texts that the lake does not hold; with `other_models` all of models not in use.

    With `refused`, refused texts are forgotten instead, so that the next build asks for them again.
    Returns how many were dropped, by what they are. BusyError while a build runs.
    """
    with only_build(settings.root):
        cache = make_embedding_cache(settings)
        if refused:
            make_lake(settings).discard("embedding_refusals")
            return {"refusals": cache.forget_refusals()}
        models = [settings.embedding.model_id] if other_models else None
        return {"vectors": cache.prune(_used_hashes(settings), models)}


def _used_hashes(settings: Settings) -> set[str]:
    """The hash of every text in the lake that may be embedded or searched with; WeftError if there is none."""
    lake = make_lake(settings)
    manager = LakeIOManager(lake)
    tables: list[ibis.Table] = [
        *(manager.table(name, lake.partitions(name)) for name in _CHUNKS),
        manager.table("chunk_context", [None]),
    ]
    texts = ibis.union(*(t.select(text_hash="checksum", text="text_embed") for t in tables))
    hashes = set(texts.select("text_hash").distinct().to_pyarrow().column(0).to_pylist())
    # Vectors of a service may be kept beside those of the model in use: they go by the hash of what was sent.
    hashes |= set(texts_sent(texts, settings.safety).renamed.values())
    asked = manager.table("conversation_query_chunks", lake.partitions("conversation_query_chunks"))
    hashes |= {text_hash(text) for text in asked.text.to_pyarrow().to_pylist()}
    questions = document_questions(
        manager.table("documents", lake.partitions("documents"))
        .filter(lambda t: t.path.lower().endswith(FILE_NAME))
        .select("doc_id", "source", "path", "text")
        .to_pyarrow()
    )
    hashes |= {text_hash(text) for text in questions.column("question").to_pylist()}
    if not hashes:
        raise WeftError(
            f"the lake in {lake.base} holds no chunk, so every vector would go: run `weft build` first, or delete "
            "the folder of the cache yourself"
        )
    return hashes


def import_vectors(index: Path, cache: ParquetEmbeddingCache) -> tuple[str, int, int]:
    """Take the vectors of a published index into the cache: its model, vectors in it, vectors that were new.

    IndexUnavailableError if the file is no published index; EmbeddingError if it holds a bad vector.
    """
    if not index.is_file():
        raise IndexUnavailableError(
            f"{index} is no file: name a published index, such as index/weft-….duckdb"
        )
    try:
        with duckdb.connect(str(index), read_only=True) as connection:
            manifest = dict(connection.execute("SELECT key, value FROM manifest").fetchall())
            model, dimensions = manifest["model"], int(manifest["dimensions"])
            screening = json.loads(manifest["settings"]).get("safety")
            rows = connection.execute(_VECTORS).to_arrow_reader(_IMPORTED_ROWS)
            known = set(cache.hashes(model, dimensions, TASK))
            count = new = 0
            for batch in rows:
                hashes = _sent_hashes(batch, screening)
                kept = [i for i, name in enumerate(hashes) if name not in known]
                vectors = (
                    batch.column("vector").flatten().to_numpy(zero_copy_only=False).reshape(-1, dimensions)
                )
                cache.store(model, dimensions, TASK, [hashes[i] for i in kept], vectors[kept])
                count, new = count + len(hashes), new + len(kept)
    except (duckdb.Error, KeyError) as error:
        raise IndexUnavailableError(
            f"{index} cannot be read as a published index ({str(error).splitlines()[0]})"
        ) from error
    return model, count, new


def _sent_hashes(batch: pa.RecordBatch, screening: dict[str, str] | None) -> list[str]:
    """Hashes of the texts (text_hash, text) as they were sent under the settings of [safety] of their index."""
    hashes: list[str] = batch.column("text_hash").to_pylist()
    if screening is None:
        return hashes
    texts = batch.column("text").to_pylist()
    sent = screened(texts, SafetySettings.model_validate(screening)).texts
    triples = zip(hashes, texts, sent, strict=True)
    return [name if old == new else text_hash(new) for name, old, new in triples]


_VECTORS = """
SELECT DISTINCT ON (text_hash) coalesce(x.checksum, c.checksum) AS text_hash,
  coalesce(x.text_embed, c.text_embed) AS text, e.vector
FROM embeddings e JOIN chunks c USING (chunk_no) LEFT JOIN chunk_context x ON x.chunk_id = c.chunk_id
ORDER BY text_hash
"""
