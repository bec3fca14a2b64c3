"""Dagster's web server behind `OwnPages`: its GraphQL runs jobs and reads metadata, and asks nobody who is asking.

`python -m dagster_project.servers.guarded_ui dev …` is `dagster dev …` with that web server; with other arguments it is
the web server itself, `dagster-webserver …`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

from dagster._cli import dev
from dagster_shared.utils.warnings import SupersessionWarning
from dagster_webserver.cli import main as webserver
from dagster_webserver.webserver import DagsterWebserver
from starlette.middleware import Middleware

from dagster_project.servers.own_pages import OwnPages

_UNGUARDED, _GUARDED = "dagster_webserver", "dagster_project.servers.guarded_ui"


def main() -> None:
    """Run `dagster dev`, or the web server that it starts."""
    if sys.argv[1:2] == ["dev"]:
        started = dev.open_ipc_subprocess

        def with_guard(parts: Sequence[str], **more: Any) -> Any:
            return started([_GUARDED if part == _UNGUARDED else part for part in parts], **more)

        dev.open_ipc_subprocess = with_guard  # `dagster dev` has no option for another web server
        # `dg dev`, which Dagster names in its place, is a package of its own and calls the same function.
        warnings.filterwarnings("ignore", "Function `dev_command` is superseded", SupersessionWarning)
        dev.dev_command(sys.argv[2:], prog_name="dagster dev")
    else:
        unguarded = DagsterWebserver.build_middleware
        DagsterWebserver.build_middleware = lambda self: [Middleware(OwnPages), *unguarded(self)]  # type: ignore[method-assign]
        webserver()


if __name__ == "__main__":
    main()
