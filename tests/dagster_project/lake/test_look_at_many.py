"""A look at a lake of 4,000 partitions: how many requests it takes."""

import multiprocessing
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from s3fs import S3FileSystem

from assets.partitions import MAIL
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.parquet_files import ParquetFooter, columns_digest
from dagster_project.lake.recorded_footers import RecordedFooters
from dagster_project.ledger.ledger import ledger_in
from tests.http_loopback import WholeAnswers
from transforms.schemas.registry import lake_tables

PARTITIONS, PAGE = 4_000, 1_000
REQUESTS = PARTITIONS * len(MAIL.tables) // PAGE + 1
"""A list names a thousand objects, of which each table has one for each partition; one more names
the tables.
"""
WRITTEN = ParquetFooter("a" * 32, "b", {"partition": "c"}, 9)


def etag(key: str) -> str:
    return f"{hash(key) & (1 << 64) - 1:032x}"


class Lists(WholeAnswers):
    """Lists sorted keys, a thousand at a time, and knows nothing else."""

    protocol_version = "HTTP/1.1"
    keys: list[str] = []
    asked: Any = None

    def do_GET(self) -> None:  # noqa: N802
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        with self.asked.get_lock():
            self.asked.value += 1
        after = query.get("continuation-token", "")
        self.send(200, page(self.keys, query["prefix"], query.get("delimiter"), after))


@contextmanager
def listing_service(keys: list[str]) -> Iterator[tuple[str, Any]]:
    """The address of an S3 service that lists keys, in a process of its own, and the number of
    requests that it got.
    """
    forked = multiprocessing.get_context("fork")
    Lists.keys, Lists.asked = keys, forked.Value("i", 0)
    service = ThreadingHTTPServer(("127.0.0.1", 0), Lists)
    process = forked.Process(target=service.serve_forever, daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{service.server_port}", Lists.asked
    finally:
        process.kill()
        service.server_close()


def page(keys: list[str], prefix: str, delimiter: str | None, after: str) -> str:
    """An answer of ListObjectsV2."""
    if delimiter:
        folders = sorted({key.removeprefix(prefix).split("/")[0] for key in keys})
        parts = [
            f"<CommonPrefixes><Prefix>{prefix}{name}/</Prefix></CommonPrefixes>" for name in folders
        ]
        return (
            f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(parts)}</ListBucketResult>"
        )
    start = bisect_right(keys, after or prefix)
    shown = [key for key in keys[start : start + PAGE] if key.startswith(prefix)]
    more = keys[start + PAGE : start + PAGE + 1]
    is_cut = bool(more) and more[0].startswith(prefix)
    token = f"<NextContinuationToken>{shown[-1]}</NextContinuationToken>" if is_cut else ""
    rows = "".join(
        f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;{etag(key)}&quot;"
        "</ETag><Size>12345</Size><StorageClass>STANDARD</StorageClass></Contents>"
        for key in shown
    )
    return f"<ListBucketResult><IsTruncated>{str(is_cut).lower()}</IsTruncated>{token}{rows}</ListBucketResult>"


@pytest.mark.exhaustive
def test_a_look_at_4_000_partitions_takes_a_request_for_a_thousand_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tables = lake_tables(256)
    names = [
        f"list-{n // 200:03d}/{1990 + n % 200 // 12}-{n % 12 + 1:02d}.{n}"
        for n in range(PARTITIONS)
    ]
    keys = sorted(f"lake/{table}/{name}.parquet" for table in MAIL.tables for name in names)
    footers = RecordedFooters(ledger_in(tmp_path))
    for key in keys:
        table, part = key.removeprefix("lake/").removesuffix(".parquet").split("/", 1)
        written = replace(WRITTEN, columns=columns_digest(tables[table].arrow))
        footers.footer((table, part), f'"{etag(key)}"', partial(replace, written))
    footers.keep(lambda place: True)
    with listing_service(keys) as (url, asked):
        for name, value in (
            ("ENDPOINT_URL", url),
            ("ACCESS_KEY_ID", "a"),
            ("SECRET_ACCESS_KEY", "b"),
        ):
            monkeypatch.setenv(f"AWS_{name}", value)
        S3FileSystem.clear_instance_cache()  # one of an earlier service is of another port
        lake = ParquetLake("s3://weft/lake", tables, tmp_path)
        with lake.one_look():
            found = [
                lake.footer(table, name) for table in MAIL.tables for name in lake.partitions(table)
            ]
    assert len(found) == len(keys) and all(isinstance(footer, ParquetFooter) for footer in found)
    assert asked.value <= REQUESTS
