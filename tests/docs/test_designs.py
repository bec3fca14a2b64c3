"""Every file and test that the page of the designs names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/designs.md").read_text()


def test_the_tests_that_hold_the_designs_are_there():
    named = re.findall(r"`(tests/[\w/]+/test_\w+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) > 60
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).is_file() or (name and f"def {name}(" not in (ROOT / file).read_text())
    ]
    assert missing == []


def test_the_files_that_fulfil_them_are_there():
    named = {p for p in re.findall(r"`(transforms/[\w/]+(?:\.py|/))`", PAGE) if "/test_" not in p}
    assert len(named) > 15
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
