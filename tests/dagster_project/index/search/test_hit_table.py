"""What hits say of a built index: their citations, their highlighted bytes, what is shown with
them.
"""

from datetime import UTC, datetime
from itertools import compress
from typing import Any

import numpy as np
import pytest

from dagster_project.index.search.repeats import Asks, enough, said_once
from dagster_project.index.search.search_index import SearchIndex
from transforms.schemas.search import SEARCH_HITS
from transforms.text.terms import stems

QUERY = "how does the compactor keep its pace"


def hits(index: SearchIndex, **changed: Any) -> list[dict[str, Any]]:
    before, index.settings = index.settings, index.settings.model_copy(update=changed)
    try:
        return index.search([QUERY]).hits.to_pylist()
    finally:
        index.settings = before


def body(index: SearchIndex, message_id: str) -> bytes:
    ((text,),) = index.connection.execute(
        "SELECT body FROM messages WHERE message_id = ?", [message_id]
    ).fetchall()
    return text.encode()


def test_hits_have_the_declared_columns_and_bytes_that_hold_the_highlighted_words(
    index: SearchIndex,
):
    found = index.search([QUERY]).hits
    assert found.schema.equals(SEARCH_HITS.arrow)
    wanted = set(stems(QUERY.split(), index.term_settings))
    for hit in found.to_pylist():
        stored = body(index, hit["doc_id"])
        shown = [hit["snippet"][a:b] for a, b in hit["highlights"]]
        assert [
            stored[p["byte_start"] : p["byte_end"]].decode() for p in hit["highlight_bytes"]
        ] == shown
        assert set(stems([w.lower() for w in shown], index.term_settings)) <= wanted
        assert hit["citation"] == (
            f"{hit['doc_id']} block {hit['block_index']} bytes {hit['byte_start']}-{hit['byte_end']}"
        )
        assert 0 <= hit["support"] <= 1
    assert found["highlights"][0].as_py()


def test_expansions_are_one_step_away_bounded_and_hold_the_cited_bytes(index: SearchIndex):
    plain = hits(index)
    found = hits(index, expand=("parent", "neighbours", "section", "links"), expand_chars=30)
    assert [h["chunk_id"] for h in found] == [h["chunk_id"] for h in plain]
    assert all(h["expansions"] == [] for h in plain)
    parents = dict(
        index.connection.execute("SELECT message_id, parent_id FROM thread_tree").fetchall()
    )
    shown = [(hit, near) for hit in found for near in hit["expansions"]]
    assert {near["kind"] for _, near in shown} >= {"parent", "section"}
    for hit, near in shown:
        assert len(near["text"]) <= 30
        assert (
            body(index, near["doc_id"])[near["byte_start"] : near["byte_end"]].decode()
            == near["text"]
        )
        assert near["citation"].endswith(f"bytes {near['byte_start']}-{near['byte_end']}")
        if near["kind"] == "parent":
            assert near["doc_id"] == parents[hit["doc_id"]]


def test_a_thread_is_shown_once_and_names_the_mails_it_stands_for(index: SearchIndex):
    plain, found = hits(index, limit=50), hits(index, limit=50, collapse_threads=True)
    assert len({h["thread_id"] for h in found}) == len(found) < len(plain)
    stood_for = {c["doc_id"] for h in found for c in h["folded"]}
    assert stood_for | {h["doc_id"] for h in found} >= {h["doc_id"] for h in plain}
    assert {c["relation"] for h in found for c in h["folded"]} == {
        "a better hit of the same thread"
    }


def row(number: int, snippet: str, quoted: str | None = None, **facts: Any) -> dict[str, Any]:
    common = {
        "query": 0,
        "thread_id": None,
        "rank": number,
        "chunk_id": f"c{number}",
        "doc_id": f"d{number}",
        "folded": [],
        "content_class": "text",
        "source_kind": "message",
        "answered_id": None,
        "title": None,
        "from_name": None,
        "from_addr": "ann@example.org",
        "effective_at": None,
        "rerank_score": None,
        "before": None,
        "after": None,
        "breadcrumb": None,
        "more": [],
    }
    return (
        common
        | {"snippet": snippet, "quoted_text": quoted, "subject": "", "score": 9.0 - number}
        | facts
    )


