"""A prefix of an S3 service, or a folder, as files: what changed is copied, what is gone goes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assets.protocols.sources import Fetched
from dagster_project.composition.objects import make_sources
from dagster_project.remotes.source_remotes import SourceRemotes
from tests.archives import Mail, Workspace, mbox
from transforms.errors import FetchError, FetchInterruptedError

BUCKET = "lists"
Fetch = Callable[..., Fetched]


@pytest.fixture
def store(s3: Any, s3_variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of a service with some archives; a fetch reaches it by its settings alone."""
    monkeypatch.setenv("STORE_USER", s3_variables["AWS_ACCESS_KEY_ID"])
    monkeypatch.setenv("STORE_PASSWORD", s3_variables["AWS_SECRET_ACCESS_KEY"])
    for name in s3_variables:
        monkeypatch.delenv(name)
    s3.create_bucket(Bucket=BUCKET)
    for name, number in (
        ("mail/dev.2004-01.mbox", 1),
        ("mail/dev.2004-02.mbox", 2),
        ("other/x.mbox", 3),
    ):
        s3.put_object(Bucket=BUCKET, Key=name, Body=mbox([Mail(number)]))
    return s3


@pytest.fixture
def fetch(work: Workspace, s3_variables: dict[str, str]) -> Fetch:
    def run(kind: str = "mbox", **changes: Any) -> Fetched:
        remote = {
            "kind": "objects",
            "url": f"s3://{BUCKET}/mail",
            "endpoint": s3_variables["AWS_ENDPOINT_URL"],
            "credentials": "STORE",
            **changes,
        }
        work.configure(
            {
                "name": "dev",
                "kind": kind,
                "fetch": {k: v for k, v in remote.items() if v is not None},
            }
        )
        return SourceRemotes(work.settings).fetch("dev")

    return run


def names(work: Workspace) -> list[str]:
    folder = work.folder / "state/sources/dev"
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.mark.exhaustive
def test_a_prefix_is_copied_once_and_changes_follow(store: Any, fetch: Fetch, work: Workspace):
    first = fetch()
    assert names(work) == ["dev.2004-01.mbox", "dev.2004-02.mbox"]
    assert first.added == 2 and first.lag_seconds is not None and first.lag_seconds < 600
    again = fetch()
    assert (again.added, again.changed, again.unchanged, again.bytes) == (0, 0, 2, 0)
    store.put_object(Bucket=BUCKET, Key="mail/dev.2004-02.mbox", Body=mbox([Mail(9)]))
    store.put_object(Bucket=BUCKET, Key="mail/dev.2004-03.mbox", Body=mbox([Mail(5)]))
    store.delete_object(Bucket=BUCKET, Key="mail/dev.2004-01.mbox")
    found = fetch()
    assert (found.added, found.changed, found.removed) == (1, 1, 1)
    assert names(work) == ["dev.2004-02.mbox", "dev.2004-03.mbox"]
    assert [u.key for u in make_sources(work.settings).discover()] == ["dev/2004-02", "dev/2004-03"]


@pytest.mark.exhaustive
def test_the_same_size_with_other_bytes_is_seen_by_its_etag(
    store: Any, fetch: Fetch, work: Workspace
):
    fetch()
    store.put_object(Bucket=BUCKET, Key="mail/dev.2004-01.mbox", Body=mbox([Mail(3)]))
    assert fetch().changed == 1
    assert (work.folder / "state/sources/dev/dev.2004-01.mbox").read_bytes() == mbox([Mail(3)])


def test_names_that_are_no_paths_are_left_out_and_told(store: Any, fetch: Fetch, work: Workspace):
    for key in (
        "mail/../../escape.mbox",
        "mail//x.mbox",
        "mail/a\\b.mbox",
        "mail/./y.mbox",
        "mail/dev.2004-01.mbox/z",
    ):
        store.put_object(Bucket=BUCKET, Key=key, Body=b"x")
    found = fetch()
    assert names(work) == ["dev.2004-01.mbox/z", "dev.2004-02.mbox"]
    assert len(found.notes) == 5
    assert not list(work.folder.parent.rglob("escape*"))


def test_an_object_that_is_too_large_is_left_out_and_told(
    store: Any, fetch: Fetch, work: Workspace
):
    store.put_object(Bucket=BUCKET, Key="mail/dev.2004-09.mbox", Body=b"x" * 5000)
    assert fetch(max_bytes=4000).notes == (
        "'dev.2004-09.mbox' has 5,000 bytes, more than max_bytes; it was not fetched",
    )
    assert names(work) == ["dev.2004-01.mbox", "dev.2004-02.mbox"]


def test_a_prefix_without_files_must_be_mended(store: Any, fetch: Fetch, work: Workspace):
    fetch()
    with pytest.raises(FetchError, match="has no file; mend the address") as fault:
        fetch(url=f"s3://{BUCKET}/nothing")
    assert not isinstance(fault.value, FetchInterruptedError)
    assert names(work) == ["dev.2004-01.mbox", "dev.2004-02.mbox"]


def test_a_bucket_that_is_not_there_must_be_mended(store: Any, fetch: Fetch):
    with pytest.raises(FetchError) as fault:
        fetch(url="s3://no-such-bucket/mail")
    assert not isinstance(fault.value, FetchInterruptedError)


def test_a_service_that_is_not_there_may_come_back(store: Any, fetch: Fetch):
    with pytest.raises(FetchInterruptedError):
        fetch(endpoint="http://127.0.0.1:9")


@pytest.mark.exhaustive
def test_keys_are_nowhere_in_what_is_kept(store: Any, fetch: Fetch, work: Workspace):
    fetch()
    kept = b"".join(p.read_bytes() for p in work.folder.rglob("*") if p.is_file())
    assert b"sEcReT/kEy" not in kept and b"AKIAEXAMPLE" not in kept


def test_a_folder_elsewhere_is_copied_with_its_folders(
    tmp_path: Path, fetch: Fetch, work: Workspace
):
    notes = tmp_path / "notes"
    (notes / "deep").mkdir(parents=True)
    (notes / "a.md").write_text("# A\n\ntext")
    (notes / "deep" / "b.md").write_text("# B\n\ntext")
    local = {"url": f"file://{notes}", "endpoint": None, "credentials": None}
    assert fetch(kind="vault", **local).added == 2
    assert names(work) == ["a.md", "deep/b.md"]
    (notes / "a.md").unlink()
    assert (fetch(kind="vault", **local).removed, names(work)) == (1, ["deep/b.md"])
    assert [u.key for u in make_sources(work.settings).discover()] == ["dev/all"]
