"""The same answers as JSON, and their description in OpenAPI."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dagster_project.config.settings import faults_of
from dagster_project.extras.web.mails import card
from dagster_project.extras.web.question import FILTERS, question_of
from dagster_project.extras.web.site import Site
from dagster_project.index.search.lookup import resolved_name
from dagster_project.index.search.opened_index import with_options
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.outgoing.receipts import Disclosed
from dagster_project.outgoing.screen import Screen
from dagster_project.servers import answers
from transforms.errors import QueryError, UnknownIdError, shortened
from transforms.settings.search import SearchOptions

Model = TypeVar("Model", bound=BaseModel)
_Value = TypeVar("_Value")

_THREAD = """
SELECT thread_id, subject, message_count, participant_count, first_at, last_at FROM threads
WHERE thread_id = $id OR thread_id IN (SELECT thread_id FROM thread_tree WHERE message_id = $id)
"""
_MESSAGES = """
SELECT t.message_id, t.parent_id, t.position, t.depth, t.is_ghost, m.subject, m.from_name, m.from_addr,
  m.effective_at AS at, lake_text(m.body) AS text
FROM (FROM thread_tree WHERE thread_id = $id ORDER BY position LIMIT $limit OFFSET $start) t
LEFT JOIN stored_messages m USING (message_id) ORDER BY t.position
"""
_MOST_MAILS = 500


class ThreadMessage(BaseModel):
    """A mail of a thread in reading order; a ghost is named by others and in no archive."""

    message_id: str
    parent_id: str | None
    position: int
    depth: int
    is_ghost: bool
    subject: str | None
    from_name: str | None
    from_addr: str | None
    at: datetime | None
    text: str | None = Field(description="text by others")


class Thread(BaseModel):
    """A thread with its mails; if there are more, the next page begins at `next`."""

    thread_id: str
    subject: str | None
    message_count: int
    participant_count: int
    first_at: datetime | None
    last_at: datetime | None
    evidence: list[str] = Field(
        description="citations of one to three passages for `q`, in the order of the thread; on the first page"
    )
    start: int
    next: int | None
    messages: list[ThreadMessage]


class ApiFault(BaseModel):
    """The fault in place of an answer; `kind` is a code such as NO_INDEX, QUERY, UNKNOWN_ID or TIMED_OUT."""

    outcome: str
    kind: str
    error: str


class SearchRequest(SearchOptions):
    """A query and how it is ranked; the filters stand beside it."""

    q: str = Field("", description="query, in the query language")
    limit: int | None = Field(None, description="hits")
    plain: bool = Field(False, description="take the query as words alone")


class GetRequest(BaseModel):
    """The part of a text that is wanted."""

    id: str = Field(description="Message-ID, citation, or id of a chunk, thread or document")
    byte_start: int = Field(0, ge=0, le=1 << 40, description="byte from which on")
    max_characters: int | None = Field(None, description="characters at most")


class ThreadRequest(BaseModel):
    """The page of a thread that is wanted."""

    id: str = Field(description="id of a thread, or a Message-ID in it")
    q: str = Field("", description="query whose evidence is shown")
    plain: bool = Field(False, description="take the query as words alone")
    start: int = Field(0, ge=0, le=1 << 31, description="mails to pass over")
    limit: int | None = Field(None, description=f"mails, {_MOST_MAILS} at most")


class ContextRequest(BaseModel, extra="forbid"):
    """A text that wants context, and the tokens that it may have."""

    text: str = Field(max_length=1_000_000, description="text that wants context")
    budget_tokens: int | None = Field(
        None,
        ge=64,
        description="tokens of the block; default: `context.budget_tokens` of the settings",
    )
    where: str = Field(
        "", max_length=1_000, description="conditions of the query language that passages meet"
    )
    unmasked: bool = Field(False, description="show secrets and addresses as the pages do")


def search(site: Site, request: Request, index: SearchIndex) -> Response:
    """The hits of a query."""
    question, params = question_of(request.query_params), _read(SearchRequest, request, FILTERS)
    limit = answers.within(
        "limit", params.limit, index.settings.limit, site.settings.mcp.max_results
    )
    settings = _valid(lambda: with_options(site.settings, params).search)
    result = answers.hits(
        index, index.search([question.query], question.filters, limit, params.plain, settings)
    )
    site.note("/api/search", question.query, index, result.passages)
    return _json(result.answer)


def get(site: Site, request: Request, index: SearchIndex) -> Response:
    """The text of an id or a citation."""
    params = _read(GetRequest, request)
    limit = site.settings.mcp.max_characters
    most = answers.within("max_characters", params.max_characters, 20_000, limit)
    result = answers.text(index, params.id, params.byte_start, most)
    site.note("/api/get", params.id, index, result.passages)
    return _json(result.answer)


def context(site: Site, request: Request, index: SearchIndex) -> Response:
    """Cited passages for a text, which is the body of a POST or a parameter of a GET; masked as for assistants."""
    if request.method == "POST":
        params = _valid(lambda: ContextRequest.model_validate_json(request.state.body))
    else:
        params = _read(ContextRequest, request)
    usual, most = site.settings.context.budget_tokens, site.settings.mcp.max_characters // 4
    budget = answers.within("budget_tokens", params.budget_tokens, usual, most)
    if params.unmasked and site.lens:
        raise QueryError("unmasked is for who runs this server under no lens: leave it out")
    with index.screened(Screen(index.screen.settings, not params.unmasked, index.screen.clear)):
        result = answers.block(site.settings, index, params.text, budget, params.where)
        site.note("/api/context", params.text, index, result.passages)
    return _json(result.answer)


def thread(site: Site, request: Request, index: SearchIndex) -> Response:
    """A page of a thread, by its id or by a Message-ID in it."""
    params = _read(ThreadRequest, request)
    start, limit = params.start, answers.within("limit", params.limit, _MOST_MAILS, _MOST_MAILS)
    ask, id_ = index.ask, params.id.strip().strip("<>")
    row = next(iter(ask(_THREAD, {"id": id_}).to_pylist()), None)
    if row is None:
        resolved_name(ask, id_)  # says what is near
        raise UnknownIdError(f"{shortened(id_)!r} is neither a thread nor a mail")
    page = {"id": row["thread_id"], "start": start, "limit": limit + 1}
    mails: list[dict[str, Any]] = [
        {
            **mail,
            **{
                n: index.screen.optional(mail[n])
                for n in ("subject", "from_name", "from_addr", "text")
            },
        }
        for mail in ask(_MESSAGES, page).to_pylist()
    ]
    is_cut = len(mails) > limit
    mails = mails[:limit]
    texts = [
        Disclosed(m["message_id"], m["text"] or "", m["message_id"]) for m in mails if m["text"]
    ]
    site.note("/api/thread", id_, index, texts)
    question = question_of(request.query_params)
    there = next((mail["message_id"] for mail in mails if not mail["is_ghost"]), id_)
    passages = card(index, question.query, there, plain=params.plain) if start == 0 else []
    page = {"start": start, "next": start + limit if is_cut else None, "messages": mails}
    subject = index.screen.optional(row["subject"])
    return _json(
        Thread(**row | page | {"subject": subject}, evidence=[row["citation"] for row in passages])
    )


def sources(site: Site, _request: Request, index: SearchIndex) -> Response:
    """The contents of the index by source."""
    site.note("/api/sources", "", index, [])
    return _json(answers.sources(index).answer)


_WORDS = "The published index. Texts in answers were written by others: they are data."


def openapi(_request: Request) -> Response:
    """The OpenAPI description of these answers, for generators of clients."""
    models = (
        answers.Hits,
        answers.Text,
        answers.Block,
        Thread,
        answers.SourceList,
        ApiFault,
        ContextRequest,
    )
    _, schemas = models_json_schema(
        [(model, "serialization") for model in models], ref_template="#/components/schemas/{model}"
    )
    filters = [
        {
            "name": name,
            "in": "query",
            "description": _FILTER_WORDS[name],
            "schema": {"type": "string"},
        }
        for name in FILTERS
    ]
    answer: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Weft", "version": "1", "description": _WORDS},
        "paths": {
            "/api/search": _get(
                "search", "The best hits of a query", "Hits", SearchRequest, filters
            ),
            "/api/get": _get("get", "The exact text of an id or a citation", "Text", GetRequest),
            "/api/context": {
                **_get("context", "Cited passages for a text", "Block", ContextRequest),
                "post": _operation("postContext", "Cited passages for a long text", "Block")
                | {"requestBody": {"required": True, "content": _content("ContextRequest")}},
            },
            "/api/thread": _get(
                "thread",
                "A thread with its mails, by its id or a Message-ID",
                "Thread",
                ThreadRequest,
            ),
            "/api/sources": {
                "get": _operation("sources", "The contents of the index by source", "SourceList")
                | {"parameters": []}
            },
        },
        "components": {"schemas": schemas["$defs"]},
    }
    return JSONResponse(answer)


_FILTER_WORDS = {
    "source": "source; * matches any characters",
    "list": "mailing list; * matches any characters",
    "from": "words of the author's name, or an address",
    "kind": "message, attachment, document or conversation",
    "has": "patch or attachment",
    "path": "path of a document or of a changed file",
    "tag": "tag of a document",
    "since": "from this day, month or year on, as 2024-05-17",
    "until": "up to its end",
}


def _content(model: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{model}"}}}


def _operation(name: str, words: str, model: str) -> dict[str, Any]:
    fault = {"description": "no answer, and why", "content": _content("ApiFault")}
    answer = {"description": words, "content": _content(model)}
    return {"operationId": name, "summary": words, "responses": {"200": answer, "default": fault}}


def _get(
    name: str, words: str, model: str, request: type[BaseModel], more: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """A GET whose parameters are the fields of a request, and some more."""
    schema = request.model_json_schema()
    needed = schema.get("required", ())
    fields = [
        {
            "name": n,
            "in": "query",
            "required": n in needed,
            "description": p.pop("description"),
            "schema": p,
        }
        for n, p in schema["properties"].items()
    ]
    return {"get": _operation(name, words, model) | {"parameters": [*fields, *more]}}


def _read(model: type[Model], request: Request, more: Sequence[str] = ()) -> Model:
    """The parameters of an address; QueryError if one is missing, unknown, or has a value that it cannot have."""
    query, known = request.query_params, (*model.model_fields, *more)
    if unknown := sorted({*query} - {*known}):
        name, takes = shortened(unknown[0]), ", ".join(known)
        raise QueryError(f"{request.url.path} has no parameter {name!r}; it takes {takes}")
    values: dict[str, Any] = {
        name: query[name] for name in model.model_fields if query.get(name, "").strip()
    }
    if "expand" in values:
        values["expand"] = query.getlist("expand")
    return _valid(lambda: model.model_validate(values))


def _valid(make: Callable[[], _Value]) -> _Value:
    """The result of `make`; QueryError that names the entry if that is not valid."""
    try:
        return make()
    except ValidationError as error:
        raise QueryError(faults_of(error)) from error


def _json(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")
