"""The skill that tells an agent when to ask Weft, how to cite, and what an answer without hits means."""

from pathlib import Path

NAME = "weft"


def write_skill(folder: Path) -> Path:
    """Write the skill into a folder of skills, in place of an earlier one; the path of its file is returned."""
    file = folder / NAME / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(Path(__file__).with_name("skill.md").read_bytes())
    return file
