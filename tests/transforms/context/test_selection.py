"""From candidates to the tables of documents and context, in memory."""

import json
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from transforms.context.passages import Passage
from transforms.context.selection import Retrieval, window_context, window_documents, window_queries
from transforms.schemas.conversations import CONVERSATION_CANDIDATES
from transforms.settings.conversations import ContextSettings

FACTS = {"index_version": "v1", "model": "m", "dimensions": 2, "tokenizer": "words"}
WINDOWS = pl.DataFrame(
    {
        "doc_id": ["chat@1", "chat@2"],
        "message_count": [2, 0],
        "markdown": [
            "## Message 1\n**Author:** a\n**Timestamp:** 2025-01-15 10:30\n\nrye flour\n",
            "",
        ],
    }
)
CHUNKS = pl.DataFrame(
    {
        "doc_id": ["chat@1"],
        "chunk_index": [0],
        "token_count": [30],
        "text": ["## Message 1\n**Author:** a\n**Timestamp:** 2025-01-15 10:30\n\nrye flour"],
        "text_query": ["rye flour"],
    }
)


def words(texts: Sequence[str]) -> list[int]:
    return [len(t.split()) for t in texts]


def candidates(*rows: tuple[str, str | None, float]) -> pl.DataFrame:
    """Candidates of the first window: chunk, document and score."""
    always = {"window_id": "chat@1", "query": 0, "source_kind": "document", "lexical_score": 0.0}
    found = [
        {
            **always,
            "rank": n,
            "chunk_id": c,
            "document_id": d,
            "similarity": s,
            "score": s,
            "fills": False,
        }
        for n, (c, d, s) in enumerate(rows, start=1)
    ]
    return pl.DataFrame(CONVERSATION_CANDIDATES.from_rows(found))


def vectors(chunks: Sequence[str]) -> dict[str, np.ndarray]:
    """Chunks whose names begin with the same letter have nearly the same vector."""
    return {c: np.array([1.0, 0.01 * len(c)] if c.startswith("a") else [0.0, 1.0]) for c in chunks}


@pytest.mark.parametrize(
    ("ask_with", "text"), [("said", "rye flour"), ("markdown", CHUNKS["text"][0])]
)
def test_a_window_asks_with_what_was_said_or_with_its_markdown(ask_with: str, text: str):
    made = window_queries(WINDOWS, CHUNKS, ContextSettings(ask_with=ask_with))  # type: ignore[arg-type]
    assert made.rows() == [("chat@1", 0, text)]


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, ["a", "aa", "aaa", "b", "x"]),
        ({"dedup_max_per_doc": 1}, ["a", "b", "x"]),
        ({"dedup_max_per_doc": 2}, ["a", "aa", "b", "x"]),
        ({"dedup_strategy": "semantic"}, ["a", "b"]),
        ({"dedup_strategy": "none"}, ["a", "aa", "aaa", "b", "x"]),
    ],
)
def test_what_each_way_of_dedup_keeps(settings: dict, kept: list[str]):
    found = candidates(
        ("a", "d1", 0.9), ("aa", "d1", 0.8), ("aaa", "d1", 0.7), ("b", "d2", 0.6), ("x", None, 0.5)
    )
    made = window_documents(found, ContextSettings(**{"pick": "score", **settings}), vectors)
    assert made["chunk_id"].to_list() == kept
    assert made["place"].to_list() == list(range(1, len(kept) + 1))
    assert made["found_by"].to_list() == [1] * len(kept)


def test_further_passages_of_a_mail_count_half_as_much_each():
    found = candidates(("a", "d1", 0.9), ("aa", "d1", 0.8), ("aaa", "d1", 0.7), ("b", "d2", 0.3))
    mails = found.with_columns(source_kind=pl.lit("message"))
    settings = ContextSettings(pick="score")  # type: ignore[arg-type]
    made = window_documents(mails, settings, vectors)
    assert made["chunk_id"].to_list() == ["a", "aa", "b", "aaa"]


def test_what_only_fills_stands_behind_what_another_query_asks_for():
    found = candidates(("a", "d1", 0.9), ("weak", "d2", 0.8), ("b", "d3", 0.5))
    found = found.with_columns(query=pl.Series([0, 1, 2]), fills=pl.Series([False, True, False]))
    for some, order in ((found, ["a", "b", "weak"]), (found.filter("fills"), ["weak"])):
        assert window_documents(some, ContextSettings(), vectors)["chunk_id"].to_list() == order


def test_every_window_has_a_row_and_one_without_hits_says_so():
    passage = Passage("a", "d1", "d1", "document", "Bread", None, (), "rye and salt", 0, 12)
    settings = ContextSettings(pick="score")
    found = candidates(("a", "d1", 0.9))
    made = window_context(
        WINDOWS["doc_id"].to_list(),
        Retrieval(
            window_queries(WINDOWS, CHUNKS, settings),
            found,
            window_documents(found, settings, vectors),
            {"a": passage},
        ),
        FACTS,
        words,
        settings,
    ).to_pylist()
    assert [r["outcome"] for r in made] == ["CONTEXT", "NO_HITS"]
    assert [r["query_count"] for r in made] == [1, 0]
    assert made[0]["records"][0]["document_id"] == "d1" and "> rye and salt" in made[0]["compiled"]
    assert (made[1]["block"], made[1]["compiled"], made[1]["records"]) == ("", "", [])
    assert json.loads(made[0]["manifest"])["settings"]["pick"] == "score"


def test_each_turn_of_a_chat_counts_and_what_is_left_of_the_budget_is_filled():
    found = candidates(
        ("a", "chat", 0.9), ("mail", "m", 0.8), ("b", "chat", 0.7), ("more", "m", 0.6)
    )
    of_chat = (
        pl.when(pl.col("document_id") == "chat")
        .then(pl.lit("conversation"))
        .otherwise(pl.lit("message"))
    )
    found = found.with_columns(source_kind=of_chat)
    made = window_documents(found, ContextSettings(pick="score"), vectors)
    assert made.select("chunk_id", "document_id").rows() == [
        *(("a", "chat"), ("mail", "m"), ("b", "chat"), ("more", "m"))
    ]
    assert made["place"].to_list() == [1, 2, 3, 4]
    worse = found.with_columns(chunk_id=pl.col("chunk_id") + "2", score=pl.col("score") / 2)
    settings = ContextSettings(pick="score", budget_tokens=64, top_k=2)
    few = window_documents(pl.concat([found, worse]), settings, vectors)
    assert few["chunk_id"].to_list() == ["a", "mail", "b", "a2", "b2", "more"]
