"""The published index as the settings say that it is opened: all that a search needs, and nothing that builds."""

from __future__ import annotations

from dagster_project.resources.embedders import make_embedder
from dagster_project.resources.rerankers import make_reranker
from dagster_project.resources.search_index import SearchIndex, open_current
from dagster_project.settings import Settings


def open_index(settings: Settings) -> SearchIndex:
    """The published index of these settings."""
    embedder = make_embedder(settings.embedding, settings.gemini, settings.safety)
    reranker = make_reranker(settings.rerank, settings.gemini, settings.safety)
    return open_current(settings.root / "index", embedder, settings.terms, settings.search, reranker)
