"""Locks of a lake that lie on its object store: alone or shared, in order, and nobody's once their
process is dead.
"""

import json
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dagster_project.extras.stores import lake_locks
from dagster_project.extras.stores.lake_locks import store_lock
from dagster_project.lake.lake import ParquetLake
from dagster_project.system.locks import BUILD_LOCK, only_build, require_leases
from tests.timing import HUNG, until
from transforms.errors import BusyError
from transforms.schemas.chunks import TERMS

BUCKET = "weft-locks"
LAKE = f"s3://{BUCKET}/lake"


@pytest.fixture
def store(s3: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(lake_locks, "_PAUSE", 0.01)
    s3.create_bucket(Bucket=BUCKET)
    return s3


def claims(store: Any) -> list[str]:
    keys = [item["Key"] for item in store.list_objects_v2(Bucket=BUCKET).get("Contents", ())]
    return [
        k
        for k in keys
        if json.loads(store.get_object(Bucket=BUCKET, Key=k)["Body"].read())["until"]
    ]


@pytest.mark.exhaustive
def test_a_second_build_of_a_lake_is_refused_with_the_name_of_the_first(store: Any):
    with store_lock(LAKE, "build", waits=False):
        assert claims(store) == ["lake/.locks/build/000000000001"]
        with pytest.raises(
            BusyError, match=r"another build of s3://\S+ is running, process \d+ on"
        ):
            store_lock(LAKE, "build", waits=False).__enter__()
        with store_lock(LAKE, "lake"):
            pass
    assert claims(store) == []


def test_many_share_a_lock_and_who_wants_it_alone_has_it_in_turn(store: Any):
    alone, order = threading.Event(), []

    def want(exclusive: bool, name: str) -> threading.Thread:
        def hold() -> None:
            with store_lock(LAKE, "lake", exclusive=exclusive, on_wait=alone.set):
                order.append(name)

        (thread := threading.Thread(target=hold)).start()
        return thread

    with ExitStack() as shared:
        for _ in range(2):
            shared.enter_context(
                store_lock(LAKE, "lake", exclusive=False, on_wait=lambda: pytest.fail("both share"))
            )
        writer = want(exclusive=True, name="writer")
        assert alone.wait(HUNG)
        later = want(exclusive=False, name="reader after it")
        assert order == []
    writer.join(HUNG)
    later.join(HUNG)
    assert order == ["writer", "reader after it"]
    assert claims(store) == []


def test_of_many_who_come_at_once_one_at_a_time_holds_it(store: Any):
    inside, most, begun = [], [], threading.Barrier(6)

    def hold(name: int) -> None:
        begun.wait(HUNG)
        with store_lock(LAKE, "lake"):
            inside.append(name)
            most.append(len(inside))
            inside.remove(name)

    threads = [threading.Thread(target=hold, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HUNG)
    assert most == [1] * 6


@pytest.mark.parametrize(
    ("claim", "counts"),
    [
        ({"machine": "elsewhere", "process": 1, "until": 1.0}, False),
        ({"machine": "elsewhere", "process": 1, "until": 1e12}, True),
        ({"machine": lake_locks._machine(), "process": 1 << 22, "until": 1e12}, False),
    ],
    ids=["ran out", "lives elsewhere", "process is gone"],
)
def test_a_claim_counts_as_long_as_its_process_lives(
    store: Any, claim: dict[str, Any], counts: bool
):
    key = "lake/.locks/build/000000000007"
    store.put_object(Bucket=BUCKET, Key=key, Body=json.dumps({**claim, "shared": False}))
    if counts:
        with pytest.raises(BusyError, match="process 1 on elsewhere"):
            store_lock(LAKE, "build", waits=False).__enter__()
        assert claims(store) == [key]
        store.delete_object(Bucket=BUCKET, Key=key)
    else:
        with store_lock(LAKE, "build", waits=False):
            assert claims(store) == ["lake/.locks/build/000000000008"]


def test_a_claim_is_renewed_while_its_process_lives(store: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lake_locks, "_RENEWALS", 1000)  # so often in two minutes
    with store_lock(LAKE, "build", waits=False):
        (key,) = claims(store)

        def ends() -> float:
            return float(
                json.loads(store.get_object(Bucket=BUCKET, Key=key)["Body"].read())["until"]
            )

        first = ends()
        until(lambda: ends() > first, "a claim that is renewed")
        with pytest.raises(BusyError):
            store_lock(LAKE, "build", waits=False).__enter__()


def test_a_number_is_used_once(store: Any):
    numbers = []
    for _ in range(3):
        with store_lock(LAKE, "build", waits=False):
            numbers += claims(store)
    assert len(set(numbers)) == 3 and numbers == sorted(numbers)
    objects = store.list_objects_v2(Bucket=BUCKET, Prefix="lake/.locks/build/")["Contents"]
    assert len(objects) <= 2, "those that were released are deleted by later ones"


def test_a_holder_whose_lease_ran_out_learns_it_before_it_writes(
    store: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """It sleeps; another process takes the lock in its place; what it does afterwards changes
    nothing of the other's.
    """
    lake = ParquetLake(LAKE, {"terms": TERMS}, tmp_path)
    staged = lake.stage("terms", "dev/1", TERMS.empty(), code_version="1", inputs={})
    with store_lock(LAKE, "build", waits=False):
        (key,) = claims(store)
        claim = json.loads(store.get_object(Bucket=BUCKET, Key=key)["Body"].read())
        claim |= {"machine": "elsewhere", "until": 1.0}
        store.put_object(Bucket=BUCKET, Key=key, Body=json.dumps(claim))  # as if it had run out
        monkeypatch.setattr(lake_locks, "LEASE", 4.0)
        with store_lock(LAKE, "build", waits=False):
            theirs = claims(store)
            assert len(theirs) == 1 and theirs != [key]
    assert not lake.footer("terms", "dev/1")
    with store_lock(LAKE, "build", waits=False):
        (key,) = claims(store)
        claim = json.loads(store.get_object(Bucket=BUCKET, Key=key)["Body"].read())
        store.put_object(
            Bucket=BUCKET, Key=key, Body=json.dumps({**claim, "until": 0.0})
        )  # as a waiter releases it
        renewed = threading.Event()
        while not renewed.wait(0.05):
            try:
                require_leases()
            except BusyError as error:
                assert ".locks/build" in str(error)
                break
        with pytest.raises(BusyError, match="nothing more is written"):
            staged.commit()
    assert not lake.footer("terms", "dev/1")


def test_a_lake_in_a_folder_has_the_locks_of_its_files(tmp_path: Any):
    with only_build(tmp_path, f"file://{tmp_path}"):
        assert [file.name for file in tmp_path.iterdir()] == [BUILD_LOCK]
