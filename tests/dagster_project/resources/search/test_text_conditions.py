"""Text of mails that is in no chunk is found by conditions."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from dagster_project.resources.search.conditions.text_conditions import TextConditions
from transforms.retrieval.bm25 import FIELDS
from transforms.retrieval.postings import Postings, Segment, all_numbers
from transforms.retrieval.query_language import Leaf
from transforms.settings.search import TermSettings

BODY = "Ann wrote:\n> > the oldest año question\n> a torn\n> record?\n\nYes.\n\n-- \nBen, ben@example.org\n"
UNREAD = {
    "header": "Ann wrote:\n",
    "deep_quote": "> > the oldest año question\n",
    "unused_quote": "> a torn\n> record?\n",
    "signature": "-- \nBen, ben@example.org\n",
}


@pytest.fixture
def conditions() -> TextConditions:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE messages AS SELECT 'm' AS message_id, $body AS body", {"body": BODY})
    connection.execute(
        "CREATE TABLE chunks AS SELECT i::INTEGER AS chunk_no, i::VARCHAR AS chunk_id, "
        "CASE WHEN i = 2 THEN 'other' ELSE 'm' END AS doc_id, 'message' AS source_kind, "
        "'' AS title, '' AS text_display, '' AS text_lex, "
        "'' AS added_lex, '' AS removed_lex, '' AS quote_lex FROM range(3) t(i)"
    )
    connection.execute("CREATE TABLE term_forms (form VARCHAR, term VARCHAR, chunk_count INTEGER)")
    connection.execute(
        "CREATE TABLE exclusions (doc_id VARCHAR, attachment_id VARCHAR, byte_start BIGINT, byte_end BIGINT, reason VARCHAR)"
    )
    for reason, text in UNREAD.items():
        start = BODY.encode().index(text.encode())
        span = [start, start + len(text.encode())]
        connection.execute("INSERT INTO exclusions VALUES ('m', NULL, ?, ?, ?)", [*span, reason])
    empty = np.zeros(0, dtype=np.int32)
    lengths = np.zeros((len(FIELDS), 3), dtype=np.int32)
    counts = np.zeros((1, len(FIELDS)), dtype=np.int32)
    segment = Segment({}, np.zeros(1, dtype=np.int64), empty, empty, counts, lengths)
    return TextConditions(connection, TermSettings(), Postings([segment], all_numbers(3)))


@pytest.mark.parametrize(
    ("leaf", "is_found"),
    [
        (Leaf("", "torn record", True), True),
        (Leaf("q", "torn record", True), True),
        (Leaf("b", "oldest año question", True), True),
        (Leaf("q", "oldest"), True),
        (Leaf("nq", "oldest"), False),
        (Leaf("", "ben@example.org"), True),
        (Leaf("nq", "ben@example.org"), True),
        (Leaf("q", "ben@example.org"), False),
        (Leaf("b", "Ann wrote", True), True),
        (Leaf("s", "Ann wrote", True), False),
        (Leaf("", "question torn", True), False),
    ],
)
def test_what_is_in_no_chunk_is_found_in_the_fields_it_belongs_to(
    conditions: TextConditions, leaf: Leaf, is_found: bool
):
    assert conditions.holding([leaf])[leaf].tolist() == [is_found, is_found, False]
