"""The site: its templates, its pool of opened indexes, and how a view of the index becomes an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from dagster_project.config.settings import Settings
from dagster_project.extras.web import addresses, state
from dagster_project.extras.web.asked import asked
from dagster_project.index.search.index_pool import IndexPool
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.outgoing.receipts import Disclosed, Receipts, Seen
from transforms.errors import QueryError, SettingsError, WeftError

FOLDER = Path(__file__).parent
SECONDS = 20.0
"""Seconds until a question is given up."""
View = Callable[["Site", Request, SearchIndex], Response]
"""Makes the answer to a request from the index, in a thread of the pool."""


class Site:
    """The pages over the published index of some settings."""

    def __init__(self, settings: Settings, seconds: float = SECONDS, lens: str | None = None):
        self.settings, self.seconds, self.lens = settings, seconds, lens
        if lens and settings.lenses[lens].is_limited:
            raise SettingsError(
                f"the lens {lens!r} bounds what a session is shown, and pages have no sessions: use it with `weft mcp` or "
                "`weft context --session`, or take its bounds away"
            )
        self.receipts = Receipts(settings.root)
        self.reports = None if lens else settings.root / "eval"
        self.pool = IndexPool(settings.root / "index", lambda: open_index(settings, lens=lens))
        self.templates = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.globals |= {
            "page_of": addresses.page_of,
            "with_parameters": addresses.with_parameters,
            "ago": state.ago,
        }
        self.templates.filters |= {
            "day": _day,
            "minute": _minute,
            "count": "{:,}".format,
            "bytes": _size,
            "sentence": _sentence,
        }

    def endpoint(self, view: View) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint that answers with a view; faults that Weft knows become a page, or JSON below /api/."""

        async def endpoint(request: Request) -> Response:
            try:
                if request.method == "POST":
                    request.state.body = await request.body()
                return await self.pool.ask(lambda index: self._viewed(view, request, index), self.seconds)
            except (WeftError, TimeoutError) as fault:
                return self.refusal(request, fault)

        return endpoint

    def _viewed(self, view: View, request: Request, index: SearchIndex) -> Response:
        index.screen.finds.clear()
        shown: list[Disclosed] = []
        request.state.shown = shown
        response = view(self, request, index)
        if self.lens and not request.url.path.startswith("/api/"):
            # What pages read is masked as it is read, which counts no finds.
            index.screen.count(passage.text for passage in shown)
            tool = f"page /{request.url.path.split('/')[1]}"
            self.note(tool, f"{request.url.path}?{request.url.query}", index, shown)
        return response

    def shows_raw_mail(self, index: SearchIndex) -> bool:
        """True if whoever asks may have the bytes of a mail: under no lens, and no answer is masked."""
        return self.lens is None and index.screen.is_open

    def note(self, tool: str, asked: str, index: SearchIndex, shown: Sequence[Disclosed]) -> None:
        """Leave the receipt of an answer; ReceiptError if that is impossible."""
        if self.settings.mcp.receipts:
            seen = Seen(index.version, self.lens)
            self.receipts.add(tool, asked, seen, shown, index.screen.finds)

    def page(
        self, name: str, request: Request, index: SearchIndex | None, status: int = 200, **values: Any
    ) -> Response:
        """The page that a template makes."""
        manifest = index.manifest if index is not None else {}
        shown = {
            "asked": asked(request.query_params),
            "path": request.url.path,
            "state": state.state(self.settings.root, manifest.get("published_at"), self.lens),
            "version": manifest.get("version"),
            **values,
        }
        html = self.templates.get_template(name).render(shown)
        return HTMLResponse(html, status)

    def refusal(self, request: Request, fault: WeftError | TimeoutError) -> Response:
        """What is answered to a request that met a fault."""
        trouble = state.trouble(fault, self.settings.root, self.lens)
        response: Response
        if request.url.path.startswith("/api/"):
            answer = {"outcome": "ERROR", "kind": trouble.code, "error": trouble.message}
            response = JSONResponse(answer, trouble.status)
        else:
            response = self.page("trouble.html", request, None, trouble.status, trouble=trouble)
        if trouble.code == "BUSY":
            response.headers["Retry-After"] = str(state.RETRY_SECONDS)
        return response


def named(request: Request) -> str:
    """The id in the path of a request."""
    return str(request.path_params["id"])


def cited(request: Request) -> tuple[int, int] | None:
    """The range of bytes that a request asks to mark; QueryError if it is none."""
    text = request.query_params.get("bytes")
    if text is None:
        return None
    start, _, end = text.partition("-")
    if not (start.isascii() and start.isdigit() and end.isascii() and end.isdigit() and len(text) < 40):
        raise QueryError(f"bytes takes a range such as 120-480, not {text[:60]!r}")
    return int(start), max(int(start), int(end))


def _day(at: datetime | None) -> str:
    return f"{at.day} {at:%b} {at.year}" if at else "no date"


def _minute(at: datetime | None) -> str:
    return f"{at.day} {at:%b} {at.year}, {at:%H:%M}" if at else "no date"


def _sentence(message: str) -> str:
    return message[:1].upper() + message[1:]


def _size(count: int) -> str:
    return (
        f"{count / 1e6:.1f} MB"
        if count >= 1_000_000
        else f"{count / 1e3:.0f} kB"
        if count >= 10_000
        else f"{count:,} B"
    )
