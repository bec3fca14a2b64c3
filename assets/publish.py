"""Vectors for what is published, the checks before it, and the one asset that publishes."""

from collections.abc import Iterator

import dagster as dg
import ibis
import pyarrow as pa

from assets.partitions import FAMILIES, table_metadata
from assets.protocols import Embedder, EmbeddingCache, Progress, Publisher
from transforms import checks, schemas, vectors
from transforms.context import published_chunks, texts_to_embed
from transforms.settings import EmbeddingSettings


def embeddings_asset(settings: EmbeddingSettings) -> dg.AssetsDefinition:
    """The asset `embeddings`: the vector of every text that is published, new texts embedded."""

    @dg.asset(
        group_name="publish",
        kinds={"parquet"},
        pool="embedding",
        code_version=settings.digest(),
        description=schemas.embeddings(settings.dimensions).comment,
        metadata=table_metadata(schemas.embeddings(settings.dimensions)),
    )
    def embeddings(
        context: dg.AssetExecutionContext,
        message_chunks: ibis.Table,
        document_chunks: ibis.Table,
        memberships: ibis.Table,
        chunk_context: ibis.Table,
        embedder: dg.ResourceParam[Embedder],
        embedding_cache: dg.ResourceParam[EmbeddingCache],
        progress: dg.ResourceParam[Progress],
    ) -> pa.Table:
        published = published_chunks(message_chunks, document_chunks, memberships)
        texts = texts_to_embed(published, chunk_context)
        hashes = texts.select("text_hash").distinct().to_pyarrow().column("text_hash").to_pylist()
        known = embedding_cache.hashes(embedder.model, embedder.dimensions, "document")
        missing = sorted(set(hashes) - known)
        for batch in vectors.batches(texts, missing, settings.batch_texts):
            made = embedder.embed_documents(batch.column("text").to_pylist())
            vectors.require_usable(made, batch.num_rows, embedder.dimensions)
            names = batch.column("text_hash").to_pylist()
            embedding_cache.store(embedder.model, embedder.dimensions, "document", names, made)
            progress.step("embeddings", None, batch.num_rows)
        embedding_cache.compact(embedder.model, embedder.dimensions, "document")
        context.add_output_metadata({"texts": len(hashes), "embedded": len(missing)})
        found = embedding_cache.vectors(embedder.model, embedder.dimensions, "document", hashes)
        return vectors.embeddings(found, embedder.model, embedder.dimensions)

    return embeddings


def search_index_asset() -> dg.AssetsDefinition:
    """The asset `search_index`, the only publisher."""

    @dg.asset(
        group_name="publish",
        kinds={"duckdb"},
        deps=[
            *(table for family in FAMILIES for table in family.tables),
            "document_links",
            "memberships",
            "threads",
            "thread_tree",
            "message_links",
            "families",
            "corpus_measures",
            "inferred_quotes",
            "chunk_context",
            "context_terms",
            "embeddings",
        ],
        description="The published DuckDB file: tables, vectors, inverted index and manifest.",
    )
    def search_index(publisher: dg.ResourceParam[Publisher]) -> dg.MaterializeResult:
        done = publisher.publish()
        return dg.MaterializeResult(
            metadata={k: v for k, v in done.items() if k != "version"} | {"version": done["version"]},
            data_version=dg.DataVersion(str(done["version"])),
        )

    return search_index


def publish_checks(settings: EmbeddingSettings) -> dg.AssetChecksDefinition:
    """The blocking checks between the tables and the publisher."""
    inputs = [
        "embeddings",
        "message_chunks",
        "document_chunks",
        "memberships",
        "message_terms",
        "document_terms",
        "chunk_context",
    ]

    @dg.multi_asset_check(
        name="publish_checks",
        specs=[
            dg.AssetCheckSpec(
                name, asset="embeddings", blocking=True, description=rule, additional_deps=inputs[1:]
            )
            for name, rule in checks.RULES.items()
        ],
        ins={name: dg.AssetIn(name) for name in inputs},
    )
    def check(
        embeddings: ibis.Table,
        message_chunks: ibis.Table,
        document_chunks: ibis.Table,
        memberships: ibis.Table,
        message_terms: ibis.Table,
        document_terms: ibis.Table,
        chunk_context: ibis.Table,
    ) -> Iterator[dg.AssetCheckResult]:
        published = published_chunks(message_chunks, document_chunks, memberships)
        rules = checks.broken(
            published,
            message_terms.union(document_terms),
            chunk_context,
            embeddings,
            settings.model_id,
            settings.dimensions,
        )
        for name, rows in rules.items():
            count = rows.count().to_pyarrow().as_py()
            examples = rows.limit(5).to_pyarrow().column("id").to_pylist() if count else []
            yield dg.AssetCheckResult(
                check_name=name,
                asset_key="embeddings",
                passed=count == 0,
                metadata={"rows": count, "examples": examples},
            )

    return check
