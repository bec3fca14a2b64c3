"""Writes docs/images/first-minute.svg: a terminal in which the first minute of README.md was run, on a copy of the sample.

python docs/recording.py
"""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

FOLDER = Path(__file__).parent
COMMANDS = (
    "weft build --config sample/weft.toml",
    'weft search --config sample/weft.toml --limit 2 "torn WAL record after a thunderstorm"',
    'weft sql --config sample/weft.toml "SELECT subject, message_count FROM threads ORDER BY 2 DESC, 1 LIMIT 3"',
)
_FONTS = re.compile(r"@font-face \{.*?\}", re.S)
"""Fonts that a viewer would fetch from another host."""


def recording(columns: int = 120) -> str:
    """The picture of the commands, of all that they print, and of the seconds that each took."""
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        sample = FOLDER.parent / "data" / "sample"
        shutil.copytree(sample, Path(folder, "sample"), ignore=shutil.ignore_patterns("state"))
        environment = os.environ | {"COLUMNS": str(columns), "PYTHONWARNINGS": "ignore"}
        for command in COMMANDS:
            program = Path(sys.executable).with_name("weft")
            began = time.monotonic()
            run = subprocess.run(
                [program, *shlex.split(command)[1:]], cwd=folder, env=environment, check=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            console.print(f"$ {command}", style="bold", markup=False, highlight=False)
            console.print(Text.from_ansi(run.stdout.replace(folder, "~")))
            console.print(f"({time.monotonic() - began:.1f} s)\n", style="dim", highlight=False)
    return _FONTS.sub("", console.export_svg(title="Weft: the first minute", unique_id="first-minute"))


if __name__ == "__main__":
    place = FOLDER / "images" / "first-minute.svg"
    place.write_text("\n".join(map(str.rstrip, recording().splitlines())) + "\n", encoding="utf-8")
