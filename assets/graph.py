"""The graph of documents: classes, stripes and keywords of a partition's chunks, what spans partitions, the export."""

import dagster as dg
import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.embedding import query_vectors
from assets.partitions import GRAPH, described
from assets.protocols.models import Embedder, EmbeddingCache
from assets.protocols.search import GraphExporter
from assets.stages import Fingerprint, Stage, stage_asset
from transforms.graph import chunk_classes as classes_transforms
from transforms.graph import hal_export as graph_transforms
from transforms.graph import keywords as keyword_transforms
from transforms.graph import prompt_hashes as prompt_transforms
from transforms.graph import stripes
from transforms.schemas.graph import (
    CHUNK_CLASSES,
    CHUNK_KEYWORDS,
    CHUNK_SIMILARITIES,
    DOCUMENT_GRAPH,
    KEYWORDS,
    PROMPT_HASHES,
    STRIPE_ORDERS,
)
from transforms.settings.documents import GraphSettings
from transforms.settings.search import TermSettings

FINGERPRINTS: dict[str, Fingerprint] = {
    "chunk_context": lambda context, partition, chunks, *_: stripes.texts_hash(chunks, context),
    "keywords": lambda words, partition, *_: keyword_transforms.keywords_hash(_of_source(words, partition)),
}
"""What of a table without partitions concerns one of documents, given its chunks."""


def graph_assets(
    settings: GraphSettings, term_settings: TermSettings, vectors_version: str
) -> list[dg.AssetsDefinition]:
    """The assets of the graph in order; none unless it is enabled, so that mail alone pays nothing.

    `vectors_version` is the code version of the asset `embeddings`.
    """
    if not settings.enabled:
        return []
    return [
        chunk_classes_asset(settings),
        stripes_asset(settings, vectors_version),
        keywords_asset(term_settings),
        chunk_keywords_asset(term_settings),
        prompt_hashes_asset(settings),
        document_graph_asset(settings),
    ]


def chunk_classes_asset(settings: GraphSettings) -> dg.AssetsDefinition:
    """The asset `chunk_classes`."""
    return stage_asset(
        GRAPH,
        Stage(
            "classify_chunks",
            {"chunk_classes": CHUNK_CLASSES},
            ["documents", "document_chunks"],
            f"{classes_transforms.VERSION}-{settings.digest()}",
            lambda partition, documents, chunks: (
                classes_transforms.chunk_classes(documents, chunks, settings),
            ),
        ),
    )


def stripes_asset(settings: GraphSettings, vectors_version: str) -> dg.AssetsDefinition:
    """The multi-asset `chunk_similarities`, `stripe_orders`."""
    return stage_asset(
        GRAPH,
        Stage(
            "build_stripes",
            {"chunk_similarities": CHUNK_SIMILARITIES, "stripe_orders": STRIPE_ORDERS},
            ["document_chunks", "chunk_classes"],
            f"{stripes.VERSION}-{settings.digest()}",
            lambda partition, chunks, classes, context, embeddings: stripes.stripes_of(
                chunks, classes, context, embeddings, settings
            ),
            whole={
                "chunk_context": FINGERPRINTS["chunk_context"],
                "embeddings": lambda *_: vectors_version,
            },
        ),
    )


def keywords_asset(term_settings: TermSettings) -> dg.AssetsDefinition:
    """The asset `keywords`, over the whole lake, since authority is that of a term in all of a tree."""
    version = f"{keyword_transforms.VERSION}-{term_settings.digest()}"

    @dg.asset(group_name=GRAPH.name, **described(KEYWORDS, version, "polars"))
    def keywords(documents: ibis.Table) -> pa.Table:
        pages = documents.select("doc_id", "source", "path", "title", "text", "body_start").to_pyarrow()
        return keyword_transforms.keywords(pages, term_settings)

    return keywords


def chunk_keywords_asset(term_settings: TermSettings) -> dg.AssetsDefinition:
    """The asset `chunk_keywords`."""
    return stage_asset(
        GRAPH,
        Stage(
            "find_keywords",
            {"chunk_keywords": CHUNK_KEYWORDS},
            ["document_chunks", "documents"],
            f"{keyword_transforms.VERSION}-{term_settings.digest()}",
            lambda partition, chunks, documents, words: (
                keyword_transforms.chunk_keywords(
                    chunks, documents, _of_source(words, partition), term_settings
                ),
            ),
            whole={"keywords": FINGERPRINTS["keywords"]},
        ),
    )


def prompt_hashes_asset(settings: GraphSettings) -> dg.AssetsDefinition:
    """The asset `prompt_hashes`; new questions are embedded.

    Over the whole lake: a question goes to the nearest chunks of all partitions in the folder of its list.
    """
    version = f"{prompt_transforms.VERSION}-{settings.digest()}"

    @dg.asset(group_name=GRAPH.name, pool="embedding", **described(PROMPT_HASHES, version, "polars"))
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
            return PROMPT_HASHES.empty()
        lists = documents.filter(documents.path.lower().endswith(prompt_transforms.FILE_NAME))
        asked = prompt_transforms.document_questions(
            lists.select("doc_id", "source", "path", "text").to_pyarrow()
        )
        vectors = query_vectors(asked.column("question").to_pylist(), embedder, embedding_cache)
        taken = asked.filter(pc.is_in(asked.column("question"), value_set=pa.array(vectors, pa.string())))
        context.add_output_metadata(
            {"questions": asked.num_rows, "questions_refused": asked.num_rows - taken.num_rows}
        )
        if not taken.num_rows:
            return PROMPT_HASHES.empty()
        made = np.stack([vectors[question] for question in taken.column("question").to_pylist()])
        chunks = stripes.embedded_chunks(document_chunks, chunk_context, embeddings).to_pyarrow()
        places = documents.select("doc_id", "source", "path").to_pyarrow()
        return prompt_transforms.prompt_hashes(chunks, places, taken, made, settings)

    return prompt_hashes


def document_graph_asset(settings: GraphSettings) -> dg.AssetsDefinition:
    """The asset `document_graph`: the files of the graph, written after the index is published."""
    version = f"{graph_transforms.VERSION}-{settings.digest()}"

    @dg.asset(group_name=GRAPH.name, deps=["search_index"], **described(DOCUMENT_GRAPH, version, "json"))
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


def _of_source(words: ibis.Table, partition: str) -> pa.Table:
    """The keywords of a partition's source."""
    return words.filter(words.source == partition.partition("/")[0]).to_pyarrow()
