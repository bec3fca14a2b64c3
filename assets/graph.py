"""The graph of documents: classes, stripes, keywords and prompts over the whole lake, and the export."""

from typing import Any

import dagster as dg
import ibis
import numpy as np
import pyarrow as pa

from assets.partitions import table_metadata
from assets.protocols import Embedder, EmbeddingCache, GraphExporter
from transforms import chunk_classes as classes_transforms
from transforms import document_graph as graph_transforms
from transforms import keywords as keyword_transforms
from transforms import prompt_hashes as prompt_transforms
from transforms import schemas, stripes, vectors
from transforms.hashing import text_hash
from transforms.settings import GraphSettings, TermSettings

TABLES = {
    "chunk_classes": schemas.CHUNK_CLASSES,
    "chunk_similarities": schemas.CHUNK_SIMILARITIES,
    "stripe_orders": schemas.STRIPE_ORDERS,
    "keywords": schemas.KEYWORDS,
    "chunk_keywords": schemas.CHUNK_KEYWORDS,
    "prompt_hashes": schemas.PROMPT_HASHES,
}
"""The tables of the graph that are published."""


def graph_assets(settings: GraphSettings, term_settings: TermSettings) -> list[dg.AssetsDefinition]:
    """The assets of the graph in order; none unless it is enabled, so that mail alone pays nothing."""
    if not settings.enabled:
        return []
    return [
        stripes_asset(settings),
        keywords_asset(settings, term_settings),
        prompt_hashes_asset(settings),
        document_graph_asset(settings),
    ]


def stripes_asset(settings: GraphSettings) -> dg.AssetsDefinition:
    """The multi-asset `chunk_classes`, `chunk_similarities`, `stripe_orders`."""
    version = f"{classes_transforms.VERSION}-{stripes.VERSION}-{settings.digest()}"

    @dg.multi_asset(
        name="build_stripes",
        group_name="graph",
        outs=_outs(("chunk_classes", "chunk_similarities", "stripe_orders"), version),
    )
    def build_stripes(
        documents: ibis.Table,
        document_chunks: ibis.Table,
        chunk_context: ibis.Table,
        embeddings: ibis.Table,
    ) -> tuple[Any, Any, Any]:
        texts = documents.select("doc_id", "format", "text", "body_start").to_pyarrow()
        columns = ["chunk_id", "doc_id", "chunk_index", "text_display", "spans", "is_code"]
        classes = classes_transforms.chunk_classes(
            texts, document_chunks.select(columns).to_pyarrow(), settings
        )
        chunks = stripes.embedded_chunks(document_chunks, chunk_context, embeddings).to_pyarrow()
        similarities = stripes.chunk_similarities(chunks, classes, settings)
        return classes, similarities, stripes.stripe_orders(similarities)

    return build_stripes


def keywords_asset(settings: GraphSettings, term_settings: TermSettings) -> dg.AssetsDefinition:
    """The multi-asset `keywords`, `chunk_keywords`."""
    version = f"{keyword_transforms.VERSION}-{settings.digest()}-{term_settings.digest()}"

    @dg.multi_asset(
        name="build_keywords", group_name="graph", outs=_outs(("keywords", "chunk_keywords"), version)
    )
    def build_keywords(documents: ibis.Table, document_chunks: ibis.Table) -> tuple[Any, Any]:
        pages = documents.select("doc_id", "source", "path", "title", "text", "body_start").to_pyarrow()
        chunks = document_chunks.select("chunk_id", "doc_id", "text_display").to_pyarrow()
        words = keyword_transforms.keywords(pages, settings, term_settings)
        return words, keyword_transforms.chunk_keywords(chunks, pages, words, term_settings)

    return build_keywords


