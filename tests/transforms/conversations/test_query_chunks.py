"""Pieces of at most so many tokens, at paragraphs, with whole paragraphs repeated."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.models.static import PackagedTokenCounter
from tests.cases import examples
from transforms.conversations.query_chunks import token_segments

COUNT = PackagedTokenCounter().counts


def words(texts: list[str]) -> list[int]:
    return [len(t.split()) for t in texts]


def test_pieces_end_at_paragraphs_and_repeat_whole_ones():
    text = "\n\n".join(f"p{n} a b c" for n in range(6))
    pieces = token_segments(text, 18, 7, words)
    assert [text[p.start : p.end].split("\n\n") for p in pieces] == [
        ["p0 a b c", "p1 a b c", "p2 a b c"],
        ["p2 a b c", "p3 a b c", "p4 a b c"],
        ["p4 a b c", "p5 a b c"],
    ]
    assert [p.own > p.start for p in pieces] == [False, True, True]


def test_one_giant_paragraph_is_split_under_the_limit():
    text = "word " * 4000 + "\u65e5\u672c\u8a9e" * 3000
    pieces = token_segments(text, 1800, 150, COUNT)
    assert max(COUNT([text[p.start : p.end] for p in pieces])) <= 1800
    assert "".join("".join(text[p.own : p.end].split()) for p in pieces) == "".join(text.split())


def test_no_text_makes_no_piece():
    assert (
        token_segments("", 1800, 150, COUNT) == [] == token_segments(" \n\n \n", 1800, 150, COUNT)
    )


@examples(60)
@given(st.lists(st.text(max_size=80), max_size=12), st.integers(16, 60), st.integers(0, 30))
def test_no_piece_is_too_large_and_nothing_is_lost(paragraphs: list[str], limit: int, overlap: int):
    text = "\n\n".join(paragraphs)
    pieces = token_segments(text, limit, overlap, COUNT)
    assert all(p.tokens <= limit for p in pieces)
    assert [p.tokens for p in pieces] == COUNT([text[p.start : p.end] for p in pieces])
    assert re.sub(r"\s", "", "".join(text[p.own : p.end] for p in pieces)) == re.sub(
        r"\s", "", text
    )
    assert all(p.start <= p.own < p.end for p in pieces)


@pytest.mark.parametrize("copies", [1, 3])
def test_the_work_is_linear(copies: int):
    calls: list[int] = []

    def counted(texts: list[str]) -> list[int]:
        calls.append(sum(map(len, texts)))
        return words(texts)

    text = "\n\n".join(["one two three four five"] * 400 * copies)
    token_segments(text, 50, 10, counted)
    assert sum(calls) < 4 * len(text)
