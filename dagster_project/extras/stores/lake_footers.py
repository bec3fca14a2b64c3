"""The footers of a lake on an object store, kept on this machine by path and ETag."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import fsspec
from upath import UPath

from dagster_project.lake.parquet_files import MISSING, ParquetFooter, read_footer
from dagster_project.lake.recorded_footers import Place, RecordedFooters

_LISTS_AT_ONCE = 16
_S3 = ("s3", "s3a")


class RemoteFooters:
    """One look at a remote lake: its objects are listed once, and footers are read of those that
    came since.
    """

    def __init__(self, base: UPath, footers: RecordedFooters):
        """`footers` are those that earlier looks read."""
        self.base, self.footers = base, footers
        self._etags = _listed(base)
        self._names: dict[str, list[str]] = {}
        for path in self._etags:
            table, _, name = path.removeprefix(f"{base.path}/").partition("/")
            self._names.setdefault(table, []).append(name)

    def has(self, place: Place) -> bool:
        """True if the object of a stored table was there."""
        return self._path(place) in self._etags

    def below(self, table: str) -> list[str]:
        """The names of the objects of the partitions of a table."""
        return self._names.get(table, [])

    def footer(self, place: Place) -> ParquetFooter | str:
        """The footer of a stored table with any columns, or its fault."""
        path = self._path(place)
        etag = self._etags.get(path)
        if etag is None:
            return MISSING
        object_ = self.base / path.removeprefix(f"{self.base.path}/")
        return self.footers.footer(place, etag, lambda: read_footer(object_))

    def _path(self, place: Place) -> str:
        """The path of an object; to join paths takes ten times as long."""
        return f"{self.base.path}/{'/'.join(filter(None, place))}.parquet"


def _listed(base: UPath) -> dict[str, str]:
    """The ETag of every object of a lake by its path: one request for a thousand of a table, of
    many tables at once.
    """
    try:
        top = base.fs.ls(base.path, detail=True)
    except FileNotFoundError:
        return {}
    etags = {info["name"]: _etag(info) for info in top if info["type"] == "file"}
    folders = [
        info["name"] for info in top if info["type"] == "directory" and "/." not in info["name"]
    ]
    listed = (
        partial(_of_s3, _quick_store(base)) if base.protocol in _S3 else partial(_of_store, base.fs)
    )
    with ThreadPoolExecutor(_LISTS_AT_ONCE) as at_once:
        for below in at_once.map(listed, folders):
            etags |= below
    return etags


def _of_store(store: Any, folder: str) -> dict[str, str]:
    return {path: _etag(info) for path, info in store.find(folder, detail=True).items()}


def _of_s3(store: Any, folder: str) -> dict[str, str]:
    """The same of S3, page by page: the objects of s3fs take as long as to read the page."""
    bucket, _, prefix = folder.partition("/")
    etags: dict[str, str] = {}
    request = {"Bucket": bucket, "Prefix": f"{prefix}/"}
    while True:
        page = store.call_s3("list_objects_v2", **request)
        etags |= {f"{bucket}/{info['Key']}": info["ETag"] for info in page.get("Contents", ())}
        if not page.get("IsTruncated"):
            return etags
        request["ContinuationToken"] = page["NextContinuationToken"]


def _quick_store(base: UPath) -> Any:
    """The store of a lake on S3, which leaves times as they are written: these take three quarters
    of reading a page.
    """
    # It comes with the extra of this protocol.
    from aiobotocore.session import get_session

    session = get_session()
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
    own = {"session": session, "skip_instance_cache": True}
    return fsspec.filesystem(base.protocol, **{**base.storage_options, **own})


def _etag(info: Mapping[str, object]) -> str:
    """The part of an entry of a list that changes with the object; stores spell it differently."""
    values = (info[name] for name in ("ETag", "etag", "content_settings") if info.get(name))
    return str(next(values, (info.get("size"), info.get("LastModified"), info.get("mtime"))))
