"""Vectors for what is published, the checks before it, and the one asset that publishes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
import ibis

from assets import embedding
from assets.partitions import FAMILIES, SLOW, outs
from assets.protocols import Embedder, EmbeddingCache, Lake, Progress, Publisher
from transforms import checks, safety, schemas, vectors
from transforms.context import published_chunks, texts_to_embed
from transforms.operations import LIVE_SHARE
from transforms.settings import EmbeddingSettings, SafetySettings

REUSE = "unchanged_texts_are_reused"
REFUSED = "no_text_is_refused"
_LEAST_REUSE = 0.99


def embeddings_version(settings: EmbeddingSettings, screening: SafetySettings) -> str:
    """The code version of the asset `embeddings`: it changes whenever a text may get another vector."""
    screens = f"-{safety.VERSION}-{screening.digest()}" if settings.is_remote else ""
    return settings.digest() + screens


def embeddings_asset(settings: EmbeddingSettings, screening: SafetySettings) -> dg.AssetsDefinition:
    """The multi-asset `embeddings`, `embedding_refusals`: the vector of every text that is published, or why none."""
    tables = {
        "embeddings": schemas.embeddings(settings.dimensions),
        "embedding_refusals": schemas.EMBEDDING_REFUSALS,
    }
    warnings = {
        REUSE: f"Of the texts that had a vector before, {_LEAST_REUSE:.0%} keep it.",
        REFUSED: "The model refuses no text; those that it refuses are found by their words alone.",
    }

    @dg.multi_asset(
        name="embeddings",
        group_name="publish",
        pool="embedding",
        deps=["slow_chunks"],
        outs=outs(tables, embeddings_version(settings, screening)),
        check_specs=[
            dg.AssetCheckSpec(name, asset="embeddings", description=rule) for name, rule in warnings.items()
        ],
    )
    def embeddings(
        context: dg.AssetExecutionContext,
        message_chunks: ibis.Table,
        document_chunks: ibis.Table,
        conversation_chunks: ibis.Table,
        memberships: ibis.Table,
        chunk_context: ibis.Table,
        lake: dg.ResourceParam[Lake],
        embedder: dg.ResourceParam[Embedder],
        embedding_cache: dg.ResourceParam[EmbeddingCache],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[dg.Output[Any] | dg.AssetCheckResult]:
        texts = published_texts(
            message_chunks, document_chunks, conversation_chunks, memberships, chunk_context
        )
        before = vectors.text_hashes(lake.stored("embeddings", ["text_hash", "model"]), embedder.model)
        count, found, report = embedding.vectors_of(texts, embedder, embedding_cache, progress)
        model = embedder.model, embedder.dimensions
        cached = len(embedding_cache.hashes(*model, embedding.TASK))
        facts = report.metadata() | {LIVE_SHARE: round(count / max(cached, 1), 6)}
        made = (vectors.embeddings(table, *model) for table in found)
        yield dg.Output(made, "embeddings", metadata=facts)
        yield dg.Output(vectors.embedding_refusals(report.refused, *model), "embedding_refusals")
        share = report.reuse_of(before)
        yield _warning(REUSE, share >= _LEAST_REUSE, {"reuse_ratio": share})
        yield _warning(REFUSED, not report.refused, {"reasons": sorted(set(report.refused.values()))[:5]})

    return embeddings


def published_texts(
    message_chunks: ibis.Table,
    document_chunks: ibis.Table,
    conversation_chunks: ibis.Table,
    memberships: ibis.Table,
    chunk_context: ibis.Table,
) -> ibis.Table:
    """Columns text_hash and text: what is embedded of the chunks that are published."""
    published = published_chunks(message_chunks, document_chunks, conversation_chunks, memberships)
    return texts_to_embed(published, chunk_context)


def _warning(name: str, passed: bool, metadata: Mapping[str, Any]) -> dg.AssetCheckResult:
    """The result of a check on the embeddings that stops nothing."""
    return dg.AssetCheckResult(
        check_name=name,
        asset_key="embeddings",
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
    )


def search_index_asset(graph: Sequence[str] = ()) -> dg.AssetsDefinition:
    """The asset `search_index`, the only publisher; `graph` names the tables of the graph, if there is one."""

    @dg.asset(
        group_name="publish",
        kinds={"duckdb"},
        deps=[
            *(table for family in (*FAMILIES, SLOW) for table in family.tables),
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
            "embedding_refusals",
            *graph,
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
        "embedding_refusals",
        "message_chunks",
        "document_chunks",
        "conversation_chunks",
        "memberships",
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
        embedding_refusals: ibis.Table,
        message_chunks: ibis.Table,
        document_chunks: ibis.Table,
        conversation_chunks: ibis.Table,
        memberships: ibis.Table,
        chunk_context: ibis.Table,
    ) -> Iterator[dg.AssetCheckResult]:
        published = published_chunks(message_chunks, document_chunks, conversation_chunks, memberships)
        rules = checks.broken(
            published,
            chunk_context,
            embeddings,
            embedding_refusals,
            settings.model_id,
            settings.dimensions,
        )
        counted = [rows.agg(rule=ibis.literal(name), rows=rows.count()) for name, rows in rules.items()]
        counts = {row["rule"]: row["rows"] for row in ibis.union(*counted).to_pyarrow().to_pylist()}
        for name, rows in rules.items():
            count = counts[name]
            examples = rows.limit(5).to_pyarrow().column("id").to_pylist() if count else []
            yield dg.AssetCheckResult(
                check_name=name,
                asset_key="embeddings",
                passed=count == 0,
                metadata={"rows": count, "examples": examples},
            )

    return check
