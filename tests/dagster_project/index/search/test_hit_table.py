"""What hits say of a built index: their citations, their highlighted bytes, what is shown with them."""

from itertools import compress
from typing import Any

import numpy as np
import pytest

from dagster_project.index.search.repeats import enough, said_once
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
    stood_for = {c["doc_id"] for h in found for c in h["constituents"]}
    assert stood_for | {h["doc_id"] for h in found} >= {h["doc_id"] for h in plain}
    assert {c["reason"] for h in found for c in h["constituents"]} == {
        "a better hit of the same thread"
    }


def row(number: int, snippet: str, quoted: str | None = None, **facts: Any) -> dict[str, Any]:
    common = {
        "query": 0,
        "thread_id": None,
        "rank": number,
        "chunk_id": f"c{number}",
        "doc_id": f"d{number}",
        "constituents": [],
        "content_class": "text",
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
        (hit["doc_id"], hit["quoted_text"], [part["doc_id"] for part in hit["constituents"]])
        for hit in said_once(rows, 10)
    ]


LONG = "the log is sealed before the directory is written so that a torn page is found by its sum"


def test_a_text_is_shown_once_and_names_those_that_repeat_it():
    """It is the same document's, or a quote; every other document with like words has its own place."""
    again = row(3, LONG.upper(), doc_id="d1")
    assert told(row(1, LONG), row(2, "something else altogether is said"), again) == [
        ("d1", None, ["d1"]),
        ("d2", None, []),
    ]
    assert said_once([row(1, LONG), again], 10, complete={0})[1]["chunk_id"] == "c3"
    assert told(row(1, LONG), row(2, LONG)) == [("d1", None, []), ("d2", None, [])]


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


@pytest.mark.parametrize(
    "subject", ["[PATCH v2 2/3] sort", "[PATCH v3 1/3] seal"], ids=["series", "posting"]
)
@pytest.mark.parametrize("quoted", [None, LONG], ids=["alone", "below its cover letter"])
@pytest.mark.parametrize("text", [LONG, "Trivial."], ids=["alike", "few words"])
def test_patches_that_explain_themselves_alike_are_all_shown(
    subject: str, quoted: str | None, text: str
):
    first = row(1, text, thread_id="t", subject="[PATCH v2 1/3] seal")
    other = row(2, text, quoted, thread_id="t", subject=subject)
    cover = row(3, LONG, thread_id="t", subject="[PATCH v2 0/3] logs")
    assert [hit["doc_id"] for hit in said_once([first, other, cover], 10)] == ["d1", "d2", "d3"]


def test_an_unmarked_quote_goes_into_the_mail_that_it_answers_wherever_that_stands():
    mail, answer = ({"thread_id": "t", "subject": subject} for subject in ("logs", "RE: logs"))
    assert told(row(1, LONG, **answer), row(2, LONG, **mail)) == [("d2", None, ["d1"])]
    assert len(told(row(1, LONG, **answer), row(2, LONG, **mail | {"thread_id": "u"}))) == 2
    assert len(told(row(1, LONG, **answer), row(2, LONG, **answer))) == 2, "two reports of a robot"
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
    patch, reply = ({"thread_id": "t", "subject": s} for s in ("[PATCH] seal", "Re: [PATCH] seal"))
    assert told(row(1, f"{tag} Thanks!", quoted="a part", **reply), row(2, LONG, **patch)) == [
        ("d2", None, ["d1"])
    ]
    assert (
        len(told(row(1, f"{tag} Thanks!", **reply), row(2, LONG, **patch | {"thread_id": "u"})))
        == 2
    )
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
    assert (hit["thread_position"], hit["thread_size"]) == (2, 6)


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


def test_a_section_that_matches_as_well_is_named_once():
    page = {
        "doc_id": "page",
        "breadcrumb": "> Page › One",
        "more": [{"title": "Page › Two"}, {"title": "Page › Three"}],
    }
    hits = said_once(
        [
            row(1, "one", **page),
            row(2, "two", **page | {"breadcrumb": "> Page › Two"}),
            row(3, "x"),
        ],
        10,
    )
    assert [[part["title"] for part in hit["more"]] for hit in hits] == [["Page › Three"], [], []]
