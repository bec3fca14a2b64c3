"""Whatever is asked, a published index answers or says what is wrong with the query, soon and in
bounded memory.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from dagster_project.index.search.explain import explanation
from dagster_project.index.search.lookup import asking, reading
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.search_index import SearchIndex
from tests.archives import Workspace
from tests.fuzz.fuzzing import seeds, within_limits
from transforms.errors import QueryError, UnknownIdError
from transforms.retrieval.query_language import CONDITIONS
from transforms.retrieval.search_filters import Filters

COUNT = 200
WORDS = [
    "compactor",
    "load",
    "garbage",
    "collector",
    "the",
    "shell",
    "log",
    "p1@example.org",
    "m1@example.org",
    "Übergröße",
    "pg_stat_activity",
    "readBlock",
    "HTTPServer",
    "C++",
    "v16.2",
    "CVE-2024-0001",
    "src/store/log.c",
    "O'Hara",
]
SIGNS = [
    '"',
    "(",
    ")",
    "-",
    ":",
    "*",
    "?",
    "\\",
    "[",
    "]",
    "{",
    "}",
    "^",
    "$",
    "|",
    "+",
    ".",
    "%",
    "_",
    "'",
    ";",
    "--",
    "/*",
    "\x00",
    "\x1f",
    "\x7f",
    "\n",
    "\r",
    "\t",
    "\u2028",
    "\u200b",
    "\u202e",
    "\ud800",
    "\udfff",
    "\ufeff",
    "\ufffe",
    "a\u0301",
    "\U0001f600",
    "\u0130",
    "ß",
    "ﬀ",
    "ς",
    "中文",
    "עברית",
    "#",
    "$1",
    "${1}",
    "{0}",
    "%s",
    "\\d",
    "(?:",
    "(?R)",
]
OPERATORS = [" OR ", " AND ", " NOT ", " -", " NOT (", " (", ") ", "-(", '"', " OR (", " -NOT "]
DATES = [
    "2004",
    "0000",
    "9999",
    "9999-12-31",
    "2004-13",
    "2004-02-31",
    "20041399",
    "..",
    "..2004",
    "2005..2004",
    "٢٠٠٤",
    "1e9",
]
VALUES = [
    *WORDS,
    *DATES,
    "patch",
    "message",
    "attachment",
    "*",
    "?" * 30,
    "*a" * 20,
    "[a-z",
    "dev",
    "users",
    '""',
    "()",
    "/",
]
STATEMENTS = [
    "'; DROP TABLE chunks; --",
    "' OR '1'='1",
    '"; DELETE FROM messages; --',
    "$id",
    "$1",
    "?",
    "x') UNION SELECT 1 --",
    "\\'; SELECT 1; --",
    "chr(0)",
    "%' ESCAPE '",
]
PATTERNS = [
    "(a+)+$",
    "(.*a){30}",
    "[[:alpha:]]",
    "\\p{L}",
    "(?i)",
    "a{1000}{1000}",
    ".*" * 500,
    "\\",
    "(?<x>",
    "\\1",
    "^$",
]


def word(choose: random.Random) -> str:
    made = choose.choice([WORDS, SIGNS, VALUES, STATEMENTS, PATTERNS])
    return "".join(choose.choice(made) for _ in range(choose.choice([1, 1, 1, 2, 5])))


def fielded(choose: random.Random) -> str:
    value = choose.choice(
        [*VALUES, word(choose), f'"{word(choose)}"', f"({word(choose)} OR {word(choose)})"]
    )
    return f"{choose.choice(['', '', '-'])}{choose.choice(sorted(CONDITIONS))}:{value}"


def mixed(choose: random.Random) -> str:
    """Words, fields and operators in any order."""
    parts = [choose.choice([word, fielded])(choose) for _ in range(choose.randint(1, 8))]
    return "".join(part + choose.choice([" ", *OPERATORS]) for part in parts)


def repeated(choose: random.Random) -> str:
    """One partition very often."""
    partition = choose.choice(
        [word(choose), choose.choice(OPERATORS), choose.choice(SIGNS), fielded(choose)]
    )
    return partition * choose.choice([10, 65, 500, 20_000 // max(1, len(partition)), 30_000])


def nested(choose: random.Random) -> str:
    depth = choose.choice([5, 31, 32, 33, 500, 5_000])
    opening = choose.choice(["(", "-(", "NOT (", "s:(", "(a OR ", "f("])
    return opening * depth + mixed(choose) + ")" * choose.choice([depth, depth - 1, depth + 1, 0])


def characters(choose: random.Random) -> str:
    """Any characters, those that no text can hold among them."""
    return "".join(chr(choose.randrange(0x110000)) for _ in range(choose.choice([1, 10, 300])))


def phrases(choose: random.Random) -> str:
    """Many phrases, or long ones, of words that the index holds."""
    count, length = choose.choice(
        [(1, 3), (3, 2), (64, 3), (65, 1), (1, 100), (20, 25), (1, 3_000)]
    )
    made = [" ".join(choose.choice(WORDS) for _ in range(length)) for _ in range(count)]
    return choose.choice([" ", " OR ", " -"]).join(
        f'{choose.choice(["", "b:", "nq:", "s:", "f:"])}"{p}"' for p in made
    )


def broken(choose: random.Random) -> str:
    """A query with characters lost, doubled or replaced."""
    letters = list(mixed(choose))
    for _ in range(choose.randint(1, 10)):
        place = choose.randrange(len(letters) + 1)
        letters[place : place + choose.randint(0, 2)] = [choose.choice(SIGNS)]
    return "".join(letters)


KINDS: list[Callable[[random.Random], str]] = [
    mixed,
    mixed,
    broken,
    broken,
    repeated,
    nested,
    characters,
    phrases,
]


@pytest.fixture(scope="module")
def index(built_once: Workspace) -> Iterator[SearchIndex]:
    with closing(open_index(built_once.settings)) as opened:
        opened.search(["compactor"])
        yield opened


def asked(index: SearchIndex, seed: int, choose: random.Random) -> None:
    """Ask one query in all ways; any fault but those of a query, and any long wait, fails the test."""
    query = choose.choice(KINDS)(choose)
    given = {choose.choice(["author", "path", "tag", "list", "source", "series"]): word(choose)}
    filters = Filters(**given) if choose.random() < 0.2 else Filters()
    case = f"seed {seed}: {query[:200]!r} ({len(query)} characters), {filters}"
    try:
        with within_limits(case):
            with suppress(QueryError):
                found = index.search([query], filters, plain=choose.random() < 0.1)
                assert len(found.labels) == len(found.understood) == 1
                for hit in found.hits.to_pylist():
                    for start, end in hit["highlights"]:
                        assert 0 <= start < end <= len(hit["snippet"])
            if choose.random() < 0.3:
                with suppress(QueryError, UnknownIdError):
                    explanation(
                        index, query, choose.choice([None, "m1@example.org", query[:50]]), filters
                    )
            with suppress(QueryError, UnknownIdError):
                reading(asking(index.connection), query)
    except Exception as fault:
        raise AssertionError(f"{case}: {type(fault).__name__}: {fault}") from fault


@pytest.mark.exhaustive
def test_odd_queries_are_answered_or_refused(index: SearchIndex):
    for seed, choose in seeds(COUNT):
        asked(index, seed, choose)