def told(*rows: dict[str, Any]) -> list[tuple[str, str | None, list[str]]]:
    return [
        (hit["doc_id"], hit["quoted_text"], [part["doc_id"] for part in hit["folded"]])
        for hit in said_once(rows, 10)
    ]


LONG = "the log is sealed before the directory is written so that a torn page is found by its sum"


def test_a_text_is_shown_once_and_names_those_that_repeat_it():
    """It is the same document's, a quote, or a copy of it."""
    again = row(3, LONG.upper(), doc_id="d1")
    assert told(row(1, LONG), row(2, "something else altogether is said"), again) == [
        ("d1", None, ["d1"]),
        ("d2", None, []),
    ]
    listing = Asks(listing=frozenset({0}), complete=frozenset({0}))
    assert said_once([row(1, LONG), again], 10, listing)[1]["chunk_id"] == "c3"


SENT = {"effective_at": datetime(2024, 2, 3, tzinfo=UTC), "subject": "Minutes of 3 February 2024"}
AGAIN = {"effective_at": datetime(2024, 3, 4, tzinfo=UTC), "subject": "Minutes of 4 March 2024"}


@pytest.mark.parametrize(
    ("first", "other", "shown"),
    [
        ({}, {}, ["d1"]),
        ({"snippet": f"On 2024-02-03 {LONG}"}, {"snippet": f"On 2024-03-04 {LONG}"}, ["d1"]),
        (SENT, AGAIN, ["d2"]),
        (AGAIN, SENT, ["d1"]),
        (SENT, AGAIN | {"from_addr": "bob@example.org"}, ["d1"]),
        ({"source_kind": "document"}, {"subject": "in text", "source_kind": "document"}, ["d1"]),
        ({"subject": "seals"}, {"subject": "sums"}, ["d1", "d2"]),
        ({"content_class": "patch"}, {"content_class": "patch"}, ["d1", "d2"]),
        ({"snippet": "Agreed."}, {"snippet": "Agreed."}, ["d1", "d2"]),
        ({}, {"snippet": f"{LONG}, and by nothing else that I know of in this case"}, ["d1", "d2"]),
    ],
)
def test_a_copy_goes_into_the_first_or_its_author_s_newest(
    first: dict[str, Any], other: dict[str, Any], shown: list[str]
):
    texts = [{"snippet": LONG, **facts} for facts in (first, other)]
    found = said_once([row(n, **facts) for n, facts in enumerate(texts, 1)], 10)
    assert [hit["doc_id"] for hit in found] == shown
    assert [hit["rank"] for hit in found] == [1, 2][: len(shown)]
    if len(shown) == 1:
        assert found[0]["score"] == 8.0
        (folded,) = found[0]["folded"]
        assert folded["relation"] == "the same text"
        assert {folded["doc_id"], *shown} == {"d1", "d2"}


def test_spare_hits_are_described_for_the_queries_that_lack_rows_else():
    texts = ["one wolf", LONG, LONG, LONG, "two wolves", "three wolves"]
    docs = [1, 2, 2, 2, 3, 4]
    rows = [
        row(n, text, doc_id=f"d{doc}")
        for n, (text, doc) in enumerate(zip(texts, docs, strict=True), 1)
    ]
    rows += [row(n, f"{n} foxes", query=1) for n in range(1, 7)]
    masks: list[list[bool]] = []

    def described(mask: np.ndarray) -> list[dict[str, Any]]:
        masks.append(mask.tolist())
        return said_once(list(compress(rows, mask)), 3)

    found = enough(described, np.repeat([0, 1], 6), np.tile(range(1, 7), 2), 3)
    assert [hit["doc_id"] for hit in found] == ["d1", "d2", "d3", "d1", "d2", "d3"]
    assert masks == [2 * [*4 * [True], *2 * [False]], [*6 * [True], *6 * [False]]]


@pytest.mark.parametrize("quoted", [None, LONG], ids=["alone", "below its cover letter"])
@pytest.mark.parametrize("text", [LONG, "Trivial."], ids=["alike", "few words"])
def test_patches_that_explain_themselves_alike_are_all_shown(quoted: str | None, text: str):
    first = row(1, text, thread_id="t", subject="[PATCH v2 1/3] seal")
    other = row(2, text, quoted, thread_id="t", subject="[PATCH v2 2/3] sort")
    cover = row(3, LONG, thread_id="t", subject="[PATCH v2 0/3] logs")
    assert [hit["doc_id"] for hit in said_once([first, other, cover], 10)] == ["d1", "d2", "d3"]


