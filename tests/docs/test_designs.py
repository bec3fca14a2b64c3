"""Every file and test that the page of the designs names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("named", "most"),
    [
        (r"(?:tests|dagster_project/extras/\w+/tests)/[\w/]*test_\w+\.py", 60),
        (r"\w+/[\w/]+(?:\.py|/)", 60),
    ],
)
def test_what_fulfils_the_designs_and_the_tests_that_hold_them_are_there(named: str, most: int):
    found = re.findall(rf"`({named})(?:::(\w+))?`", (ROOT / "docs/designs.md").read_text())
    there = {file for file, _ in found if (ROOT / file).exists()}
    assert len(found) > most and {file for file, _ in found} == there
    assert [(f, n) for f, n in found if n and f"def {n}(" not in (ROOT / f).read_text()] == []
