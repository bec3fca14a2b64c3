"""Texts to terms."""

import re
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from transforms.languages import OR, UNSPACED
from transforms.schemas.chunks import CHUNKS
from transforms.settings.search import TermSettings
from transforms.text import terms as terms_module
from transforms.text.terms import COLUMN_OF, chunk_terms, context_terms, query_terms
from transforms.toml_file import toml_file

PLAIN = TermSettings(stemmer="none")


def terms(text: str, settings: TermSettings = PLAIN) -> list[str]:
    return query_terms([text], settings)[0]


@pytest.mark.parametrize(("text", "expected"), toml_file(__name__, "term_words.toml").items())
def test_words_are_runs_of_letters_digits_and_underscores(text: str, expected: list[str]):
    assert terms(text) == sorted(expected)


@pytest.mark.parametrize(
    ("stemmer", "expected"),
    [
        ("english", ["connect", "haus", "h\u00e4user", "index"]),
        ("german", ["connection", "haus", "indexing"]),
        ("none", ["connections", "haus", "h\u00e4user", "indexing"]),
        ("english+german", ["connect|connection", "haus", "haus|h\u00e4user", "index|indexing"]),
    ],
)
def test_terms_are_stemmed_as_the_settings_say(stemmer: str, expected: list[str]):
    assert terms("indexing connections Haus H\u00e4user", TermSettings(stemmer=stemmer)) == expected


@pytest.mark.parametrize(
    ("indexed", "expected"),
    [
        ([], ["block", "pg", "pg_wal", "read", "readblock", "wal"]),
        (["readblock"], ["pg", "pg_wal", "readblock", "wal"]),
        (["readblock", "pg_wal", "wal"], ["pg_wal", "readblock"]),
    ],
    ids=str,
)
def test_a_query_has_the_parts_of_an_identifier_only_if_no_chunk_has_it(
    indexed: list[str], expected: list[str]
):
    query = query_terms(["readBlock pg_wal"], PLAIN, df=lambda term: int(term in indexed))
    assert query == [expected]


def chunks(ids: list[str], **columns: list[Any]) -> pa.Table:
    """Chunks with these columns; the other fields of the index are empty."""
    rows = dict.fromkeys(("chunk_id", "doc_id"), pa.array(ids, pa.string()))
    for column in COLUMN_OF.values():
        type_ = CHUNKS.arrow.field(column).type
        empty: object = [] if pa.types.is_list(type_) else ""
        rows[column] = pa.array(columns.get(column, [empty] * len(ids)), type_)
    return pa.table(rows)


def test_occurrences_are_counted_by_chunk_and_field():
    table = chunks(
        ["b", "a"],
        title=["fox", ""],
        text_lex=["fox fox dog", "dog"],
        quote_lex=["", "Fox_fox"],
        diff_files=[[], ["src/fox.c", "dog.h"]],
        added_lex=["dog", ""],
    )
    rows = sorted(tuple(r.values()) for r in chunk_terms(table, PLAIN).to_pylist())
    words = ("c", "dog", "fox", "h", "src", "src/fox.c")
    assert [r for r in rows if r[1] == "file"] == [("a", "file", word, 1) for word in words]
    assert [r for r in rows if r[1] != "file"] == [
        ("a", "quote", "fox", 2),
        ("a", "quote", "fox_fox", 1),
        ("a", "text", "dog", 1),
        ("b", "added", "dog", 1),
        ("b", "text", "dog", 1),
        ("b", "text", "fox", 2),
        ("b", "title", "fox", 1),
    ]


def test_context_is_a_field_of_its_own():
    nothing = pa.table(
        {name: pa.array([], pa.string()) for name in ("chunk_id", "text_lex", "quote_lex")}
    )
    table = context_terms(pa.table({"chunk_id": ["a"], "context": ["a fox"]}), nothing, PLAIN)
    assert [(r["field"], r["term"]) for r in table.to_pylist()] == [
        ("context", "a"),
        ("context", "fox"),
    ]


def test_no_chunks_make_no_terms():
    assert chunk_terms(chunks([]), TermSettings()).num_rows == 0


@given(st.text())
def test_a_text_with_a_letter_or_digit_has_a_term(text: str):
    assert bool(terms(text, TermSettings())) or not any(c.isalnum() for c in text)


@given(
    st.lists(
        st.text(
            st.characters(codec="utf-8") | st.sampled_from("\u65e5\u672c\u3042\u30fcaB_"),
            max_size=30,
        ),
        max_size=5,
    )
)
@examples(60)
def test_what_is_indexed_is_found_by_the_same_words(texts: list[str]):
    defaults = TermSettings()
    names = [str(n) for n in range(len(texts))]
    table = chunks(
        names, text_lex=texts, title=texts, removed_lex=texts, diff_functions=[[t] for t in texts]
    )
    indexed = {(r["chunk_id"], r["term"]) for r in chunk_terms(table, defaults).to_pylist()}
    queried = {(str(n), term) for n, of in enumerate(query_terms(texts, defaults)) for term in of}
    assert queried <= indexed
    mixed = TermSettings(stemmer="german+english")
    places = {(r["chunk_id"], r["term"]) for r in chunk_terms(table, mixed).to_pylist()}
    asked = [
        (str(n), term.split(OR)) for n, of in enumerate(query_terms(texts, mixed)) for term in of
    ]
    assert all(any((place, term) in places for term in terms_) for place, terms_ in asked)
    # A character of Chinese or Japanese is searched for by itself where it stands alone.
    assert all(re.fullmatch(f"[{UNSPACED}]", term) for _, term in indexed - queried)


ASCII = st.text(
    st.sampled_from("aBcDEfgHIxyz019__..//++##--vVcveCVE ") | st.characters(max_codepoint=127)
)


@examples(300)
@given(st.lists(ASCII, min_size=1, max_size=4))
def test_names_in_ascii_are_those_that_polars_finds(texts: list[str]):
    column = pl.Series(texts, dtype=pl.String)
    expected = [
        column.str.extract_all(p).to_list() for p in (terms_module.WORD, terms_module.COMPOUND)
    ]
    assert list(terms_module.names_in(texts)) == expected
    beside = [*texts, "Größe fs/größe.c"]
    assert [names[:-1] for names in terms_module.names_in(beside)] == expected
    assert terms_module.names_in(beside)[1][-1] == ["fs/größe.c"]


@examples(300)
@given(st.lists(st.text("aBcDEfgHI019_", min_size=1), min_size=1, max_size=6))
def test_parts_of_words_in_ascii_are_those_that_polars_cuts(words: list[str]):
    # A letter that is no ASCII, behind an underscore, sends a word the other way and is a part of
    # its own.
    other_way = terms_module.identifier_parts([f"{word}_öö" for word in words])
    for word, parts in terms_module.identifier_parts(words).items():
        if "_" in word:
            assert other_way[f"{word}_öö"] == [*parts, "öö"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("where is IN not and NOT", ["in", "not", "where"]),
        ("the WAL in use", ["use", "wal"]),
        ("HOW TO DO IT", ["how"]),
        ("A wal", ["wal"]),
        ("in or NOT", ["not"]),
    ],
)
def test_stop_words_in_capitals_count_beside_small_letters(query: str, expected: list[str]):
    found = query_terms(
        [query], PLAIN, stopwords=("in", "is", "and", "not", "or", "the", "a", "to", "do", "it")
    )
    assert found == [expected]
