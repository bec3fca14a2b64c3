"""`weft eval context` on texts, files and windows whose right answers are known."""

from __future__ import annotations

import json

from click.testing import CliRunner

from dagster_project.cli.main import main
from tests.archives import Workspace

QUERIES = """
queries:
  - id: file
    query: drafts/two.txt
    relevant:
      - {thread: "m0@example.org", grade: 1, topic: compactor}
      - {thread: "m200@example.org", grade: 1, topic: shell}
      - {message: "nosuch@example.org", grade: 1, topic: unknown}
  - id: text
    query: How does the write-ahead log behave when the load doubles?
    relevant:
      - {message: "m100@example.org", grade: 2}
  - id: nonsense
    query: zeppelin mooring mast ballast
    relevant:
      - {message: "m100@example.org", grade: 2}
"""


def test_coverage_precision_and_budget_of_blocks(built: Workspace):
    built.put("queries.yaml", QUERIES)
    built.put(
        "drafts/two.txt", "Which run measured the compactor?\\n\\nHow does the shell behave under load?\\n"
    )
    arguments = [
        "eval",
        "context",
        "--queries",
        str(built.folder / "queries.yaml"),
        "--config",
        str(built.config),
    ]
    report = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    rows = {row["id"]: row for row in report["conversations"]}
    assert rows["file"]["parts"] == 3 and abs(rows["file"]["coverage"] - 2 / 3) < 1e-3
    assert rows["text"]["coverage"] == 1 and 0 < rows["text"]["precision"] <= 1
    assert rows["nonsense"] | {"parts": 1} == {
        "id": "nonsense", "outcome": "NO_HITS", "parts": 1, "coverage": 0, "precision": 0, "budget": 0,
    }  # fmt: skip
    mean = next(row for row in report["means"] if row["measure"] == "coverage")
    assert mean["low"] <= mean["mean"] <= mean["high"]
    assert "coverage" in CliRunner().invoke(main, arguments).stdout
