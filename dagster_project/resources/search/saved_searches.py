"""The published index as saved searches ask it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

from dagster_project.resources.search.search_index import Filters, SearchIndex
from transforms.retrieval.saved_searches import Answers


class PublishedSearcher:
    """Opens the current version for each batch of queries."""

    def __init__(self, opened: Callable[[], SearchIndex]):
        self.opened = opened

    def search(self, queries: Sequence[str], filters: Mapping[str, Any], limit: int) -> Answers:
        """The hits of each query; `filters` are those of `Filters` by name."""
        with closing(self.opened()) as index:
            found = index.search(queries, Filters(**filters), limit)
            return Answers(found.hits, found.labels, index.manifest["version"])
