"""Conditions and filters are exact: they allow what a reading of all rows finds, with and without
an HNSW index.
"""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.index.search.conditions import text_conditions
from dagster_project.index.search.filters import filter_leaves
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.models.embedders import make_embedder
from tests.archives import START, Mail, Once, Workspace, discussion
from tests.cases import examples
from transforms.errors import QueryError, QuerySyntaxError
from transforms.retrieval.query_dates import time_span
from transforms.retrieval.query_language import Both, Condition, Either, Leaf, Negation
from transforms.retrieval.search_filters import Filters
from transforms.text.storable import storable

PATCH = """The patch renames it.

diff --git a/src/store/log.c b/src/store/log.c
--- a/src/store/log.c
+++ b/src/store/log.c
@@ -10,3 +10,3 @@ int log_open(void)
 context
-old_name();
+new_name();
"""
QUOTING = """Ada wrote:
> the garbage collector
> sleeps at night

It wakes at noon, says pg_stat_activity; C++ and CVE-2024-0001 are other matters.
"""
NOTE = """---
tags: [engine/storage, Idea]
modified: 2004-01-07
type: [design, plan]
status: [In Progress, 2.0]
review:
  done: true
---
# Collector

The garbage-collector pauses; see std::vector.
"""
ROOMS = """# Rooms

## Cellar

A red lamp stands there on a barrel, behind the stairs that lead down from the kitchen and the yard.

Further back, below the small window with the iron bars, is a blue lamp, whose cord has been lost for years.

## Attic

A green lamp hangs from the beam, above the chests in which the blankets and the old papers of the house are stored.
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, once: Once) -> Workspace:
    """Two lists and a vault, with patches, quotes and tags; for reading only."""
    made = Workspace(tmp_path_factory.mktemp("filters") / "work").configure(
        {"name": "dev", "kind": "mbox", "path": "mail/dev/*"},
        {"name": "users", "kind": "mbox", "path": "mail/users/*"},
        {"name": "notes", "kind": "vault", "path": "notes"},
        index={"ann_max_vectors": 9999},
    )
    odd = [
        Mail(50, PATCH, "[PATCH] log: a name", sender="Bob O'Hara <bob@example.net>"),
        Mail(
            51,
            QUOTING,
            "Re: garbage collector",
            reply_to=0,
            sender='"Ada, Countess" <ada@example.org>',
        ),
        Mail(
            52,
            "It's 100%_sure; DROP TABLE 'chunks' --",
            "quotes \" and ' too",
            ident="it's@example.org",
        ),
    ]
    made.write("dev/dev.2004-01.mbox", [*discussion(0, 6, "garbage collector"), *odd])
    made.write("users/users.2004-01.mbox", discussion(100, 6, "shell"))
    (made.folder / "notes/deep").mkdir(parents=True)
    (made.folder / "notes/deep/Collector.md").write_text(NOTE)
    (made.folder / "notes/Empty room.md").write_text(
        "# Room\n\nNothing about the collector of garbage.\n"
    )
    (made.folder / "notes/Rooms.md").write_text(ROOMS)
    return once(made)


def opened(work: Workspace) -> SearchIndex:
    path = (work.index / "CURRENT").resolve()
    return SearchIndex(
        path, make_embedder(work.settings.embedding), work.settings.terms, work.settings.search
    )


@pytest.fixture(scope="module")
def index(work: Workspace) -> SearchIndex:
    return opened(work)


@pytest.fixture(scope="module")
def rows(index: SearchIndex) -> list[dict[str, Any]]:
    """Every chunk with what is known of its mail or note."""
    return (
        index.connection.execute("""
        SELECT CASE c.source_kind WHEN 'document' THEN c.parent_id ELSE c.doc_id END AS unit,
          c.chunk_no, c.doc_id,
          c.parent_id, c.heading_path, c.source, c.source_kind, c.title, c.text_display, c.text_lex, c.quote_lex,
          c.added_lex, c.removed_lex, c.diff_files, c.diff_functions, c.has_patch_markers, m.list_id, m.from_name,
          m.from_addr, coalesce(m.effective_at, d.modified_at, d.created_at) AS at, d.path, d.tags
        FROM chunks c LEFT JOIN messages m ON m.message_id = c.doc_id LEFT JOIN documents d ON d.doc_id = c.doc_id
        ORDER BY c.chunk_no""")
        .to_arrow_table()
        .to_pylist()
    )


def holds(text: str | None, phrase: str) -> bool:
    """True if the text has the phrase as whole words, by Python's own expressions."""
    words = r"[\W_]+".join(re.escape(w) for w in phrase.split())
    return re.search(rf"(?i)(?<![^\W_]){words}(?![^\W_])", text or "") is not None


