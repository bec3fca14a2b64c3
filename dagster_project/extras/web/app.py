"""The ASGI application of `weft serve`: its routes, and the guards before them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from dagster_project.config.settings import Settings
from dagster_project.extras.web import api, browse, contents, files, results, searches, views
from dagster_project.extras.web.site import FOLDER, SECONDS, Site, View
from dagster_project.extras.web.tokens import LENS_OF, PersonRequired
from dagster_project.servers.guards import BODY_SECONDS, OwnPages, SafeHeaders, WholeBody
from transforms.errors import UnknownIdError, WeftError


class _IdConvertor(PathConvertor):
    """Any id: names of files may hold line ends, too."""

    regex = r"[\s\S]*"


register_url_convertor("id", _IdConvertor())
_VIEWS = {
    "/": views.search,
    "/why": views.why,
    "/open": views.open_id,
    "/open/{id:id}": views.open_id,
    "/m/{id:id}": views.mail,
    "/raw/{id:id}": views.stored_text,
    "/original/{id:id}": files.raw_mail,
    "/html/{id:id}": files.sent_html,
    "/mbox/{id:id}": files.thread_mbox,
    "/file/{id:id}": files.attached,
    "/document-file/{id:id}": files.document_file,
    "/t/{id:id}": views.thread,
    "/a/{id:id}": views.attachment,
    "/series/{id:id}": views.series,
    "/diff": views.diff,
    "/d/{id:id}": views.document,
    "/c/{id:id}": views.chat,
    "/p/{id:id}": views.person,
    "/picture/{id:id}": views.picture,
    "/corpus": views.corpus_page,
    "/quarantine": views.quarantine,
    "/issues": views.issues_page,
    "/feed": results.feed,
    "/browse": browse.browse,
    "/searches": searches.searches_page,
    "/verify": views.verify,
    "/ask": views.ask,
    "/contents/{id:id}": contents.contents_page,
    "/api/search": api.search,
    "/api/ask": api.ask,
    "/api/get": api.get,
    "/api/context": api.context,
    "/api/thread": api.thread,
    "/api/sources": api.sources,
}
_POSTED = {path: ["GET", "POST"] for path in ("/api/context", "/searches", "/verify")}


class _Sites:
    """The sites of one server: that of its own lens, and one for each lens of a person's token."""

    def __init__(self, settings: Settings, seconds: float, lens: str | None) -> None:
        self.own = Site(settings, seconds, lens)
        self._settings, self._seconds, self._lens = settings, seconds, lens
        self._sites = {lens: self.own}

    def of(self, request: Request) -> Site:
        """The site that answers a request."""
        of_person = self._settings.lens_of_others if LENS_OF in request.scope else None
        name = request.scope.get(LENS_OF) or self._lens or of_person
        if name not in self._sites:
            self._sites[name] = Site(self._settings, self._seconds, name)
        return self._sites[name]

    def close(self) -> None:
        """End the processes and readers of all sites."""
        for site in self._sites.values():
            site.pool.close()
            site.readers.close()


def web_app(
    settings: Settings,
    hosts: Collection[str] = (),
    token: str | None = None,
    lens: str | None = None,
    person_header: str = "",
    **limits: float,
) -> Starlette:
    """The application for these settings.

    It answers under the names of the loopback interface, the address that a request comes in at,
    and `hosts`; with a `token`, or with tokens of persons, to those who know one alone. From a
    proxy, `person_header` names the person (see `PersonRequired`). A question that takes longer
    than the limit `seconds` is given up, a request whose body takes longer than `body_seconds` is
    refused. Under a `lens`, that of the person's token if it has one, only its texts are shown.
    """
    sites = _Sites(settings, limits.get("seconds", SECONDS), lens)

    async def help_page(request: Request) -> Response:
        site = sites.of(request)
        shown = await site.answered(views.help_page, request)
        return shown if shown.status_code == 200 else views.help_page(site, request, None)

    async def unknown(request: Request, _fault: Exception) -> Response:
        return sites.of(request).refusal(
            request, UnknownIdError("There is no page at this address.")
        )

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        warmed = asyncio.create_task(_warm(sites.own))
        yield
        warmed.cancel()
        sites.close()

    guards = [
        Middleware(OwnPages, hosts=hosts),
        Middleware(SafeHeaders),
        Middleware(PersonRequired, token=token or "", settings=settings, header=person_header),
        Middleware(WholeBody, seconds=limits.get("body_seconds", BODY_SECONDS)),
    ]
    routes = _routes(sites.of)
    routes.append(Route("/help", help_page))
    if find_spec("mcp"):
        assistants = import_module("dagster_project.extras.web.assistants")
        routes.append(Route("/mcp", assistants.Assistants(settings, lens)))
    return Starlette(
        routes=routes,
        middleware=guards,
        exception_handlers={404: unknown},
        lifespan=lifespan,
    )


def _routes(site_of: Callable[[Request], Site]) -> list[BaseRoute]:
    """The routes of all views, each answered by the site of its request, and the files beside."""
    return [
        *(
            Route(path, partial(_answered, site_of, view), methods=_POSTED.get(path, ["GET"]))
            for path, view in _VIEWS.items()
        ),
        Route("/opensearch.xml", lambda request: results.opensearch(site_of(request), request)),
        Route("/favicon.ico", lambda _: FileResponse(FOLDER / "static" / "weft.svg")),
        Route("/openapi.json", api.openapi),
        Mount("/static", StaticFiles(directory=FOLDER / "static")),
    ]


async def _answered(site_of: Callable[[Request], Site], view: View, request: Request) -> Response:
    return await site_of(request).answered(view, request)


async def _warm(site: Site) -> None:
    """Ask once, so that whoever asks first does not wait until the model and the arrays are loaded."""
    with suppress(WeftError, TimeoutError):
        await site.pool.ask(lambda index: index.search(["?"]), site.seconds)
