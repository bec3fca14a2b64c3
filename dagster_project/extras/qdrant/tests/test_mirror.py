"""An index that a collection of Qdrant ranks gives the hits that its file gives, also while it
changes.
"""

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dagster_project.cli.main import main
from dagster_project.index.publish.versions import version_of
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.search_index import SearchIndex
from tests.archives import START, Mail, Workspace, discussion
from tests.timing import HUNG
from transforms.errors import IndexUnavailableError
from transforms.retrieval.search_filters import Filters
from transforms.settings.search import SearchSettings

pytest.importorskip("qdrant_client", reason="the extra qdrant is not installed")
pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed")

from dagster_project.extras.qdrant import collection  # noqa: E402
from dagster_project.extras.qdrant.batch import PointRanking  # noqa: E402
from dagster_project.extras.qdrant.collection import Collection  # noqa: E402
from dagster_project.extras.qdrant.mirror import QdrantMirror  # noqa: E402
from dagster_project.extras.qdrant.points import (
    Points,  # noqa: E402
    mirrored,  # noqa: E402
)
from tests.qdrant_edge_client import EdgeClient  # noqa: E402

pytestmark = pytest.mark.exhaustive

QUERIES = (
    "compactor load doubles",
    "write-ahead log measured in run 104",
    "shell",
    "keeps its pace",
    "yes",
    "garbage",
    "how does the log behave",
    "collector run",
    "nothing of this stands anywhere",
    "-shell compactor",
    "l:dev pace",
)


@pytest.fixture
def client(tmp_path: Path) -> EdgeClient:
    (folder := tmp_path / "collections").mkdir()
    return EdgeClient(folder)


@pytest.fixture
def mirror(client: EdgeClient) -> QdrantMirror:
    return QdrantMirror(client, "weft", SearchSettings())


def current(work: Workspace) -> Path:
    return (work.index / "CURRENT").resolve()


@contextmanager
def ranked_by(client: EdgeClient, work: Workspace) -> Iterator[SearchIndex]:
    """The current version, ranked by its collection."""
    with closing(open_index(work.settings)) as index:
        stored = mirrored(index.path)
        assert stored
        index.ranked_by(PointRanking(Points(Collection(client, stored[0].collection), *stored)))
        yield index


def searched(index: SearchIndex, **options: Any) -> list[dict[str, Any]]:
    """What a search says of each hit, but for the parts of its score."""
    found = [row for query in QUERIES for row in index.search([query], **options).hits.to_pylist()]
    return [{name: v for name, v in row.items() if name != "rerank_parts"} for row in found]