SHOWN: dict[str, Callable[[dict[str, Any]], list[str | None]]] = {
    "": lambda r: [r["title"], r["text_display"]],
    "s": lambda r: [r["title"]],
    "title": lambda r: [(r["heading_path"] or [r["title"]])[-1]],
    "b": lambda r: [r["text_display"]],
    "nq": lambda r: [r["text_lex"], r["added_lex"], r["removed_lex"]],
    "q": lambda r: [r["quote_lex"]],
    "dfn": lambda r: r["diff_files"],
    "dfhh": lambda r: r["diff_functions"],
    "dfa": lambda r: [r["removed_lex"]],
    "dfb": lambda r: [r["added_lex"]],
}


def at_path(path: str | None, wanted: str) -> bool:
    pattern = "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in wanted)
    return re.fullmatch(f"(?:.*/)?{pattern}(?:[/.].*)?", path or "") is not None


def between(row: dict[str, Any], since: datetime | None, until: datetime | None) -> bool:
    if row["at"] is None:
        return since is None and until is None
    return (since is None or row["at"] >= since) and (until is None or row["at"] < until)


def own(leaf: Leaf, row: dict[str, Any]) -> bool:
    """True if a chunk by itself meets a leaf."""
    value = leaf.value
    if leaf.field in SHOWN:
        return any(holds(text, value) for text in SHOWN[leaf.field](row))
    if leaf.field == "d":
        return between(row, *(time_span(value) or (None, None)))
    return {
        "l": row["list_id"] == value,
        "source": row["source"] == value,
        "kind": row["source_kind"] == value,
        "f": holds(row["from_name"], value) or holds(row["from_addr"], value),
        "has": row["has_patch_markers"],
        "path": at_path(row["path"], value) or any(at_path(p, value) for p in row["diff_files"]),
        "tag": any((t + "/").lower().startswith(value.lower() + "/") for t in row["tags"] or ()),
        "m": row["doc_id"] == value,
    }[leaf.field]


def oracle(condition: Condition, rows: list[dict[str, Any]]) -> set[int]:
    """The numbers of the chunks that meet a condition, row by row."""
    if isinstance(condition, Negation):
        return {r["chunk_no"] for r in rows} - oracle(condition.part, rows)
    if isinstance(condition, Both):
        return set.intersection(*(oracle(part, rows) for part in condition.parts))
    if isinstance(condition, Either):
        return set.union(*(oracle(part, rows) for part in condition.parts))
    met = [r for r in rows if own(condition, r)]
    if condition.field in SHOWN or condition.field == "has":
        whole = "doc_id" if condition.field == "has" else "unit"
        documents = {r[whole] for r in met}
        met = [r for r in rows if r[whole] in documents]
    return {r["chunk_no"] for r in met}


