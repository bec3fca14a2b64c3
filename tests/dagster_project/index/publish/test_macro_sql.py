"""The views and macros of the published file, asked with nothing but DuckDB."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import duckdb
import numpy as np
import pytest

from dagster_project.extensions import extra_parts
from dagster_project.index.publish import table_sql
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.models.static import PackagedTokenCounter
from tests.archives import Mail, Once, Workspace
from transforms.documents.links import _references
from transforms.retrieval.bm25 import TermScores

QUOTED = "The compactor rewrites every segment that holds more than four dead records."
TEXT = f"{QUOTED}\nIndexes are rebuilt after crashes; the index of each segment is then vacuumed."
ANSWER = "We measured the compaction of pg_stat_activity in v16.2 with C++ and CVE-2024-3094 in fs/erofs/zdata.c."
MAILS = [
    Mail(1, TEXT, "Compaction"),
    Mail(2, f"> {QUOTED}\n\n{ANSWER}", "Re: Compaction", reply_to=1),
    Mail(
        3,
        f"> > {QUOTED}\n> {ANSWER}\n\nBoth agree with my measurements.",
        "Re: Compaction",
        reply_to=2,
    ),
    Mail(
        4, "Na\u00efve \u00c9COLE readers were reading about vacuuming and the C# index.", "Other"
    ),
    Mail(
        5,
        f"{TEXT}\n\nI disagree with these four dead records and their indexing.",
        "Re: Compaction",
        reply_to=1,
        sender="bob@example.org",
    ),
    Mail(6, "the " * 12 + "of a", "the"),
    Mail(
        10,
        "\u6e29\u5ba4\u306f\u5f8c\u3067\u5efa\u3066\u308b\u3002PostgreSQL\u7528\u306e\u9ed2\u732b",
        "\u6e29\u5ba4",
    ),
    Mail(7, "> nothing of my own", "Re: Other", reply_to=4),
    Mail(8, "> ...", "Re: Other", reply_to=4),
    Mail(
        9,
        "So that ships see the harbour in fog, a stronger bulb burns in it.\n\n"
        "Signed-off-by: Ann <ann@example.org>\n---\ndiff --git a/lantern.c b/lantern.c\n--- a/lantern.c\n+++ b/lantern.c\n"
        "@@ -1,200 +1,200 @@ int lantern(void)\n"
        + "".join(
            f"-\tlantern_glow({n});\n+\tlantern_glow_bright(bulb, {n});\n" for n in range(200)
        ),
        "[PATCH] lantern: glow bright in harbour fog",
    ),
]
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, once: Once) -> Workspace:
    made = Workspace(tmp_path_factory.mktemp("macros") / "work").configure()
    made.write("dev.2004-01.mbox", MAILS)
    return once(made)


@pytest.fixture(scope="module")
def published(work: Workspace) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(work.index / "CURRENT"), read_only=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def index(work: Workspace) -> Iterator[SearchIndex]:
    with closing(open_index(work.settings)) as opened:
        yield opened


def asked(connection: duckdb.DuckDBPyConnection, statement: str, **values: object) -> Rows:
    return connection.execute(statement, values).to_arrow_table().to_pylist()


def ident(number: int) -> str:
    return f"m{number}@example.org"


def bm25(index: SearchIndex, query: str) -> list[tuple[str, float]]:
    """Chunk ids and scores above 0, best first, by the lexical half of a search."""
    (words,) = index.query_terms([query], index.settings.stopwords)
    weights = index.weighed(index.settings)
    scores = TermScores(words, index.postings, weights, None).of(np.arange(index.chunk_count))
    order = [n for n in np.lexsort((np.arange(len(scores)), -scores)) if scores[n] > 0]
    names = dict(index.connection.execute("SELECT chunk_no, chunk_id FROM chunks").fetchall())
    return [(names[n], float(scores[n])) for n in order]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "query",
    [
        "compaction of indexes",
        "Vacuuming, READING and measurements!",
        "pg_stat_activity",
        "activity stat",
        "ReadBuffer_Extended, HTTPServer of IPv6 aGVsbG8gd29ybGQ",
        "v16.2 C++ CVE-2024-3094",
        "C#",
        "a/fs/erofs/zdata.c",
        "\u00c9cole na\u00efve",
        "the of a",
        "what is IN and NOT",
        "THE OF INDEX",
        "\u6e29\u5ba4\u306e\u8a2d\u8a08",
        "\u732b postgresql",
        "the index",
        "nothing that stands anywhere: xyzzy",
        "'; DROP TABLE chunks; --",
        "nul\0byte index",
        '%s {} $1 \\ " index',
        "",
    ],
)
def test_search_text_is_the_lexical_half_of_a_search(
    published: duckdb.DuckDBPyConnection, index: SearchIndex, query: str
):
    expected = bm25(index, query)
    rows = asked(published, "FROM search_text($q, 100)", q=query)
    assert [row["chunk_id"] for row in rows] == [chunk_id for chunk_id, _ in expected]
    assert [row["score"] for row in rows] == pytest.approx(
        [score for _, score in expected], abs=1e-4
    )
    assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1))


def test_words_that_stemming_changes_are_found(published: duckdb.DuckDBPyConnection):
    assert asked(
        published, "SELECT * FROM term_forms WHERE form IN ('index', 'indexes') ORDER BY form"
    ) == [{"form": "indexes", "term": "index", "chunk_count": 2}]
    assert len(asked(published, "FROM search_text('indexes')")) > 1


def test_weights_are_parameters_with_the_settings_as_defaults(published: duckdb.DuckDBPyConnection):
    default = asked(published, "FROM search_text('compaction')")
    same = asked(published, "FROM search_text('compaction', 10, title_weight := 4, k1 := 1.5)")
    untitled = asked(published, "FROM search_text('compaction', title_weight := 0)")
    assert same == default
    assert (
        {row["doc_id"] for row in untitled}
        == {ident(2), ident(3)}
        < {row["doc_id"] for row in default}
    )


def test_fewer_results_are_the_first_of_more(published: duckdb.DuckDBPyConnection):
    more = asked(published, "FROM search_text('compaction index', 100)")
    assert len(more) > 2
    assert asked(published, "FROM search_text('compaction index', $k)", k=2) == more[:2]


def test_similar_is_the_order_of_all_cosines(
    published: duckdb.DuckDBPyConnection, index: SearchIndex
):
    names = [
        r[0] for r in published.execute("SELECT chunk_id FROM chunks ORDER BY chunk_no").fetchall()
    ]
    vectors = index.vectors.of(np.arange(index.chunk_count))
    cosines = vectors @ vectors[0]
    order = [
        n
        for n in np.lexsort((np.arange(len(names)), -cosines))
        if n != 0 and n not in index.unembedded
    ]
    rows = asked(published, "FROM similar($id, 100)", id=names[0])
    assert [row["chunk_id"] for row in rows] == [names[n] for n in order]
    assert [row["cosine"] for row in rows] == pytest.approx(
        [float(cosines[n]) for n in order], abs=1e-5
    )
    assert asked(published, "FROM similar('no such chunk')") == []


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ('"nothing of my own"', True),
        ("q:nothing", True),
        ("b:nothing index", True),
        (f"m:{ident(7)}", True),
        ("nothing of my own", False),
        ("s:Other vacuuming", False),
    ],
)
def test_a_mail_of_quotes_alone_is_found_by_conditions_alone(
    index: SearchIndex, query: str, is_found: bool
):
    settings = index.settings.model_copy(update={"weak": True})
    hits = index.search([query], settings=settings).hits.to_pylist()
    found = [hit for hit in hits if hit["doc_id"] == ident(7)]
    assert [hit["snippet"] for hit in found] == ["nothing of my own"] * is_found
    assert [hit["citation"] for hit in found] == [f"{ident(7)} block 0 bytes 0-20"] * is_found


@pytest.mark.parametrize(
    ("query", "begins"),
    [
        ("lantern bulb glow bright in harbour fog", "So that ships see"),
        ("lantern_glow_bright bulb 150", "…\n"),
    ],
    ids=["the subject", "a changed line"],
)
def test_a_patch_is_shown_by_what_explains_it_unless_a_changed_line_is_looked_for(
    index: SearchIndex, query: str, begins: str
):
    (hit, *_) = index.search([query]).hits.to_pylist()
    assert hit["doc_id"] == ident(9)
    assert hit["snippet"].startswith(begins)
    assert "Signed-off-by" not in hit["snippet"]


@pytest.mark.parametrize("named", [ident(1), f"<{ident(3)}>", "thread"])
def test_a_thread_is_found_by_its_id_and_any_of_its_mails(
    published: duckdb.DuckDBPyConnection, named: str
):
    (thread_id,) = published.execute(
        "SELECT thread_id FROM thread_tree WHERE message_id = ?", [ident(1)]
    ).fetchone()
    rows = asked(published, "FROM thread($id)", id=thread_id if named == "thread" else named)
    assert [(row["message_id"], row["depth"]) for row in rows] == [
        (ident(1), 0),
        (ident(2), 1),
        (ident(3), 2),
        (ident(5), 1),
    ]
    assert rows[0]["body"].startswith(QUOTED)


def test_context_of_a_chunk_is_what_stands_beside_it(published: duckdb.DuckDBPyConnection):
    chunks = asked(
        published,
        "SELECT chunk_id FROM chunks WHERE doc_id = $id ORDER BY chunk_index",
        id=ident(3),
    )
    for number, chunk in enumerate(chunks):
        rows = asked(published, "FROM context_of($id, 1)", id=chunk["chunk_id"])
        near = range(max(0, number - 1), min(len(chunks), number + 2))
        assert [(r["distance"], r["chunk_id"]) for r in rows] == [
            (n - number, chunks[n]["chunk_id"]) for n in near
        ]


def test_quotes_of_a_mail_are_its_own_lines_in_others(published: duckdb.DuckDBPyConnection):
    quoted = {
        (r["message_id"], r["how"]) for r in asked(published, "FROM quotes_of($id)", id=ident(1))
    }
    assert quoted == {(ident(2), "marked"), (ident(3), "marked"), (ident(5), "unmarked")}
    answered = asked(published, "FROM quotes_of($id)", id=f"<{ident(2)}>")
    assert [(r["message_id"], r["text"].strip()) for r in answered] == [(ident(3), f"> {ANSWER}")]
    assert asked(published, "FROM quotes_of($id)", id=ident(3)) == []


def test_own_text_leaves_quotes_out_and_a_thread_is_one_text(published: duckdb.DuckDBPyConnection):
    rows = asked(published, "SELECT message_id, body, own_text(message_id) AS own FROM messages")
    blocks = asked(
        published, "FROM blocks WHERE kind IN ('author', 'patch_or_code') ORDER BY byte_start"
    )
    for row in rows:
        spans = [b for b in blocks if b["message_id"] == row["message_id"]]
        own = [row["body"].encode()[b["byte_start"] : b["byte_end"]].decode() for b in spans]
        assert row["own"] == ("".join(own) or None)
    (text,) = published.execute(
        "SELECT thread_text(thread_id) FROM thread_tree WHERE message_id = ?", [ident(1)]
    ).fetchone()
    places = [text.index(row["body"]) for row in asked(published, "FROM thread($id)", id=ident(1))]
    assert places == sorted(places) and len(places) > 1


def test_a_slice_is_by_bytes(published: duckdb.DuckDBPyConnection):
    assert published.execute("SELECT slice_text('größer', 2, 6)").fetchone() == ("öß",)


@pytest.mark.parametrize(
    "text",
    [
        "The compactor stalls since v2.1, and nobody knows why: it waits for a lock that is held by the writer.",
        "Größere Dateien werden erst nachts gelesen; die Vorschau zeigt sie trotzdem sofort an.",
        "索引が壊れた場合はもう一度作成してください。",
        "for (i = 0; i < count; i++) { total += values[i] * weights[i]; }",
    ],
)
def test_tokens_are_estimated_to_a_third(published: duckdb.DuckDBPyConnection, text: str):
    (estimate,) = published.execute("SELECT token_estimate(?)", [text]).fetchone()
    (counted,) = PackagedTokenCounter().counts([text])
    assert 0.67 * counted <= estimate <= 1.5 * counted


def test_an_empty_text_has_no_tokens(published: duckdb.DuckDBPyConnection):
    found = published.execute("SELECT token_estimate(''), token_estimate(NULL)").fetchone()
    assert found == (0, None)


def test_postings_are_there_by_the_names_of_things(published: duckdb.DuckDBPyConnection):
    (count,) = published.execute("SELECT count(*) FROM postings").fetchone()
    assert published.execute("SELECT count(chunk_id) FROM term_chunks").fetchone() == (count,)


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("é see https://a.example/b.", ["https://a.example/b"]),
        (
            "(https://a.example/b_(c)), <http://B.example:80/>",
            ["https://a.example/b_(c)", "http://B.example:80/"],
        ),
        (
            "[x](https://me@a.example/?q=1#f) https://a.example/b",
            ["https://me@a.example/?q=1#f", "https://a.example/b"],
        ),
        ("no://address, https:// none", []),
    ],
)
def test_addresses_are_those_that_links_of_documents_find(text: str, urls: list[str]):
    with closing(duckdb.connect()) as connection:
        connection.execute(
            "CREATE TABLE attachments (message_id VARCHAR, attachment_id VARCHAR, text VARCHAR);"
            "CREATE TABLE documents (doc_id VARCHAR, text VARCHAR);"
            "CREATE TABLE conversation_windows (doc_id VARCHAR, markdown VARCHAR)"
        )
        connection.execute(
            "CREATE TABLE messages AS SELECT 'm' AS message_id, $text AS body", {"text": text}
        )
        rows = connection.execute(f"FROM ({table_sql.VIEWS('urls')}) ORDER BY byte_start").pl()
    found = [link for link in _references(text, 0, "text") if link.kind == "url"]
    assert rows["url"].to_list() == [link.target for link in found] == urls
    assert rows["byte_start"].to_list() == [link.start for link in found]
    assert rows["place"].to_list() == [f"m bytes {u.start}-{u.end}" for u in found]
    assert {*rows["host"]} <= {"a.example", "b.example"}


def test_readiness_says_what_search_cannot_find_and_why(published: duckdb.DuckDBPyConnection):
    rows = {r["doc_id"]: r for r in asked(published, "FROM readiness")}
    assert len(rows) == len(MAILS)
    assert rows[ident(1)]["is_searchable"] and rows[ident(1)]["chunk_count"] >= 1
    assert (rows[ident(7)]["is_searchable"], rows[ident(7)]["excluded_for"]) == (True, [])
    assert (rows[ident(8)]["is_searchable"], rows[ident(8)]["excluded_for"]) == (
        False,
        ["too_little_text"],
    )
    assert len({r["published_at"] for r in rows.values()}) == 1


def test_names_have_comments_and_the_declared_keys_are_there(published: duckdb.DuckDBPyConnection):
    for kind, name in (
        ("tables", "table_name"),
        ("views", "view_name"),
        ("columns", "table_name || '.' || column_name AS name"),
    ):
        silent = asked(
            published,
            f"SELECT {name} FROM duckdb_{kind}() WHERE NOT internal AND coalesce(comment, '') = ''",
        )
        assert silent == [], kind
    keys = asked(
        published,
        "SELECT table_name, constraint_column_names FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY'",
    )
    assert {
        k["table_name"]: ", ".join(k["constraint_column_names"]) for k in keys
    } == table_sql.PRIMARY_KEYS
    macros = asked(
        published,
        "SELECT function_name AS name, comment FROM duckdb_functions() "
        "WHERE function_type LIKE '%macro' AND NOT internal AND database_name = current_database()",
    )
    assert {m["name"] for m in macros if m["comment"]} == {
        "search_text",
        "similar",
        "thread",
        "context_of",
        "quotes_of",
        "reviews",
        "search_semantic",
        "slice_text",
        "token_estimate",
        "own_text",
        "thread_text",
        *(name for added in extra_parts("macros") for name in added),
    }


@pytest.mark.exhaustive
def test_the_file_needs_no_extension_and_nothing_of_weft(work: Workspace):
    program = (
        "import sys, duckdb\n"
        "c = duckdb.connect(sys.argv[1], read_only=True, config={'autoload_known_extensions': False, "
        "'autoinstall_known_extensions': False, 'enable_external_access': False})\n"
        "for macro in (\"search_text('index')\", \"similar('x')\", \"thread('x')\", \"context_of('x')\", "
        "\"quotes_of('x')\", 'readiness', 'backlinks'):\n"
        "    c.execute(f'FROM {macro}').fetchall()\n"
        "print(len(c.execute(\"FROM search_text('index')\").fetchall()))\n"
        "assert not any(m.split('.')[0] in ('transforms', 'dagster_project') for m in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(work.index / "CURRENT")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1


@pytest.mark.parametrize(
    ("began", "catalog"),
    [
        ("ATTACH '{file}' AS weft (READ_ONLY)", "weft"),
        ("ATTACH '{file}' AS mail (READ_ONLY); USE mail", "mail"),
        ("ATTACH '{file}' AS \"my mail\" (READ_ONLY)", '"my mail"'),
    ],
    ids=["weft", "in use", "another name"],
)
def test_macros_and_views_of_an_attached_file_read_that_file(
    work: Workspace, began: str, catalog: str
):
    named_there = f", catalog := '{catalog}'" if "my" in catalog else ""
    with (
        duckdb.connect() as own,
        duckdb.connect(str(work.index / "CURRENT"), read_only=True) as there,
    ):
        own.execute(began.format(file=(work.index / "CURRENT").resolve()))
        (chunk,) = asked(
            there, "SELECT chunk_id, doc_id FROM search_text('measured compaction', 1)"
        )
        values = {
            "search_text": "compaction",
            "similar": chunk["chunk_id"],
            "thread": chunk["doc_id"],
            "context_of": chunk["chunk_id"],
            "quotes_of": ident(1),
            "reviews": "reviewed",
            "stripe": "x', 3, kind := 'y",
        }
        macros = asked(
            there,
            "SELECT function_name FROM duckdb_functions() WHERE function_type = 'table_macro' AND NOT internal "
            "AND function_name <> 'search_semantic'",
        )
        for name in (row["function_name"] for row in macros):
            call = f"{name}('{values[name]}'"
            expected = asked(there, f"FROM {call})")
            assert asked(own, f"FROM {catalog}.{call}{named_there})") == expected
            assert bool(expected) is (name not in ("reviews", "stripe"))
        for view in asked(there, "SELECT view_name AS name FROM duckdb_views() WHERE NOT internal"):
            count = f"SELECT count(*) AS n FROM {{}}{view['name']}"
            assert asked(own, count.format(f"{catalog}.")) == asked(there, count.format(""))


DESIGNED = (
    "id source_kind source_id message_id attachment_id thread_id list_id chunk_kind chunk_index chunk_count text_display "
    "text_embed char_count quote_anchor_chars quote_depth_max has_patch_markers is_quote_heavy embedding embedding_model "
    "embedding_created_at"
)


def test_chunks_of_mail_have_the_columns_of_the_design(published: duckdb.DuckDBPyConnection):
    columns = asked(published, "DESCRIBE semantic_chunks")
    assert " ".join(row["column_name"] for row in columns) == DESIGNED
    rows = asked(published, "FROM semantic_chunks")
    (count,) = asked(published, "SELECT count(*) AS n FROM chunks")
    assert len(rows) == len({r["id"] for r in rows}) == count["n"]
    assert all(
        r["thread_id"] and r["embedding"] and r["embedding_model"] and r["embedding_created_at"]
        for r in rows
        if r["chunk_kind"] != "unauthored_message"
    )


DESIGNED_NOTES = (
    "chunk_id note_path note_title heading_path chunk_index chunk_text chunk_text_contextualized "
    "context_sentence checksum token_count created_at updated_at"
)


def test_chunks_of_documents_have_the_columns_of_the_design(library: Workspace):
    with duckdb.connect(str(library.index / "CURRENT"), read_only=True) as connection:
        rows = asked(connection, "FROM note_chunks")
        (count,) = asked(
            connection, "SELECT count(*) AS n FROM chunks WHERE source_kind = 'document'"
        )
    assert " ".join(rows[0]) == DESIGNED_NOTES
    assert len(rows) == len({row["chunk_id"] for row in rows}) == count["n"] > 0
    counted = PackagedTokenCounter().counts([row["chunk_text"] for row in rows])
    assert 0.67 * sum(counted) <= sum(row["token_count"] for row in rows) <= 1.5 * sum(counted)
