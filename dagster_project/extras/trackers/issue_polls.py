"""Issues of a tracker as files: those that changed since the last fetch come, page by page, oldest
change first.

A file holds one issue, another one its comments, both as the tracker's REST interface gives them
and as `transforms.documents.issues` reads them. The time of the last change is noted after each
page, so that a fetch that ends early goes on there; with no change since, a page costs one answer
304. An issue that is deleted there stays here, since no interface names deleted ones.
"""

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import httpx2

from dagster_project.extras.trackers.settings import TrackerRemote
from dagster_project.remotes.http_requests import HttpRequests, body_of
from dagster_project.remotes.landing import Landing, parsed_time
from dagster_project.system.masking import Credentials, shown_address
from dagster_project.system.rate_limit import requested_pause
from transforms.errors import FetchError, FetchInterruptedError
from transforms.hashing import text_hash

_NEXT = re.compile(r'<([^<>]+)>\s*;[^,<]*\brel="?next"?')
_NUMBER = re.compile(r"/issues/(\d{1,18})\Z")
_PER_PAGE = 100
_MOST_PAGES = 100_000


class _Page(NamedTuple):
    """The records of an answer, the address of the next page, and the answer's ETag.

    `records` is None if nothing changed.
    """

    records: list[Any] | None
    next: str = ""
    etag: str = ""


class TrackerIssues(ABC):
    """One fetch of the issues of a project."""

    number = "number"
    """The name of an issue's number in its record."""
    headers: Mapping[str, str] = {}

    def __init__(
        self, remote: TrackerRemote, landing: Landing, credentials: Credentials, base: Path
    ):
        self.remote, self.landing = remote, landing
        self.now = datetime.now(UTC)
        self.requests = HttpRequests(remote, landing, credentials, self.now)

    def fetch(self) -> None:
        """Bring the issues that changed; raises as the protocol `Remotes` says."""
        self._forget_another_project()
        try:
            asyncio.run(self._fetch())
        except TimeoutError:
            raise self.remote.too_late(shown_address(self.remote.api)) from None
        finally:
            self.landing.save()

    def _forget_another_project(self) -> None:
        """Remove the files of a project that the settings no longer name."""
        address = text_hash(f"{self.remote.api} {self.remote.project} {self.remote.since}")
        if self.landing.items.get("project", {}).get("address") != address:
            for file in self.landing.folder.glob("*.json"):
                self.landing.drop(file.name)
            self.landing.items = {"project": {"address": address}}

    async def _fetch(self) -> None:
        async with (
            asyncio.timeout(self.remote.time_limit_seconds),
            self.requests.client() as self.client,
        ):
            async for issues in self._changed("issues", self._issues_address):
                numbers = [number for one in issues if (number := self._put_issue(one))]
                await self._bring_comments_of(numbers)
            await self._bring_comments()

    async def _changed(self, name: str, address: Any) -> AsyncIterator[list[Any]]:
        """The pages of records that changed since the last fetch, by the notes `name`; each is
        noted as seen once the caller asks for the next.
        """
        notes = dict(self.landing.items.get(name, {}))
        first = url = address(self._since(notes))
        etag = notes["etag"] if notes.get("page") == text_hash(first) else ""
        for _ in range(_MOST_PAGES):
            page = await self._page(url, {"If-None-Match": etag} if etag else {})
            if page.records is None:
                self.landing.unchanged += 1
                return
            yield page.records
            if url == first:
                notes |= {"page": text_hash(first), "etag": page.etag}
            self._note(name, notes, page.records)
            if not page.next:
                return
            url, etag = self._own(page.next), ""

    def _note(self, name: str, notes: dict[str, Any], records: list[Any]) -> None:
        """Store the notes `name` of a fetch so far, with the time of the last change of records."""
        times = [time for one in records if (time := _changed_at(one))]
        if latest := max([*times, str(notes.get("since", ""))], default=""):
            notes["since"] = latest
        self.landing.items[name] = dict(notes)
        self.landing.save()
        if times and (at := parsed_time(max(times))):
            self.landing.saw(min(at, self.now))

    def _since(self, notes: Mapping[str, Any]) -> str:
        """The time from which changes are asked for, as the tracker writes it; empty for all."""
        day = f"{self.remote.since.isoformat()}T00:00:00Z" if self.remote.since else ""
        return str(notes.get("since") or day)

    def _own(self, url: str) -> str:
        """The address of a next page; FetchError if it leads to another server."""
        own, other = urlsplit(self.remote.api), urlsplit(url)
        if (own.scheme, own.netloc) != (other.scheme, other.netloc):
            raise FetchError(
                f"{shown_address(self.remote.api)} names a next page on another server; mend `api`"
            )
        return url

    async def _page(self, url: str, headers: Mapping[str, str]) -> _Page:
        async def receive(response: httpx2.Response) -> _Page:
            if response.status_code == 304:
                return _Page(None)
            if response.status_code != 200:
                raise self._refused(response, url)
            data = await body_of(response, self.remote.max_bytes)
            self.landing.bytes += len(data)
            if len(data) > self.remote.max_bytes:
                raise FetchError(
                    f"{shown_address(url)}: a page has more than {self.remote.max_bytes:,} bytes (max_bytes)"
                )
            link = _NEXT.search(response.headers.get("link", ""))
            etag = response.headers.get("etag", "")
            return _Page(self._records(data, url), link[1] if link else "", etag)

        return await self.requests.result(self.client, url, receive, {**self.headers, **headers})

    def _records(self, data: bytes, url: str) -> list[Any]:
        try:
            records = json.loads(data)
        except (ValueError, RecursionError):
            records = None
        if not isinstance(records, list):
            raise FetchError(f"{shown_address(url)} gives no list of JSON; mend `api`")
        return records

    def _refused(self, response: httpx2.Response, url: str) -> FetchError:
        """The fault of an answer; a spent quota passes when the tracker says (`...-reset`)."""
        prefix = next(
            (p for p in ("x-ratelimit", "ratelimit") if f"{p}-reset" in response.headers), ""
        )
        left = response.headers.get(f"{prefix}-remaining")
        is_spent = response.status_code in (403, 429) and (
            left == "0" or "retry-after" in response.headers
        )
        if not is_spent:
            return self.requests.refused(response, url)
        pause = requested_pause(response.headers.get("retry-after", ""), self.now)
        reset = response.headers.get(f"{prefix}-reset", "")
        if pause is None and reset.isdecimal() and len(reset) < 12:
            pause = max(1.0, int(reset) - datetime.now(UTC).timestamp())
        text = (
            f"{shown_address(url)} answers {response.status_code}: its quota of requests is spent"
        )
        if pause is not None and pause > self.remote.time_limit_seconds:
            return FetchError(
                f"{text} for {pause:.0f} s; the next fetch goes on where this one ended"
            )
        return FetchInterruptedError(text, pause)

    def _put_issue(self, record: Any) -> int | None:
        """Write the file of an issue; its number, None for a record that is none."""
        number = record.get(self.number) if isinstance(record, Mapping) else None
        if type(number) is not int or not 0 < number < 10**18:
            self.landing.note("a record that is no issue was left out")
            return None
        self._put(f"{number}.json", [record])
        return number

    def _put_comments(self, number: int, comments: list[Any], *, adds: bool) -> None:
        """Write the comments of an issue, with `adds` beside those that are there."""
        name = f"{number}.comments.json"
        file = self.landing.folder / name
        stored = json.loads(file.read_bytes()) if adds and file.is_file() else []
        by_id = {one["id"]: one for one in [*stored, *comments] if _has_id(one)}
        if by_id:
            self._put(name, [by_id[key] for key in sorted(by_id)])

    def _put(self, name: str, records: list[Any]) -> None:
        partial = self.landing.partial(name)
        partial.write_text(json.dumps(records, sort_keys=True, indent=1), encoding="utf-8")
        self.landing.put(partial, name)

    @abstractmethod
    def _issues_address(self, since: str) -> str:
        """The address of the first page of the issues that changed since a time."""

    async def _bring_comments_of(self, numbers: list[int]) -> None:
        """Bring the comments of issues that changed, where the tracker lists those of one issue."""
        return

    async def _bring_comments(self) -> None:
        """Bring the comments that changed, where the tracker lists those of all issues."""
        return


