"""A tracker on the loopback interface that answers as the REST interfaces of GitHub and GitLab do."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from tests.http_loopback import WholeAnswers


@dataclass
class Tracker:
    """Issues and comments by number and id, the requests so far, and answers that come first."""

    issues: dict[int, dict[str, Any]] = field(default_factory=dict)
    comments: dict[int, dict[str, Any]] = field(default_factory=dict)
    per_page: int = 2
    token: str = ""
    refusals: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    next_on: str = ""
    """Another server that the addresses of next pages name."""
    requests: list[tuple[str, int]] = field(default_factory=list)
    address: str = ""

    def put(self, number: int, title: str, at: str, body: str = "It is broken.") -> None:
        """Add or change an issue as both trackers have it."""
        self.issues[number] = {
            "number": number,
            "iid": number,
            "project_id": 8,
            "title": title,
            "body": body,
            "description": body,
            "state": "open",
            "created_at": "2025-01-01T00:00:00Z",
            "updated_at": at,
            "html_url": f"https://github.com/o/r/issues/{number}",
            "user": {"login": "ann"},
        }

    def comment(self, ident: int, number: int, body: str, at: str) -> None:
        """Add or change a comment, which changes its issue."""
        self.issues[number]["updated_at"] = at
        self.comments[ident] = {
            "id": ident,
            "body": body,
            "created_at": "2025-01-02T00:00:00Z",
            "updated_at": at,
            "issue_url": f"{self.address}/repos/o/r/issues/{number}",
            "noteable_iid": number,
            "project_id": 8,
            "user": {"login": "bob"},
        }

    def take_requests(self) -> list[tuple[str, int]]:
        """Path and status of the requests since the last call."""
        requests, self.requests = self.requests, []
        return requests

    def records(self, path: str, since: str) -> list[dict[str, Any]] | None:
        """The records of a path that changed since a time, oldest change first."""
        if path in ("/repos/o/r/issues", "/projects/g/o/r/issues"):
            records = list(self.issues.values())
        elif path == "/repos/o/r/issues/comments":
            records = list(self.comments.values())
        elif path.startswith("/projects/g/o/r/issues/") and path.endswith("/notes"):
            number = int(path.split("/")[-2])
            records = [one for one in self.comments.values() if one["noteable_iid"] == number]
        else:
            return None
        return sorted(
            (one for one in records if one["updated_at"] >= since), key=lambda r: r["updated_at"]
        )


class _Handler(WholeAnswers):
    tracker: Tracker

    def do_GET(self) -> None:  # noqa: N802
        parts = urlsplit(self.path)
        path, query = unquote(parts.path), {k: v[0] for k, v in parse_qs(parts.query).items()}
        status, body, headers = self.answer(path, query)
        self.tracker.requests.append((path, status))
        self.send(status, body, headers)

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, object, dict[str, str]]:
        tracker = self.tracker
        if tracker.refusals:
            status, headers = tracker.refusals.pop(0)
            return status, {"message": "no"}, headers
        if tracker.token and self.headers.get("Authorization") != f"Bearer {tracker.token}":
            return 401, {"message": "Bad credentials"}, {}
        records = tracker.records(path, query.get("since", query.get("updated_after", "")))
        if records is None:
            return 404, {"message": "Not Found"}, {}
        if not isinstance(records, list):
            return 200, records, {}
        page = int(query.get("page", 1))
        shown = records[(page - 1) * tracker.per_page : page * tracker.per_page]
        headers = {"ETag": f'"{sha256(json.dumps(shown).encode()).hexdigest()[:16]}"'}
        if self.headers.get("If-None-Match") == headers["ETag"]:
            return 304, b"", headers
        if len(records) > page * tracker.per_page:
            base = tracker.next_on or tracker.address
            following = f"{base}{urlsplit(self.path).path}?{urlencode(query | {'page': page + 1})}"
            headers["Link"] = f'<{base}/x>; rel="first", <{following}>; rel="next"'
        return 200, shown, headers


@contextmanager
def served_tracker() -> Iterator[Tracker]:
    """A tracker that is served until the end of the block."""
    tracker = Tracker()
    handler = type("Handler", (_Handler,), {"tracker": tracker})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    tracker.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield tracker
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