def test_an_unmarked_quote_goes_into_the_mail_that_it_answers_wherever_that_stands():
    mail, answer = {"subject": "logs"}, {"subject": "what now?", "answered_id": "d2"}
    assert told(row(1, LONG, **answer), row(2, LONG, **mail)) == [("d2", None, ["d1"])]
    assert len(told(row(1, LONG, **answer), row(3, LONG, **mail))) == 2
    applied = row(2, LONG, content_class="patch", **answer)
    assert len(told(row(1, LONG, content_class="patch", **mail), applied)) == 2, "another diff"


def test_what_a_hit_answers_is_left_out_where_another_hit_says_it():
    answer = (
        "no, the directory comes first here, as you can read in the third chapter of the manual"
    )
    assert told(row(1, answer, quoted=LONG), row(2, LONG)) == [("d1", None, []), ("d2", None, [])]
    assert told(row(1, "Agreed.", quoted=LONG), row(2, LONG)) == [("d2", None, ["d1"])]
    tag = "Reviewed-by: Maud Ek <maud@example.org>"
    assert told(row(1, LONG), row(2, f"{tag} Thanks,", quoted=LONG)) == [("d1", None, ["d2"])]
    patch, reply = {"subject": "[PATCH] seal"}, {"answered_id": "d2", "subject": "Re: seal"}
    assert told(row(1, f"{tag} Thanks!", quoted="a part", **reply), row(2, LONG, **patch)) == [
        ("d2", None, ["d1"])
    ]
    assert len(told(row(1, f"{tag} Thanks!", **reply), row(3, LONG, **patch))) == 2
    assert (
        len(told(row(1, LONG), row(2, f"Nice, and fast on my old disks, too. {tag}", quoted=LONG)))
        == 2
    )
    assert told(
        row(1, "Agreed.", quoted=LONG), row(2, "Agreed.", quoted="a quite different question")
    ) == [
        ("d1", LONG, []),
        ("d2", "a quite different question", []),
    ]


@pytest.mark.exhaustive
def test_a_mail_is_shown_by_the_words_of_its_author_and_says_what_they_answer(index: SearchIndex):
    (hit,) = index.search(["m2@example.org"]).hits.to_pylist()
    assert hit["snippet"] == "The compactor was measured in run 2; it keeps its pace."
    assert hit["quoted_text"] == "How does the compactor behave when the load doubles?"
    assert hit["quoted_name"] == "ada@example.org"
    assert (hit["thread_position"], hit["thread_size"]) == (3, 6)


def test_a_turn_is_shown_once_as_a_hit_or_beside_one():
    chat = {
        "doc_id": "chat",
        "before": "07:12 Maud: wires yes",
        "after": "07:31 Jo: a gale is coming",
    }
    next_one = {"doc_id": "chat", "before": "07:13 Ann: ladder yes", "after": "07:40 Ann: done"}
    first, second = said_once(
        [row(1, "ladder yes", **chat), row(2, "a gale is coming", **next_one)], 10
    )
    assert (first["before"], first["after"]) == ("07:12 Maud: wires yes", None)
    assert (second["before"], second["after"]) == (None, "07:40 Ann: done")


def test_a_section_that_matches_as_well_is_named_once_and_each_part_of_the_hit_s_own():
    page = {
        "doc_id": "page",
        "chunk_id": "one",
        "breadcrumb": "> Page › One",
        "more": [
            {"title": f"Page › {name}", "chunk_id": name.lower()}
            for name in ("Two", "Three", "Part", "Two")
        ],
    }
    page["more"][2]["title"] = "Page › One"
    hits = said_once(
        [
            row(1, "one", **page),
            row(2, "two", **page | {"breadcrumb": "> Page › Two", "chunk_id": "two"}),
            row(3, "x"),
        ],
        10,
    )
    named = [[part["chunk_id"] for part in hit["more"]] for hit in hits]
    assert named == [["three", "part"], [], []]
