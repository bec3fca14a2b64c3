"""Since when a partition has had text that the lake lacks."""

from datetime import datetime
from pathlib import Path

from assets.protocols.sources import SourcePartition
from dagster_project.ledger.ledger import Ledger, Row
from dagster_project.sources.seen_partitions import SeenPartitions
from tests.archives import Workspace
from transforms.schemas.registry import REGISTRY


def test_a_partition_waits_since_the_first_change_that_the_lake_lacks(
    workspace: Workspace, tmp_path: Path
):
    ledger = Ledger(tmp_path / "state.sqlite")
    seen = SeenPartitions(ledger)

    def looked() -> Row:
        return ledger.rows("sources")[("dev",)]

    def note(fingerprint: str, broken: tuple[str, ...] = ()) -> datetime:
        partition = SourcePartition("dev", "a", None, fingerprint)
        seen.note([partition], workspace.lake, ["dev"], broken)
        return seen.times()["dev/a"]

    def make(fingerprint: str) -> None:
        rows, inputs = REGISTRY["messages"].schema.empty(), {"partition": fingerprint}
        workspace.lake.stage("messages", "dev/a", rows, code_version="1", inputs=inputs).commit()

    first = note("one")
    assert note("two") == first, "it changed again while it waited"
    assert looked()[0] == 1
    make("two")
    assert note("two") == first and looked()[0] == 0
    before = looked()
    assert note("three", broken=("dev",)) > first, "another text waits now"
    assert looked() == before, "a source that cannot be read was not read now"