def about(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same with scores that may be a little off: they are sums of single precision in another
    order.
    """
    return [
        {name: pytest.approx(v, abs=1e-5) if isinstance(v, float) else v for name, v in row.items()}
        for row in rows
    ]


def of_file(work: Workspace, **options: Any) -> list[dict[str, Any]]:
    with closing(open_index(work.settings)) as index:
        return searched(index, **options)


def chunks(rows: list[dict[str, Any]]) -> list[str]:
    return [row["chunk_id"] for row in rows]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"filters": Filters(source="users")},
        {"filters": Filters(list="dev")},
        {
            "filters": Filters(
                since=START + timedelta(hours=1), until=START + timedelta(hours=4), kind="message"
            )
        },
        {"filters": Filters(author="p1@example.org")},
        {"settings": SearchSettings(fusion="rrf", thread_weight=0)},
        {
            "settings": SearchSettings(
                lexical_weight=0, thread_weight=0, mail_weight=0, page_weight=0
            )
        },
        {"settings": SearchSettings(vector_search="ann")},
    ],
    ids=["default", "source", "list", "times", "ids", "ranks", "vectors", "graph"],
)
def test_a_collection_finds_what_the_file_finds_in_two_round_trips(
    built: Workspace, client: EdgeClient, mirror: QdrantMirror, options: dict[str, Any]
):
    mirror.publish(current(built), None)
    with ranked_by(client, built) as index:
        found = searched(index, **options)
        assert found == about(of_file(built, **options))
        client.trips = 0
        index.search(["compactor load"])
        assert client.trips == 2
    assert found


TALK = "Ada: The load doubles when the compactor runs.\nBen: And what does the shell say of its pace?\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "compactor load", "write-ahead log"],
        ["search", "l:users pace"],
        ["search", "compactor load", "--stages"],
        ["similar", "m3@example.org"],
        ["context", "--stdin"],
        ["context", "--stdin", "--lens", "users"],
    ],
    ids=" ".join,
)
def test_every_way_of_asking_answers_as_the_file_does(
    built_once: Workspace,
    client: EdgeClient,
    mirror: QdrantMirror,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
):
    work = built_once.copied(tmp_path / "work")
    mirror.publish(current(work), None)
    monkeypatch.setattr(collection, "connected", lambda url: client)
    plain = work.config.read_text() + '\n[lenses.users]\nwhere = "source:users"\n'
    answers = []
    for name, target in (("file", ""), ("points", 'target = "http://host:6333/weft"\n')):
        (config := work.folder / f"{name}.toml").write_text(
            plain.replace("[storage]\n", f"[index]\n{target}[storage]\n")
        )
        client.trips = 0
        said = CliRunner().invoke(main, [*arguments, "--config", str(config)], input=TALK)
        assert said.exit_code == 0, said.output
        narrow = re.sub(r" +", " ", said.output)  # a stage of over 99 ms makes its column wider
        answers.append(re.sub(r"[\d.]+ m?s\b|exact|hnsw|(?m:^ ?\w+ \d+\.\d+ )", "", narrow))
        assert (client.trips > 0) == (name == "points" and "--lens" not in arguments)
    assert answers[0] == answers[1] and len(answers[0]) > 200
    if "--lens" in arguments:
        assert "compactor" not in answers[1].replace(TALK, "")


def test_what_came_and_went_is_sent_and_older_versions_see_none_of_it(
    built: Workspace, client: EdgeClient, mirror: QdrantMirror
):
    mirror.publish(current(built), None)
    with ranked_by(client, built) as older:
        before, first = chunks(searched(older)), current(built)
        built.write(
            "dev/dev.2004-03.mbox",
            [Mail(900, "The compactor of the shell is new.", "Compactor news")],
        )
        built.write("users/users.2004-01.mbox", discussion(200, 5, "shell"))
        built.build()
        done = mirror.publish(current(built), first)
        assert 0 < done["points_sent"] < 12 and 0 < done["points_superseded"] < 12
        assert chunks(searched(older)) == before
    with ranked_by(client, built) as newer:
        assert chunks(searched(newer)) == chunks(of_file(built))
        assert isinstance(newer.ranking, PointRanking) and newer.ranking.points.facts.number == 2


def test_readers_of_a_version_see_all_of_it_while_the_next_one_comes(
    built: Workspace, client: EdgeClient, mirror: QdrantMirror
):
    first = current(built)
    mirror.publish(first, None)
    begun, over = threading.Barrier(9), threading.Event()

    def read() -> list[list[str]]:
        with ranked_by(client, older) as index:
            seen = [chunks(searched(index))]
            begun.wait(HUNG)
            while not over.is_set():
                seen.append(chunks(searched(index)))
        return seen

    older = built.copied(built.folder.with_name("older"))
    with ranked_by(client, older) as index:
        expected = chunks(searched(index))
    for round_ in range(2):
        built.write(
            f"dev/dev.2004-0{round_ + 3}.mbox",
            [Mail(900 + round_, "A new shell compactor.", "News")],
        )
    built.build()
    with ThreadPoolExecutor(8) as readers:
        reading = [readers.submit(read) for _ in range(8)]
        try:
            begun.wait(HUNG)
            mirror.publish(current(built), first)
            with ranked_by(client, built) as index:
                assert chunks(searched(index)) == chunks(of_file(built))
        finally:
            over.set()
        answers = [one.result() for one in reading]
    assert all(seen == expected for one in answers for seen in one)


def test_a_publish_that_was_killed_is_undone_by_the_next(
    built: Workspace, client: EdgeClient, mirror: QdrantMirror
):
    first = current(built)
    mirror.publish(first, None)
    built.write("dev/dev.2004-03.mbox", [Mail(900, "This is sent twice.", "Twice")])
    built.build()
    mirror.publish(current(built), first)  # and is never switched to
    built.write("dev/dev.2004-03.mbox", [Mail(901, "This is sent once.", "Once")])
    built.build()
    mirror.publish(current(built), first)
    with ranked_by(client, built) as index:
        assert searched(index) == about(of_file(built))


def test_another_layout_is_a_new_collection_and_the_alias_means_it(
    built: Workspace, client: EdgeClient, mirror: QdrantMirror
):
    first = current(built)
    mirror.publish(first, None)
    assert client.aliases == {"weft": f"weft-{version_of(first)}"}
    built.write("dev/dev.2004-03.mbox", [Mail(900 + n, "Long. " * 500, "Long") for n in range(3)])
    built.build()
    done = mirror.publish(current(built), first)  # the mean length is another
    assert done["points_superseded"] == 0
    assert client.aliases == {"weft": f"weft-{version_of(current(built))}"}
    assert set(client.shards) == {f"weft-{version_of(v)}" for v in (first, current(built))}
    with ranked_by(client, built) as index:
        assert searched(index) == about(of_file(built))


def test_a_collection_that_lost_points_is_told_and_sent_again(
    built: Workspace, client: EdgeClient, mirror: QdrantMirror
):
    mirror.publish(current(built), None)
    assert mirror.holds(current(built))
    Collection(client, client.aliases["weft"]).supersede(
        mirrored(current(built))[1].of(range(3)),
        1,  # type: ignore[index]
    )
    assert not mirror.holds(current(built))
    with (
        pytest.raises(IndexUnavailableError, match="has .* of the .* points"),
        ranked_by(client, built),
    ):
        pass
    mirror.publish(current(built), None)
    assert mirror.holds(current(built))
