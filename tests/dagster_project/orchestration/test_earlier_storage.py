"""An update over the storage of an earlier Weft: planned, rebuilt where code changed, and no text
paid for twice.
"""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_project.orchestration.asset_graph import all_stages
from tests.archives import Workspace, differences, rebuilt
from tests.gemini_loopback import KEY, Loopback, loopback

STORAGE = Path(__file__).with_name("earlier_storage.tar.xz")
"""A list, notes with sentences and a chat under Gemini's models, and their storage with Dagster's
history, built by the commit 7a99f22e.
"""


@pytest.fixture
def earlier(tmp_path: Path) -> Workspace:
    with tarfile.open(STORAGE) as archive:
        archive.extractall(tmp_path / "earlier", filter="data")
    return Workspace(tmp_path / "earlier")


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    with loopback() as service:
        service.reply = sentences
        monkeypatch.setenv("GEMINI_API_KEY", KEY)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", service.url)
        yield service


def sentences(prompt: str) -> str:
    chunks = json.loads(prompt)["chunks"]
    return json.dumps({"sentences": ["The chunk is about the planner."] * len(chunks)})


def test_the_tables_of_code_that_changed_are_stale_and_nothing_is_damaged(earlier: Workspace):
    plan = earlier.plan()
    stages = [s for s in all_stages(earlier.settings) if not s.asks_index]
    stale = {table for tables in plan.stale.values() for table in tables}
    assert stale | {*plan.whole} >= {table for stage in stages for table in stage.tables}
    assert plan.publish and not plan.damaged
    assert {reason.partition(" is ")[2] for reason in plan.reasons.values()} == {
        "of another version of Weft"
    }


@pytest.mark.exhaustive
def test_an_update_pays_for_no_vector_or_sentence_twice_and_equals_a_full_build(
    earlier: Workspace, tmp_path: Path, gemini: Loopback
):
    earlier.build()
    assert gemini.paid == {}
    assert earlier.plan().is_empty
    assert differences(earlier.index, rebuilt(earlier, tmp_path / "full").index) == {}
