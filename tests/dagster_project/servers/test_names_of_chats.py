"""Names in one's own chats: their owner reads them, an assistant and a lens read pseudonyms."""

import json
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from dagster_project.config.settings import Settings
from dagster_project.index.search.filters import where_conditions
from dagster_project.index.search.opened_index import open_index
from tests.archives import Workspace
from tests.assistants import called

CHATS = {
    "WhatsApp Chat with Melanie Stone.txt": [
        "12/03/2024, 10:00 - Melanie Stone: Which animal lives in your house?",
        "12/03/2024, 10:01 - Caroline Reed: Two cats, and @Melanie Stone knows both from the garden.",
    ],
    "WhatsApp Chat with Club.txt": [
        "13/03/2024, 10:00 - Oscar Finch: Melanie Stone painted the fence of the club green.",
        "13/03/2024, 10:01 - Caroline Reed: The gate is open on Sunday.",
    ],
}
NAMES = ("Melanie", "Stone", "Caroline", "Reed", "Oscar", "Finch")


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    work = Workspace(tmp_path / "work")
    for name, lines in CHATS.items():
        work.put(f"chats/{name}", "\n".join(lines) + "\n")
    work.config.write_text(
        '[storage]\nroot = "data"\n\n[[sources]]\nname = "chats"\nkind = "conversation"\n'
        'path = "chats"\npseudonyms = "others"\n\n'
        '[lenses]\nclub = "kind:conversation"\n\n'
        '[lenses.me]\nwhere = "kind:conversation"\nnames = true\n'
    )
    work.build()
    return work


def whole(settings: Settings, lens: str | None) -> str:
    """All rows of all tables and columns under a lens."""
    with closing(open_index(settings, lens=lens)) as index:
        path = index.path
    with duckdb.connect(str(path), read_only=True) as connection:
        tables = [
            name
            for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        ]
        return "\n".join(str(connection.execute(f'FROM "{name}"').fetchall()) for name in tables)


def test_others_read_pseudonyms_in_every_table_and_the_owner_names(work: Workspace):
    for lens, is_named in ((None, True), ("me", True), ("others", False), ("club", False)):
        text = whole(work.settings, lens).casefold()
        assert [name.casefold() in text for name in NAMES] == [is_named] * len(NAMES), lens


def test_an_assistant_finds_and_cites_turns_by_pseudonyms(work: Workspace):
    queries = ("which animal lives in the house", "finch")
    answers = called(work.settings, *(("search", {"query": query}) for query in queries))
    texts = [json.dumps(answer.model_dump(mode="json")) for answer in answers]
    assert "animal lives" in texts[0]
    assert not any(name in text for name in NAMES for text in texts)
    assert "fence" not in texts[1]
    (answer,) = called(work.settings, ("search", {"query": queries[0]}), lens="me")
    assert "Melanie" in json.dumps(answer.model_dump(mode="json"))


def test_a_speaker_is_found_by_from_and_a_lens_of_an_author_shows_no_chat(work: Workspace):
    with closing(open_index(work.settings)) as index:
        found = {
            query: index.search([query]).hits["from_name"].to_pylist()
            for query in ("from:caroline", "from:reed garden", "house -from:melanie", "from:gate")
        }
        scope = index.conditions.shown(where_conditions("from:caroline"))
    assert found["from:caroline"] == ["Caroline Reed"] * 2
    assert found["from:reed garden"][0] == "Caroline Reed"
    assert "Melanie Stone" not in found["house -from:melanie"] and found["from:gate"] == []
    assert len(scope.chunks) == 0


def test_a_removed_chat_is_gone_from_what_others_read(work: Workspace):
    before = whole(work.settings, "others")
    assert "garden" in before and "fence" in before
    (work.folder / "chats" / next(iter(CHATS))).unlink()
    work.build()
    after = whole(work.settings, "others")
    assert "garden" not in after and "fence" in after
