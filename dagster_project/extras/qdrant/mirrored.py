"""Where the points of a published version are, as files beside its arrays say it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dagster_project.extras.qdrant.searches import point_id
from dagster_project.index.files.arrays import folder_of

_FACTS, _SINCE, _KEYS = "collection.json", "point_since.npy", "point_keys.npy"


@dataclass(frozen=True)
class Mirrored:
    """The collection of a version, and the number of the publish that it is there.

    `layout` is equal for versions that one collection can hold. `chunks` and `mails` are the mean lengths that its
    vectors were made with, `drift` the share by which those of this version are others, `moved` the terms with numbers of
    their own (`sparse_vectors.moved_terms`).
    """

    collection: str
    number: int
    layout: str
    chunks: float
    mails: float
    moved: Mapping[str, int]
    drift: float = 0.0


class PointIds(NamedTuple):
    """The ids of the points of a version by chunk number: the keys of chunks, which ascend, and since which publish."""

    keys: np.ndarray
    since: np.ndarray

    def of(self, chunks: np.ndarray) -> list[str]:
        """The ids of the points of these chunks."""
        pairs = zip(self.keys[chunks].tolist(), self.since[chunks].tolist(), strict=True)
        return [point_id(key, since) for key, since in pairs]


def mirrored(published: Path) -> tuple[Mirrored, PointIds] | None:
    """Where the points of a published file are; None if they are nowhere."""
    folder = folder_of(published)
    try:
        facts = Mirrored(**json.loads((folder / _FACTS).read_text()))
        return facts, PointIds(*(np.load(folder / name, mmap_mode="r") for name in (_KEYS, _SINCE)))
    except (OSError, ValueError, TypeError):
        return None


def write_mirrored(published: Path, facts: Mirrored, ids: PointIds) -> None:
    """Write beside a file where its points are; last what says that they are there."""
    folder = folder_of(published)
    np.save(folder / _KEYS, ids.keys)
    np.save(folder / _SINCE, ids.since)
    (folder / _FACTS).write_text(json.dumps(vars(facts)))
