"""`weft ui`: Dagster's web server and daemon for the settings of this file."""

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from dagster_project.cli.options import CONFIG, explained
from dagster_project.composition.objects import make_sources
from dagster_project.config.places import CONFIG_VARIABLE
from dagster_project.config.settings import config_path, load_settings
from dagster_project.orchestration.instance import instance_home, open_instance, workspace
from dagster_project.orchestration.partitions import sync_partitions
from dagster_project.servers.listening import listening
from transforms.errors import not_installed


@click.command()
@CONFIG
@click.option(
    "--port", type=int, default=3000, show_default=True, help="Port on the loopback interface."
)
@explained
def ui(config: Path | None, port: int) -> None:
    """Open Dagster's UI for these settings on 127.0.0.1, with the schedule's daemon."""
    settings = load_settings(config)
    if find_spec("dagster_webserver") is None:
        raise not_installed(ImportError(name="dagster_webserver"), "ui")
    # Dagster would start its daemon, a second one beside that of the server which has the port, and
    # stay.
    listening("127.0.0.1", port).close()
    with open_instance(settings) as instance:
        sync_partitions(instance, make_sources(settings).discover())
    # Packages of the current folder must not hide those of Weft that have the same names.
    packages = str(Path(__file__).parents[2])
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(instance_home(settings)),
        CONFIG_VARIABLE: str(config_path(config).resolve()),
        "PYTHONPATH": os.pathsep.join(filter(None, (packages, os.environ.get("PYTHONPATH")))),
        "PYTHONSAFEPATH": "1",
    }
    guarded = [sys.executable, "-m", "dagster_project.servers.guarded_ui", "dev"]
    command = [*guarded, "-w", str(workspace(settings, packages)), "-h", "127.0.0.1"]
    # Dagster ends its own processes by SIGINT; in a session of its own no terminal does.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
    sys.exit(
        subprocess.run(
            [*command, "-p", str(port)], env=environment, start_new_session=True
        ).returncode
    )
