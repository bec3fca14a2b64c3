"""What is in Qdrant is not in the published file too, and the next version is made without it as
from nothing.
"""

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dagster_project.index.files.arrays import folder_of
from dagster_project.index.publish.publisher import DuckDBPublisher
from dagster_project.index.search.opened_index import open_index
from tests.archives import Mail, Workspace, differences, discussion

pytest.importorskip("qdrant_client", reason="the extra qdrant is not installed")
pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed")

from dagster_project.extras.qdrant import collection  # noqa: E402
from dagster_project.extras.qdrant.points import mirrored  # noqa: E402
from tests.qdrant_edge_client import EdgeClient  # noqa: E402

pytestmark = pytest.mark.exhaustive

QUERIES = (
    "compactor load doubles",
    "write-ahead log measured in run 104",
    "yes",
    "garbage",
    '"keeps its pace"',
    "s:shell run",
    "news",
    "long",
    "nothing of this stands anywhere",
    "q:load",
    "l:dev pace",
)
NEWS = "The compactor of the shell is new. It was measured with four kinds of load."
TARGET = '[index]\ntarget = "http://host:6333/weft"\n'
Published = tuple[Path, list[dict[str, Any]], dict[int, tuple[Any, ...]]]
"""The published folder of a workspace, the hits of its searches, and its points."""


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EdgeClient:
    (folder := tmp_path / "collections").mkdir()
    client = EdgeClient(folder)
    monkeypatch.setattr(collection, "connected", lambda url: client)
    return client


def targeted(work: Workspace) -> Workspace:
    text = work.config.read_text()
    work.config.write_text(text.replace("[storage]\n", f"{TARGET}[storage]\n"))
    return work


def in_file(work: Workspace) -> Workspace:
    work.config.write_text(work.config.read_text().replace(TARGET, ""))
    return work


@pytest.fixture
def points(built: Workspace, client: EdgeClient) -> Workspace:
    targeted(built).publish()
    return built


def current(work: Workspace) -> Path:
    return (work.index / "CURRENT").resolve()


def stored(client: EdgeClient, work: Workspace) -> dict[int, tuple[Any, ...]]:
    """By the key of a chunk what its point says: payload, embedding, and the words of it and of its
    mail.
    """
    of = mirrored(current(work))
    assert of
    facts, ids = of
    found = client.shards[facts.collection].retrieve(ids.of(range(len(ids.keys))), True, True)  # type: ignore[arg-type]
    return {int(str(p.id).replace("-", "")[:16], 16): _said(p) for p in found}


def _said(point: Any) -> tuple[Any, ...]:
    payload = {
        name: v for name, v in point.payload.items() if name not in ("since", "until", "gone_at")
    }
    words = {
        name: {
            n: pytest.approx(v, rel=0.01)
            for n, v in zip(vector.indices, vector.values, strict=True)
        }
        for name, vector in point.vector.items()
        if name != "dense"
    }
    return payload, point.vector.get("dense"), words


def searched(work: Workspace) -> list[dict[str, Any]]:
    """What searches say of each hit, with scores that may be a little off, as the mean length may
    be.
    """
    with closing(open_index(work.settings)) as index:
        hits = [
            index.search([query], limit=3).hits.drop_columns(["rerank_parts"]) for query in QUERIES
        ]
        rows = [row for table in hits for row in table.to_pylist()]
    return [
        {
            n: pytest.approx(v, rel=0.02, abs=1e-4) if isinstance(v, float) else v
            for n, v in row.items()
        }
        for row in rows
    ]


def first_published(work: Workspace, folder: Path) -> Published:
    """What a workspace publishes first, with collections of its own."""
    (place := folder / "collections").mkdir(parents=True)
    client = EdgeClient(place)
    with pytest.MonkeyPatch.context() as elsewhere:
        elsewhere.setattr(collection, "connected", lambda url: client)
        work.publish()
        return work.index, searched(work), stored(client, work)


