"""The stages of the document graph: keywords, questions, classes and stripes of chunks, and the
export of files.
"""

from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.embedding import query_vectors
from assets.protocols.models import Embedder, EmbeddingCache
from assets.stages.declaration import Display, Made, Needs, Stage
from dagster_project.extras.graph.exporter import FileGraphExporter
from dagster_project.extras.graph.transforms import chunk_classes as classes_transforms
from dagster_project.extras.graph.transforms import hal_export, schema, stripes
from dagster_project.extras.graph.transforms import keywords as keyword_transforms
from dagster_project.extras.graph.transforms import prompt_hashes as prompt_transforms
from dagster_project.extras.graph.transforms.settings import GraphSettings
from transforms.embedding.embedded_text import embedded_chunks
from transforms.settings.search import TermSettings

GROUP = "graph"
_EMBEDDED = ("document_chunks", "chunk_context", "embeddings")


def graph_stages(settings: GraphSettings, term_settings: TermSettings) -> list[Stage]:
    """The stages in order, each over the whole lake: a term has authority in all of a tree, a
    question any chunk of it.
    """
    return [
        Stage(
            "keywords",
            _keywords,
            Display(
                "Finds the keywords of each tree: a term has authority in all of a tree.",
                group=GROUP,
                code=keyword_transforms.keywords,
            ),
            inputs=("documents",),
            settings=term_settings,
            declared={"keywords": schema.KEYWORDS},
        ),
        Stage(
            "prompt_hashes",
            _prompt_hashes,
            Display(
                "Gives each question of `qa-pairs.md` to the nearest chunks of its folder; new questions are embedded.",
                kinds=("numpy", "polars"),
                group=GROUP,
                code=prompt_transforms.prompt_hashes,
                lineage={"question": ("documents.text",), "similarity": ("embeddings.vector",)},
            ),
            inputs=("documents", *_EMBEDDED),
            settings=settings,
            needs=Needs(resources=("embedder", "embedding_cache")),
            declared={"prompt_hashes": schema.PROMPT_HASHES},
        ),
        *_chunk_stages(settings, term_settings),
        Stage(
            "document_graph",
            _document_graph,
            Display(
                "Writes the files of the graph, after the index is published.",
                group=GROUP,
                kinds=("json", "numpy"),
                code=hal_export.graph_folders,
            ),
            inputs=(
                *("documents", *_EMBEDDED, "chunk_classes", "chunk_similarities", "stripe_orders"),
                *("chunk_keywords", "prompt_hashes", "document_links"),
            ),
            settings=settings,
            needs=Needs(resources=("graph_exporter",), deps=("search_index",)),
            declared={"document_graph": schema.DOCUMENT_GRAPH},
        ),
    ]


def _chunk_stages(settings: GraphSettings, term_settings: TermSettings) -> list[Stage]:
    return [
        Stage(
            "classify_chunks",
            _chunk_classes,
            Display(
                "Says of each chunk of documents whether it is code.",
                kinds=("numpy", "polars"),
                group=GROUP,
                code=classes_transforms.chunk_classes,
                lineage={
                    "chunk_id": ("document_chunks.chunk_id",),
                    "doc_id": ("document_chunks.doc_id",),
                },
            ),
            inputs=("documents", "document_chunks"),
            outputs=("chunk_classes",),
            settings=settings,
            declared={"chunk_classes": schema.CHUNK_CLASSES},
        ),
        Stage(
            "build_stripes",
            _stripes,
            Display(
                "Compares the chunks of a document with its baselines, and orders them by that.",
                kinds=("numpy", "polars"),
                group=GROUP,
                code=stripes.chunk_similarities,
                lineage={
                    "cosine": ("embeddings.vector",),
                    "chunk_id": ("document_chunks.chunk_id",),
                },
            ),
            inputs=(*_EMBEDDED, "chunk_classes"),
            outputs=("chunk_similarities", "stripe_orders"),
            settings=settings,
            declared={
                "chunk_similarities": schema.CHUNK_SIMILARITIES,
                "stripe_orders": schema.STRIPE_ORDERS,
            },
        ),
        Stage(
            "find_keywords",
            _chunk_keywords,
            Display(
                "Finds in each chunk the keywords of the nearest folder above its document.",
                group=GROUP,
                code=keyword_transforms.chunk_keywords,
                lineage={
                    "keyword": ("keywords.keyword",),
                    "chunk_id": ("document_chunks.chunk_id",),
                },
            ),
            inputs=("document_chunks", "documents", "keywords"),
            outputs=("chunk_keywords",),
            settings=term_settings,
            declared={"chunk_keywords": schema.CHUNK_KEYWORDS},
        ),
    ]


