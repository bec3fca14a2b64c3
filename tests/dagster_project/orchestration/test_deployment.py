"""The files of docs/deploy: systemd takes the units, their commands exist, Dagster keeps its state in PostgreSQL."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path

import click
import dagster as dg
import pytest
import yaml
from packaging.specifiers import SpecifierSet

from dagster_project.cli.command import run
from dagster_project.cli.main import main
from dagster_project.orchestration.retention import prune_runs
from dagster_project.resources.evaluation.evaluate import open_index
from dagster_project.resources.publish.versions import CURRENT
from tests.archives import Mail, Workspace, differences, embedded

DEPLOY = Path(__file__).parents[3] / "docs" / "deploy"
BIN = Path(sys.executable).parent
UNITS = sorted(p.name for p in DEPLOY.iterdir() if p.suffix in (".service", ".timer"))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd on this machine")
def test_systemd_finds_no_fault_in_the_units(tmp_path: Path):
    for name in UNITS:
        (tmp_path / name).write_text((DEPLOY / name).read_text().replace("/opt/weft/.venv/bin", str(BIN)))
    done = subprocess.run(
        ["systemd-analyze", "verify", *(tmp_path / name for name in UNITS)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def parsed(command: str, arguments: list[str]) -> click.Context:
    """A command line as the installed program of that name understands it, without running it; ClickException if not."""
    (script,) = metadata.entry_points(group="console_scripts", name=command)
    program = script.load()
    root = main if program is run else program.__globals__["cli"]
    found: click.Command | None = root
    while isinstance(found, click.Group):
        command, *arguments = arguments
        found = found.get_command(click.Context(found), command)
    assert found is not None
    return found.make_context(command, list(arguments))


@pytest.mark.parametrize("name", [n for n in UNITS if n.endswith(".service")])
def test_the_commands_of_the_units_exist_and_take_their_options(name: str):
    lines = [line.partition("=") for line in (DEPLOY / name).read_text().splitlines()]
    (command,) = (value for key, _, value in lines if key == "ExecStart")
    program, *arguments = command.split()
    assert (BIN / Path(program).name).exists()
    there = [str(DEPLOY / "workspace.yaml") if a.endswith("workspace.yaml") else a for a in arguments]
    assert parsed(Path(program).name, there).params


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Containerfile, each with its argument, lines that go on put together."""
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def test_the_container_is_made_of_files_and_extras_that_exist():
    copied = [file for name, rest in instructions() if name == "COPY" for file in rest.split()[:-1]]
    assert {"transforms", "assets", "dagster_project", "constraints.txt"} <= set(copied)
    assert [file for file in copied if not (DEPLOY.parents[1] / file).exists()] == []
    project = tomllib.loads((DEPLOY.parents[1] / "pyproject.toml").read_text())["project"]
    assert project["readme"] in copied
    (installed,) = (rest for name, rest in instructions() if name == "RUN" and "pip install" in rest)
    (extras,) = re.findall(r'"\.\[([a-z0-9,]+)\]"', installed)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    (base,) = (rest for name, rest in instructions() if name == "FROM")
    version = re.search(r"python:([0-9.]+)", base)
    assert version and version[1] in SpecifierSet(project["requires-python"])


@pytest.mark.parametrize("given", [None, ["ui"], ["search", "torn record"]], ids=str)
def test_the_container_runs_commands_that_exist(given: list[str] | None):
    said = dict(instructions())
    (program,) = json.loads(said["ENTRYPOINT"])
    context = parsed(program, json.loads(said["CMD"]) if given is None else given)
    assert context.command.name == (given or ["build"])[0]
    assert "WEFT_CONFIG=/etc/weft/weft.toml" in said["ENV"]


def test_the_configuration_for_postgres_differs_in_storage_alone():
    shipped = yaml.safe_load((DEPLOY.parents[1] / "dagster_project" / "dagster.yaml").read_text())
    ours = yaml.safe_load((DEPLOY / "dagster-postgres.yaml").read_text())
    assert ours.pop("storage")
    kept = {key: value for key, value in shipped.items() if not key.endswith("_storage")}
    assert ours == kept


@pytest.fixture
def postgres(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A PostgreSQL of its own on the loopback interface, named in the environment."""
    pytest.importorskip("dagster_postgres", reason="dagster-postgres is not installed")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL server on this machine")
    if os.getuid() == 0 and "postgres" not in {user.pw_name for user in pwd.getpwall()}:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    folder = (
        Path("/var/tmp") / tmp_path_factory.mktemp("postgres").parent.name / f"weft-postgres-{os.getpid()}"
    )
    folder.mkdir(parents=True)
    user = "postgres" if os.getuid() == 0 else None
    if user:
        shutil.chown(folder, user)

    def run(program: str, *arguments: str) -> None:
        command = [str(found[-1].parent / program), "-D", str(folder / "data"), *arguments]
        subprocess.run(
            command, check=True, cwd=folder, user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run("initdb", "--username=weft", "--auth=trust", "--encoding=UTF8", "--no-sync")
    run("pg_ctl", "--wait", "-o", f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -F", "start")
    for name, value in (
        ("HOST", "127.0.0.1"),
        ("USER", "weft"),
        ("PASSWORD", "none"),
        ("DATABASE", "postgres"),
    ):
        monkeypatch.setenv(f"WEFT_PG_{name}", value)
    monkeypatch.setenv("WEFT_PG_PORT", str(port))
    try:
        yield
    finally:
        run("pg_ctl", "--mode=immediate", "stop")
        shutil.rmtree(folder)


@pytest.mark.exhaustive
def test_dagster_keeps_its_state_in_postgres(
    postgres: None, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home = tmp_path / "home"
    home.mkdir()
    port = {"port": int(os.environ["WEFT_PG_PORT"])}
    configured = yaml.safe_load((DEPLOY / "dagster-postgres.yaml").read_text())
    configured["storage"]["postgres"]["postgres_db"] |= port
    (home / "dagster.yaml").write_text(yaml.safe_dump(configured))
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    workspace.write("dev.2004-01.mbox", [Mail(1)])
    assert workspace.build().published
    with workspace.instance() as instance:
        assert type(instance.event_log_storage).__name__ == "PostgresEventLogStorage"
        assert instance.get_materialized_partitions(dg.AssetKey("messages")) == {"dev/dev.2004-01"}
        assert prune_runs(instance, 30) == 0
    assert list(home.rglob("*.db")) == []


@pytest.mark.exhaustive
def test_a_backup_of_sources_vectors_and_one_version_is_searched_at_once_and_built_without_embedding(
    built_once: Workspace, tmp_path: Path
):
    """Restored as docs/operations.md says."""
    left_out = shutil.ignore_patterns(
        "lake", "dagster", "*.arrays", "CURRENT", "files.json", "seen.json", ".*"
    )
    shutil.copytree(built_once.folder, tmp_path / "restored", ignore=left_out)
    restored = Workspace(tmp_path / "restored")
    (version,) = restored.index.iterdir()
    (restored.index / CURRENT).symlink_to(version.name)
    with closing(open_index(restored.settings)) as index:
        assert index.search(["compactor"]).hits.num_rows
    assert embedded(restored.build()) == 0
    assert differences(restored.index, built_once.index) == {}
