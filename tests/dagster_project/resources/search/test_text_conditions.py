"""Text of mails that is in no chunk is found by conditions."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pytest

from dagster_project.resources.search.conditions.text_conditions import TextConditions
from transforms.retrieval.bm25 import FIELDS
from transforms.retrieval.postings import Postings, Segment, all_numbers
from transforms.retrieval.query_language import Leaf
from transforms.settings.search import TermSettings
from transforms.text import terms

REST = "Ann wrote:\n> > the oldest año question\n> a torn\n> record?\n-- \nBen, ben@example.org\n"


@pytest.fixture
def conditions() -> TextConditions:
    """Over two chunks of one mail and one of another; REST stands with the first."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE chunks AS SELECT i::INTEGER AS chunk_no, CASE WHEN i = 0 THEN $rest ELSE '' END AS rest_lex, "
        "'message' AS source_kind, '' AS title, "
        "'' AS text_display, '' AS text_lex, '' AS added_lex, '' AS removed_lex, '' AS quote_lex "
        "FROM range(3) t(i)",
        {"rest": REST},
    )
    connection.execute("CREATE TABLE term_forms (term VARCHAR, form VARCHAR)")
    words = terms.counted_terms(pl.Series([REST]), TermSettings()).get_column("term").to_list()
    first, counts = np.zeros(len(words), np.int32), np.array([[field == "rest" for field in FIELDS]])
    numbers = {word: n for n, word in enumerate(words)}
    lengths = np.zeros((len(FIELDS), 3), np.int32)
    segment = Segment(numbers, np.arange(len(words) + 1), first, first, counts, lengths)
    return TextConditions(connection, TermSettings(), Postings([segment], all_numbers(3)))


@pytest.mark.parametrize(
    ("leaf", "is_found"),
    [
        (Leaf("", "torn record", True), True),
        (Leaf("q", "torn record", True), True),
        (Leaf("b", "oldest año question", True), True),
        (Leaf("q", "questions"), True),
        (Leaf("nq", "oldest"), False),
        (Leaf("", "ben@example.org"), True),
        (Leaf("b", "Ann wrote", True), True),
        (Leaf("s", "Ann wrote", True), False),
        (Leaf("", "question record", True), False),
    ],
)
def test_what_is_in_no_chunk_is_found_in_the_fields_it_belongs_to(
    conditions: TextConditions, leaf: Leaf, is_found: bool
):
    assert conditions.holding([leaf])[leaf].tolist() == [is_found, False, False]
