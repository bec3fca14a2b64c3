"""The site: its templates, its opened indexes, how a view becomes an answer, and the state of the
index for pages.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from dagster_project.config.settings import Settings
from dagster_project.extensions import extra_parts
from dagster_project.extras.web import question
from dagster_project.extras.web.question import question_of
from dagster_project.extras.web.unpacked import Unpacker
from dagster_project.index.publish.versions import CURRENT
from dagster_project.index.search.completeness import of_sources
from dagster_project.index.search.index_pool import AllBusyError, IndexPool
from dagster_project.index.search.lookup import Ask
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.ledger.ledger import ledger_in
from dagster_project.outgoing.receipts import Disclosed, Receipts, Seen
from dagster_project.outgoing.screen import fault_text
from dagster_project.sources.chats import ChatFiles
from dagster_project.sources.document_readers import DocumentReaders
from dagster_project.sources.file_sources import FileSources
from dagster_project.system.locks import BUILD_LOCK, is_held
from transforms import errors
from transforms.conversations.pseudonyms import short_pseudonyms
from transforms.hashing import bytes_sha256
from transforms.mail.list_tags import without_list_tags
from transforms.retrieval.labels import NOTHING
from transforms.retrieval.preference_words import preference_sentence

RETRY_SECONDS = 5
"""Seconds after which to ask a busy server again."""


class Trouble(NamedTuple):
    """Why a page has nothing to show: a code that programs read, the status of the answer, and
    words for people.
    """

    code: str
    status: int
    title: str
    message: str


_TROUBLES = (
    (errors.ModelMismatchError, "MODEL_MISMATCH", 503, "The index belongs to another model"),
    (errors.UnknownIdError, "UNKNOWN_ID", 404, "The index does not hold this"),
    (errors.QuerySyntaxError, "QUERY", 400, "The query cannot be understood"),
    (errors.QueryError, "QUERY", 400, "This cannot be answered"),
    (errors.SourceError, "NOT_AT_SOURCE", 404, "The source does not give this"),
    (errors.DisclosureLimitError, "WITHHELD", 403, "This is not shown here"),
    (errors.WeftError, "ERROR", 500, "That did not work"),
)


def trouble_of(
    fault: errors.WeftError | TimeoutError, root: Path, lens: str | None = None
) -> Trouble:
    """The text and status for a fault of a search or of reading, perhaps under a lens."""
    message = fault_text(fault, lens) if isinstance(fault, errors.WeftError) else ""
    if isinstance(fault, AllBusyError):
        text = f"It is sending many files, or questions took too long. Ask again in {RETRY_SECONDS} seconds."
        return Trouble("BUSY", 503, "The server is busy", text)
    if isinstance(fault, TimeoutError | errors.QueryInterruptedError):
        text = "The answer took too long and was given up. Ask for less: a longer word, a shorter time, one list."
        return Trouble("TIMED_OUT", 504, "No answer in time", text)
    if isinstance(fault, errors.IndexUnavailableError):
        if (root / "index" / CURRENT).exists():
            return Trouble("INDEX_DAMAGED", 503, "The index cannot be read", message)
        if is_held(root / BUILD_LOCK):
            text = "The first build is running. This page looks again by itself."
            return Trouble("BUILDING", 503, "The index is being built", text)
        return Trouble(
            "NO_INDEX", 503, "There is no index yet", "Run weft build; then search here."
        )
    code, status, title = next((c, s, t) for kind, c, s, t in _TROUBLES if isinstance(fault, kind))
    return Trouble(code, status, title, message)


def ago(at: datetime | None) -> str:
    """How long ago a time is, in words."""
    if at is None:
        return "never"
    seconds = (datetime.now(UTC) - at).total_seconds()
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count:,} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


FOLDER = Path(__file__).parent
SECONDS = 20.0
"""Seconds until a question is given up."""
_DRAWN_AT_ONCE = 2
"""Pages of PDF that are drawn side by side, each in a process that may take `read_memory_bytes`."""
_NEARNESS = {"PASS": "good match", "WEAK": "weak match", NOTHING: "nothing found"}
"""The labels of hits in words of people."""
_LISTS = "SELECT DISTINCT list_id FROM memberships WHERE list_id IS NOT NULL"
View = Callable[["Site", Request, SearchIndex], Response]
"""Makes the answer to a request from the index, in a thread of the pool."""


class Site:
    """The pages over the published index of some settings."""

    def __init__(self, settings: Settings, seconds: float = SECONDS, lens: str | None = None):
        self.settings, self.seconds, self.lens = settings, seconds, lens
        if lens and settings.lenses[lens].is_limited:
            raise errors.SettingsError(
                f"the lens {lens!r} bounds what a session is shown, and pages have no sessions: use it with `weft mcp` or "
                "`weft context --session`, or take its bounds away"
            )
        self.receipts = Receipts(settings.root)
        self.reports = None if lens else settings.root / "eval"
        self.pool = IndexPool(settings.root / "index", lambda: open_index(settings, lens=lens))
        cache = settings.root / "cache"
        self.chats = ChatFiles(settings, ledger_in(settings.root))
        self.sources = FileSources(settings, cache, self.chats, lambda *_: [])
        drawn = settings.documents.model_copy(update={"ocr": None, "read_seconds": seconds})
        self.readers = DocumentReaders(drawn, cache / "documents", seconds)
        self.contents: dict[tuple[str, str], list[Any]] = {}
        self.new_texts: dict[tuple[str, str, datetime], int] = {}
        self.drawing, self.reading_chats = BoundedSemaphore(_DRAWN_AT_ONCE), Lock()
        self.unpacker = Unpacker(settings.root)
        loader = FileSystemLoader(FOLDER / "templates")
        self.templates = Environment(
            loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
        )
        self.templates.globals |= {  # pyrefly: ignore[bad-assignment]  # its type is that of the defaults
            "page_of": question.page_of,
            "preference_sentence": preference_sentence,
            "with_parameters": question.with_parameters,
            "ago": ago,
            "medium_of": question.medium_of,
            "file_of": question.file_of,
            "has_proofs": bool(extra_parts("proofs")),
            "has_answers": bool(extra_parts("answers")),
        }
        self.templates.filters |= {
            "day": _day,
            "nearness": _nearness,
            "minute": _minute,
            "count": "{:,}".format,
            "bytes": _size,
            "names": short_pseudonyms,
        }

    async def answered(self, view: View, request: Request) -> Response:
        """The answer of a view; faults that Weft knows become a page, or JSON below /api/."""
        try:
            if request.method == "POST":
                request.state.body = await request.body()
            return await self.pool.ask(
                lambda index: self._viewed(view, request, index), self.seconds
            )
        except (errors.WeftError, TimeoutError) as fault:
            return self.refusal(request, fault)

    def _viewed(self, view: View, request: Request, index: SearchIndex) -> Response:
        index.screen.finds.clear()
        passages: list[Disclosed] = []
        request.state.shown = passages
        response = view(self, request, index)
        if self.lens and not request.url.path.startswith("/api/"):
            # Texts that pages read are masked as they are read, which counts no finds.
            index.screen.count(passage.text for passage in passages)
            tool = f"page /{request.url.path.split('/')[1]}"
            self.note(tool, f"{request.url.path}?{request.url.query}", index, passages)
        return response

    def shows_files(self, index: SearchIndex) -> bool:
        """True if whoever asks may have raw mails and files: under no lens, and no answer is
        masked.
        """
        return self.lens is None and index.screen.is_open

    def note(
        self, tool: str, question: str, index: SearchIndex, passages: Sequence[Disclosed]
    ) -> None:
        """Leave the receipt of an answer; ReceiptError if that is impossible."""
        if self.settings.mcp.receipts:
            view = Seen(index.version, self.lens)
            self.receipts.add(tool, question, view, passages, index.screen.finds)

    def page(
        self,
        name: str,
        request: Request,
        index: SearchIndex | None,
        status: int = 200,
        **values: Any,
    ) -> Response:
        """The page that a template makes."""
        manifest, root = index.manifest if index is not None else {}, self.settings.root
        at = manifest.get("published_at")
        state: dict[str, Any] = {"published_at": datetime.fromisoformat(at) if at else None}
        if self.lens is None:  # Builds and sources may be others than those that a lens shows.
            stale_since = of_sources(root, state["published_at"])["changed_at"]
            state |= {"is_building": is_held(root / BUILD_LOCK), "stale_since": stale_since}
        context = {
            "question": question_of(request.query_params),
            "path": request.url.path,
            "state": state,
            "version": manifest.get("version"),
            "titled": self._titled(index),
            **values,
        }
        html = self.templates.get_template(name).render(context)
        return HTMLResponse(html, status)

    def _titled(self, index: SearchIndex | None) -> Callable[[str | None], str]:
        """Gives the title of a mail, page or chat to show: without the tags of lists of the index."""
        rows = [] if index is None else index.ask(_LISTS, {}).column("list_id").to_pylist()

        def titled(title: str | None) -> str:
            return without_list_tags(title, rows) if title else "(no subject)"

        return titled

    def refusal(self, request: Request, fault: errors.WeftError | TimeoutError) -> Response:
        """The response to a request that met a fault."""
        trouble = trouble_of(fault, self.settings.root, self.lens)
        response: Response
        if request.url.path.startswith("/api/"):
            answer = {"outcome": "ERROR", "kind": trouble.code, "error": trouble.message}
            response = JSONResponse(answer, trouble.status)
        else:
            response = self.page("trouble.html", request, None, trouble.status, trouble=trouble)
        if trouble.code == "BUSY":
            response.headers["Retry-After"] = str(RETRY_SECONDS)
        return response


def tagged(request: Request, response: Response) -> Response:
    """`response` with a tag of its bytes; 304 without them to a program that has these (RFC 9110,
    13.1.2).
    """
    if "ETag" not in response.headers:
        response.headers["ETag"] = f'"{bytes_sha256(bytes(response.body))}"'
    tag = response.headers["ETag"]
    is_known = tag in request.headers.get("If-None-Match", "")
    return Response(status_code=304, headers={"ETag": tag}) if is_known else response


def rows_about(ask: Ask, statement: str, kind: str, id_: str) -> list[dict[str, Any]]:
    """The rows of a statement about the thing `$id`; UnknownIdError that names its kind if there is
    none.
    """
    if rows := ask(statement, {"id": id_}).to_pylist():
        return rows
    raise errors.UnknownIdError(f"the index holds no {kind} {errors.shortened(id_)!r}")


def parameter(request: Request) -> str:
    """The id in the path of a request, or else its parameter `id`; QueryError if it has neither."""
    if id_ := request.path_params.get("id") or request.query_params.get("id", "").strip():
        return str(id_)
    raise errors.QueryError("the address names no id: add ?id= and a citation")


def cited_bytes(request: Request) -> tuple[int, int] | None:
    """The range of bytes that a request asks to mark; QueryError if it is none."""
    text = request.query_params.get("bytes")
    if text is None:
        return None
    start, _, end = text.partition("-")
    if not (
        start.isascii() and start.isdigit() and end.isascii() and end.isdigit() and len(text) < 40
    ):
        raise errors.QueryError(f"bytes takes a range such as 120-480, not {text[:60]!r}")
    return int(start), max(int(start), int(end))


def _nearness(label: str) -> str:
    return _NEARNESS.get(label, label)


def _day(at: datetime | None) -> str:
    return f"{at.day} {at:%b} {at.year}" if at else "no date"


def _minute(at: datetime | None) -> str:
    return f"{_day(at)}, {at:%H:%M}" if at else "no date"


def _size(count: int) -> str:
    if count < 10_000:
        return f"{count:,} B"
    return f"{count / 1e6:.1f} MB" if count >= 1_000_000 else f"{count / 1e3:.0f} kB"
