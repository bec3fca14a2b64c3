"""Each quickstart, command by command, in a home folder with an archive as people have it; tests of the pages serve."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.docs.quickstart_homes import HOMES
from tests.timing import HUNG

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.M | re.S)
pytestmark = pytest.mark.exhaustive


def environment(home: Path) -> dict[str, str]:
    """The environment of somebody at home who has installed Weft."""
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "DAGSTER_"))}
    return {**kept, "HOME": str(home), "PATH": programs, "COLUMNS": "100", "TZ": "Europe/London"}


def run(commands: str, home: Path, folder: Path) -> tuple[str, Path]:
    """What the commands of a block print, and the folder they end in; AssertionError if one of them fails."""
    script = f"set -e\n{commands}\npwd > ~/.folder\n"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=HUNG,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr, Path((home / ".folder").read_text().strip())


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("name", HOMES)
def test_a_quickstart_works_as_it_is_written(name: str, tmp_path: Path):
    home = folder = tmp_path / "home"
    home.mkdir()
    HOMES[name](home)
    printed = ""
    for language, text in BLOCK.findall((DOCS / f"{name}.md").read_text(encoding="utf-8")):
        if language == "sh":
            printed, folder = run(text.replace("weft serve\n", "weft serve --help\n"), home, folder)
        elif not text.startswith("claude"):
            for part in re.split(r"…", text):
                assert plain(part).strip() in plain(printed), part
    assert (folder / "weft.toml").is_file()


def test_the_configuration_of_an_assistant_works(tmp_path: Path):
    HOMES["start-assistant"](tmp_path)
    run("weft init ~/Notes\nweft build --quiet", tmp_path, tmp_path)
    (written,) = re.findall(r"^```json\n(.*?)^```", (DOCS / "start-assistant.md").read_text(), re.S | re.M)
    server = json.loads(written.replace("/Users/you", str(tmp_path)))["mcpServers"]["weft"]
    started = StdioServerParameters(**server, cwd="/", env=environment(tmp_path))

    async def ask() -> str:
        async with Client(started) as client:
            return str(await client.call_tool("search", {"query": "how often should a device flush"}))

    assert "ADR 1" in anyio.run(ask)
