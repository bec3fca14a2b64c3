"""A query that leans on the turns before it gets their names; one that stands by itself stays as it
is.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from transforms.retrieval.query_rewriting import Rewritten, by_model, by_rules

TURNS = [
    "We moved from v16.2 to Debian last week.",
    "Since then wal_level is back to minimal and `pg_basebackup` fails.",
]

CRASH = ["I read that somebody reported it: the crash in kmod 31 with xz modules."]
SHORT = (
    "which temperature?",
    "since when?",
    "how long?",
    "seit wann?",
    "what did Lucas answer",
    "who objected, and why",
)


@pytest.mark.parametrize(
    ("query", "turns", "used"),
    [
        (
            "why does it?",
            ["The compactor stalls since v2.1."],
            "why does it? v2.1 compactor stalls",
        ),
        (
            "why does it fail?",
            TURNS,
            "why does it fail? wal_level pg_basebackup v16.2 Debian minimal fails moved",
        ),
        ("and why?", TURNS, "and why? wal_level pg_basebackup v16.2 Debian minimal fails moved"),
        ("why a/z.c", ["See a/b.c, CVE-2024-0001."], "why a/z.c a/b.c CVE-2024-0001"),
        (
            "does it help",
            ["the compactor stalls while a snapshot is open"],
            "does it help compactor stalls snapshot open",
        ),
        (
            "does it help",
            ["I met Ann Lee about “torn pages” in ReadBuffer"],
            "does it help Ann Lee torn pages ReadBuffer",
        ),
        (
            "und warum ist das so",
            ["Seit gestern hängt die Verdichtung nach jedem Schnappschuss."],
            "und warum ist das so Verdichtung Schnappschuss hängt",
        ),
        (
            "hilft es",
            ["Wir haben `wal_level` wieder auf minimal gesetzt"],
            "hilft es wal_level minimal gesetzt",
        ),
        ("was ist damit", ["Die Sicherung bricht ab"], "was ist damit Sicherung bricht"),
        (
            "wie sichere ich eine große Datenbank jede Nacht",
            ["Die Sicherung bricht ab"],
            "wie sichere ich eine große Datenbank jede Nacht",
        ),
        *((query, CRASH, f"{query} crash kmod 31 xz modules") for query in SHORT),
        (
            "was it fixed in the kernel or in kmod",
            CRASH,
            "was it fixed in the kernel or in kmod crash 31 xz modules",
        ),
        ("depuis quand ?", ["La pompe du puits est en panne"], "depuis quand ? pompe puits panne"),
        ("is wal_level that slow", ["wal_level is slow"], "is wal_level that slow"),
        (
            "how do I restore a backup without the log files",
            TURNS,
            "how do I restore a backup without the log files",
        ),
        ("why does it fail?", [], "why does it fail?"),
        ("why does it fail?", ["?!"], "why does it fail?"),
    ],
)
def test_names_of_the_turns_are_added_where_a_query_leans_on_them(
    query: str, turns: list[str], used: str
):
    made = by_rules(query, turns)
    assert (made.original, made.used) == (query, used)
    assert made.by == ("rules" if used != query else None)


@given(st.text(), st.lists(st.text(), max_size=6))
def test_a_query_keeps_its_words_and_gets_few_more(query: str, turns: list[str]):
    made = by_rules(query, turns)
    assert made.used.startswith(query)
    assert made == by_rules(query, turns)
    assert len(made.used) <= len(query) + sum(map(len, turns)) + 5


def test_what_a_model_writes_is_one_line_with_its_entities_once():
    answer = Rewritten(
        query=" why does\n pg_basebackup fail ",
        entities=["wal_level", "Wal_Level", "pg_basebackup", ""],
    )
    made = by_model("why does it fail?", answer, "model")
    assert (made.used, made.by) == ("why does pg_basebackup fail wal_level", "model")


@pytest.mark.parametrize(
    "answer",
    [
        '{"query": " ", "entities": []}',
        '{"query": "q"}',
        '"q"',
        f'{{"query": "{"q" * 501}", "entities": []}}',
    ],
)
def test_an_empty_or_endless_query_is_no_answer(answer: str):
    with pytest.raises(ValidationError):
        Rewritten.model_validate_json(answer)
