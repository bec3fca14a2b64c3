"""`weft eval context` on texts, files and windows whose right answers are known."""

import json
from contextlib import closing

import polars as pl
import pytest
from click.testing import CliRunner

from dagster_project.cli.main import main
from dagster_project.context.block_quality import shown_passages
from dagster_project.context.context_index import PublishedVersions
from dagster_project.context.conversation_context import ConversationText, context_of
from dagster_project.index.search.opened_index import open_index
from tests.archives import Workspace
from transforms.context.passages import Passage
from transforms.settings.conversations import ContextSettings

QUERIES = """
queries:
  - id: file
    query: drafts/two.txt
    relevant:
      - {thread: "m0@example.org", grade: 1, topic: compactor}
      - {thread: "m200@example.org", grade: 1, topic: shell}
      - {message: "nosuch@example.org", grade: 1, topic: unknown}
  - id: text
    query: How does the write-ahead log behave when the load doubles?
    relevant:
      - {message: "m100@example.org", grade: 2}
  - id: nonsense
    query: zeppelin mooring mast ballast
    relevant:
      - {message: "m100@example.org", grade: 2}
"""


def test_coverage_precision_and_budget_of_blocks(built: Workspace):
    built.put("queries.yaml", QUERIES)
    built.put(
        "drafts/two.txt",
        "Which run measured the compactor?\\n\\nHow does the shell behave under load?\\n",
    )
    files = ["--queries", str(built.folder / "queries.yaml"), "--config", str(built.config)]
    arguments = ["eval", "context", *files]
    report = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    rows = {row["id"]: row for row in report["conversations"]}
    assert rows["file"]["parts"] == 3 and abs(rows["file"]["coverage"] - 2 / 3) < 1e-3
    assert rows["text"]["coverage"] == 1 and 0 < rows["text"]["precision"] <= 1
    assert rows["nonsense"] | {"parts": 1} == {
        "id": "nonsense",
        "outcome": "NO_HITS",
        "parts": 1,
        "coverage": 0,
        "precision": 0,
        "budget": 0,
    }
    mean = next(row for row in report["means"] if row["measure"] == "coverage")
    assert mean["low"] <= mean["mean"] <= mean["high"]
    assert "coverage" in CliRunner().invoke(main, arguments).stdout


def test_a_passage_shows_the_chunks_that_it_holds_as_a_whole():
    chunks = pl.DataFrame(
        {
            "chunk_id": ["a", "b", "c"],
            "doc_id": ["d", "d", "e"],
            "byte_start": [0, 10, 0],
            "byte_end": [10, 20, 10],
        }
    )
    passages = [
        Passage("a", "d", "d", kind, "", None, (), "text", 0, end)
        for kind, end in (("message", 20), ("message", 19), ("attachment", 20))
    ]
    assert [set(shown.chunks) for shown in shown_passages(passages, chunks, [5, 4, 3])] == [
        {"a", "b"},
        {"a"},
        {"a"},
    ]


QUESTION = "How does the write-ahead log behave when the load doubles?"


def test_a_context_ranks_as_a_search_does(built_once: Workspace):
    with closing(open_index(built_once.settings)) as index:
        search = index.settings.model_copy(update={"per_document": 9})
        hits = index.ranked([QUESTION], limit=20, settings=search).hits
        asked = pl.DataFrame({"window_id": ["x"], "query": [0], "text": [QUESTION]})
        chosen = ContextSettings(candidates=20, dedup_strategy="none")
        found = (
            PublishedVersions(built_once.settings)
            .of(index)
            .candidates(asked, chosen)
            .filter(pl.col("rank") > 0, ~pl.col("fills"))
        )
        numbers = index.frame("SELECT chunk_id, chunk_no::BIGINT AS chunk_no FROM chunks")
    ranked = found.join(numbers, on="chunk_id").sort("rank")["chunk_no"].to_list()
    assert len(ranked) > 5 and ranked == [n for n in hits["chunk_no"] if n in set(ranked)]
    assert max(found["score"]) > 1.5  # the share of the thread is in it


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        (QUESTION, None),
        ("Does the zeppelin measure how the mooring mast behaves in a storm?", "evidence"),
    ],
)
def test_the_first_hit_of_a_search_is_in_the_block_or_the_block_says_why_not(
    built_once: Workspace, question: str, reason: str | None
):
    settings = built_once.settings.model_copy(
        update={"search": built_once.settings.search.model_copy(update={"weak": True})}
    )
    with closing(open_index(settings)) as index:
        hit = index.search([question]).hits.to_pylist()[0]
        made = context_of(settings, ConversationText(question), index)
    first = made.manifest["queries"][0]["first"]
    assert first["chunk_id"] == hit["chunk_id"]
    assert (first["reason"] or "").split(":")[0] == (reason or "")
    assert (hit["chunk_id"] in {p.chunk_id for p in made.passages}) == (reason is None)
