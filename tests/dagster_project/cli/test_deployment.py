"""The files of docs/deploy: systemd, Compose, Dagster's chart and PostgreSQL take them, and their
commands exist.
"""

import json
import os
import pwd
import re
import shutil
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

from dagster_project.cli.__main__ import run
from dagster_project.cli.main import main
from dagster_project.evaluation.evaluate import open_index
from dagster_project.index.publish.versions import CURRENT
from dagster_project.orchestration.runs import prune_runs
from dagster_project.system.dagster_internals import settings_fault
from tests.archives import Mail, Workspace, differences, embedded
from tests.processes import free_port

DEPLOY = Path(__file__).parents[3] / "docs" / "deploy"
BIN = Path(sys.executable).parent
UNITS = sorted(p.name for p in DEPLOY.iterdir() if p.suffix in (".service", ".timer"))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd on this machine")
def test_systemd_finds_no_fault_in_the_units(tmp_path: Path):
    for name in UNITS:
        (tmp_path / name).write_text(
            (DEPLOY / name).read_text().replace("/opt/weft/.venv/bin", str(BIN))
        )
    done = subprocess.run(
        ["systemd-analyze", "verify", *(tmp_path / name for name in UNITS)],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def parsed(command: str, arguments: list[str]) -> click.Context:
    """A command line as the installed program of that name understands it, without running it;
    ClickException if not.
    """
    (script,) = metadata.entry_points(group="console_scripts", name=command)
    program = script.load()
    root = main if program is run else program.__globals__["cli"]
    found: click.Command | None = root
    while isinstance(found, click.Group) and not arguments[0].startswith("-"):
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
    there = [
        str(DEPLOY / "workspace.yaml") if a.endswith("workspace.yaml") else a for a in arguments
    ]
    assert parsed(Path(program).name, there).params


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Containerfile, each with its argument, lines that go on put together."""
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def test_the_container_is_made_of_files_and_extras_that_exist():
    copied = [file for name, rest in instructions() if name == "COPY" for file in rest.split()[:-1]]
    assert {"transforms", "assets", "dagster_project", "weft", "constraints.txt"} <= set(copied)
    assert [file for file in copied if not (DEPLOY.parents[1] / file).exists()] == []
    project = tomllib.loads((DEPLOY.parents[1] / "pyproject.toml").read_text())["project"]
    assert project["readme"] in copied
    (installed,) = (
        rest for name, rest in instructions() if name == "RUN" and "pip install" in rest
    )
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


COMPOSED = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICE = {
    "image",
    "build",
    "entrypoint",
    "command",
    "environment",
    "env_file",
    "volumes",
    "ports",
    "depends_on",
    "healthcheck",
    "restart",
    "stop_grace_period",
    "profiles",
}
"""What of the Compose specification a service here says."""


def test_the_compose_file_says_what_the_specification_knows_and_names_what_is_there():
    assert set(COMPOSED) - {"x-weft"} == {"name", "services", "volumes"}
    for name, service in COMPOSED["services"].items():
        assert set(service) <= SERVICE, name
        assert set(service.get("depends_on", ())) <= set(COMPOSED["services"])
        for mount in service["volumes"]:
            outside = mount.split(":")[0]
            known = (
                outside in COMPOSED["volumes"]
                or outside == "./weft.toml"
                or (DEPLOY / outside).is_file()
            )
            assert known, mount
        if build := service.get("build"):
            assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
    assert "PASSWORD" not in str(COMPOSED), "secrets come from a file of their own"
    variables = COMPOSED["services"]["code"]["environment"]
    # Runs write in DAGSTER_HOME: a folder of a mounted file alone would be root's, and its volume
    # is as the image has it.
    owned = f"--owner weft {variables['DAGSTER_HOME']} /etc/weft/searches "
    assert owned in f"{dict(instructions()[:2])['RUN']} " and "searches:/etc/weft/searches" in str(
        COMPOSED
    )
    named = set(re.findall(r"env: (WEFT_\w+)", (DEPLOY / "dagster-postgres.yaml").read_text()))
    assert named - set(variables) == {"WEFT_PG_PASSWORD"}


@pytest.mark.parametrize("name", ["code", "daemon", "webserver", "pages"])
def test_the_commands_of_the_compose_file_exist_and_find_the_code(name: str):
    service = COMPOSED["services"][name]
    place = str(DEPLOY / "workspace-compose.yaml")
    given = [place if part == "/etc/weft/workspace.yaml" else part for part in service["command"]]
    assert parsed(service["entrypoint"][0], given).params
    assert f"{place.rpartition('/')[2]}:/etc/weft/workspace.yaml" in str(service["volumes"])
    (found,) = yaml.safe_load(Path(place).read_text())["load_from"]
    code = COMPOSED["services"]["code"]["command"]
    assert found["grpc_server"]["host"] in COMPOSED["services"]
    assert str(found["grpc_server"]["port"]) == code[code.index("--port") + 1]


CHART: dict[str, object] = {
    "global": {"postgresqlSecretName": str},
    "generatePostgresqlPasswordSecret": bool,
    "postgresql": {
        "enabled": bool,
        "postgresqlHost": str,
        "postgresqlUsername": str,
        "postgresqlDatabase": str,
        "postgresqlScheme": str,
        "service": {"port": int},
    },
    "dagster-user-deployments": {"enabled": bool, "deployments": list},
    "runLauncher": {
        "type": str,
        "config": {
            "k8sRunLauncher": {
                "imagePullPolicy": str,
                "loadInclusterConfig": bool,
                "runK8sConfig": dict,
            }
        },
    },
    "concurrency": {
        "enabled": bool,
        "pools": {"granularity": str, "defaultLimit": int},
        "runs": {"maxConcurrentRuns": int, "tagConcurrencyLimits": list},
    },
    "dagsterDaemon": {"runCoordinator": {"enabled": bool}, "runMonitoring": dict},
    "retention": {
        "enabled": bool,
        "schedule": {"purgeAfterDays": dict},
        "sensor": {"purgeAfterDays": dict},
    },
    "telemetry": {"enabled": bool},
}
"""Of the keys of Dagster's chart (helm/dagster/values.schema.json) those that the values file may
use, with their types.
"""
OF_DEPLOYMENT = {
    "name",
    "image",
    "dagsterApiGrpcArgs",
    "port",
    "includeConfigInLaunchedRuns",
    "env",
    "envSecrets",
    "volumes",
    "volumeMounts",
    "podSecurityContext",
    "resources",
}


def unknown(values: dict[str, object], chart: dict[str, object]) -> Iterator[str]:
    """The keys that a chart does not know, or knows with another type."""
    for key, value in values.items():
        kind = chart.get(key)
        if isinstance(kind, dict) and isinstance(value, dict):
            yield from (f"{key}.{below}" for below in unknown(value, kind))
        elif not (isinstance(kind, type) and isinstance(value, kind)):
            yield key


def snaked(value: object) -> object:
    """A part of the chart's values as Dagster spells its keys."""
    if isinstance(value, dict):
        return {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", k).lower(): snaked(v) for k, v in value.items()}
    return value


@pytest.mark.exhaustive
def test_the_values_for_helm_are_those_of_dagsters_chart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    values = yaml.safe_load((DEPLOY / "helm-values.yaml").read_text())
    assert list(unknown(values, CHART)) == []
    (deployed,) = values["dagster-user-deployments"]["deployments"]
    assert set(deployed) <= OF_DEPLOYMENT
    assert parsed(
        "dagster", ["api", "grpc", *deployed["dagsterApiGrpcArgs"], "--port", str(deployed["port"])]
    ).params
    assert {mount["name"] for mount in deployed["volumeMounts"]} == {
        volume["name"] for volume in deployed["volumes"]
    }
    said = dict(instructions())
    assert f"WEFT_CONFIG={deployed['env'][0]['value']}" in said["ENV"]
    users = {deployed["podSecurityContext"]["runAsUser"]}
    users.add(
        values["runLauncher"]["config"]["k8sRunLauncher"]["runK8sConfig"]["podSpecConfig"][
            "securityContext"
        ]["runAsUser"]
    )
    assert f"--uid {users.pop()} " in str(instructions()) and not users
    assert "--version " + metadata.version("dagster") in (DEPLOY / "helm-values.yaml").read_text()

    # What the chart makes of them is what Dagster takes, and limits runs as the file for one
    # machine does.
    pytest.importorskip("dagster_k8s", reason="dagster-k8s is not installed")
    launcher, daemon = values["runLauncher"]["config"]["k8sRunLauncher"], values["dagsterDaemon"]
    concurrency = {part: snaked(values["concurrency"][part]) for part in ("pools", "runs")}
    assert not daemon["runCoordinator"]["enabled"]
    made = {
        "storage": {
            "postgres": {
                "postgres_db": {
                    "username": "weft",
                    "password": {"env": "WEFT_PG_PASSWORD"},
                    "hostname": "h",
                    "db_name": "weft",
                    "port": 5432,
                    "scheme": values["postgresql"]["postgresqlScheme"],
                }
            }
        },
        "run_launcher": {
            "module": "dagster_k8s",
            "class": values["runLauncher"]["type"],
            "config": {
                "load_incluster_config": launcher["loadInclusterConfig"],
                "image_pull_policy": launcher["imagePullPolicy"],
                "service_account_name": "dagster",
                "dagster_home": {"env": "DAGSTER_HOME"},
                "instance_config_map": "i",
                "postgres_password_secret": "weft-postgres",
                "run_k8s_config": snaked(launcher["runK8sConfig"]),
            },
        },
        "concurrency": concurrency,
        "run_monitoring": snaked(daemon["runMonitoring"]),
        "retention": {name: snaked(values["retention"][name]) for name in ("schedule", "sensor")},
        "telemetry": values["telemetry"],
    }
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(made))
    monkeypatch.setenv("WEFT_PG_PASSWORD", "none")
    assert settings_fault(tmp_path) is None
    ours = yaml.safe_load((DEPLOY / "dagster-postgres.yaml").read_text())
    assert (
        made["retention"] == ours["retention"] and made["run_monitoring"] == ours["run_monitoring"]
    )
    assert concurrency == ours["concurrency"]


def found(work: Workspace) -> dict[str, list[str]]:
    """What `weft doctor --deployment` says of a workspace, by state."""
    said = work.weft("doctor", "--deployment", "--json")
    findings = json.loads(said.stdout.splitlines()[0])
    assert said.exit_code == (7 if any(f["state"] == "fault" for f in findings) else 0), said.output
    assert all(f["remedy"] for f in findings if f["state"] != "ok")
    return {
        s: [f["found"] for f in findings if f["state"] == s] for s in ("ok", "warning", "fault")
    }


def test_the_doctor_says_what_a_deployment_of_one_machine_lacks(
    built: Workspace, monkeypatch: pytest.MonkeyPatch
):
    said = found(built)
    assert "in files of this machine" in said["fault"][0] and len(said["fault"]) == 1
    assert [w.partition(",")[0] for w in said["warning"]] == [
        "every run is a process beside the code server",
        "the lake is a folder",
    ]
    home = built.folder / "home"
    home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    assert "dagster.yaml cannot be read" in found(built)["fault"][0]
    configured = (DEPLOY / "dagster-postgres.yaml").read_text()
    (home / "dagster.yaml").write_text(configured.replace("{ env: WEFT_PG_PASSWORD }", "hunter2"))
    for name in ("HOST", "USER", "PASSWORD", "DATABASE"):
        monkeypatch.delenv(f"WEFT_PG_{name}", raising=False)
    faults = found(built)["fault"]
    assert "WEFT_PG_HOST, WEFT_PG_USER, WEFT_PG_DATABASE" in faults[0]
    assert faults[1] == "dagster.yaml holds a password"
    assert "hunter2" not in str(faults)


def test_the_configuration_for_postgres_differs_in_storage_alone():
    shipped = yaml.safe_load((DEPLOY.parents[1] / "dagster_project" / "dagster.yaml").read_text())
    ours = yaml.safe_load((DEPLOY / "dagster-postgres.yaml").read_text())
    assert ours.pop("storage")
    kept = {key: value for key, value in shipped.items() if not key.endswith("_storage")}
    assert ours == kept


@pytest.fixture
def postgres(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A PostgreSQL of its own on the loopback interface, named in the environment."""
    pytest.importorskip("dagster_postgres", reason="dagster-postgres is not installed")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL server on this machine")
    if os.getuid() == 0 and "postgres" not in {user.pw_name for user in pwd.getpwall()}:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    folder = (
        Path("/var/tmp")
        / tmp_path_factory.mktemp("postgres").parent.name
        / f"weft-postgres-{os.getpid()}"
    )
    folder.mkdir(parents=True)
    user = "postgres" if os.getuid() == 0 else None
    if user:
        shutil.chown(folder, user)

    def run(program: str, *arguments: str) -> None:
        command = [str(found[-1].parent / program), "-D", str(folder / "data"), *arguments]
        subprocess.run(
            command,
            check=True,
            cwd=folder,
            user=user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    port = free_port()
    run("initdb", "--username=weft", "--auth=trust", "--encoding=UTF8", "--no-sync")
    run(
        "pg_ctl", "--wait", "-o", f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -F", "start"
    )
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
    assert "Dagster keeps its state in PostgreSQL, which has" in str(found(workspace)["ok"])
    with workspace.instance() as instance:
        assert type(instance.event_log_storage).__name__ == "PostgresEventLogStorage"
        assert instance.get_materialized_partitions(dg.AssetKey("messages")) == {"dev/2004-01"}
        assert prune_runs(instance) == 0
    assert list(home.rglob("*.db")) == []


@pytest.mark.exhaustive
def test_a_backup_of_sources_vectors_and_one_version_is_searched_at_once_and_built_without_embedding(
    built_once: Workspace, tmp_path: Path
):
    """Restored as docs/operations.md says."""
    left_out = shutil.ignore_patterns(
        "lake", "dagster", "*.arrays", "CURRENT", "state.sqlite", ".*"
    )
    shutil.copytree(built_once.folder, tmp_path / "restored", ignore=left_out)
    restored = Workspace(tmp_path / "restored")
    (version,) = restored.index.iterdir()
    (restored.index / CURRENT).symlink_to(version.name)
    with closing(open_index(restored.settings)) as index:
        assert index.search(["compactor"]).hits.num_rows
    assert embedded(restored.build()) == 0
    assert differences(restored.index, built_once.index) == {}
