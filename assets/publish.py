"""Vectors for published texts, the checks before a publish, and the one asset that publishes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
import ibis

from assets import embedding
from assets.partitions import SOURCE_TYPES
from assets.protocols.lake import Lake, Parts, Progress
from assets.protocols.models import Embedder, EmbeddingCache
from assets.protocols.search import Publisher
from assets.stages.shown import in_words, of_selected, table_metadata, violated, warning
from assets.stages.stage import LAKE, Tables, state_of_run
from assets.vector_parts import RETAINED, VectorParts, filled_parts
from transforms.embedding import vectors
from transforms.embedding.embedded_text import published_chunks, texts_to_embed
from transforms.operations import publish_checks as checks
from transforms.operations.figures import LIVE_SHARE
from transforms.schemas.chunks import EMBEDDING_REFUSALS, embeddings_table
from transforms.settings.models import EmbeddingSettings, SafetySettings

REUSE = "unchanged_texts_are_reused"
_REFUSED = "no_text_is_refused"
_LEAST_REUSE = 0.99
_CHUNKS = ("message_chunks", "document_chunks", "conversation_chunks")
_JOINED = ("memberships", "chunk_context")
"""The tables that are read here in the steps themselves: of each input that Dagster loads it stores
two events.
"""
_OF_CHUNKS = ("source", "partition", "doc_id", "chunk_id", "checksum", "text_embed")
"""The columns of chunks to read: to put an expression over each of their columns into SQL costs
more than to run it.
"""


def embeddings_asset(
    settings: EmbeddingSettings, screening: SafetySettings, code: str
) -> dg.AssetsDefinition:
    """The multi-asset `embeddings`, `embedding_refusals`: the vector of every text that is
    published, or why none; `code` is the fingerprint of the code that decides about them.
    """
    # It changes whenever a text may get another vector.
    screens = f"-{screening.digest()}" if settings.is_remote else ""
    version = f"{code}-{settings.digest()}{screens}"

    @dg.multi_asset(
        name="embeddings",
        group_name="publish",
        pool="embedding",
        deps=[*_CHUNKS, *_JOINED],
        outs=_outs(settings.dimensions, version),
        can_subset=True,
    )
    def embeddings(
        context: dg.AssetExecutionContext,
        io_manager: dg.ResourceParam[Tables],
        lake: dg.ResourceParam[Lake],
        embedder: dg.ResourceParam[Embedder],
        embedding_cache: dg.ResourceParam[EmbeddingCache],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[dg.Output[Any]]:
        # Before reading: changes meanwhile make the tables stale.
        state = state_of_run(lake, context)
        tables = {
            name: io_manager.over_all(name, context.instance) for name in (*_CHUNKS, *_JOINED)
        }
        parts = VectorParts(_published_texts(tables), lake, version)

        def texts_of(partitions: Sequence[str]) -> ibis.Table:
            some = {name: io_manager.table(name, partitions) for name in _CHUNKS}
            return _published_texts({**tables, **some})

        with in_words():
            staged, totals = filled_parts(parts, texts_of, embedder, embedding_cache, progress)
        cached = embedding_cache.count((embedder.model, embedder.dimensions, embedding.TASK))
        live = (totals.with_vector + totals.retained) / max(cached, 1)
        chosen = context.op_execution_context.selected_output_names
        if "embeddings" in chosen:
            facts = totals.metadata() | {LIVE_SHARE: round(live, 6)}
            yield dg.Output(Parts(parts.retained, staged), "embeddings", metadata=facts)
        if "embedding_refusals" in chosen:
            refusals = vectors.embedding_refusals(
                totals.refused, embedder.model, embedder.dimensions
            )
            rows = lake.stage(
                "embedding_refusals", None, refusals, code_version=version, inputs={LAKE: state}
            )
            yield dg.Output(
                rows, "embedding_refusals", metadata={"dagster/row_count": rows.row_count}
            )

    return embeddings


def _outs(dimensions: int, version: str) -> dict[str, dg.AssetOut]:
    """The two outputs; a run may leave out either."""
    tables = {
        "embeddings": embeddings_table(dimensions),
        "embedding_refusals": EMBEDDING_REFUSALS,
    }
    return {
        name: dg.AssetOut(
            description=table.comment,
            is_required=False,
            code_version=version,
            metadata=table_metadata(table),
            kinds={"parquet"},
        )
        for name, table in tables.items()
    }


def _published_texts(tables: Mapping[str, ibis.Table]) -> ibis.Table:
    """Columns partition, text_hash and text: the embedded texts of the published chunks."""
    return texts_to_embed(_published_chunks(tables), tables["chunk_context"])


def _published_chunks(tables: Mapping[str, ibis.Table]) -> ibis.Table:
    mails, documents, windows = (tables[name].select(_OF_CHUNKS) for name in _CHUNKS)
    return published_chunks(mails, documents, windows, tables["memberships"])


def search_index_asset(tables: Sequence[str] = ()) -> dg.AssetsDefinition:
    """The asset `search_index`, the only publisher; `tables` are those of extras that it publishes."""

    @dg.asset(
        group_name="publish",
        kinds={"duckdb"},
        deps=[
            *(table for source_type in SOURCE_TYPES for table in source_type.tables),
            *(
                "document_links",
                "memberships",
                "threads",
                "thread_tree",
                "message_links",
                "patch_series",
                "people",
            ),
            *("inferred_quotes", "chunk_context", "context_terms", "corpus_measures"),
            *("embeddings", "embedding_refusals", *tables),
        ],
        description="The published DuckDB file: tables, vectors, inverted index and manifest.",
    )
    @in_words()
    def search_index(
        publisher: dg.ResourceParam[Publisher], progress: dg.ResourceParam[Progress]
    ) -> dg.MaterializeResult:
        done = publisher.publish(progress)
        progress.step(
            "search_index", None, sum(v for k, v in done.items() if k.startswith("rows_"))
        )
        return dg.MaterializeResult(
            metadata=done, data_version=dg.DataVersion(str(done["version"]))
        )

    return search_index


def vector_index_asset() -> dg.AssetsDefinition:
    """The asset `vector_index`: measures of the index of vectors that `search_index` made."""

    @dg.asset(
        group_name="publish",
        kinds={"duckdb"},
        deps=["search_index"],
        description=(
            "The HNSW index (DuckDB's VSS extension) of the vectors in the published file, for SQL. It is made with the "
            "file, before readers see it; here its recall is measured against exact search."
        ),
    )
    @in_words()
    def vector_index(publisher: dg.ResourceParam[Publisher]) -> dg.MaterializeResult:
        measured = publisher.vector_index()
        return dg.MaterializeResult(
            metadata=measured,
            data_version=dg.DataVersion(f"{measured['version']}-{measured['kind']}"),
        )

    return vector_index


def publish_checks(settings: EmbeddingSettings) -> dg.AssetChecksDefinition:
    """The checks between the tables and the publisher: those of `checks.RULES` block it, the others
    warn.
    """
    inputs = ["embeddings", "embedding_refusals", *_CHUNKS, *_JOINED]
    warnings = {
        REUSE: f"{_LEAST_REUSE:.0%} of the texts that had a vector before keep it.",
        _REFUSED: "The model refuses no text; those that it refuses are found by their words alone.",
    }

    @dg.multi_asset_check(
        name="publish_checks",
        specs=[
            dg.AssetCheckSpec(
                name,
                asset="embeddings",
                blocking=name in checks.PUBLISH_RULES,
                description=rule,
                additional_deps=inputs[1:],
            )
            for name, rule in (checks.PUBLISH_RULES | warnings).items()
        ],
        can_subset=True,
    )
    def check(
        context: dg.AssetCheckExecutionContext, io_manager: dg.ResourceParam[Tables]
    ) -> Iterator[dg.AssetCheckResult]:
        tables = {name: io_manager.over_all(name, context.instance) for name in inputs}
        rules = checks.rule_violations(
            _published_chunks(tables),
            tables["chunk_context"],
            tables["embeddings"],
            tables["embedding_refusals"],
            settings.model_id,
            settings.dimensions,
        )
        counted = [
            rows.agg(rule=ibis.literal(name), rows=rows.count()) for name, rows in rules.items()
        ]
        counts = {row["rule"]: row["rows"] for row in ibis.union(*counted).to_pyarrow().to_pylist()}
        results = [*_warnings(context.instance, tables["embedding_refusals"])]
        for name, rows in rules.items():
            examples = rows.limit(5).to_pyarrow().column("id").to_pylist() if counts[name] else []
            results += [
                violated(dg.AssetCheckKey(dg.AssetKey("embeddings"), name), counts[name], examples)
            ]
        yield from of_selected(context, results)

    return check


def _warnings(instance: dg.DagsterInstance, refusals: ibis.Table) -> Iterator[dg.AssetCheckResult]:
    """The checks of `embeddings` that stop nothing, of its last materialization and of the texts
    that have no vector.
    """
    event = instance.get_latest_materialization_event(dg.AssetKey("embeddings"))
    figures = event.asset_materialization.metadata if event and event.asset_materialization else {}
    reuse = float(str(figures[RETAINED].value)) if RETAINED in figures else 1.0
    yield warning("embeddings", REUSE, reuse >= _LEAST_REUSE, reuse_ratio=reuse)
    reasons = sorted(set(refusals.reason.to_pyarrow().to_pylist()))[:5]
    yield warning("embeddings", _REFUSED, not reasons, reasons=reasons)
