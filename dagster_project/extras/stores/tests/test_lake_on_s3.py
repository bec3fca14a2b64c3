"""A lake on an object store: built, changed and taken out of as on a disk."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from upath import UPath

from dagster_project.cli.deployment import deployment
from dagster_project.index.search.statements.lake_sql import query_lake
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.parquet_files import MISSING, OTHER_SCHEMA
from dagster_project.models.embedding_cache import SQLiteEmbeddingCache
from tests.archives import Mail, Workspace, differences, discussion, two_lists

pytestmark = pytest.mark.exhaustive

BUCKET = "weft-lake"
LAKE = f"s3://{BUCKET}/lists"
LIST = "ListObjectsV2"


@pytest.fixture
def store(s3: Any) -> Any:
    s3.create_bucket(Bucket=BUCKET)
    return s3


def keys(store: Any) -> set[str]:
    """The names of all objects of the lake, without vectors and locks."""
    pages = store.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    return {
        item["Key"]
        for page in pages
        for item in page.get("Contents", ())
        if "/." not in item["Key"]
    }


def test_a_lake_on_s3_is_built_changed_and_taken_out_of_as_one_on_disk(
    store: Any, built_once: Workspace, tmp_path: Path
):
    storage = {"root": "state", "lake": LAKE}
    work = two_lists(tmp_path / "work", storage=storage)
    work.write("dev/dev.2004-02.mbox", discussion(100, 5, "write-ahead log"))
    gone = work.write(
        "users/users.2004-02.mbox", [Mail(600, "Agreed.", "Re: compactor", reply_to=3)]
    )
    assert work.build().published
    assert not (work.settings.root / "lake").exists()
    assert work.plan().is_empty
    rows = query_lake(
        work.lake, work.index, "SELECT DISTINCT partition FROM messages ORDER BY 1"
    ).to_pylist()
    assert [row["partition"] for row in rows] == work.lake.partitions("messages")
    said = {finding.found: finding.state for finding in deployment(work.settings)}
    assert said[f"the lake at {LAKE} can be written, read and locked"] == "ok"

    two_lists(work.folder, storage=storage)
    gone.unlink()
    store.delete_object(Bucket=BUCKET, Key="lists/message_blocks/dev/2004-01.parquet")
    result = work.build()
    assert result.plan.vanished == ("users/2004-02",)
    assert list(result.plan.stale) == ["dev/2004-01", "dev/2004-02"]
    assert result.plan.damaged == {f"{LAKE}/message_blocks/dev/2004-01.parquet": "missing"}
    assert differences(work.index, built_once.index) == {}
    root = Path(str(built_once.lake.base))
    assert keys(store) == {f"lists/{p.relative_to(root)}" for p in root.rglob("*.parquet")}
    assert work.plan().is_empty


def test_machines_with_disks_of_their_own_share_the_vectors_on_the_store(
    store: Any, tmp_path: Path
):
    key, a, b = ("model", 2, "document"), "a" * 32, "b" * 32
    place = UPath(f"s3://{BUCKET}/others/.embeddings")
    first, second = (SQLiteEmbeddingCache(tmp_path / name, place) for name in ("first", "second"))
    first.store(key, [a], np.array([[1, 0]], dtype=np.float32))
    assert second.missing(key, [a, b]) == {b}
    second.store(key, [b], np.array([[0, 1]], dtype=np.float32))
    assert first.missing(key, [a, b]) == set()
    assert first.vectors(key, [b])[1].tolist() == [[0, 1]]
    assert second.prune([b]) == 1
    fresh = SQLiteEmbeddingCache(tmp_path / "third", place)
    assert fresh.missing(key, [a, b]) == {a} and fresh.verify() == []


def requests_of(lake: ParquetLake) -> list[str]:
    """The operations that a lake asks its store for beside lists, as they come."""
    asked: list[str] = []
    lake.base.fs.connect()
    lake.base.fs.s3.meta.events.register(
        "before-call.s3", lambda model, **_: asked.extend({model.name} - {LIST})
    )
    return asked


def test_a_look_lists_the_objects_and_reads_the_footers_of_new_ones(
    store: Any, built_once: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "100")
    local, work = built_once.lake, two_lists(tmp_path, storage={"root": "state", "lake": LAKE})
    for number in range(3):  # as three sources, and more objects than one answer lists
        for file in Path(str(local.base)).rglob("*.parquet"):
            name = str(file.relative_to(str(local.base))).replace("/dev/", f"/dev{number}/")
            store.upload_file(str(file), BUCKET, f"lists/{name}")
    (messages,) = local.base.glob("messages/users/*.parquet")
    for number in range(100):
        store.put_object(
            Bucket=BUCKET, Key=f"lists/messages/many/{number}.parquet", Body=messages.read_bytes()
        )
    places = [("messages", p) for p in work.lake.partitions("messages")] + [
        ("message_blocks", "dev1/2004-01")
    ]
    assert len(places) > 100
    looked = []
    for changed in (None, None, "many/7", "many/8"):
        if changed == "many/7":
            other = local.path("message_blocks", "dev/2004-01")
            store.upload_file(str(other), BUCKET, f"lists/messages/{changed}.parquet")
        if changed == "many/8":
            store.delete_object(Bucket=BUCKET, Key=f"lists/messages/{changed}.parquet")
        lake = work.lake
        asked = requests_of(lake)
        with lake.one_look():
            looked.append({place: lake.damage(*place) or lake.footer(*place) for place in places})
            assert len(lake.partitions("messages")) == len(places) - 1 - (changed == "many/8")
        assert len(asked) > 100 if len(looked) == 1 else len(asked) <= 4 * (changed == "many/7")
    assert looked[0] == looked[1]
    assert [looked[0][place] for place in places[-9:]] == [
        work.lake.footer(*place) for place in places[-9:]
    ]
    assert looked[2] == looked[1] | {("messages", "many/7"): OTHER_SCHEMA}
    assert looked[3] == looked[2] | {("messages", "many/8"): MISSING}
    catalogue = work.settings.root / "state.sqlite"
    catalogue.write_bytes(b"of another program")
    with (lake := work.lake).one_look():
        assert lake.footer(*places[0]) == looked[0][places[0]]
    with (lake := work.lake).one_look():
        assert lake.footer(*places[0]) == looked[0][places[0]]