class GithubIssues(TrackerIssues):
    """Issues of GitHub, whose comments are listed for all issues together."""

    headers = {
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }

    def _address(self, path: str, since: str, **more: str) -> str:
        values = {"sort": "updated", "direction": "asc", "per_page": str(_PER_PAGE), **more}
        query = urlencode(values | ({"since": since} if since else {}))
        return f"{self.remote.api}/repos/{self.remote.project}/{path}?{query}"

    def _issues_address(self, since: str) -> str:
        return self._address("issues", since, state="all")

    async def _bring_comments(self) -> None:
        def address(since: str) -> str:
            return self._address("issues/comments", since)

        async for comments in self._changed("comments", address):
            of_issue: dict[int, list[Any]] = {}
            for one in comments:
                url = str(one.get("issue_url")) if isinstance(one, Mapping) else ""
                if match := _NUMBER.search(url):
                    of_issue.setdefault(int(match[1]), []).append(one)
            for number, some in of_issue.items():
                self._put_comments(number, some, adds=True)


class GitlabIssues(TrackerIssues):
    """Issues of GitLab, whose notes are listed for each issue, and change its time."""

    number = "iid"

    @property
    def _project(self) -> str:
        return f"{self.remote.api}/projects/{quote(self.remote.project, safe='')}"

    def _issues_address(self, since: str) -> str:
        values = {"scope": "all", "order_by": "updated_at", "sort": "asc"}
        values |= {"per_page": str(_PER_PAGE)} | ({"updated_after": since} if since else {})
        return f"{self._project}/issues?{urlencode(values)}"

    async def _bring_comments_of(self, numbers: list[int]) -> None:
        for number in numbers:
            url = f"{self._project}/issues/{number}/notes?per_page={_PER_PAGE}&sort=asc"
            notes: list[Any] = []
            while url:
                page = await self._page(url, {})
                notes += page.records or []
                url = self._own(page.next) if page.next else ""
            self._put_comments(number, notes, adds=False)


def _has_id(record: Any) -> bool:
    return isinstance(record, Mapping) and type(record.get("id")) is int


def _changed_at(record: Any) -> str:
    """When a record changed last, as the tracker writes it; empty if it does not say."""
    at = record.get("updated_at") if isinstance(record, Mapping) else None
    return at if isinstance(at, str) and parsed_time(at) else ""
