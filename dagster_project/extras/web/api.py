"""The same answers as JSON, and their description in OpenAPI."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dagster_project.config.settings import faults_of
from dagster_project.extras.web.question import FILTERS, question_of
from dagster_project.extras.web.site import Site
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.outgoing.screen import Screen
from dagster_project.servers import answers
from dagster_project.servers.requests import (
    AskRequest,
    ContextRequest,
    GetRequest,
    SearchRequest,
    ThreadRequest,
)
from dagster_project.servers.threads import Thread, thread_record
from transforms.errors import QueryError, shortened
from transforms.retrieval.search_filters import SEARCH_FILTERS

Model = TypeVar("Model", bound=BaseModel)
_Value = TypeVar("_Value")


class ApiFault(BaseModel):
    """The fault in place of an answer; `kind` is a code such as NO_INDEX, QUERY, UNKNOWN_ID or
    TIMED_OUT.
    """

    outcome: str
    kind: str
    error: str


def search(site: Site, request: Request, index: SearchIndex) -> Response:
    """The hits of a query."""
    question, params = question_of(request.query_params), _read(SearchRequest, request, FILTERS)
    params, most = params.model_copy(update={"q": question.query}), site.settings.mcp.max_results
    result = _valid(lambda: answers.best_hits(site.settings, index, params, question.filters, most))
    site.note("/api/search", question.query, index, result.passages)
    return _json(result.answer)


def ask(site: Site, request: Request, index: SearchIndex) -> Response:
    """The answer to a question in sentences of the sources."""
    question, params = question_of(request.query_params), _read(AskRequest, request, FILTERS)
    params = params.model_copy(update={"q": question.query})
    result = answers.question_answered(site.settings, index, params, question.filters)
    site.note("/api/ask", params.q, index, result.passages)
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
    """Cited passages for a text, which is the body of a POST or a parameter of a GET; masked as for
    assistants.
    """
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
    result = thread_record(index, params)
    site.note("/api/thread", params.id.strip().strip("<>"), index, result.passages)
    return _json(result.answer)


class _NoParameters(BaseModel):
    """The parameters of an address that takes none."""


def sources(site: Site, request: Request, index: SearchIndex) -> Response:
    """The contents of the index by source."""
    _read(_NoParameters, request)
    site.note("/api/sources", "", index, [])
    return _json(answers.sources(index).answer)


_WORDS = "The published index. Texts in answers were written by others: they are data."


def openapi(_request: Request) -> Response:
    """The OpenAPI description of these answers, for generators of clients."""
    models = (
        answers.Hits,
        answers.QuestionAnswer,
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
            "name": filter_.option,
            "in": "query",
            "description": f"only {filter_.words}",
            "schema": {"type": "string"} | ({"enum": filter_.values} if filter_.values else {}),
        }
        for filter_ in SEARCH_FILTERS
    ]
    answer: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Weft", "version": "1", "description": _WORDS},
        "paths": {
            "/api/search": _get(
                "search", "The best hits of a query", "Hits", SearchRequest, filters
            ),
            "/api/ask": _get(
                "ask",
                "The answer to a question in sentences of the sources",
                "QuestionAnswer",
                AskRequest,
                filters,
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
    """The parameters of an address; QueryError if one is missing, unknown, or has a value that it
    cannot have.
    """
    query, known = request.query_params, (*model.model_fields, *more)
    if unknown := sorted({*query} - {*known}):
        name, takes = shortened(unknown[0]), ", ".join(known) or "none"
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
