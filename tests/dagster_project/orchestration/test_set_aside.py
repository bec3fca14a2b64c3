"""One file never stops the others: a stage that fails on a file, a mail or a window is made without
it, and the next reading puts that into quarantine with the reason.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import pyarrow as pa
import pytest

from assets.stages.singly import failing
from dagster_project.orchestration import asset_graph
from tests.archives import Mail, Workspace
from tests.daemon import Daemon
from transforms.conversations import windows
from transforms.documents.chunks import table as document_chunks
from transforms.mail.blocks import table as blocks

POISON = "arsenic"
REASONS = "SELECT place, reason FROM quarantine WHERE reason LIKE 'stage_failed%' ORDER BY ALL"
CHAT = "12/31/23, 10:00 - Ann: {}\n12/31/23, 10:05 - Bob: The compactor merges them.\n"
SOURCES = (
    {"name": "notes", "kind": "vault", "path": "notes"},
    {"name": "dev", "kind": "mbox", "path": "mail/*"},
    {"name": "chat", "kind": "conversation", "path": "chat/*"},
)
STAGES: dict[str, tuple[Any, str, str]] = {
    "chunk_documents": (document_chunks, "document_chunks", "Poison.md"),
    "message_blocks": (blocks, "message_blocks", "dev.2004-01.mbox:"),
    "consolidate_conversations": (windows, "conversation_markdown", "Eve.0001"),
}
"""By stage its function, and the beginning of the place of the text that it fails on."""


@pytest.fixture
def three_kinds(work: Workspace) -> Workspace:
    """Notes, mails and chats; one of each has the word that stages fail on."""
    work.configure(*SOURCES)
    for name in ("Plan", "Poison", "Rest"):
        text = POISON if name == "Poison" else "rye flour"
        work.put(f"notes/{name}.md", f"# {name}\n\nThe recipe wants {text}.\n")
    mails = [Mail(n, f"The compactor wants {POISON if n == 2 else 'rye'}.") for n in range(4)]
    work.write("dev.2004-01.mbox", mails)
    for name, text in (("Ann", "Rye?"), ("Eve", f"Or {POISON}?")):
        work.put(f"chat/WhatsApp Chat with {name}.txt", CHAT.format(text))
    return work


def poisoned(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, fault: Exception) -> None:
    """Let a function fail on tables that hold the word."""
    make: Callable[..., Any] = getattr(place, name)

    @wraps(make)  # the version of a stage is that of the code by this name
    def failing_make(*tables: Any, **more: Any) -> Any:
        if any(POISON in str(table) for table in tables[0].to_pylist()):
            raise fault
        return make(*tables, **more)

    monkeypatch.setattr(place, name, failing_make)
    for cache in (asset_graph._stages_of, asset_graph._assets_of):
        cache.cache_clear()  # settings of equal words have the same stages


def test_stages_that_fail_on_a_file_make_the_others_and_say_so(
    three_kinds: Workspace, monkeypatch: pytest.MonkeyPatch
):
    for module, function, _ in STAGES.values():
        poisoned(monkeypatch, module, function, MemoryError("no room for it"))
    result = three_kinds.build()
    rows = {reason.split(": ")[1]: (place, reason) for place, reason in three_kinds.sql(REASONS)}
    assert rows.keys() == STAGES.keys()
    for stage, (place, reason) in rows.items():
        assert place.startswith(STAGES[stage][2])
        assert reason == f"stage_failed: {stage}: MemoryError: no room for it"
        assert any(reason in line for line in result.warnings())
    assert len(result.failed_files) == 3
    searchable = "SELECT count(*) FROM readiness WHERE is_searchable"
    assert three_kinds.column(searchable) == [2 + 3 + 1], "one of each is in quarantine"
    assert three_kinds.plan().is_empty
    three_kinds.put("notes/Poison.md", "# Poison\n\nNow without.\n")
    three_kinds.write("dev.2004-01.mbox", [Mail(n, "All rye.") for n in range(4)])
    three_kinds.put("chat/WhatsApp Chat with Eve.txt", CHAT.format("Rye, too?"))
    three_kinds.build()
    assert three_kinds.column(searchable) == [9] and three_kinds.sql(REASONS) == []


def test_an_hour_says_at_once_what_a_stage_failed_on(
    three_kinds: Workspace, monkeypatch: pytest.MonkeyPatch
):
    poisoned(monkeypatch, document_chunks, "document_chunks", MemoryError("no room for it"))
    with three_kinds.instance() as instance:
        daemon = Daemon(three_kinds, instance)
        daemon.hour()
        daemon.rest()
        assert [place for place, _ in three_kinds.sql(REASONS)] == ["Poison.md"]
        daemon.restart()
        assert daemon.hour() == []


def test_a_fault_of_the_stage_is_the_fault_of_no_file() -> None:
    def broken(*_: Any, **more: Any) -> None:
        raise KeyError("a fault of the code")

    column = pa.chunked_array([[str(n) for n in range(9)]])
    table = pa.table({"doc_id": column})
    assert failing("stage", broken, [table], [column]) == {}

    def of_two(tables: list[pa.Table]) -> None:
        ids = tables[0].column(0).to_pylist()
        if "3" in ids or "7" in ids:
            raise MemoryError

    assert sorted(failing("stage", of_two, [table], [column])) == ["3", "7"]

    def of_many(tables: list[pa.Table]) -> None:
        if tables[0].num_rows > 4:
            raise MemoryError

    assert failing("stage", of_many, [table], [column]) == {}, "the machine is too small"