def prompt_hashes_asset(settings: GraphSettings) -> dg.AssetsDefinition:
    """The asset `prompt_hashes`; new questions are embedded."""

    @dg.asset(
        group_name="graph",
        kinds={"parquet"},
        pool="embedding",
        code_version=f"{prompt_transforms.VERSION}-{settings.digest()}",
        description=schemas.PROMPT_HASHES.comment,
        metadata=table_metadata(schemas.PROMPT_HASHES),
    )
    def prompt_hashes(
        context: dg.AssetExecutionContext,
        documents: ibis.Table,
        document_chunks: ibis.Table,
        chunk_context: ibis.Table,
        embeddings: ibis.Table,
        embedder: dg.ResourceParam[Embedder],
        embedding_cache: dg.ResourceParam[EmbeddingCache],
    ) -> pa.Table:
        if settings.prompts == "off":
            return schemas.PROMPT_HASHES.empty()
        lists = documents.filter(documents.path.lower().endswith(prompt_transforms.FILE_NAME))
        asked = prompt_transforms.document_questions(
            lists.select("doc_id", "source", "path", "text").to_pyarrow()
        )
        context.add_output_metadata({"questions": asked.num_rows})
        if not asked.num_rows:
            return schemas.PROMPT_HASHES.empty()
        made = _question_vectors(asked.column("question").to_pylist(), embedder, embedding_cache)
        chunks = stripes.embedded_chunks(document_chunks, chunk_context, embeddings).to_pyarrow()
        places = documents.select("doc_id", "source", "path").to_pyarrow()
        return prompt_transforms.prompt_hashes(chunks, places, asked, made, settings)

    return prompt_hashes


def document_graph_asset(settings: GraphSettings) -> dg.AssetsDefinition:
    """The asset `document_graph`: the files of the graph, written after the index is published."""

    @dg.asset(
        group_name="graph",
        kinds={"json"},
        deps=["search_index"],
        code_version=f"{graph_transforms.VERSION}-{settings.digest()}",
        description=schemas.DOCUMENT_GRAPH.comment,
        metadata=table_metadata(schemas.DOCUMENT_GRAPH),
    )
    def document_graph(
        context: dg.AssetExecutionContext,
        documents: ibis.Table,
        document_chunks: ibis.Table,
        chunk_context: ibis.Table,
        embeddings: ibis.Table,
        chunk_classes: ibis.Table,
        chunk_similarities: ibis.Table,
        stripe_orders: ibis.Table,
        chunk_keywords: ibis.Table,
        prompt_hashes: ibis.Table,
        document_links: ibis.Table,
        graph_exporter: dg.ResourceParam[GraphExporter],
    ) -> pa.Table:
        tables = graph_transforms.GraphTables(
            documents.select("doc_id", "source", "path", "title").to_pyarrow(),
            stripes.embedded_chunks(document_chunks, chunk_context, embeddings).to_pyarrow(),
            chunk_classes.to_pyarrow(),
            chunk_similarities.to_pyarrow(),
            stripe_orders.to_pyarrow(),
            chunk_keywords.to_pyarrow(),
            prompt_hashes.to_pyarrow(),
            document_links.filter(document_links.to_id.notnull()).select("from_id", "to_id").to_pyarrow(),
        )
        files, done = graph_exporter.export(graph_transforms.graph_folders(tables, settings))
        context.add_output_metadata(dict(done))
        return files

    return document_graph


def _question_vectors(questions: list[str], embedder: Embedder, cache: EmbeddingCache) -> np.ndarray:
    """A unit-length row for each question, from the cache where it has been embedded before."""
    by_hash = {text_hash(question): question for question in questions}
    missing = sorted(set(by_hash) - cache.hashes(embedder.model, embedder.dimensions, "query"))
    if missing:
        made = embedder.embed_queries([by_hash[name] for name in missing])
        vectors.require_usable(made, len(missing), embedder.dimensions)
        cache.store(embedder.model, embedder.dimensions, "query", missing, made)
        cache.compact(embedder.model, embedder.dimensions, "query")
    found = cache.vectors(embedder.model, embedder.dimensions, "query", sorted(by_hash))
    places = {name: place for place, name in enumerate(found.column("text_hash").to_pylist())}
    return stripes.matrix(found.column("vector"))[[places[text_hash(q)] for q in questions]]


def _outs(names: tuple[str, ...], version: str) -> dict[str, dg.AssetOut]:
    return {
        name: dg.AssetOut(
            description=TABLES[name].comment,
            code_version=version,
            metadata=table_metadata(TABLES[name]),
            kinds={"parquet", "polars"},
        )
        for name in names
    }