PHRASES = [
    "garbage collector",
    "collector",
    "Garbage",
    "stat activity",
    "pg_stat_activity",
    "stat",
    "tat",
    "shell",
    "sleeps at night",
    "new_name",
    "old_name",
    "log",
    "log_open",
    "src/store/log.c",
    "CVE-2024-0001",
    "C++",
    "std::vector",
    "O'Hara",
    "It's",
    "100%_sure",
    "load doubles",
    "doubles load",
    "garbage-collector",
    "nowhere",
]
LEAVES = st.one_of(
    st.builds(Leaf, st.sampled_from(sorted(SHOWN)), st.sampled_from(PHRASES), st.just(True)),
    st.builds(
        Leaf,
        st.just("f"),
        st.sampled_from(["ada", "Bob", "O'Hara", "p1@example.org", "example.net", "da"]),
    ),
    st.builds(Leaf, st.just("l"), st.sampled_from(["dev", "users"])),
    st.builds(Leaf, st.just("source"), st.sampled_from(["dev", "users", "notes"])),
    st.builds(Leaf, st.just("kind"), st.sampled_from(["message", "document", "attachment"])),
    st.builds(
        Leaf,
        st.just("path"),
        st.sampled_from(["log.c", "log", "src", "store/*", "deep", "*.md", "Coll", "dee?"]),
    ),
    st.builds(Leaf, st.just("tag"), st.sampled_from(["engine", "idea", "engine/storage"])),
    st.builds(
        Leaf,
        st.just("d"),
        st.sampled_from(["2004", "2004-01-06..2004-01-07", "..2004-01-05", "2005.."]),
    ),
    st.builds(Leaf, st.just("m"), st.sampled_from(["m0@example.org", "it's@example.org", "no"])),
    st.just(Leaf("has", "patch")),
)
PARTS = st.lists(LEAVES, min_size=1, max_size=3).map(tuple)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(Negation),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Both(tuple(parts))),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Either(tuple(parts))),
    ),
    max_leaves=6,
)


@pytest.mark.exhaustive
@given(CONDITIONS)
@examples(150)
def test_a_condition_is_met_by_what_a_reading_of_all_rows_finds(
    index: SearchIndex, rows: list[dict[str, Any]], condition: Condition
):
    conditions, known = index.conditions, {}
    conditions._look_up([condition], known)
    met = conditions._mask_of(condition, np.zeros(len(rows), dtype=bool), known)
    assert set(np.flatnonzero(met).tolist()) == oracle(condition, rows)


@pytest.mark.exhaustive
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "list": st.sampled_from(["dev", "users"]),
            "source": st.sampled_from(["dev", "users", "notes"]),
            "kind": st.sampled_from(["message", "document"]),
            "author": st.sampled_from(["ada", "p1@example.org", "example"]),
            "path": st.sampled_from(["log.c", "*.md"]),
            "tag": st.sampled_from(["engine", "idea"]),
            "has": st.just("patch"),
            "since": st.integers(0, 60).map(lambda hours: START + timedelta(hours=hours)),
            "until": st.integers(0, 60).map(lambda hours: START + timedelta(hours=hours)),
        },
    ).filter(
        lambda given_: given_.get("since", START) < given_.get("until", START + timedelta(days=9))
    )
)
@examples(60)
def test_filters_keep_what_a_reading_of_all_rows_keeps(
    index: SearchIndex, rows: list[dict[str, Any]], given_: dict[str, Any]
):
    filters = Filters(**given_)
    mask = index.conditions.mask(filters)
    kept = {r["chunk_no"] for r in rows if between(r, filters.since, filters.until)}
    for leaf in filter_leaves(filters):
        kept &= oracle(leaf, rows)
    assert (mask is None) == (filters == Filters())
    assert mask is None or set(np.flatnonzero(mask).tolist()) == kept


@pytest.mark.exhaustive
@given(PARTS, st.booleans())
@examples(40)
def test_a_filtered_search_with_hnsw_finds_as_many_as_an_exact_one(
    index: SearchIndex, conditions: tuple[Leaf, ...], negated: bool
):
    asked = f"the collector {' '.join(f'{chr(45) * negated}{c}' for c in conditions)}"
    found = {}
    for path in ("hnsw", "exact"):
        index.manifest["vector_search"] = path
        found[path] = index.search([asked], limit=50).hits.column("doc_id").to_pylist()
    index.manifest["vector_search"] = "hnsw"
    assert found["hnsw"] == found["exact"]