def _keywords(documents: ibis.Table, settings: TermSettings) -> pa.Table:
    pages = documents.select("doc_id", "source", "path", "title", "text", "body_start").to_pyarrow()
    return keyword_transforms.keywords(pages, settings)


def _chunk_classes(documents: ibis.Table, chunks: ibis.Table, settings: GraphSettings) -> pa.Table:
    fenced = documents.filter(documents.text.contains("```") | documents.text.contains("~~~"))
    texts = fenced.select("doc_id", "format", "text", "body_start").to_pyarrow()
    rows = chunks.select(
        "chunk_id", "doc_id", "chunk_index", "text_display", "spans", "is_code"
    ).to_pyarrow()
    return classes_transforms.chunk_classes(texts, rows, settings)


def _stripes(
    chunks: ibis.Table,
    context: ibis.Table,
    embeddings: ibis.Table,
    classes: ibis.Table,
    settings: GraphSettings,
) -> tuple[pa.Table, pa.Table]:
    embedded = embedded_chunks(chunks, context, embeddings).to_pyarrow()
    similarities = stripes.chunk_similarities(embedded, classes.to_pyarrow(), settings)
    return similarities, stripes.stripe_orders(similarities)


def _chunk_keywords(
    chunks: ibis.Table, documents: ibis.Table, words: ibis.Table, settings: TermSettings
) -> pa.Table:
    texts = chunks.select("chunk_id", "doc_id", "text_display").to_pyarrow()
    places = documents.select("doc_id", "source", "path").to_pyarrow()
    return keyword_transforms.chunk_keywords(texts, places, words.to_pyarrow(), settings)


def _prompt_hashes(*inputs: Any, embedder: Embedder, embedding_cache: EmbeddingCache) -> Made:
    """The table `prompt_hashes`; `inputs` are those of the stage in order and the settings."""
    documents, *embedded, settings = inputs
    if settings.prompts == "off":
        return Made([schema.PROMPT_HASHES.empty()], {})
    rows = prompt_transforms.document_questions(question_lists(documents))
    vectors = query_vectors(rows.column("question").to_pylist(), embedder, embedding_cache)
    usable = rows.filter(
        pc.is_in(rows.column("question"), value_set=pa.array(vectors, pa.string()))
    )
    facts = {"questions": rows.num_rows, "questions_refused": rows.num_rows - usable.num_rows}
    if not usable.num_rows:
        return Made([schema.PROMPT_HASHES.empty()], facts)
    matrix = np.stack([vectors[question] for question in usable.column("question").to_pylist()])
    places = documents.select("doc_id", "source", "path").to_pyarrow()
    chunks = embedded_chunks(*embedded).to_pyarrow()
    return Made([prompt_transforms.prompt_hashes(chunks, places, usable, matrix, settings)], facts)


def question_lists(documents: ibis.Table) -> pa.Table:
    """The documents that list questions, as `prompt_hashes.document_questions` reads them."""
    lists = documents.filter(documents.path.lower().endswith(prompt_transforms.FILE_NAME))
    return lists.select("doc_id", "source", "path", "text").to_pyarrow()


def _document_graph(*inputs: Any, graph_exporter: FileGraphExporter) -> Made:
    """The files of the graph, exported; `inputs` are those of the stage in order and the settings."""
    documents, chunks, context, embeddings, *others, links, settings = inputs
    tables = (
        documents.select("doc_id", "source", "path", "title"),
        embedded_chunks(chunks, context, embeddings),
        *others,
        links.filter(links.to_id.notnull()).select("from_id", "to_id"),
    )
    exported = hal_export.GraphTables(*(table.to_pyarrow() for table in tables))
    files, done = graph_exporter.export(hal_export.graph_folders(exported, settings))
    return Made([files], dict(done))
