"""A lake on an object store: built, changed and taken out of as on a disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.archives import Mail, Workspace, differences, discussion, two_lists
from tests.s3_loopback import s3_service

pytestmark = pytest.mark.exhaustive

BUCKET = "weft-lake"


LAKE = f"s3://{BUCKET}/lists"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with s3_service() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "sEcReT/kEy")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        yield client


def keys(store: Any) -> set[str]:
    """The names of all objects of the lake."""
    pages = store.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    return {item["Key"] for page in pages for item in page.get("Contents", ())}


def test_a_lake_on_s3_is_built_changed_and_taken_out_of_as_one_on_disk(
    store: Any, built_once: Workspace, tmp_path: Path
):
    storage = {"root": "state", "lake": LAKE}
    work = two_lists(tmp_path / "work", storage=storage)
    work.write("dev/dev.2004-02.mbox", discussion(100, 5, "write-ahead log"))
    gone = work.write("users/users.2004-02.mbox", [Mail(600, "Agreed.", "Re: compactor", reply_to=3)])
    assert work.build().published
    assert not (work.settings.root / "lake").exists()
    assert work.plan().is_empty

    two_lists(work.folder, storage=storage)
    gone.unlink()
    store.delete_object(Bucket=BUCKET, Key="lists/message_blocks/dev/dev.2004-01.parquet")
    result = work.build()
    assert result.plan.vanished == ("users/users.2004-02",)
    assert list(result.plan.stale) == ["dev/dev.2004-01", "dev/dev.2004-02"]
    assert result.plan.damaged == {f"{LAKE}/message_blocks/dev/dev.2004-01.parquet": "missing"}
    assert differences(work.index, built_once.index) == {}
    root = Path(str(built_once.lake.base))
    assert keys(store) == {f"lists/{p.relative_to(root)}" for p in root.rglob("*.parquet")}
    assert work.plan().is_empty
