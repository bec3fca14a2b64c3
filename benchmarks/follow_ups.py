"""What a question that leans on the turns before it finds: as it stands, with the rules of
`queries.rewrite`, and otherwise.

    python benchmarks/follow_ups.py [--folder FOLDER]

Builds the sample, and asks the questions of `follow_ups.yaml`: as they stand, by rules with what
the turns name, behind all of the turns, and as somebody wrote them who knew the sample (the queries
of `data/sample/queries.yaml`). Prints nDCG@10, MRR@10 and Recall@10 of each, with the interval of
the difference to the question as it stands.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from printing import new_parser, new_table
from rich.console import Console

from transforms.retrieval.query_rewriting import by_rules

HERE = Path(__file__).parent
SAMPLE = HERE.parent / "data" / "sample"
MEASURES = ("nDCG@10", "MRR@10", "Recall@10")


def weft(*arguments: str | Path) -> str:
    """What a command prints."""
    command = [str(Path(sys.executable).parent / "weft"), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def asked(conversation: dict[str, Any], written: str) -> dict[str, str]:
    """By way of asking the query of a conversation."""
    turns, query = conversation["turns"], conversation["query"]
    return {
        "as it stands": query,
        "by rules": by_rules(query, turns).used,
        "behind all turns": " ".join([*turns, query]),
        "written by itself": written,
    }


def main() -> None:
    """Build, ask and print."""
    parser = new_parser(__doc__)
    parser.add_argument(
        "--folder", type=Path, help="where the index is kept; default: a temporary folder"
    )
    arguments = parser.parse_args()
    conversations = yaml.safe_load((HERE / "follow_ups.yaml").read_text(encoding="utf-8"))
    graded = yaml.safe_load((SAMPLE / "queries.yaml").read_text(encoding="utf-8"))["queries"]
    graded = [entry for entry in graded if entry["id"] in conversations]
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        shutil.copytree(SAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("state"))
        weft("build", "--quiet", "--config", folder / "weft.toml")
        assert {entry["id"] for entry in graded} == set(conversations), (
            "an id of follow_ups.yaml is none of the sample's"
        )
        found: dict[str, np.ndarray] = {}
        for way in asked({"turns": [], "query": ""}, ""):
            entries = [
                {**entry, "query": asked(conversations[entry["id"]], entry["query"])[way]}
                for entry in graded
            ]
            file = folder / "follow_ups.yaml"
            file.write_text(
                yaml.safe_dump({"queries": entries}, allow_unicode=True), encoding="utf-8"
            )
            found[way] = scores(
                weft(
                    "eval",
                    "run",
                    "--json",
                    "--no-page",
                    "--queries",
                    file,
                    "--config",
                    folder / "weft.toml",
                )
            )
    chance = np.random.default_rng(0)
    table = new_table(
        f"{len(graded)} questions that lean on turns", ["asked", *MEASURES, "nDCG@10, gain", "95 %"]
    )
    for way, values in found.items():
        gains = values[:, 0] - found["as it stands"][:, 0]
        drawn = chance.choice(gains, (10_000, len(gains))).mean(axis=1)
        low, high = np.percentile(drawn, [2.5, 97.5])
        means = [f"{mean:.3f}" for mean in values.mean(axis=0)]
        table.add_row(way, *means, f"{gains.mean():+.3f}", f"{low:+.3f} to {high:+.3f}")
    Console(width=110).print(table)


def scores(printed: str) -> np.ndarray:
    """A row of `MEASURES` for each query of a report of `weft eval run --json`."""
    queries = json.loads(printed)["queries"]
    return np.array(
        [[query["results"]["default"]["measures"][name] for name in MEASURES] for query in queries]
    )


if __name__ == "__main__":
    main()
