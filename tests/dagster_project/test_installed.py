"""The wheel in an environment of its own, used in a folder whose packages have the names of Weft's."""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.archives import Mail, mbox
from tests.dagster_ui import Server, answered
from tests.processes import free_port
from tests.timing import HUNG

ROOT = Path(__file__).parents[2]
PACKAGES = ("assets", "transforms", "dagster_project", "docs")
NOT_BUILT = (".venv", ".git", "state", "build", "*.egg-info", "*_cache", "__pycache__")

pytestmark = pytest.mark.exhaustive


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints on both streams; AssertionError unless it ends well."""
    done = subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=HUNG
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def environment() -> dict[str, str]:
    """The environment of somebody who has just installed Weft."""
    own = ("WEFT_", "DAGSTER_", "PYTHON", "VIRTUAL_ENV")
    return {k: v for k, v in os.environ.items() if not k.startswith(own)}


@pytest.fixture(scope="module")
def weft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of a wheel that was built of a copy of the repository, so that nothing is left in
    it.

    Other packages are those of the environment of the tests; `tests/test_house.py` looks whether
    Weft asks for them.
    """
    folder = tmp_path_factory.mktemp("installed")
    copy = shutil.copytree(ROOT, folder / "copy", ignore=shutil.ignore_patterns(*NOT_BUILT))
    python = folder / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "-q", "--no-deps", "-w", folder, copy, cwd=folder)
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    (wheel,) = folder.glob("weft-*.whl")
    assert [name for name in zipfile.ZipFile(wheel).namelist() if "tests" in name.split("/")] == []
    run(*pip, "--python", python, "install", "-q", "--no-deps", "--no-index", wheel, cwd=folder)
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    shutil.rmtree(copy)
    return python.with_name("weft")


@pytest.fixture(scope="module")
def folder(weft: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an archive, an index of it, and packages that must never be imported."""
    folder = tmp_path_factory.mktemp("anywhere")
    for name in PACKAGES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(
            "raise SystemExit('the package of the folder was imported')\n"
        )
    (folder / "archive").mkdir()
    mails = [
        Mail(1, "The compactor merges sorted runs.", "Compaction"),
        Mail(2, "It waits.", reply_to=1),
    ]
    (folder / "archive" / "dev.2004-01").write_bytes(mbox(mails))
    assert "source dev: mbox at archive/*" in run(
        weft, "init", "--name", "dev", "archive", cwd=folder
    )
    assert "Published version" in run(weft, "build", cwd=folder)
    return folder


@contextlib.contextmanager
def running(weft: Path, folder: Path, *arguments: str) -> Iterator[None]:
    """A server that ends by SIGTERM, with what it printed in its faults."""
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            [weft, *arguments], cwd=folder, env=environment(), stdout=log, stderr=log
        )
        try:
            yield
        except AssertionError as error:
            raise AssertionError((folder / "server.log").read_text()[-4000:]) from error
        finally:
            process.terminate()
            assert process.wait(HUNG) in (143, -15, 0)


def test_a_commit_gives_the_same_wheel_twice(tmp_path: Path):
    """Whenever and wherever it is built: times and modes of the files do not get into it."""
    metadata, digests = set(), set()
    for name, mode, seconds in (("one", 0o644, 10**9), ("other", 0o640, 2 * 10**9)):
        copy = shutil.copytree(
            ROOT, tmp_path / name / "copy", ignore=shutil.ignore_patterns(*NOT_BUILT)
        )
        for file in copy.rglob("*"):
            if file.is_file():
                file.chmod(mode)
                os.utime(file, (seconds, seconds))
        made = subprocess.run(
            ("git", "init", "-q", copy), capture_output=True, text=True, timeout=HUNG
        )
        assert made.returncode == 0, made.stderr
        git = ("git", "-C", str(copy), "-c", "user.name=Ann", "-c", "user.email=ann@example.org")
        date = {"GIT_AUTHOR_DATE": "@1700000000 +0000", "GIT_COMMITTER_DATE": "@1700000000 +0000"}
        for arguments in (("add", "-A", "-f"), ("commit", "-q", "--no-gpg-sign", "-m", "All")):
            subprocess.run((*git, *arguments), check=True, env=environment() | date, timeout=HUNG)
        venv = copy / ".venv"
        (venv / "bin").mkdir(parents=True)
        (venv / "bin" / "python").symlink_to(sys.executable)
        (venv / ".installed").touch()
        run("make", "-C", copy, "wheel", cwd=tmp_path)
        (wheel,) = (copy / "dist").glob("*.whl")
        digests.add(hashlib.sha256(wheel.read_bytes()).hexdigest())
        with zipfile.ZipFile(wheel) as opened:
            (head,) = (n for n in opened.namelist() if n.endswith(".dist-info/METADATA"))
            metadata.add(opened.read(head).decode())
            assert "weft/py.typed" in opened.namelist()
    assert len(digests) == 1
    (head,) = metadata
    assert "Typing :: Typed" in head and "Description-Content-Type: text/markdown" in head
    assert "# Weft" in head and "Requires-Python: >=3.11" in head


def test_search_and_help_need_nothing_of_the_repository(weft: Path, folder: Path):
    found = json.loads(run(weft, "search", "compactor", "--json", cwd=folder))
    assert "m1@example.org" in json.dumps(found)
    assert run(weft, "help", "exit-codes", cwd=folder).startswith("## Exit codes")
    assert "| 143 |" in run(weft, "help", "operations", cwd=folder)
    run(weft, "doctor", cwd=folder)


def test_pages_their_styles_and_the_api_are_served(weft: Path, folder: Path):
    address = f"http://127.0.0.1:{(port := free_port())}"

    def text(path: str) -> str:
        with urllib.request.urlopen(address + path, timeout=HUNG) as answer:
            return str(answer.read().decode())

    with running(weft, folder, "serve", "--port", str(port)):
        assert "sorted runs" in answered(lambda: text("/?q=compactor"), "the page of a search")
        assert "--" in text("/static/weft.css") and "use strict" in text("/static/weft.js")
        assert "m1@example.org" in text("/api/search?q=compactor")
        assert json.loads(text("/openapi.json"))["openapi"].startswith("3.1")


def test_dagster_loads_weft_and_not_the_folder(weft: Path, folder: Path):
    server = Server(free_port(), folder / "server.log", 0)
    with running(weft, folder, "ui", "--port", str(server.port)):
        assert answered(server.is_loaded, "a server that has loaded Weft")


def test_assistants_are_answered(weft: Path, folder: Path):
    started = StdioServerParameters(
        command=str(weft), args=["mcp"], cwd=str(folder), env=environment()
    )

    async def ask() -> str:
        async with Client(started) as client:
            return str(await client.call_tool("search", {"query": "compactor"}))

    assert "m1@example.org" in anyio.run(ask)
