"""Words that mean the same: how a file is read, and what it adds to a text."""

import pytest

from transforms.text.synonyms import added, rules

FILE = """# of databases
wal, write-ahead log
pg => postgres, postgresql
C++, cplusplus
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("why is the WAL large", ["write", "ahead", "log"]),
        ("the write-ahead log grows", ["wal"]),
        ("pg restarts", ["postgres", "postgresql"]),
        ("postgres restarts", []),
        ("a wall of pgs", []),
        ("pg and wal", ["write", "ahead", "log", "postgres", "postgresql"]),
        ("C++ code", ["cplusplus"]),
        ("", []),
    ],
)
def test_a_text_asks_for_what_means_the_same(text: str, words: list[str]):
    assert added(text, FILE) == words


@pytest.mark.parametrize("line", ["wal", "=> x", "a => b => c", ",", "a =>"])
def test_a_line_that_is_no_rule_is_named(line: str):
    with pytest.raises(ValueError, match="line 2"):
        rules(f"a, b\n{line}\n")
