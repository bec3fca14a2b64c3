"""Ten times the query takes about ten times the work, whatever it is made of, and what is too much
is refused at once.
"""

import contextlib
from collections.abc import Callable

import polars as pl
import pytest

from tests.timing import growth
from transforms.errors import QueryError, QuerySyntaxError
from transforms.retrieval import reranking
from transforms.retrieval.query_language import (
    MAX_CHARACTERS,
    MAX_CONDITIONS,
    MAX_DEPTH,
    parsed_query,
    plain_query,
)
from transforms.retrieval.query_rewriting import by_rules
from transforms.settings.search import TermSettings
from transforms.text.phrases import holding
from transforms.text.snippets import (
    StoredText,
    matching_words,
    snippet,
    stored_ranges,
    words_by_term,
)
from transforms.text.terms import counted_terms, query_terms, word_parts

TIMES, ALLOWED = 10, 25
TERMS = TermSettings()


def described(text: str) -> object:
    """The snippet of a text in which every word is asked for, and where it stands in a text with
    one more.
    """
    wanted = set(*query_terms([text], TERMS))
    matching = matching_words(wanted, words_by_term([text], wanted, TERMS))
    return stored_ranges(snippet(text, matching), [StoredText(0, f"x {text} y")], matching)


def looked_at(text: str) -> object:
    """What a second look sees in a text."""
    row = reranking.Candidate(0, 1, 1.0, 0, text, text, "turn", "text", None, False, False, 0.0)
    return reranking.features([row], {0: text})


WORK: dict[str, Callable[[str], object]] = {
    "query_terms": lambda text: query_terms([text], TERMS),
    "counted_terms": lambda text: counted_terms(pl.Series([text]), TERMS),
    "parts": lambda text: word_parts(text, TERMS),
    "by_rules": lambda text: by_rules("it", [text]),
    "phrases": lambda text: holding(pl.Series([text]), "torn record"),
    "described": described,
    "looked_at": looked_at,
}
REPEATED = [
    "a",
    "A",
    "_",
    "1",
    "-",
    "aA",
    "a_",
    "a.",
    "a/",
    "1.",
    "a-1",
    "/.",
    "é",
    "éA",
    "the ",
    "é ",
    "C++ ",
    "Ab ",
    "?",
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("repeated", REPEATED)
def test_ten_times_the_text_is_about_ten_times_the_work(name: str, repeated: str):
    few, many = ((repeated * size)[:size] for size in (20_000, 20_000 * TIMES))
    ratio = growth(lambda: WORK[name](few), lambda: WORK[name](many), ALLOWED)
    assert ratio < ALLOWED, (
        f"{name} of {repeated!r}: {TIMES} times the text took {ratio:.1f} times the time"
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "repeated",
    [
        "a",
        "_",
        '"',
        "(",
        ")",
        "-",
        "-(",
        "a)",
        "f(",
        ":",
        "s:",
        "s:a ",
        "-abc ",
        "abc=",
        "NOT a ",
        "NOT ",
        "a OR ",
        '"a" ',
        "abc^2 ",
        "abc*",
        "abcd~ ",
        "ab:c",
        '"a"^2 ',
        ")^2",
    ],
)
def test_ten_times_the_syntax_is_about_ten_times_the_work(repeated: str):
    def read(size: int) -> None:
        for text in ((repeated * size)[:size], f"-{(repeated * size)[: size - 2]}="):
            with contextlib.suppress(QuerySyntaxError):
                parsed_query(text)

    parsed_query("a OR b")  # the grammar is read once
    ratio = growth(lambda: read(MAX_CHARACTERS // TIMES), lambda: read(MAX_CHARACTERS), ALLOWED)
    assert ratio < ALLOWED, f"{repeated!r}: {TIMES} times the query took {ratio:.1f} times the time"


@pytest.mark.parametrize("read", [parsed_query, plain_query])
def test_a_query_that_is_too_long_is_refused(read: Callable[[str], object]):
    read("a" * MAX_CHARACTERS)
    with pytest.raises(
        QueryError, match=r"20,001 characters, the limit is 20,000: .*`context` takes"
    ):
        read("a" * (MAX_CHARACTERS + 1))


@pytest.mark.parametrize(
    "opening, closing",
    [("(", ")"), ("-(", ")"), ("NOT (", ")"), ("s:(", ")"), ("a (b OR ", ")"), ("-NOT ", "")],
    ids=["groups", "negated", "not", "field", "either", "negations"],
)
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 2_000])
def test_what_is_nested_too_deeply_is_refused(opening: str, closing: str, depth: int):
    with pytest.raises(QuerySyntaxError) as caught:
        parsed_query(f'{opening * depth}"a b" OR c{closing * depth}')
    assert str(caught.value).startswith("character ")
    assert "nested deeper than 32" in str(caught.value) or opening == "s:("


def test_as_many_conditions_as_are_allowed_are_read_at_any_allowed_depth():
    query = (
        "(" * MAX_DEPTH + " OR ".join(f'"w{n}"' for n in range(MAX_CONDITIONS)) + ")" * MAX_DEPTH
    )
    (condition,) = parsed_query(query).conditions
    assert str(condition).count(" OR ") == MAX_CONDITIONS - 1
