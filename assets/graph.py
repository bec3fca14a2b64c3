"""The graph of documents: classes, stripes and keywords of a partition's chunks, what spans partitions, the export."""

from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.embedding import query_vectors
from assets.partitions import GRAPH
from assets.protocols.models import Embedder, EmbeddingCache
from assets.protocols.search import GraphExporter
from assets.stages.declaration import Fingerprint, Made, Stage
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


def graph_stages(settings: GraphSettings, term_settings: TermSettings, vectors_version: str) -> list[Stage]:
    """The stages of the graph in order; `vectors_version` is the code version of the asset `embeddings`."""
    return [
        *_lake_wide_stages(settings, term_settings),
        *_partition_stages(settings, term_settings, vectors_version),
        _export_stage(settings),
    ]


def _lake_wide_stages(settings: GraphSettings, term_settings: TermSettings) -> list[Stage]:
    """The stages over all partitions that the graph is made of."""
    return [
        Stage(
            "keywords",
            {"keywords": KEYWORDS},
            _keywords,
            keyword_transforms.VERSION,
            "Finds the keywords of each tree: a term has authority in all of a tree.",
            inputs=("documents",),
            settings=term_settings,
            group=GRAPH.name,
            code=keyword_transforms.keywords,
        ),
        Stage(
            "prompt_hashes",
            {"prompt_hashes": PROMPT_HASHES},
            _prompt_hashes,
            prompt_transforms.VERSION,
            "Gives each question of `qa-pairs.md` to the nearest chunks of its folder; new questions are embedded.",
            inputs=("documents", "document_chunks", "chunk_context", "embeddings"),
            settings=settings,
            group=GRAPH.name,
            resources=("embedder", "embedding_cache"),
            pool="embedding",
            code=prompt_transforms.prompt_hashes,
            lineage={"question": ("documents.text",), "similarity": ("embeddings.vector",)},
        ),
    ]


def _partition_stages(
    settings: GraphSettings, term_settings: TermSettings, vectors_version: str
) -> list[Stage]:
    """The stages of the partitions of documents."""
    return [
        Stage(
            "classify_chunks",
            {"chunk_classes": CHUNK_CLASSES},
            classes_transforms.chunk_classes,
            classes_transforms.VERSION,
            "Says of each chunk of documents whether it is code.",
            inputs=("documents", "document_chunks"),
            settings=settings,
            source_type=GRAPH,
            lineage={"chunk_id": ("document_chunks.chunk_id",), "doc_id": ("document_chunks.doc_id",)},
        ),
        Stage(
            "build_stripes",
            {"chunk_similarities": CHUNK_SIMILARITIES, "stripe_orders": STRIPE_ORDERS},
            stripes.stripes_of,
            stripes.VERSION,
            "Compares the chunks of a document with its baselines, and orders them by that.",
            inputs=("document_chunks", "chunk_classes"),
            settings=settings,
            source_type=GRAPH,
            whole={
                "chunk_context": FINGERPRINTS["chunk_context"],
                "embeddings": lambda *_: vectors_version,
            },
            lineage={"cosine": ("embeddings.vector",), "chunk_id": ("document_chunks.chunk_id",)},
        ),
        Stage(
            "find_keywords",
            {"chunk_keywords": CHUNK_KEYWORDS},
            _chunk_keywords,
            keyword_transforms.VERSION,
            "Finds in each chunk the keywords of the nearest folder above its document.",
            inputs=("document_chunks", "documents"),
            settings=term_settings,
            source_type=GRAPH,
            whole={"keywords": FINGERPRINTS["keywords"]},
            code=keyword_transforms.chunk_keywords,
            lineage={"keyword": ("keywords.keyword",), "chunk_id": ("document_chunks.chunk_id",)},
        ),
    ]


def _export_stage(settings: GraphSettings) -> Stage:
    """The stage that writes the files."""
    return Stage(
        "document_graph",
        {"document_graph": DOCUMENT_GRAPH},
        _document_graph,
        graph_transforms.VERSION,
        "Writes the files of the graph, after the index is published.",
        inputs=(
            *("documents", "document_chunks", "chunk_context", "embeddings", "chunk_classes"),
            *("chunk_similarities", "stripe_orders", "chunk_keywords", "prompt_hashes", "document_links"),
        ),
        settings=settings,
        deps=("search_index",),
        group=GRAPH.name,
        resources=("graph_exporter",),
        kinds=("json",),
        code=graph_transforms.graph_folders,
    )


def _keywords(documents: ibis.Table, settings: TermSettings) -> pa.Table:
    pages = documents.select("doc_id", "source", "path", "title", "text", "body_start").to_pyarrow()
    return keyword_transforms.keywords(pages, settings)


def _chunk_keywords(
    chunks: pa.Table, documents: pa.Table, words: ibis.Table, settings: TermSettings
) -> pa.Table:
    """The keywords of chunks, all of one source, among the `words` of that source."""
    sources = pc.unique(documents.column("source")).to_pylist()
    own = words.filter(words.source.isin(sources)).to_pyarrow() if sources else KEYWORDS.empty()
    return keyword_transforms.chunk_keywords(chunks, documents, own, settings)


def _prompt_hashes(*read: Any, embedder: Embedder, embedding_cache: EmbeddingCache) -> Made:
    """The table `prompt_hashes`; `read` are the inputs of the stage in order and the settings.

    Over the whole lake: a question goes to the nearest chunks of all partitions in the folder of its list.
    """
    documents, document_chunks, chunk_context, embeddings, settings = read
    if settings.prompts == "off":
        return Made([PROMPT_HASHES.empty()], {})
    lists = documents.filter(documents.path.lower().endswith(prompt_transforms.FILE_NAME))
    asked = prompt_transforms.document_questions(
        lists.select("doc_id", "source", "path", "text").to_pyarrow()
    )
    vectors = query_vectors(asked.column("question").to_pylist(), embedder, embedding_cache)
    taken = asked.filter(pc.is_in(asked.column("question"), value_set=pa.array(vectors, pa.string())))
    facts = {"questions": asked.num_rows, "questions_refused": asked.num_rows - taken.num_rows}
    if not taken.num_rows:
        return Made([PROMPT_HASHES.empty()], facts)
    found = np.stack([vectors[question] for question in taken.column("question").to_pylist()])
    chunks = stripes.embedded_chunks(document_chunks, chunk_context, embeddings).to_pyarrow()
    places = documents.select("doc_id", "source", "path").to_pyarrow()
    return Made([prompt_transforms.prompt_hashes(chunks, places, taken, found, settings)], facts)


def _document_graph(*read: Any, graph_exporter: GraphExporter) -> Made:
    """The files of the graph, exported; `read` are the inputs of the stage in order and the settings."""
    *tables, settings = read
    documents, chunks, context, embeddings, *others, links = tables
    classes, similarities, orders, words, prompts = (table.to_pyarrow() for table in others)
    exported = graph_transforms.GraphTables(
        documents.select("doc_id", "source", "path", "title").to_pyarrow(),
        stripes.embedded_chunks(chunks, context, embeddings).to_pyarrow(),
        classes,
        similarities,
        orders,
        words,
        prompts,
        links.filter(links.to_id.notnull()).select("from_id", "to_id").to_pyarrow(),
    )
    files, done = graph_exporter.export(graph_transforms.graph_folders(exported, settings))
    return Made([files], dict(done))


def _of_source(words: ibis.Table, partition: str) -> pa.Table:
    """The keywords of a partition's source."""
    return words.filter(words.source == partition.partition("/")[0]).to_pyarrow()
