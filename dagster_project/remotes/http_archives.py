"""Monthly mbox archives over HTTP: which months are asked for, and how an answer becomes a file or
a fault.

A month is asked for with the validators of the answer before, so that an unchanged one costs a few
bytes. An unfinished download is continued (RFC 9110, sections 13.1.5 and 14.2). An answer that is
not an mbox, such as a login page, never becomes a file.
"""

import asyncio
import bz2
import calendar
import lzma
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from dagster_project.config.source_settings import HttpRemote
from dagster_project.remotes.http_requests import HttpRequests
from dagster_project.remotes.landing import Landing, parsed_time
from dagster_project.system.masking import Credentials, shown_address
from dagster_project.system.rate_limit import http_time
from transforms.errors import FetchError, FetchInterruptedError
from transforms.hashing import text_hash

_MAGIC = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\x00": ".xz", b"BZh": ".bz2"}
_CLOSED_AFTER_DAYS = 3
"""Days after its end at which a month is fetched for the last time: mail of its last hours comes
late.
"""
_CHECKED_AGAIN_DAYS = 30
"""Days after which a closed month is asked for again: archives take mail out late, and one request
costs little.
"""
_FIRST_BYTES = 1 << 12
_MEMBERS: dict[str, Callable[[], Any]] = {
    ".gz": partial(zlib.decompressobj, 31),
    ".xz": partial(
        lzma.LZMADecompressor, memlimit=256 << 20
    ),  # its header says how much memory it wants
    ".bz2": bz2.BZ2Decompressor,
}
_MOST_VALIDATOR_CHARS = 1000
_FAULTS_IN_A_ROW = 3
"""Months that fail one after the other from which the rest would fail, too."""
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]+/(?:[0-9]+|\*)")
_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class Archive:
    """One list's mail of one month: the name of its file without endings, its address, when the
    month ends.
    """

    stem: str
    url: str
    ends_at: datetime


def archives(remote: HttpRemote, list_id: str, now: datetime) -> list[Archive]:
    """The archives that a remote has by now, the newest month first."""
    first, _, last = remote.since.partition("/")
    year, month = map(int, (last or now.strftime("%Y-%m")).split("-"))
    result = []
    while f"{year}-{month:02}" >= first:
        ends_at = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        for name in remote.lists or (list_id,):
            url = remote.url.format(
                list=name, year=year, month=month, month_name=calendar.month_name[month]
            )
            result.append(Archive(f"{name}.{year}-{month:02}", url, ends_at))
        year, month = (year, month - 1) if month > 1 else (year - 1, 12)
    return result


def is_due(archive: Archive, entry: Mapping[str, Any], now: datetime) -> bool:
    """True if an archive is to be asked for: its month may still grow, or it was not asked for in
    30 days.
    """
    checked_at = parsed_time(entry.get("checked_at"))
    if checked_at is None or entry.get("address") != text_hash(archive.url):
        return True
    is_closed = checked_at >= archive.ends_at + timedelta(days=_CLOSED_AFTER_DAYS)
    return not is_closed or now - checked_at >= timedelta(days=_CHECKED_AGAIN_DAYS)


def mbox_ending(first: bytes) -> str | None:
    """The ending of an mbox file that begins with these bytes, `.mbox` or `.mbox.gz` and so on;
    None for other files.
    """
    compression = next((ending for magic, ending in _MAGIC.items() if first.startswith(magic)), "")
    try:
        text = _MEMBERS[compression]().decompress(first, _FIRST_BYTES) if compression else first
    except (zlib.error, lzma.LZMAError, OSError):
        return None
    is_mbox = text.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").startswith(b"From ")
    # A compressed file may be empty inside.
    return f".mbox{compression}" if is_mbox or (compression and not text) else None


