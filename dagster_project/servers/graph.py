"""Serving the exported graph: static files with ranges, ETags, caching headers and CORS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from transforms.errors import IndexUnavailableError
from transforms.graph.hal_export import INDEX

CACHE_CONTROL = "no-cache"
"""Names stay when contents change, so a copy may be kept but is asked about: an unchanged file costs a 304."""
_EXPOSED = ("Accept-Ranges", "Content-Length", "Content-Range", "ETag", "Last-Modified")


def graph_app(folder: Path) -> Starlette:
    """The ASGI application that serves the graph in `folder` to pages of any origin, read-only.

    IndexUnavailableError if nothing is exported there.
    """
    if not (folder / INDEX).is_file():
        raise IndexUnavailableError(
            f"no graph is exported in {folder}: set `enabled = true` in [graph] and run `weft build`"
        )
    cors = Middleware(
        CORSMiddleware,
        allow_origins=["*"],
        allow_methods=["GET", "HEAD"],
        allow_headers=["Range", "If-None-Match", "If-Range", "If-Modified-Since"],
        expose_headers=_EXPOSED,
    )
    app = Starlette(middleware=[cors])
    app.mount("/", _GraphFiles(directory=folder))
    return app


class _GraphFiles(StaticFiles):
    """Static files whose answers say how they may be kept."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """The answer for one file, or that it has not changed."""
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = CACHE_CONTROL
        return response
