"""Dagster's web server behind `OwnPages`: its GraphQL runs jobs and reads metadata, and asks nobody
who is asking.

`python -m dagster_project.servers.guarded_ui dev …` is `dagster dev …` with that web server; with
other arguments it is the web server itself, `dagster-webserver …`.
"""

import sys
import warnings

from dagster_shared.utils.warnings import SupersessionWarning
from dagster_webserver.cli import main as webserver
from dagster_webserver.webserver import DagsterWebserver
from starlette.middleware import Middleware

from dagster_project.servers.guards import OwnPages
from dagster_project.system.dagster_internals import run_dev


def _main() -> None:
    """Run `dagster dev`, or the web server that it starts."""
    if sys.argv[1:2] == ["dev"]:
        # `dg dev`, which Dagster names in its place, is a package of its own and calls the same
        # function.
        warnings.filterwarnings(
            "ignore", "Function `dev_command` is superseded", SupersessionWarning
        )
        run_dev(sys.argv[2:], "dagster_project.servers.guarded_ui")
    else:
        unguarded = DagsterWebserver.build_middleware
        DagsterWebserver.build_middleware = lambda self: [Middleware(OwnPages), *unguarded(self)]  # type: ignore[method-assign]
        webserver()


if __name__ == "__main__":
    _main()