class MonthlyArchives:
    """One fetch of a remote's monthly archives."""

    def __init__(
        self,
        remote: HttpRemote,
        landing: Landing,
        credentials: Credentials,
        list_id: str,
        now: datetime,
    ):
        self.remote, self.landing, self.credentials, self.now = remote, landing, credentials, now
        self.wanted = archives(remote, list_id, now)
        self.requests = HttpRequests(remote, landing, credentials, now)

    def fetch(self) -> None:
        """Bring every archive that is due; raises as the protocol `Remotes` says, after all were
        tried.
        """
        faults: list[FetchError] = []
        try:
            asyncio.run(self._fetch(faults))
        except TimeoutError:
            faults.append(self.remote.too_late(shown_address(self.wanted[0].url)))
        finally:
            self.landing.save()
        if not faults and not any(item.get("file") for item in self.landing.items.values()):
            faults.append(
                FetchError(
                    f"{shown_address(self.wanted[0].url)}: no month has an archive; mend `url` or `since`"
                )
            )
        if faults:
            passing = [f for f in faults if isinstance(f, FetchInterruptedError)]
            more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
            if passing:
                raise FetchInterruptedError(
                    f"{passing[0]}{more}", max(f.pause or 0 for f in passing) or None
                )
            raise FetchError(f"{faults[0]}{more}")

    async def _fetch(self, faults: list[FetchError]) -> None:
        named = {archive.stem for archive in self.wanted}
        for stem in sorted(set(self.landing.items) - named):
            if file := self.landing.items.pop(stem).get("file"):
                self.landing.drop(file)
        async with (
            asyncio.timeout(self.remote.time_limit_seconds),
            self.requests.client() as client,
        ):
            in_a_row = 0
            for archive in self.wanted:
                if not is_due(archive, self._entry(archive), self.now):
                    self.landing.unchanged += 1
                    continue
                try:
                    entry = self._entry(archive)
                    receive = partial(self._receive_any, archive, entry)
                    await self.requests.result(
                        client, archive.url, receive, self._headers(archive, entry)
                    )
                    in_a_row = 0
                except FetchError as fault:
                    faults.append(fault)
                    in_a_row += 1
                    if in_a_row >= _FAULTS_IN_A_ROW:
                        return
                self.landing.save()

    def _entry(self, archive: Archive) -> dict[str, Any]:
        """The notes on an archive: empty if its file is lost, its file alone if it has another
        address.
        """
        entry = self.landing.items.get(archive.stem, {})
        if entry.get("file") and not (self.landing.folder / entry["file"]).is_file():
            return {}
        is_same = entry.get("address") == text_hash(archive.url)
        return entry if is_same else {k: entry[k] for k in entry if k == "file"}

    async def _receive_any(
        self, archive: Archive, entry: dict[str, Any], response: httpx2.Response
    ) -> None:
        status = response.status_code
        checked = {"address": text_hash(archive.url), "checked_at": self.now.isoformat()}
        if status in (200, 206):
            await self._receive(response, archive, entry, checked)
        elif status == 304:
            self.landing.unchanged += 1
            self.landing.items[archive.stem] = entry | checked
        elif status == 404:
            self._keep(archive, entry | checked, "the server does not have it any more (404)")
        elif status == 410:
            if entry.get("file"):
                self.landing.drop(entry["file"])
            self.landing.items[archive.stem] = checked
        elif status == 416:
            self.landing.partial(archive.stem).unlink(missing_ok=True)
            raise FetchInterruptedError(
                f"{shown_address(archive.url)} answers 416: the unfinished file is given up"
            )
        else:
            raise self.requests.refused(response, archive.url)

    def _headers(self, archive: Archive, entry: Mapping[str, Any]) -> dict[str, str]:
        """The headers of a request: for the rest of an unfinished file, else only for changes
        since.
        """
        partial = self.landing.partial(archive.stem)
        if entry.get("resume") and partial.is_file() and partial.stat().st_size:
            return {"Range": f"bytes={partial.stat().st_size}-", "If-Range": entry["resume"]}
        names = {
            "If-None-Match": entry.get("etag"),
            "If-Modified-Since": entry.get("last_modified"),
        }
        return {name: value for name, value in names.items() if value}

    async def _receive(
        self,
        response: httpx2.Response,
        archive: Archive,
        entry: dict[str, Any],
        checked: dict[str, Any],
    ) -> None:
        """Write the body beside, look whether it is an mbox, and give it its place."""
        partial = self.landing.partial(archive.stem)
        start = 0
        if response.status_code == 206:
            start = partial.stat().st_size if partial.is_file() else 0
            match = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
            if not start or match is None or int(match[1]) != start:
                partial.unlink(missing_ok=True)
                raise FetchInterruptedError(
                    f"{shown_address(archive.url)}: another range came than was asked for"
                )
        length = response.headers.get("content-length", "")
        if _NUMBER.fullmatch(length) and int(length) + start > self.remote.max_bytes:
            raise self._too_large(archive)
        if not start:
            # Gone before its validator is replaced: parts of two answers must never be put
            # together.
            partial.unlink(missing_ok=True)
            etag = self._validator(response, "etag")
            is_strong = etag and not etag.startswith("W/")
            resume = etag if is_strong else self._validator(response, "last-modified")
            entry = entry | {"address": checked["address"], "resume": resume}
            self.landing.items[archive.stem] = entry
            self.landing.save()
        ending = await self._write(response, partial, start, archive)
        if ending is None:
            partial.unlink()
            self.landing.items[archive.stem] = entry | checked
            self._keep(archive, entry | checked, "it came empty")
            return
        name = f"{archive.stem}{ending}"
        is_new = self.landing.put(partial, name)
        # A fetch that was killed may have left one without a note.
        for other in {
            f"{archive.stem}.mbox{compression}" for compression in ("", *_MAGIC.values())
        } - {name}:
            self.landing.drop(other)
        modified = self._validator(response, "last-modified")
        changed_at = (
            self.now.isoformat() if is_new else entry.get("changed_at") or self.now.isoformat()
        )
        self.landing.items[archive.stem] = checked | {
            "file": name,
            "etag": self._validator(response, "etag"),
            "last_modified": modified,
            "changed_at": changed_at,
        }
        at = http_time(modified) or parsed_time(changed_at) or self.now
        self.landing.saw(min(at, self.now, archive.ends_at))

    async def _write(
        self, response: httpx2.Response, partial: Path, start: int, archive: Archive
    ) -> str | None:
        """Append the body behind `start`; the ending of the file, or None where nothing came."""
        size, ending = start, None
        with partial.open("r+b" if start else "wb") as stream:
            first = stream.read(_FIRST_BYTES) if start else b""
            stream.seek(start)
            # As it was sent: a compressed archive is a file, too, and one that swells is not
            # written.
            async for block in response.aiter_raw():
                size += len(block)
                self.landing.bytes += len(block)
                if size > self.remote.max_bytes:
                    raise self._too_large(archive)
                stream.write(block)
                first += block[: _FIRST_BYTES - len(first)]
                if (
                    ending is None
                    and len(first) == _FIRST_BYTES
                    and (ending := mbox_ending(first)) is None
                ):
                    break
        if not size:
            return None
        if ending is None and (ending := mbox_ending(first)) is None:
            partial.unlink()
            raise self._no_mbox(response, first, archive)
        return ending

    def _too_large(self, archive: Archive) -> FetchError:
        self.landing.partial(archive.stem).unlink(missing_ok=True)
        return FetchError(
            f"{shown_address(archive.url)} has more than {self.remote.max_bytes:,} bytes (max_bytes); raise it if the "
            "archive is sound"
        )

    def _no_mbox(self, response: httpx2.Response, first: bytes, archive: Archive) -> FetchError:
        kind = self.credentials.hidden(response.headers.get("content-type", "no type"))
        if "content-encoding" in response.headers:
            kind += (
                f" in the encoding {self.credentials.hidden(response.headers['content-encoding'])}"
            )
        start = first.lstrip()[:100].lower()
        is_page = "html" in kind or start.startswith((b"<!doctype html", b"<html"))
        what = (
            f"a web page ({kind}), as a login page is; name the variables of a login by `credentials`, or mend "
            "the address"
            if is_page
            else f"no mbox ({kind}); mend the address"
        )
        return FetchError(f"{shown_address(archive.url)} gives {what}")

    def _validator(self, response: httpx2.Response, header: str) -> str | None:
        """A validator that can be sent back; None for one that cannot, or that echoes a secret."""
        value = response.headers.get(header, "")
        is_sound = value.isascii() and value.isprintable() and len(value) <= _MOST_VALIDATOR_CHARS
        return (
            value
            if value and is_sound and self.credentials.hidden(value, len(value)) == value
            else None
        )

    def _keep(self, archive: Archive, item: dict[str, Any], why: str) -> None:
        """Remember that an archive was asked for; one that was there stays, because a fault looks
        the same.
        """
        self.landing.items[archive.stem] = item
        if item.get("file"):
            self.landing.unchanged += 1
            self.landing.note(f"{archive.stem}: {why}; the file of before is kept")
