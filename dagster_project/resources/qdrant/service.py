"""Qdrant as the settings name it: what mirrors a publish there, and the points of a published file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dagster_project.resources.qdrant.mirrored import mirrored
from dagster_project.resources.qdrant.points import Points
from dagster_project.resources.system.extras import not_installed
from transforms.settings.operations import IndexSettings
from transforms.settings.search import SearchSettings

if TYPE_CHECKING:
    from dagster_project.resources.qdrant.mirror import QdrantMirror


def make_mirror(index: IndexSettings, search: SearchSettings) -> QdrantMirror | None:
    """What sends each publish to Qdrant; None unless the settings say so, SettingsError without the extra."""
    if index.target != "qdrant" or index.url is None:
        return None
    try:
        # What these import comes with the extra.
        from dagster_project.resources.qdrant.collection import connected
        from dagster_project.resources.qdrant.mirror import QdrantMirror
    except ImportError as error:
        raise not_installed(error, "qdrant") from error
    return QdrantMirror(connected(index.address), index.collection, search)


def points_of(published: Path, index: IndexSettings) -> Points | None:
    """The points of a published file; None if it was not sent to Qdrant, or the settings do not say where it is.

    SettingsError without the extra.
    """
    if index.target != "qdrant" or index.url is None or (stored := mirrored(published)) is None:
        return None
    try:
        # What it imports comes with the extra.
        from dagster_project.resources.qdrant.collection import Collection, connected
    except ImportError as error:
        raise not_installed(error, "qdrant") from error
    facts, ids = stored
    return Points(Collection(connected(index.address), facts.collection), facts, ids)
