"""A publish says what it is at, with the rows and seconds of each phase."""

import shutil

import pytest

from dagster_project.cli.render.builds import _STAGES
from dagster_project.composition.objects import make_publisher
from dagster_project.system.long_work import CountedProgress
from tests.archives import Workspace


@pytest.mark.exhaustive
def test_phases_follow_each_other_and_count_what_they_write(built: Workspace):
    shutil.rmtree(built.settings.root / "index")
    partitions = dict.fromkeys(built.lake.partitions("messages"), "mail")
    publisher = make_publisher(built.settings, built.lake)
    for now, is_update in ((dict([*partitions.items()][:-1]), False), (partitions, True)):
        phases: dict[str, None] = {}
        progress = CountedProgress(lambda stage, _partition, _rows, to=phases: to.setdefault(stage))  # type: ignore[misc]
        made = publisher.publish(now, progress)
        assert made.reused is is_update and set(phases) <= set(_STAGES)
        terms = [] if is_update else ["terms"]
        assert [phase.removeprefix("publish_") for phase in phases] == [
            "relations",
            *terms,
            "tables",
            "postings",
            "vectors",
            "search_index",
        ]
        if not is_update:
            assert progress.rows["publish_postings"] == made.rows["postings"] > 0
            assert progress.rows["publish_terms"] == made.rows["chunks"]
            assert progress.rows["publish_vectors"] == made.rows["embeddings"]