@pytest.mark.exhaustive
def test_after_deletes_a_search_with_hnsw_finds_as_many_as_an_exact_one(
    work: Workspace, tmp_path: Any
):
    changed = work.copied(tmp_path / "work")
    path = changed.folder / "mail/dev/dev.2004-01.mbox"
    path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 4])
    changed.build()
    index = opened(changed)
    assert index.manifest["vector_search"] == "hnsw"
    for query in ("collector", "collector -shell", "l:users load"):
        near = index.search([query], limit=50).hits.num_rows
        index.manifest["vector_search"] = "exact"
        assert near == index.search([query], limit=50).hits.num_rows > 0
        index.manifest["vector_search"] = "hnsw"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("m51@example.org", {"m51@example.org"}),
        ("<m51@example.org>", {"m51@example.org"}),
        ("it's@example.org", {"it's@example.org"}),
        ("notes:deep/Collector.md", {"notes:deep/Collector.md"}),
        ("notes:deep/Collector.md#collector", {"notes:deep/Collector.md"}),
        ("m:m0@example.org", {"m0@example.org"}),
        ("thread:m101@example.org", {f"m{n}@example.org" for n in range(100, 106)}),
        ('"sleeps at night"', {"m51@example.org"}),
        ("q:sleeps", {"m51@example.org"}),
        ("nq:sleeps", set()),
        ("nq:wakes", {"m51@example.org"}),
        ("dfn:log.c", {"m50@example.org"}),
        ("dfhh:log_open", {"m50@example.org"}),
        ("dfb:new_name", {"m50@example.org"}),
        ("dfb:old_name", set()),
        ("has:patch", {"m50@example.org"}),
        ("has:attachment", set()),
        ("f:bob", {"m50@example.org"}),
        ('f:"O\'Hara"', {"m50@example.org"}),
        ("s:(garbage collector) f:countess", {"m0@example.org", "m51@example.org"}),
        ("tag:#ENGINE", {"notes:deep/Collector.md"}),
        ("path:deep/", {"notes:deep/Collector.md"}),
        ("type:design", {"notes:deep/Collector.md"}),
        ("type:Plan", {"notes:deep/Collector.md"}),
        (
            "type:MARKDOWN engine",
            {"notes:deep/Collector.md", "notes:Empty room.md", "notes:Rooms.md"},
        ),
        ('meta.status:"in progress"', {"notes:deep/Collector.md"}),
        ("meta.Status:2.* collector", {"notes:deep/Collector.md"}),
        ("meta.status:done", set()),
        ("meta.review.done:true -meta.status:done", {"notes:deep/Collector.md"}),
        ('shell OR "C++" l:d*', {"m51@example.org"}),
        ("-collector kind:document", {"notes:Rooms.md"}),
        ('"red lamp" "blue lamp"', {"notes:Rooms.md"}),
        ('"red lamp" "green lamp"', set()),
        ('"green lamp" -red', {"notes:Rooms.md"}),
        ("title:attic", {"notes:Rooms.md"}),
        ("title:attic green", {"notes:Rooms.md"}),
        ("hierarchy:rooms s:attic", {"notes:Rooms.md"}),
        ("lam* kind:document", {"notes:Rooms.md"}),
        ("colector~ kind:document", {"notes:deep/Collector.md", "notes:Empty room.md"}),
        ("ectorcoll~", set()),
        ("-col*r q:garbage", set()),
        ("tree:notes tags:idea", {"notes:deep/Collector.md"}),
        ("older_than:1y l:users shell", {f"m{n}@example.org" for n in range(100, 106)}),
        ("newer_than:1y", set()),
        ('sensitivity:public "red lamp"', {"notes:Rooms.md"}),
        ("sensitivity:secret", set()),
        ("larger:1K l:dev", set()),
        ("larger:1 l:dev f:bob", {"m50@example.org"}),
        ("is:unanswered l:dev", {"m50@example.org", "it's@example.org"}),
        ("is_code:true has:patch", {"m50@example.org"}),
    ],
)
def test_a_query_finds_what_it_names(index: SearchIndex, query: str, found: set[str]):
    assert set(index.search([query], limit=50).hits.column("doc_id").to_pylist()) == found


def test_what_counts_more_ranks_higher(index: SearchIndex):
    def first(query: str) -> str:
        return str(index.search([query], limit=1).hits.column("doc_id")[0])

    assert first("lamp^9 shell") == "notes:Rooms.md" != first("lamp shell^9")
    assert "lamp" in index.search(["lam*"]).understood[0].text


