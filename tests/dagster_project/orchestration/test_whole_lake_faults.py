"""A stage over the whole lake that fails by a fault of its own is named with the remedy: what does
not need it is made, the version before stays, and the next build goes on.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from assets.pipeline import relation_stages
from assets.stages.declaration import Stage
from assets.stages.stage_run import StageRun
from dagster_project.index.publish.publisher import DuckDBPublisher
from tests.archives import Workspace, discussion
from tests.cases import some

STAGES = (
    *("build_threads", "memberships", "mail_buckets", "message_links", "document_links"),
    *("patch_series", "people", "inferred_quotes", "build_chunk_context", "measure_counts"),
    *("corpus_measures", "search_index"),
)
FAULTS = {
    "MemoryError": (MemoryError(), "end other programs, or give it more memory"),
    "KeyError: 'subject'": (KeyError("subject"), "build again; if it stays so, report it"),
}
"""By the words of a fault that has none, or some that say little, the fault and the remedy."""
SEARCHABLE = "SELECT count(*) FROM messages"


def let_fail(monkeypatch: pytest.MonkeyPatch, name: str, fault: Exception) -> None:
    """Let a stage fail on whatever it reads, or the publisher."""
    make = StageRun.make

    def failing_make(self: StageRun, *inputs: Any, **more: Any) -> Any:
        if self.stage.name == name:
            raise fault
        return make(self, *inputs, **more)

    def publish(*_: Any) -> None:
        raise fault

    monkeypatch.setattr(StageRun, "make", failing_make)
    if name == "search_index":
        monkeypatch.setattr(DuckDBPublisher, "publish", publish)


def behind(stages: Sequence[Stage], name: str) -> set[str]:
    """The tables that a stage makes, and all that are made of these."""
    found: set[str] = set()
    for stage in stages:
        reads = {*stage.inputs, *(["mail_buckets"] if stage.in_buckets else [])}
        if stage.name == name or reads & found:
            found |= {*stage.outputs}
    return found


def stored(work: Workspace, stages: Sequence[Stage]) -> dict[str, set[tuple[str, int]]]:
    """By table that stages make its files, each with the time when it was written."""
    base = Path(str(work.lake.base))
    return {
        table: {
            (str(file), file.stat().st_mtime_ns)
            for file in (base / f"{table}.parquet", *(base / table).rglob("*.parquet"))
            if file.exists()
        }
        for stage in stages
        for table in stage.outputs
    }


@pytest.mark.parametrize("name", some(STAGES, each=11))
def test_a_stage_over_all_that_fails_is_named_and_the_next_build_goes_on(
    built: Workspace, monkeypatch: pytest.MonkeyPatch, name: str
):
    stages = relation_stages(built.settings)
    assert {stage.name for stage in stages} == {*STAGES} - {"search_index"}
    current = (built.index / "CURRENT").resolve()
    (before,) = built.column(SEARCHABLE)
    built.write("dev/dev.2004-03.mbox", discussion(400, 4, "sieve"))
    there = stored(built, stages)
    words, (fault, remedy) = [*FAULTS.items()][STAGES.index(name) % 2]
    with monkeypatch.context() as patch:
        let_fail(patch, name, fault)
        failed = built.weft("build")
    assert failed.exit_code == 1
    (line,) = [line for line in failed.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith(f"error: step {name} failed: {words} (run ")
    assert f"nothing is published, and the version before stays: {remedy}" in line
    assert (built.index / "CURRENT").resolve() == current
    assert built.column(SEARCHABLE) == [before]
    assert built.weft("search", "compactor").exit_code == 0
    changed = {table for table, files in stored(built, stages).items() if files != there[table]}
    assert changed == there.keys() - behind(stages, name), "what does not need it is made"
    done = built.weft("build")
    assert done.exit_code == 0, done.output
    assert built.column(SEARCHABLE) == [before + 4] and built.plan().is_empty
