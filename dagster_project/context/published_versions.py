"""Versions of the published index, opened for conversations."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from dagster_project.config.settings import Settings
from dagster_project.context.context_index import IndexForContext
from dagster_project.index.search.index_faults import faults_translated
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.models.embedding_cache import QueryVectorCache


class PublishedVersions:
    """Opens the current version below a folder."""

    def __init__(self, settings: Settings):
        self.settings, self.cache = settings, QueryVectorCache(settings.root / "cache" / "embeddings")

    def of(self, index: SearchIndex) -> IndexForContext:
        """A version that is open already."""
        return IndexForContext(index, self.cache)

    @contextmanager
    def open(self, place: Path | None = None) -> Iterator[IndexForContext]:
        """The current version, or the file at `place`, closed on leaving; IndexUnavailableError if it is unusable."""
        with closing(open_index(self.settings, place=place)) as index, faults_translated(index.path):
            yield self.of(index)
