"""Since when a partition has had text that the lake lacks."""

from datetime import datetime
from pathlib import Path

from assets.protocols.sources import SourcePartition
from dagster_project.sources.seen_partitions import SeenPartitions
from dagster_project.system.globs import recall, seen_times
from tests.archives import Workspace
from transforms.schemas.registry import REGISTRY


def test_a_partition_waits_since_the_first_change_that_the_lake_lacks(
    workspace: Workspace, tmp_path: Path
):
    seen, looked = SeenPartitions(tmp_path / "seen.json"), tmp_path / "looked.json"

    def note(fingerprint: str, broken: tuple[str, ...] = ()) -> datetime:
        partition = SourcePartition("dev", "a", None, fingerprint)
        seen.note([partition], workspace.lake, ["dev"], broken)
        return seen.times()["dev/a"]

    def make(fingerprint: str) -> None:
        rows, inputs = REGISTRY["messages"].schema.empty(), {"partition": fingerprint}
        workspace.lake.stage("messages", "dev/a", rows, code_version="1", inputs=inputs).commit()

    first = note("one")
    assert note("two") == first, "it changed again while it waited"
    assert recall(looked)["dev"][0] == 1
    make("two")
    assert note("two") == first and recall(looked)["dev"][0] == 0
    (_, before) = seen_times(looked)["dev"]
    assert note("three", broken=("dev",)) > first, "another text waits now"
    assert seen_times(looked)["dev"] == ("0", before), (
        "a source that cannot be read was not read now"
    )