@pytest.fixture(scope="module")
def after(built_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The workspace after `change`, its vectors in its file; for reading only."""
    change(work := built_once.copied(tmp_path_factory.mktemp("after") / "work"))
    work.build()
    return work


@pytest.fixture(scope="module")
def changed(after: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Published:
    """What is published of the lake of `after` where nothing is published yet."""
    work = targeted(after.copied((folder := tmp_path_factory.mktemp("changed")) / "work"))
    shutil.rmtree(work.index)
    return first_published(work, folder)


def require_equal(client: EdgeClient, work: Workspace, new: Published) -> None:
    """The current version has the rows, arrays, points and hits of a full build."""
    assert searched(work) == new[1]
    assert differences(work.index, new[0]) == {}
    assert stored(client, work) == new[2]


def take_lake(work: Workspace, other: Workspace) -> Workspace:
    for place in (work.folder / "mail", Path(str(work.lake.base))):
        shutil.rmtree(place)
        shutil.copytree(other.folder / place.relative_to(work.folder), place)
    return work


def change(work: Workspace) -> None:
    """Mails that come and go, a thread that is answered, and one that another list has now, too."""
    work.write("dev/dev.2004-03.mbox", [Mail(900, NEWS, "Compactor news")])
    work.write("users/users.2004-01.mbox", discussion(200, 5, "shell"))
    reply = Mail(20, "Yes, it keeps its pace.", "Re: compactor", reply_to=3)
    work.write("dev/dev.2004-01.mbox", [*discussion(0, 6, "compactor"), reply])
    work.write("users/users.2004-02.mbox", discussion(100, 3, "write-ahead log"))


NEED_THEM = (
    "SELECT * FROM search_text('compactor')",
    "SELECT * FROM similar((SELECT min(chunk_id) FROM chunks))",
    "SELECT * FROM search_semantic('compactor')",
    "SELECT count(*) FROM postings",
    "SELECT embedding FROM semantic_chunks",
    "SELECT any_value(vector) FROM embeddings",
)


def test_the_file_and_its_arrays_have_no_vector_and_no_table_of_postings_and_sql_says_so(
    built_once: Workspace, points: Workspace
):
    tables = set(points.column("SELECT table_name FROM duckdb_tables()"))
    assert "chunks" in tables and not tables & {"embeddings", "postings"}
    arrays = folder_of(current(points))
    assert not [p for p in arrays.rglob("*") if p.name.startswith("vector")]
    assert not list(arrays.parent.glob("*.unsent"))
    counts = "SELECT (SELECT count(*) FROM embeddings), (SELECT sum(df) FROM terms)"
    assert points.sql(counts) == built_once.sql(counts)

    for statement in NEED_THEM:
        said = points.weft("sql", statement)
        assert said.exit_code != 0, statement
        for part in ("of this version are in Qdrant", "`weft search`", "`weft sql --lake`"):
            assert part in " ".join(said.output.split()), statement


def test_the_next_version_is_as_one_from_nothing_and_one_that_was_never_switched_to_is_undone(
    points: Workspace,
    client: EdgeClient,
    after: Workspace,
    changed: Published,
    monkeypatch: pytest.MonkeyPatch,
):
    first = current(points)
    with monkeypatch.context() as killed:
        killed.setattr(DuckDBPublisher, "_switch", _killed)
        with pytest.raises(KeyboardInterrupt):
            points.publish("dev/2004-02")
    assert current(points) == first
    take_lake(points, after).publish()
    assert mirrored(current(points))[0].number == 2  # type: ignore[index]
    require_equal(client, points, changed)


def _killed(publisher: DuckDBPublisher, place: Path) -> None:
    raise KeyboardInterrupt


def _lost(work: Workspace, client: EdgeClient) -> None:
    for name in list(client.shards):
        client.delete_collection(name)


def _without_arrays(work: Workspace, client: EdgeClient) -> None:
    for file in folder_of(current(work)).glob("segment-*/codes.npy"):
        file.write_bytes(b"")


@pytest.mark.parametrize(("happens", "number"), [(_lost, 1), (_without_arrays, 2)])
def test_what_cannot_follow_is_made_of_the_lake_and_sent_anew_where_the_collection_cannot(
    points: Workspace,
    client: EdgeClient,
    after: Workspace,
    changed: Published,
    happens: Callable[[Workspace, EdgeClient], None],
    number: int,
):
    happens(take_lake(points, after), client)
    points.publish()
    assert mirrored(current(points))[0].number == number  # type: ignore[index]
    require_equal(client, points, changed)


def test_much_longer_texts_go_to_another_collection(
    points: Workspace, client: EdgeClient, tmp_path: Path
):
    points.write("dev/dev.2004-03.mbox", [Mail(900 + n, "Long. " * 500, "Long") for n in range(3)])
    assert points.build().published and mirrored(current(points))[0].number == 1  # type: ignore[index]
    new = points.copied(tmp_path / "new")
    shutil.rmtree(new.index)
    require_equal(client, points, first_published(new, tmp_path / "new"))
    assert points.plan().is_empty


def test_a_text_that_grows_changes_the_version_and_one_that_is_lost_leaves_no_word(
    points: Workspace, client: EdgeClient, tmp_path: Path
):
    copy = Path(shutil.copytree(points.index, tmp_path / "index", symlinks=True))
    before, (first, *others) = (
        (copy, searched(points), stored(client, points)),
        discussion(0, 6, "compactor"),
    )
    for body, is_update in ((f"{first.body} Zqxjvkwb.", True), (first.body, False)):
        points.write("dev/dev.2004-01.mbox", [replace(first, body=body), *others])
        result = points.build()
        assert result.published and result.published["built_on_previous"] is is_update
        assert bool(points.files_with("zqxjvkwb")) is is_update
    require_equal(client, points, before)


def test_the_target_may_change_and_change_back(
    points: Workspace,
    client: EdgeClient,
    built_once: Workspace,
    after: Workspace,
    changed: Published,
):
    found = searched(points)
    in_file(points).build()
    assert differences(points.index, built_once.index) == {}
    assert searched(points) == found
    targeted(take_lake(points, after)).publish()
    require_equal(client, points, changed)