def test_words_that_mean_the_same_are_looked_for_too(
    index: SearchIndex, monkeypatch: pytest.MonkeyPatch
):
    assert index.resolved(["lantern"])[0].text == "lantern"
    listed = index.settings.model_copy(update={"synonyms": "lantern, lamp"})
    monkeypatch.setattr(index, "settings", listed)
    (resolved,) = index.resolved(["lantern"])
    assert (resolved.text, resolved.factors) == ("lantern lamp", {"lamp": 0.5})
    assert index.search(["lantern"], limit=1).hits.column("doc_id").to_pylist() == [
        "notes:Rooms.md"
    ]


def test_a_pattern_of_everything_is_refused(index: SearchIndex, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text_conditions, "_MOST_FORMS", 0)
    with pytest.raises(QuerySyntaxError, match="write more letters") as caught:
        index.search(["x lamp*"])
    assert caught.value.position == 2


def test_an_id_of_a_chunk_finds_the_chunk(index: SearchIndex):
    for (chunk_id,) in index.connection.execute("SELECT chunk_id FROM chunks LIMIT 5").fetchall():
        assert index.search([chunk_id]).hits.column("chunk_id").to_pylist() == [chunk_id]


def test_an_unknown_message_id_is_searched_for_as_text_and_says_so(index: SearchIndex):
    result = index.search(["<gone@example.org>", "gone@example.org"])
    assert [q.order for q in result.understood] == ["score", "score"]
    assert (
        "gone@example.org" in (result.understood[0].note or "")
        and result.understood[1].note is None
    )


def test_conditions_without_text_list_the_newest_first(index: SearchIndex):
    result = index.search(["l:dev d:2004-01-05", "l:dev collector"], limit=50)
    times = [r["effective_at"] for r in result.hits.to_pylist() if r["query"] == 0]
    assert len(times) > 1 and all(a >= b for a, b in pairwise(times))
    assert [q.order for q in result.understood] == ["newest", "score"]
    assert [c["condition"] for c in result.understood[0].conditions] == ["l:dev", "d:2004-01-05"]


def test_plain_text_holds_no_syntax(index: SearchIndex):
    result = index.search(['f:nobody "'], plain=True)
    assert result.understood[0].text == 'f:nobody "' and result.understood[0].conditions == []


@pytest.mark.parametrize(
    ("query", "at"),
    [
        ("x l:nowhere", 4),
        ("tag:none", 4),
        ("a -source:'x'", 10),
        ("x meta.state:a", 2 + len("meta.state:")),
    ],
)
def test_an_unknown_name_is_pointed_at_and_the_known_ones_are_named(
    index: SearchIndex, query: str, at: int
):
    with pytest.raises(QuerySyntaxError, match="the index holds") as caught:
        index.search([query])
    assert caught.value.position == at
    with pytest.raises(QueryError, match="the index holds dev, users"):
        index.search(["x"], Filters(list="nowhere"))


HOSTILE = [
    "'; DROP TABLE chunks; --",
    "\"; ATTACH 'x' AS y; --",
    "a\x00b",
    "%' OR '1'='1",
    "\\",
    "$value",
    "?",
    "(?i",
    "[",
    "{1,1000}",
    "\ud800",
]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("field", ["", "s", "f", "path", "m", "dfn", "thread", "series"])
def test_no_value_is_more_than_a_value(index: SearchIndex, field: str, value: str):
    index.conditions.mask(Filters(), [Leaf(field, storable(value), True)])
    with pytest.raises(QueryError):
        index.search(["x"], Filters(tag=value))


def test_a_query_keeps_its_conditions_in_a_batch(index: SearchIndex):
    queries = ["collector", "collector l:users", "shell -f:p1", '"sleeps at night"']
    batch = index.search(queries, limit=50).hits.to_pylist()
    for number, query in enumerate(queries):
        alone = index.search([query], limit=50).hits.to_pylist()
        assert [h["doc_id"] for h in alone] == [h["doc_id"] for h in batch if h["query"] == number]
