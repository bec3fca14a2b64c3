"""Faults of the query, of memory, of the file and of the disk are told apart, each by a real one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from dagster_project.index.search.index_faults import damage_of, faults_translated
from dagster_project.index.search.lookup import asking
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.statements.sql import query_current
from tests.archives import Workspace
from tests.timing import PAUSE
from transforms import errors
from transforms.retrieval.query_language import MAX_CONDITION_WORDS

SLOW = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range = 7"
LARGE = "SELECT list(a.range::VARCHAR || b.range) FROM range(100000) a, range(10000) b"


def published(work: Workspace) -> Path:
    return (work.index / "CURRENT").resolve()


@pytest.fixture
def connection(built_once: Workspace) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.execute(f"ATTACH '{published(built_once)}' AS i (READ_ONLY)")
        made.execute("USE i")
        yield made


def fault(
    connection: duckdb.DuckDBPyConnection, path: Path, statement: str, *values: object
) -> errors.WeftError:
    """What a statement that fails is translated to."""
    with pytest.raises(errors.WeftError) as caught, faults_translated(path):
        connection.execute(statement, values).fetchall()
    assert "delete" not in str(caught.value)
    return caught.value


@pytest.mark.exhaustive
@pytest.mark.parametrize("words", [2_000, MAX_CONDITION_WORDS])
def test_a_long_phrase_is_a_fault_of_the_query_or_finds_nothing(built_once: Workspace, words: int):
    phrase = '"' + " ".join(["the compactor"] * (words // 2)) + '"'
    with closing(open_index(built_once.settings)) as index:
        if words <= MAX_CONDITION_WORDS:
            assert not index.search([phrase]).hits.num_rows
        else:
            with pytest.raises(errors.QueryError, match="more than 512 words"):
                index.search([phrase])


@pytest.mark.exhaustive
def test_a_pattern_that_is_too_large_is_a_fault_of_the_query(
    built_once: Workspace, connection: duckdb.DuckDBPyConnection
):
    pattern = r"[^\p{L}\p{M}\p{N}]+x" * 3_000
    statement = "SELECT count(*) FROM chunks WHERE regexp_matches(text_display, ?)"
    assert type(fault(connection, published(built_once), statement, pattern)) is errors.QueryError


def test_a_limit_of_memory_spoils_no_file(
    built_once: Workspace, connection: duckdb.DuckDBPyConnection
):
    for setting in ("memory_limit = '30MB'", "temp_directory = ''"):
        connection.execute(f"SET {setting}")
    assert type(fault(connection, published(built_once), LARGE)) is errors.MemoryLimitError


def test_an_interrupted_query_says_so(built_once: Workspace, connection: duckdb.DuckDBPyConnection):
    over = threading.Event()

    def interrupt() -> None:
        while not over.wait(PAUSE):  # it may come before the query
            connection.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert type(fault(connection, published(built_once), SLOW)) is errors.QueryInterruptedError
    over.set()
    thread.join()


def flipped(file: Path) -> None:
    """Flip a byte in every block behind the headers, but for the first."""
    written = bytearray(file.read_bytes())
    for place in range(3 * 4096 + (1 << 18) + 5_000, len(written), 1 << 18):
        written[place] ^= 0xFF
    file.write_bytes(written)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: -(1 << 18)])


def replaced(file: Path) -> None:
    """A folder in the place of the file cannot be read by anybody, whatever their rights."""
    file.unlink()
    file.mkdir()


def emptied(file: Path) -> None:
    file.unlink()
    duckdb.connect(str(file)).close()


def searched(work: Workspace) -> None:
    with closing(open_index(work.settings)) as index, faults_translated(index.path):
        index.search(['"compactor" f:ada'])
        index.connection.execute("SELECT sum(hash(m)) FROM messages m").fetchall()


def asked_by_sql(work: Workspace) -> None:
    query_current(work.index, "SELECT sum(hash(c)) FROM chunks c")


@pytest.mark.parametrize(
    ("ask", "harm", "is_damage"),
    [
        (searched, flipped, True),
        (searched, cut, True),
        (searched, emptied, True),
        (searched, replaced, False),
        (asked_by_sql, flipped, True),
        (asked_by_sql, cut, True),
        (asked_by_sql, replaced, False),
    ],
)
def test_only_a_file_whose_damage_has_been_seen_is_to_be_deleted(
    built: Workspace,
    ask: Callable[[Workspace], None],
    harm: Callable[[Path], None],
    is_damage: bool,
):
    harm(published(built))
    with pytest.raises(errors.IndexUnavailableError) as caught:
        ask(built)
    assert ("delete it" in str(caught.value)) == is_damage, caught.value
    assert str(published(built)) in str(caught.value)


def test_a_fault_while_the_file_is_whole_does_not_accuse_it(built_once: Workspace):
    path = published(built_once)
    assert damage_of(path) is None
    connection = duckdb.connect()
    connection.close()
    with (
        pytest.raises(errors.WeftError, match="all of .* can be read") as caught,
        faults_translated(path),
    ):
        asking(connection)("SELECT 1", {})
    assert type(caught.value) is errors.WeftError and "delete" not in str(caught.value)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT",
        "FROM nowhere",
        "SELECT 1/0 AS a, CAST('x' AS INT)",
        "FROM read_csv('/etc/passwd')",
        "(" * 200_000,
    ],
)
def test_a_statement_that_cannot_be_understood_is_a_fault_of_the_query(
    built_once: Workspace, statement: str
):
    with pytest.raises(errors.QueryError):
        query_current(built_once.index, statement)
