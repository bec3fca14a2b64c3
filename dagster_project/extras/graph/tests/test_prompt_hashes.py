"""Questions of lists, their SimHashes, and the chunks that keep them."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.extras.graph.transforms.prompt_hashes import (
    distances,
    document_questions,
    prompt_hashes,
    questions,
    simhash,
)
from dagster_project.extras.graph.transforms.settings import GraphSettings
from tests.documents import read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## Q: Why?\n\nA: Because.\n\n## Q: How?\n\nA: So.", ["Why?", "How?"]),
        ("Q: Why?\nA: Because.\n\n---\n\nQ: How?\nA: So.", ["Why?", "How?"]),
        ("---\nQ: Why?\nQ: For what?\nA: Because.\n---", ["Why?", "For what?"]),
        ("Q: Why does it\n   take so long?\nA: Because.", ["Why does it take so long?"]),
        ("## Q: Why?\nThe text of the answer.", ["Why?"]),
        ("**Q:** Why?\n**A:** Because.", ["Why?"]),
        ("**Q: Why?**\n\nA: Because.", ["Why?"]),
        ("### Q12. Why?\r\n\r\nA12. Because.\r\n", ["Why?"]),
        ("Question: Why?\nAnswer: Because Q: is in the middle.", ["Why?"]),
        ("FAQ: no question\n\nQuestions and answers\n\nA: nothing asked", []),
        ("Q:\nA: nothing asked", []),
    ],
)
def test_every_form_of_list(text: str, expected: list[str]):
    assert questions(text) == expected


def test_vectors_of_the_hash():
    # For readers in other languages: docs/graph.md has the same values.
    assert simhash("segment") == 6193956807481457656
    assert simhash("How do I repair a torn log?") == 5915134009747989798
    assert simhash("") == 0


@pytest.mark.parametrize(
    "same",
    [
        "how do i REPAIR a torn log",
        "A torn log: repair!",
        "repair   torn log log",
        "ｒｅｐａｉｒ torn log",
    ],
)
def test_case_order_repetition_and_common_words_do_not_count(same: str):
    assert simhash(same) == simhash("How do I repair a torn log?")


def test_common_words_count_where_there_are_no_others():
    assert simhash("What is it?") != 0
    assert simhash("What is it?") != simhash("How are you?")


@given(st.text())
def test_a_hash_has_64_bits(text: str):
    assert 0 <= simhash(text) < 2**64


def test_distance_is_the_number_of_different_bits():
    hashes = np.array([0, 1, 2**64 - 1, 2**63], dtype=np.uint64)
    assert distances(hashes, 0).tolist() == [0, 1, 64, 1]
    assert distances(hashes, 2**63).tolist() == [1, 2, 63, 0]


def test_near_questions_have_near_hashes():
    asked = simhash("Which wal_sync_interval should I use on an SD card or eMMC?")
    near, far = (
        simhash("wal_sync_interval for SD card, eMMC"),
        simhash("How do I make the file smaller?"),
    )
    one, other = distances(np.array([near, far], dtype=np.uint64), asked).tolist()
    assert one < 16 < other


def kept(**settings: Any) -> list[tuple[str, str, float]]:
    """What chunks of two documents keep of two questions; vectors are unit vectors at degrees."""
    documents = read(
        {"in/qa-pairs.md": "Q: Why?\nQ: How?\nA: So.", "in/a.md": "x", "b.md": "x"}
    ).documents
    asked = document_questions(documents)
    chunks = pa.table(
        {
            "chunk_id": ["a0", "a1", "a2", "b0"],
            "doc_id": ["s:in/a.md"] * 3 + ["s:b.md"],
            "text_display": ["", "Why?", "", "How?"],
            "vector": pa.array(list(_turned(0, 30, 80, 0)), pa.list_(pa.float32(), 2)),
        }
    )
    made = prompt_hashes(chunks, documents, asked, _turned(0, 90), GraphSettings(**settings))
    assert all(r["simhash"] == simhash(r["question"]) for r in made.to_pylist())
    assert set(made.column("asked_in").to_pylist()) <= {"s:in/qa-pairs.md"}
    return [(r["chunk_id"], r["question"], round(r["similarity"], 2)) for r in made.to_pylist()]


def _turned(*degrees: float) -> np.ndarray:
    angles = np.radians(degrees)
    return np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32)


def test_the_nearest_chunk_below_the_folder_keeps_a_question():
    assert kept(prompts="top") == [("a0", "Why?", 1.0), ("a2", "How?", 0.98)]


def test_the_chunk_with_the_answer_always_keeps_its_question():
    documents = read({"qa-pairs.md": "Q: Why is\n it?\nA: So."}).documents
    chunks = pa.table(
        {
            "chunk_id": ["c0", "c1"],
            "doc_id": ["s:qa-pairs.md"] * 2,
            "text_display": ["About.", "Q: Why is\n it?\nA: So."],
            "vector": pa.array(list(_turned(0, 90)), pa.list_(pa.float32(), 2)),
        }
    )
    for settings in (GraphSettings(prompts="top"), GraphSettings(prompts="threshold")):
        made = prompt_hashes(chunks, documents, document_questions(documents), _turned(0), settings)
        assert made.column("chunk_id").to_pylist() == ["c0", "c1"]


def test_all_chunks_above_a_threshold_keep_a_question():
    assert kept(prompts="threshold") == [
        ("a0", "Why?", 1.0),
        ("a1", "Why?", 0.87),
        ("a1", "How?", 0.5),
        ("a2", "How?", 0.98),
    ]
