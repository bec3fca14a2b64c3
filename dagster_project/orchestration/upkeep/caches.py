"""The cost of embedding, and cleaning the caches: the work of `weft plan --cost` and `weft cache`."""

import json
from collections import Counter
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path

import duckdb
import ibis
import pyarrow as pa

from assets.context import (
    ContextTables,
    SentenceEstimate,
    estimate_sentences,
    joined_context,
    placed_chunks,
    told_context,
)
from assets.embedding import TASK, Estimate, estimate
from assets.partitions import CHUNKS_OF, SOURCE_TYPES
from dagster_project.composition.objects import (
    make_answer_cache,
    make_embedding_cache,
    make_lake,
    make_sentence_writer,
)
from dagster_project.config.settings import Settings
from dagster_project.extensions import extra_parts
from dagster_project.index.publish.versions import first_line
from dagster_project.lake.io_manager import LakeIOManager
from dagster_project.models.embedders import make_embedder
from dagster_project.models.embedding_cache import SQLiteEmbeddingCache
from dagster_project.system.locks import only_build
from transforms.context.selection import window_queries
from transforms.embedding import context_sentences
from transforms.embedding.embedded_text import texts_to_embed
from transforms.embedding.sent_texts import texts_sent
from transforms.embedding.vectors import matrix
from transforms.errors import IndexUnavailableError, WeftError
from transforms.hashing import text_hash
from transforms.settings.models import SafetySettings
from transforms.text.redaction import screened

_IMPORTED_ROWS = 20_000
_CHARS_OF_TOKEN = 3
"""Fewer than a token of a sentence has on average, so that the estimate is not too low."""


