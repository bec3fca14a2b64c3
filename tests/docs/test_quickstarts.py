"""Each quickstart, command by command, in a home folder with an archive as people have it; tests of
the pages serve.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters

from dagster_project.cli.main import main
from tests.docs.quickstart_homes import HOMES

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.M | re.S)
pytestmark = pytest.mark.exhaustive


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home folder, which is the current one, in the environment of somebody at home."""
    (folder := tmp_path / "home").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    for name, value in (("HOME", str(folder)), ("COLUMNS", "100"), ("TZ", "Europe/London")):
        monkeypatch.setenv(name, value)
    time.tzset()
    yield folder
    monkeypatch.undo()
    time.tzset()


def run(commands: str) -> str:
    """What the commands of a block print, run in this process as a shell reads them; AssertionError
    if one fails.
    """
    shell = ["bash", "-ec", f'weft() {{ printf "%s\\0" "$PWD" "$@"; printf "\\1"; }}\n{commands}']
    printed = ""
    for command in subprocess.run(shell, capture_output=True, text=True, check=True).stdout.split(
        "\1"
    )[:-1]:
        folder, *arguments = command.split("\0")[:-1]
        os.chdir(folder)
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, f"{commands}\n{done.output}"
        printed += done.output
    return printed


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("name", HOMES)
def test_a_quickstart_works_as_it_is_written(name: str, home: Path):
    HOMES[name](home)
    printed = ""
    for language, text in BLOCK.findall((DOCS / f"{name}.md").read_text(encoding="utf-8")):
        if language == "sh":
            printed = run(text.replace("weft serve\n", "weft serve --help\n"))
        elif not text.startswith("claude"):
            for part in re.split(r"…", text):
                assert plain(part).strip() in plain(printed), part
    assert Path("weft.toml").is_file()


def test_the_configuration_of_an_assistant_works(home: Path):
    HOMES["start-assistant"](home)
    run("weft init ~/Notes\nweft build --quiet")
    (written,) = re.findall(
        r"^```json\n(.*?)^```", (DOCS / "start-assistant.md").read_text(), re.S | re.M
    )
    server = json.loads(written.replace("/Users/you", str(home)))["mcpServers"]["weft"]
    started = StdioServerParameters(**server, cwd="/", env=dict(os.environ))

    async def ask() -> str:
        async with Client(started) as client:
            return str(
                await client.call_tool(
                    "search", {"query": "how often should cheap flash be flushed"}
                )
            )

    assert "ADR 1" in anyio.run(ask)
