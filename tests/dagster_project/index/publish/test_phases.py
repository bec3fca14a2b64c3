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
    steps: list[tuple[str, int]] = []
    progress = CountedProgress(lambda stage, _partition, rows: steps.append((stage, rows)))
    full = make_publisher(built.settings, built.lake).publish(partitions, progress)
    phases = list(dict.fromkeys(stage for stage, _ in steps))
    assert [phase.removeprefix("publish_") for phase in phases] == [
        "relations", "terms", "tables", "postings", "vectors", "search_index",
    ]  # fmt: skip
    assert set(phases) <= set(_STAGES)
    assert progress.rows["publish_postings"] == full.rows["postings"] > 0
    assert progress.rows["publish_terms"] == full.rows["chunks"]
    assert progress.rows["publish_vectors"] == full.rows["embeddings"]


@pytest.mark.exhaustive
def test_an_update_of_the_previous_version_has_phases_too(built: Workspace):
    partitions = dict.fromkeys(built.lake.partitions("messages"), "mail")
    publisher, phases = make_publisher(built.settings, built.lake), dict[str, None]()
    publisher.publish(dict([*partitions.items()][:-1]))
    progress = CountedProgress(lambda stage, _partition, _rows: phases.setdefault(stage))
    assert publisher.publish(partitions, progress).reused
    assert [phase.removeprefix("publish_") for phase in phases] == [
        "relations", "tables", "postings", "vectors", "search_index",
    ]  # fmt: skip
