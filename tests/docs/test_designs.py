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


def _requirements() -> list[list[str]]:
    """The cells of each row of the tables of requirements: requirement, where, test, otherwise."""
    rows: list[list[str]] = []
    is_inside = False
    for line in (ROOT / "docs/designs.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").replace("\\|", "").split("|")]
        is_heading = cells[0] == "requirement"
        is_inside = is_heading or (is_inside and line.startswith("|"))
        if is_inside and not is_heading and set(cells[0]) != {"-"}:
            rows.append(cells)
    return rows


@pytest.mark.parametrize("row", _requirements(), ids=lambda row: row[0][:60])
def test_each_requirement_names_its_test_or_says_why_it_is_left(row: list[str]):
    assert len(row) == 4, "requirement, where, test, otherwise"
    assert "test_" in row[2] or row[3].startswith("left: "), row


def test_no_requirement_is_listed_twice():
    found = [row[0] for row in _requirements()]
    assert len(found) > 150 and len(set(found)) == len(found)
