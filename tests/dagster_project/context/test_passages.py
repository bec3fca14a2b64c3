"""Passages of a context are read from the rows of hits."""

from contextlib import closing
from typing import Any

import pytest

from dagster_project.context.context_index import passages
from dagster_project.context.conversation_context import context_of, read_conversation
from dagster_project.index.search.opened_index import open_index
from dagster_project.outgoing.screen import Screen
from tests.archives import Workspace


class Recorder:
    """Notes the statements that a connection executes."""

    def __init__(self, connection: Any):
        self.connection, self.statements = connection, list[str]()

    def execute(self, statement: str, *parameters: Any) -> Any:
        self.statements.append(statement)
        return self.connection.execute(statement, *parameters)

    def close(self) -> None:
        self.connection.close()


def test_mails_take_one_statement_for_their_numbers_and_none_if_these_are_known(built: Workspace):
    with closing(open_index(built.settings)) as index:
        rows = index.connection.execute(
            "SELECT chunk_id, chunk_no FROM chunks WHERE source_kind = 'message' ORDER BY chunk_no"
        ).fetchall()
        numbers, recorder = dict(rows), Recorder(index.connection)
        index.connection = recorder
        by_id = passages(index, [*numbers])
        assert len(numbers) > 2 and len(recorder.statements) == 1
        assert passages(index, [*numbers], numbers) == by_id and len(recorder.statements) == 1
        assert all(p.text in (p.around or p.text) for p in by_id.values() if p.is_exact)


def test_only_passages_that_a_block_shows_are_masked(
    built_once: Workspace, monkeypatch: pytest.MonkeyPatch
):
    settings = built_once.settings
    small = settings.context.model_copy(update={"budget_tokens": 64})
    masked: list[str] = []
    mask = Screen.passages

    def noting(self: Screen, passages: Any) -> Any:
        masked.extend(passages)
        return mask(self, passages)

    monkeypatch.setattr(Screen, "passages", noting)
    settings = settings.model_copy(update={"context": small})
    result = context_of(settings, read_conversation(settings, None, "How does the compactor do?"))
    shown = {passage.chunk_id for passage in result.passages}
    assert shown and shown <= {*masked}
    assert len({*masked}) < result.documents / 2
