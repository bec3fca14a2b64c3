"""A prefix of an object store as a folder: files that changed there are copied, files that are gone
there go.

ETag, size and time in the listing show the changes; no file is read for it. Names of
objects become paths only where every part is a plain file name.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import fsspec
from fsspec.exceptions import FSTimeoutError

from dagster_project.extras.stores.settings import ObjectRemote
from dagster_project.remotes.landing import MALFORMED, Landing
from dagster_project.system.masking import Credentials, shown_address
from dagster_project.system.rate_limit import Quota
from transforms.errors import FetchError, FetchInterruptedError, not_installed

_Answer = TypeVar("_Answer")
_NAME_BYTES = 250
_PATH_BYTES = 1024


class ObjectPrefix:
    """One fetch of all files below a prefix."""

    def __init__(
        self, remote: ObjectRemote, landing: Landing, credentials: Credentials, base: Path
    ):
        """An address names the whole path, so that `base` has no part in it."""
        self.remote, self.landing, self.credentials = remote, landing, credentials
        self.quota = Quota(remote.requests_per_minute, 1)
        self.ends_at = time.monotonic() + remote.time_limit_seconds
        self.faults = _service_faults(remote)

    def fetch(self) -> None:
        """Make the folder equal to the prefix; raises as the protocol `Remotes` says."""
        self.landing.forget_unfinished()
        try:
            self._bring()
        finally:
            self.landing.save()

    def _ask(self, call: Callable[[], _Answer]) -> _Answer:
        """The answer of the store; every fault of it as a FetchError."""
        fault: FetchError
        try:
            return call()
        except FSTimeoutError:
            fault = self.remote.too_late(self._address)
        except (PermissionError, FileNotFoundError) as error:
            fault = FetchError(
                f"{self._address} refuses ({self._reason(error)}); check url and credentials"
            )
        except self.faults as error:
            kind = FetchError if "Credentials" in type(error).__name__ else FetchInterruptedError
            fault = kind(f"{self._address}: {self._reason(error)}")
        except MALFORMED as error:
            fault = FetchInterruptedError(
                f"{self._address}: the answer cannot be read ({type(error).__name__}: {self._reason(error)}); if it "
                "stays so, check url and endpoint"
            )
        raise fault

    def _timeout(self) -> dict[str, float]:
        """The argument that gives an asynchronous file system the rest of the time."""
        is_asynchronous = not self.remote.url.startswith("file:")
        return {"timeout": max(0.1, self.ends_at - time.monotonic())} if is_asynchronous else {}

    @property
    def _address(self) -> str:
        return shown_address(self.remote.url)

    def _reason(self, error: Exception) -> str:
        return self.credentials.hidden(str(error)) or type(error).__name__

    def _bring(self) -> None:
        files, root = self._ask(self._open)
        self.landing.requests += 1
        listed = self._ask(lambda: files.find(root, detail=True, **self._timeout()))
        there = dict(sorted(self._by_name(root, listed).items()))
        if not there:
            raise FetchError(f"{self._address} has no file; mend the address, or remove the source")
        for name in sorted(set(self.landing.items) - set(there)):
            self.landing.items.pop(name)
            self.landing.drop(name)
        for name, (path, info) in there.items():
            self._copy(files, name, path, info)

    def _open(self) -> tuple[Any, str]:
        """The file system and the path of the prefix in it."""
        if self.remote.url.startswith("file:"):
            return fsspec.filesystem("file"), fsspec.core.url_to_fs(self.remote.url)[1].rstrip("/")
        from dagster_project.extras.stores.store_session import StoreSession

        client = {"endpoint_url": self.remote.endpoint}
        limits = {
            "connect_timeout": self.remote.timeout_seconds,
            "read_timeout": self.remote.timeout_seconds,
            "retries": {"max_attempts": 1},
            "http_session_cls": StoreSession,
        }
        files = fsspec.filesystem(
            "s3",
            key=self.credentials.user,
            secret=self.credentials.password,
            anon=self.remote.credentials == "",
            client_kwargs={k: v for k, v in client.items() if v},
            config_kwargs=limits,
            skip_instance_cache=True,
            use_listings_cache=False,
            # Pieces of a file that come side by side are held in memory, however large they are.
            max_concurrency=1,
        )
        return files, self.remote.url.removeprefix("s3://").rstrip("/")

    def _by_name(
        self, root: str, listed: dict[str, dict[str, Any]]
    ) -> dict[str, tuple[str, dict[str, Any]]]:
        """Path and facts of each file by its name below the prefix; those that can be no path are
        left out.
        """
        files: dict[str, tuple[str, dict[str, Any]]] = {}
        for path, info in sorted(listed.items()):
            name = path.removeprefix(f"{root}/") if path != root else path.rpartition("/")[2]
            if info.get("type") == "directory" or (name.endswith("/") and not info.get("size")):
                continue
            if not _is_plain(name):
                self.landing.note(f"{name[:100]!r} can be no path here; it was not fetched")
            else:
                files[name] = path, info
        # "a" and "a/b" are two objects, and cannot be a file and a folder.
        folders = {name.rsplit("/", n)[0] for name in files for n in range(1, name.count("/") + 1)}
        for name in sorted(folders & set(files)):
            self.landing.note(f"{name[:100]!r} is a folder, too; it was not fetched")
            del files[name]
        return files

    def _copy(self, files: Any, name: str, path: str, info: dict[str, Any]) -> None:
        """Copy one file if it is another than the one that is there."""
        at, size = self._ask(lambda: (_changed_at(info), int(info["size"])))
        state = {
            "etag": str(info.get("ETag") or ""),
            "size": size,
            "at": at.isoformat() if at else "",
        }
        if at:
            self.landing.saw(at)
        if self.landing.items.get(name) == state and (self.landing.folder / name).is_file():
            self.landing.unchanged += 1
            return
        if size > self.remote.max_bytes:
            self.landing.note(
                f"{name[:100]!r} has {size:,} bytes, more than max_bytes; it was not fetched"
            )
            return
        if time.monotonic() >= self.ends_at:
            raise self.remote.too_late(self._address)
        asyncio.run(self.quota.take(1, 0))
        self.landing.requests += 1
        unfinished = self.landing.partial("object")
        self._ask(lambda: self._copied(files, path, unfinished, size))
        came = unfinished.stat().st_size
        self.landing.bytes += came
        if came != size:
            raise FetchInterruptedError(
                f"{self._address}/{name}: {came:,} of {size:,} bytes: it changed"
            )
        self.landing.put(unfinished, name)
        self.landing.items[name] = state
        self.landing.save_now_and_then()

    def _copied(self, files: Any, path: str, unfinished: Path, size: int) -> None:
        if self.remote.url.startswith("file:"):
            files.get_file(path, str(unfinished))
            return
        from dagster_project.extras.stores.store_session import Limits

        limits = Limits(f"{self._address}/{path}", size, self.ends_at)
        files.get_file(path, str(unfinished), callback=limits, **self._timeout())


def _is_plain(name: str) -> bool:
    """True if every part of a name is that of a file or folder, and nothing in it leads elsewhere."""
    parts = name.split("/")
    return (
        all(
            part not in ("", ".", "..") and len(part.encode(errors="replace")) <= _NAME_BYTES
            for part in parts
        )
        and len(name.encode(errors="replace")) <= _PATH_BYTES
        and not any(c in name for c in "\x00\\")
        and name.isprintable()
    )


def _changed_at(info: dict[str, Any]) -> datetime | None:
    at = info.get("LastModified", info.get("mtime"))
    if isinstance(at, int | float):
        return datetime.fromtimestamp(at, UTC)
    return at if isinstance(at, datetime) else None


def _service_faults(remote: ObjectRemote) -> tuple[type[Exception], ...]:
    """The exceptions by which the file system reports a fault of the service."""
    if remote.url.startswith("file:"):
        return (OSError,)
    try:
        import s3fs  # noqa: F401
        from aiohttp import ClientError
        from botocore.exceptions import BotoCoreError
        from botocore.exceptions import ClientError as RefusedError
        from botocore.parsers import ResponseParserError
    except ImportError as error:
        raise not_installed(error, "s3") from error
    return (OSError, TimeoutError, BotoCoreError, RefusedError, ResponseParserError, ClientError)