def run_estimate(settings: Settings) -> tuple[Estimate, SentenceEstimate]:
    """The cost of embedding the texts in the lake now, and of writing sentences for them.

    A text whose sentence is still to be written counts with a sentence of the greatest length.
    """
    tables = _context_tables(settings)
    context, _ = joined_context(tables)
    kinds = settings.sentence_kinds()
    enabled = {source: kind for source, kind in kinds.items() if kind != "off"}
    writing = SentenceEstimate()
    if enabled:
        writer = make_sentence_writer(settings)
        asking = context_sentences.Asking(writer.model, settings.safety, enabled)
        placed = placed_chunks(tables, enabled)
        writing, estimated = estimate_sentences(placed, asking, writer, make_answer_cache(settings))
        context = told_context(tables, context, estimated)
    embedder = make_embedder(settings.embedding, settings.gemini, settings.safety)
    texts = texts_to_embed(tables.chunks(), ibis.memtable(context))
    embedding = estimate(texts, embedder, make_embedding_cache(settings))
    longer = writing.missing * (context_sentences.SENTENCE_CHARS // _CHARS_OF_TOKEN)
    dollars = embedding.dollars + longer * embedder.price / 1e6
    return replace(embedding, tokens=embedding.tokens + longer, dollars=dollars), writing


def _context_tables(settings: Settings) -> ContextTables:
    lake = make_lake(settings)
    manager = LakeIOManager(lake)
    return ContextTables(**{f.name: _table(manager, f.name) for f in fields(ContextTables)})


def _table(manager: LakeIOManager, name: str) -> ibis.Table:
    """A table of the lake, of all partitions that are finished; LakeDamageError if a file is
    missing.
    """
    first = next((s.tables[0] for s in SOURCE_TYPES if name in s.tables), None)
    return manager.table(name, manager.lake.partitions(first) if first else [None])


def holdings(settings: Settings) -> list[dict[str, int | str]]:
    """The contents of the caches, one row per kind, model, width and task: how many, in how many
    bytes.
    """
    vectors, answers = make_embedding_cache(settings), make_answer_cache(settings)
    stored = [{"kind": "vectors", **asdict(holding)} for holding in vectors.stats()]
    refusals = [
        {"kind": "refusals", "model": model, "dimensions": dimensions, "task": task, "count": count}
        for (model, dimensions, task), count in sorted(vectors.refusal_counts().items())
    ]
    per_model = Counter(key.rsplit("/", 2)[0] for key in answers.all_keys())
    sentences = [
        {"kind": "sentences", "model": model, "count": n} for model, n in sorted(per_model.items())
    ]
    return [*stored, *refusals, *sentences]


def prune(settings: Settings, other_models: bool, refused: bool) -> dict[str, int]:
    """Drop vectors of texts and answers about chunks that the lake does not hold; with
    `other_models` all of others.

    With `refused`, refused texts are forgotten instead, so that the next build asks for them again.
    Returns how many were dropped, by kind. BusyError while a build runs.
    """
    with only_build(settings.root, settings.lake_uri):
        cache = make_embedding_cache(settings)
        if refused:
            make_lake(settings).discard("embedding_refusals")
            return {"refusals": cache.forget_refusals()}
        if not (used := used_hashes(settings)):
            raise WeftError(
                f"the lake in {make_lake(settings).base} holds no chunk, so every vector would go: run `weft build` first, "
                "or delete the folder of the cache yourself"
            )
        return {
            "vectors": cache.prune(used, [settings.embedding.model_id] if other_models else None),
            "answers": prune_answers(settings, other_models),
        }


def prune_answers(settings: Settings, other_models: bool = False) -> int:
    """Drop the sentences of chunks that the lake does not hold; those of sources that want none now
    stay.
    """
    answers = make_answer_cache(settings)
    keys = answers.all_keys()
    if not keys:
        return 0
    placed = placed_chunks(_context_tables(settings))
    own = settings.sentences.name
    base = context_sentences.structural_sentences(placed)
    asking = context_sentences.Asking(own, settings.safety, settings.sentence_kinds())
    requests, _ = context_sentences.requests(placed, base, asking)
    used = {r.key.rpartition("/")[2] for r in requests}
    unused = [
        key
        for key in keys
        if key.rpartition("/")[2] not in used or (other_models and not key.startswith(f"{own}/"))
    ]
    return answers.drop(unused)


def used_hashes(settings: Settings) -> set[str]:
    """The hash of every text in the lake that may be embedded or searched with."""
    lake = make_lake(settings)
    manager = LakeIOManager(lake)
    if not any(lake.partitions(name) for name in CHUNKS_OF.values()):
        return set()
    tables = [_table(manager, name) for name in (*CHUNKS_OF.values(), "chunk_context")]
    texts = ibis.union(*(t.select(text_hash="checksum", text="text_embed") for t in tables))
    hashes = set(texts.select("text_hash").distinct().to_pyarrow().column(0).to_pylist())
    # Vectors of a service may be stored beside those of the model in use: they go by the hash of
    # the sent text.
    hashes |= set(texts_sent(texts, settings.safety).renamed.values())
    windows, cuts = (
        _table(manager, f"conversation_{n}").to_polars() for n in ("markdown", "query_chunks")
    )
    queries: list[str] = window_queries(windows, cuts, settings.context)["text"].to_list()
    queries += [
        text for texts_of in extra_parts("queries") for text in texts_of(partial(_table, manager))
    ]
    # As it is for texts: by the sent text, or by the text itself where a model of this machine has
    # it.
    hashes |= {text_hash(text) for text in (*queries, *screened(queries, settings.safety).texts)}
    return hashes


def import_vectors(index: Path, cache: SQLiteEmbeddingCache) -> tuple[str, int, int]:
    """Take the vectors of a published index into the cache: its model, vectors in it, vectors that
    were new.

    IndexUnavailableError if the file is not a published index; EmbeddingError if it holds a bad
    vector.
    """
    if not index.is_file():
        raise IndexUnavailableError(
            f"{index} is not a file: name a published index, as index/weft-….duckdb"
        )
    try:
        with duckdb.connect(str(index), read_only=True) as connection:
            manifest: dict[str, str] = dict(
                connection.execute("SELECT key, value FROM manifest").fetchall()
            )
            model, dimensions = manifest["model"], int(manifest["dimensions"])
            screening = json.loads(manifest["settings"]).get("safety")
            rows = connection.execute(_VECTORS).to_arrow_reader(_IMPORTED_ROWS)
            key, count, new = (model, dimensions, TASK), 0, 0
            for batch in rows:
                hashes = _sent_hashes(batch, screening)
                without = cache.missing(key, hashes)
                missing = [i for i, name in enumerate(hashes) if name in without]
                vectors = matrix(pa.chunked_array([batch.column("vector")]))
                cache.store(key, [hashes[i] for i in missing], vectors[missing])
                count, new = count + len(hashes), new + len(missing)
    except (duckdb.Error, KeyError) as error:
        raise IndexUnavailableError(
            f"{index} is not a published index ({first_line(error)})"
        ) from error
    return model, count, new


def _sent_hashes(batch: pa.RecordBatch, screening: dict[str, str] | None) -> list[str]:
    """Hashes of the texts (text_hash, text) as they were sent under the settings of [safety] of
    their index.
    """
    hashes: list[str] = batch.column("text_hash").to_pylist()
    if screening is None:
        return hashes
    texts = batch.column("text").to_pylist()
    screened_texts = screened(texts, SafetySettings.model_validate(screening)).texts
    triples = zip(hashes, texts, screened_texts, strict=True)
    return [name if old == new else text_hash(new) for name, old, new in triples]


_VECTORS = """
SELECT DISTINCT ON (text_hash) coalesce(x.checksum, c.checksum) AS text_hash,
  coalesce(x.text_embed, c.text_embed) AS text, e.vector
FROM embeddings e JOIN chunks c USING (chunk_no) LEFT JOIN chunk_context x ON x.chunk_id = c.chunk_id
ORDER BY text_hash
"""
