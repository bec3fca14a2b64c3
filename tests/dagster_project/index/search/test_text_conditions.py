"""Text of mails that is in no chunk is found by conditions."""

import duckdb
import numpy as np
import polars as pl
import pytest

from dagster_project.index.search.conditions.text_conditions import TextConditions
from transforms.retrieval.bm25 import FIELDS
from transforms.retrieval.postings import Postings, Slots, TermSegment
from transforms.retrieval.query_language import Leaf
from transforms.settings.search import TermSettings
from transforms.text import phrases, terms

REST = "Ann wrote:\n> > the oldest año question\n> a torn\n> record?\n-- \nBen, ben@example.org\n"


@pytest.fixture
def conditions() -> TextConditions:
    """Over two chunks of one mail and one of a mail of quotes alone; REST stands with the first."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE chunks AS SELECT i::INTEGER AS chunk_no, CASE WHEN i = 0 THEN $rest ELSE '' END AS rest_lex, "
        "'message' AS source_kind, '' AS title, "
        "if(i = 2, $quotes, '') AS text_display, if(i = 2, 'unauthored_message', 'authored_message') AS chunk_kind, "
        "'' AS text_lex, '' AS added_lex, '' AS removed_lex, '' AS quote_lex FROM range(3) t(i)",
        {"rest": REST, "quotes": "> nothing but a\n> quoted lantern\n"},
    )
    connection.execute("CREATE TABLE term_forms (term VARCHAR, form VARCHAR)")
    connection.execute(
        "CREATE VIEW stored_chunks AS FROM chunks; CREATE MACRO lake_text(text) AS text"
    )
    words = terms.counted_terms(pl.Series([REST]), TermSettings()).get_column("term").to_list()
    first, counts = (
        np.zeros(len(words), np.int32),
        np.array([[field == "rest" for field in FIELDS]]),
    )
    numbers = {word: n for n, word in enumerate(words)}
    lengths = np.array([[1, 1, 0]] * len(FIELDS), np.int32)
    segment = TermSegment(numbers, np.arange(len(words) + 1), first, first, counts, lengths)
    postings = Postings([segment], Slots(np.arange(3, dtype=np.int32), 3))
    return TextConditions(connection, TermSettings(), postings, lambda numbers: {})


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


@pytest.mark.parametrize(
    ("leaf", "is_found"),
    [
        (Leaf("", "a quoted lantern", True), True),
        (Leaf("q", "a quoted lantern", True), True),
        (Leaf("q", "lantern"), True),
        (Leaf("b", "lanter*"), True),
        (Leaf("nq", "lantern"), False),
        (Leaf("s", "lantern", True), False),
        (Leaf("", "unknown lantern", True), False),
    ],
)
def test_a_mail_of_quotes_alone_is_found_by_what_it_quotes(
    conditions: TextConditions, leaf: Leaf, is_found: bool
):
    # Its words are in no postings, so that a pattern knows them from other mails alone.
    conditions.connection.execute("CREATE TABLE terms AS SELECT 'lantern' AS term, 1 AS df")
    conditions.connection.execute("ALTER TABLE term_forms ADD COLUMN chunk_count INTEGER")
    assert conditions.holding([leaf])[leaf].tolist() == [False, False, is_found]


def test_a_text_is_read_only_where_no_other_of_its_chunk_shows_the_phrase(
    conditions: TextConditions, monkeypatch: pytest.MonkeyPatch
):
    counts, holding = [], phrases.holding

    def counted(texts: pl.Series, phrase: str) -> pl.Series:
        counts.append(len(texts))
        return holding(texts, phrase)

    monkeypatch.setattr(phrases, "holding", counted)
    conditions.holding([Leaf("", "torn record", True)])
    # The first and the last chunk may hold it: the title shows it of neither, REST of the first.
    assert counts == [2, 2, 1]
