"""The query language: what a text asks for, and where its faults are."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.errors import QuerySyntaxError
from transforms.retrieval.query_dates import time_span
from transforms.retrieval.query_language import MAX_CONDITIONS, parsed_query

PLAIN = [
    "how do I vacuum a large table?",
    "Re: [PATCH v3 2/7] erofs: fix (another) build failure",
    "[HACKERS] Re: TODO: (some item), part 2",
    "std::vector<int> in C++ and C#",
    "https://www.postgresql.org/docs/16/sql-copy.html?a=b&c=d:e",
    "foo: bar",
    "From: Tom Lane <tgl@sss.pgh.pa.us>",
    "s: subject with a blank, d: too, path:",
    r"d:\data\base and s::string and path://x",
    "why does pg_sleep(1) (or f(a, b)) block",
    "pg_dump -Fc -j 4 --verbose -- foo - bar -1 -O2 -std=c99",
    'a 5" disk and x="y"',
    "1) first 2) second :-) (unfinished",
    "add a NOT NULL constraint",
    "IN and NOT",
    "SELECT a FROM b WHERE x = 1 AND y = 2 OR z",
    "CREATE OR REPLACE FUNCTION f()",
    "WHY DOES THIS NOT WORK AT ALL",
    "this or that and not those",
    "pre-commit e-mail",
    "OR",
    '"',
    "!!! ()",
    "",
    'a log line: "x"\n-foo and (more',
    "10^6 rows, e^2, HEAD~1 and ~user",
    "psql:dump.sql:10: ERROR at localhost:5432, mailto:ann@example.org",
    "docs:guides/auth.md#oauth-setup",
    "**bold** char *p SELECT * int* a*b",
]


@pytest.mark.parametrize("text", PLAIN)
def test_a_text_without_syntax_is_taken_as_it_stands(text: str):
    query = parsed_query(text)
    assert (query.text, query.conditions) == (text, ())


@pytest.mark.parametrize(
    ("given", "text", "conditions"),
    [
        ('"index scan" slow', "index scan slow", ['"index scan"']),
        ("slow -toast", "slow", ["-toast"]),
        ('slow -"index scan"', "slow", ['-"index scan"']),
        ("slow NOT toast", "slow", ["-toast"]),
        ("erofs OR f2fs compression", "erofs f2fs compression", ["(erofs OR f2fs)"]),
        ("a AND b OR c AND d e", "a b c d e", ["((a AND b) OR (c AND d))"]),
        ('x (a b) OR "c d"', "x a b c d", ['((a AND b) OR "c d")']),
        ('(a "b c") d', "a b c d", ['"b c"']),
        ("-(a b)", "", ["-(a AND b)"]),
        ('"DROP COLUMN" AND -"ALTER TABLE"', "DROP COLUMN", ['("DROP COLUMN" AND -"ALTER TABLE")']),
        ("f:tom d:2004..2006 vacuum", "vacuum", ["f:tom", "d:2004..2006"]),
        (
            'from:"Tom Lane" date:2004-05 -list:pgsql-sql',
            "",
            ['f:"Tom Lane"', "d:2004-05", "-l:pgsql-sql"],
        ),
        ("s:vacuum nq:full", "vacuum full", ["s:vacuum", "nq:full"]),
        ("s:(index scan)", "index scan", ["(s:index AND s:scan)"]),
        ("f:(tom OR bruce)", "", ["(f:tom OR f:bruce)"]),
        (
            "dfn:zdata.c dfhh:z_erofs_read",
            "zdata.c z_erofs_read",
            ["dfn:zdata.c", "dfhh:z_erofs_read"],
        ),
        ('"a" OR "b" OR "c"', "a b c", ['("a" OR "b" OR "c")']),
        ("path:docs/*.md OR tag:a/b", "", ["(path:docs/*.md OR tag:a/b)"]),
        ("kind:attachment has:patch -source:x", "", ["kind:attachment", "has:patch", "-source:x"]),
        (
            "C++ OR (std::vector), -CVE-2024-0001",
            "C++ std::vector ,",
            ["(C++ OR std::vector)", "-CVE-2024-0001"],
        ),
        ('ERROR: relation "foo" does not exist', "ERROR: relation foo does not exist", ['"foo"']),
        ("vacuum^2 slow", "vacuum slow", []),
        ('title:"index scan"^3 (wal toast)^2', "index scan wal toast", ['title:"index scan"']),
        ("vacu* -toas* l:pgsql*", "", ["vacu*", "-toas*", "l:pgsql*"]),
        ("vacum~ OR postgers~2", "", ["(vacum~ OR postgers~2)"]),
        ("tags:x tree:y hierarchy:z title:w", "z w", ["tag:x", "source:y", "s:z", "title:w"]),
        (
            "newer_than:30d larger:100K is:unanswered is_code:true",
            "",
            ["newer_than:30d", "larger:100K", "is:unanswered", "is_code:true"],
        ),
        ("pg_sleep(1) OR f(a, b)", "pg_sleep(1) f(a, b)", ["(pg_sleep(1 OR f(a)"]),
    ],
)
def test_syntax_is_read(given: str, text: str, conditions: list[str]):
    query = parsed_query(given)
    assert (query.text, [str(c) for c in query.conditions]) == (text, conditions)


def test_factors_and_patterns_rank():
    query = parsed_query(
        'vacuum^2 title:"index scan"^3 (wal toast^2)^2 OR vacu*^0.5 colr~ -nothing*'
    )
    assert query.factors == (("vacuum", 2), ("index scan", 3), ("wal", 2), ("toast", 4))
    assert query.patterns == (("vacu*", 0.5), ("colr~", 1))


@pytest.mark.parametrize(
    ("text", "position", "said"),
    [
        ('how "foo bar', 4, "not closed"),
        ("x (a OR b", 2, "not closed"),
        ("a OR", 2, "nothing follows 'OR'"),
        ("OR a", 0, "OR must be between"),
        ("a OR ()", 6, "missing before this"),
        ("a OR !", 5, "no letter or digit"),
        ("x d:yesterday", 4, "2004-05-17"),
        ("d:2004-13", 2, "2004-05-17"),
        ("kind:mail", 5, "message, attachment, document, conversation"),
        ("has:fun", 4, "patch, attachment"),
        ("x titel:y", 2, "no field is called titel:, the nearest is title:"),
        ("after:2024/02/14 x", 0, "the nearest is date:2024-05.."),
        ("-author:ann", 1, "no field is called author:, the nearest is from:"),
        ("older_than:1h", 11, "30d, 2w, 6m or 1y"),
        ("larger:big", 7, "100K"),
        ("s:(a f:b)", 5, "a field is inside"),
        (" ".join(['"a"'] * (MAX_CONDITIONS + 1)), 4 * MAX_CONDITIONS, "more than"),
    ],
)
def test_a_fault_points_at_its_character(text: str, position: int, said: str):
    with pytest.raises(QuerySyntaxError) as caught:
        parsed_query(text)
    assert caught.value.position == position
    first, shown, mark = str(caught.value).split("\n")
    assert f"character {position + 1} " in first and said in first and "--plain" in first
    assert shown[mark.index("^")] == text[position]


@pytest.mark.parametrize(
    ("value", "first", "behind"),
    [
        ("2004", (2004, 1, 1), (2005, 1, 1)),
        ("2004-12", (2004, 12, 1), (2005, 1, 1)),
        ("2004-02-29", (2004, 2, 29), (2004, 3, 1)),
        ("20040229", (2004, 2, 29), (2004, 3, 1)),
        ("2004..2006", (2004, 1, 1), (2007, 1, 1)),
        ("20040503..2004-06", (2004, 5, 3), (2004, 7, 1)),
        ("2004-05..", (2004, 5, 1), None),
        ("..2004-05-03", None, (2004, 5, 4)),
    ],
)
def test_dates_are_spans(
    value: str, first: tuple[int, int, int] | None, behind: tuple[int, int, int] | None
):
    assert time_span(value) == (
        first and datetime(*first, tzinfo=UTC),
        behind and datetime(*behind, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    "value",
    ["", "..", "200", "2004-2-30", "2004-05-17T12:00", "9999-12-31", "0000", "२००४", "2006..2004"],
)
def test_what_is_no_date_is_no_span(value: str):
    assert time_span(value) is None


@pytest.mark.parametrize(
    ("given", "identifier"),
    [
        ("<a.b@c.d>", "a.b@c.d"),
        (" a.b@c.d ", "a.b@c.d"),
        ("7444effc2502", "7444effc2502"),
        ('"a@b"', None),
        ("f:a", None),
    ],
)
def test_what_could_be_an_id_is_kept_as_one(given: str, identifier: str | None):
    assert parsed_query(given).identifier == identifier


PIECES = [
    *'ab "()-:\\\n\x00fsd.*é^~2',
    "abcd*",
    "abcd~",
    "^2",
    " OR ",
    " AND ",
    " NOT ",
    "s:",
    "f:(",
    "d:2004",
]


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_every_text_is_understood_or_its_fault_is_placed(text: str):
    try:
        query = parsed_query(text)
    except QuerySyntaxError as fault:
        assert 0 <= fault.position < len(text)
    else:
        assert query.conditions or query.factors or query.text == text


@given(st.text())
def test_a_query_is_understood_like_its_own_words_between_quotes(text: str):
    bare = text.replace('"', "").replace("\n", " ")
    query = parsed_query(f'"{bare}"')
    assert [str(c) for c in query.conditions] == (
        [f'"{bare}"'] if any(map(str.isalnum, bare)) else []
    )
