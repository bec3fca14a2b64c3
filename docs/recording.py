"""Writes docs/images/first-minute.svg: a terminal in which the lines of README.md were pasted, in a
fresh clone.

python docs/recording.py

Left out are what installs a program a second time, what serves until Ctrl-C, and `make test`.
`~/archives` has the mail of a list of the sample.
"""

import io
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

FOLDER = Path(__file__).parent
_LEFT_OUT = ("make test", "uv ", "podman ", "weft serve")
_BLOCKS = re.compile(r"^```(console|text|sql)\n(.*?)^```", re.M | re.S)
_COMMAND = re.compile(r"^(?:make|uv|podman|weft) .*")
_FONTS = re.compile(r"@font-face \{.*?\}", re.S)
"""Fonts that a viewer would fetch from another host."""


def pasted(readme: str) -> list[str]:
    """The commands of the page in their order; a statement of SQL is one of `weft sql`."""
    commands = []
    for kind, block in _BLOCKS.findall(readme):
        if kind == "sql":
            commands.append(
                f'weft sql --config weft/data/sample/weft.toml "{" ".join(block.split())}"'
            )
        else:
            lines = (
                re.sub(r"\s{2,}#.*", "", line)
                for line in block.splitlines()
                if _COMMAND.match(line)
            )
            commands += [line for line in lines if not line.startswith(_LEFT_OUT)]
    return commands


def recording(columns: int = 120) -> str:
    """The picture of the commands, of all that they print, and of the seconds that each took."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as home:
        subprocess.run(["git", "clone", "-q", FOLDER.parent, Path(home, "weft")], check=True)
        shutil.copytree(Path(home, "weft", "data", "sample", "quern-users"), Path(home, "archives"))
        own = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("WEFT_", "VIRTUAL_ENV", "PYTHON"))
        }
        path = f"{home}/weft/.venv/bin:{os.environ['PATH']}"
        environment = own | {
            "COLUMNS": str(columns),
            "PYTHONWARNINGS": "ignore",
            "HOME": home,
            "PATH": path,
        }
        for command in pasted(FOLDER.with_name("README.md").read_text(encoding="utf-8")):
            began = time.monotonic()
            run = subprocess.run(
                ["bash", "-c", command],
                cwd=Path(home, "weft") if command.startswith("make") else home,
                check=True,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            console.print(f"$ {command}", style="bold", markup=False, highlight=False)
            # Mirrors of this machine's package index are of no interest.
            shown = [
                line
                for line in run.stdout.replace(home, "~").splitlines()
                if not line.startswith("WARNING: Location")
            ]
            console.print(Text.from_ansi("\n".join(shown)))
            console.print(f"({time.monotonic() - began:.1f} s)\n", style="dim", highlight=False)
    return _FONTS.sub(
        "", console.export_svg(title="Weft: the first minute", unique_id="first-minute")
    )


if __name__ == "__main__":
    place = FOLDER / "images" / "first-minute.svg"
    place.write_text("\n".join(map(str.rstrip, recording().splitlines())) + "\n", encoding="utf-8")
