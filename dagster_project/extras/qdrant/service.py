"""Qdrant as the settings name it: the mirror of a publish, and the points of a published file."""

from pathlib import Path

from dagster_project.extras.qdrant import collection
from dagster_project.extras.qdrant.batch import PointRanking
from dagster_project.extras.qdrant.mirror import QdrantMirror
from dagster_project.extras.qdrant.points import Points, mirrored
from transforms.settings.operations import IndexSettings
from transforms.settings.search import SearchSettings


def qdrant_mirror(index: IndexSettings, search: SearchSettings) -> QdrantMirror:
    """The mirror that sends each publish to Qdrant."""
    alias = index.target.rpartition("/")[2]
    return QdrantMirror(collection.connected(_address(index)), alias, search, _address(index))


def qdrant_ranking(published: Path, index: IndexSettings) -> PointRanking | None:
    """The points of a published file as its ranking; None if it was not sent to Qdrant."""
    if (stored := mirrored(published)) is None:
        return None
    facts, ids = stored
    client = collection.connected(_address(index))
    return PointRanking(Points(collection.Collection(client, facts.collection), facts, ids))


def _address(index: IndexSettings) -> str:
    return index.target.rpartition("/")[0]
