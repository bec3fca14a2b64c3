"""Versions of the published index, opened for conversations."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import duckdb

from dagster_project.config.settings import Settings
from dagster_project.context.context_index import IndexForContext
from dagster_project.index.publish.versions import current_version
from dagster_project.index.search.index_faults import translated
from dagster_project.index.search.ranking import ranking_of
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.models.embedders import make_embedder
from dagster_project.models.embedding_cache import QueryVectorCache


class PublishedVersions:
    """Opens the current version below a folder."""

    def __init__(self, settings: Settings):
        self.settings, self.cache = settings, QueryVectorCache(settings.root / "cache" / "embeddings")
        self.embedder = make_embedder(settings.embedding, settings.gemini, settings.safety)

    def of(self, index: SearchIndex) -> IndexForContext:
        """A version that is open already."""
        return IndexForContext(index, self.cache)

    @contextlib.contextmanager
    def open(self, place: Path | None = None) -> Iterator[IndexForContext]:
        """The current version, or the file at `place`, closed on leaving; IndexUnavailableError if it is unusable."""
        if place is None:
            place = current_version(self.settings.root / "index")
        index = SearchIndex(place, self.embedder, self.settings.terms, self.settings.search)
        try:
            index.ranked_by(ranking_of(place, self.settings.index))
            yield self.of(index)
        except duckdb.Error as error:
            raise translated(error, index.path) from error
        finally:
            index.close()


def open_versions(settings: Settings) -> PublishedVersions:
    """The published versions that conversations search, as the settings say that they are opened."""
    return PublishedVersions(settings)
