"""docs/scale.md: its figures follow from its rates, and its steps run one after the other."""

import importlib.util
import json
import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.archives import Workspace, two_lists

PAGE = (Path(__file__).parents[1] / "docs" / "scale.md").read_text()
FIGURES = Path(__file__).parents[1] / "docs" / "measurements" / "scale.json"
MILLIONS = (1, 10, 100)


def rows(head: str) -> dict[str, list[float]]:
    """The numbers of each row of the table whose first cell is `head`."""
    lines = (
        PAGE.partition(f"\n| {head} |".replace("  ", " "))[2].partition("\n\n")[0].splitlines()[2:]
    )
    cells = [line.strip("| ").split(" | ") for line in lines]
    return {name: [float(value.replace(",", "")) for value in values] for name, *values in cells}


@pytest.mark.parametrize(
    ("head", "unit"), [("a first build, static model", 1 / 3600 * 1e3), ("bytes", 1.0)]
)
def test_the_figures_are_the_rates_multiplied(head: str, unit: float):
    table = rows(head)
    assert len(table) > 5
    for name, (rate, *values) in table.items():
        # Rates are shown in two digits after the point, and were multiplied before they were cut.
        slack = 0.005 if head != "bytes" else 0.05
        for millions, value in zip(MILLIONS, values, strict=True):
            least, most = ((rate + sign * slack) * millions * unit for sign in (-1, 1))
            digit = 0.05 if head != "bytes" else 0.5
            assert least - digit <= value <= most + digit, (name, millions)


def test_the_stages_add_up_and_objects_requests_and_dollars_follow():
    stages = rows("a first build, static model")
    total = stages.pop("all")
    assert sum(values[0] for values in stages.values()) == pytest.approx(total[0], abs=0.02)
    lines = rows("")
    partitions = lines["partitions of 2,000 mails"]
    assert partitions == [millions * 1e6 / 2000 for millions in MILLIONS]
    objects = lines["objects of the lake, 18 a partition"]
    assert objects == [18 * count for count in partitions]
    assert lines["requests of a look"] == [count / 1000 for count in objects]
    nodes = lines["nodes of Qdrant with 64 GB, vectors on disk, computed"]
    assert lines["dollars a month, nodes of Qdrant"] == [300 * count for count in nodes]
    for name, amounts in {
        "dollars of a first build": [hours * 0.05 for hours in total[1:]],
        "dollars of its puts": [count * 5e-6 for count in objects],
        "dollars a month, lake": [gigabytes * 0.023 for gigabytes in rows("bytes")["lake"][1:]],
    }.items():
        assert lines[name] == pytest.approx(amounts, abs=0.06), name


def test_the_plan_of_the_measured_sizes_is_what_the_page_says(monkeypatch: pytest.MonkeyPatch):
    module = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "scale_plan.py"))
    rates, *planned = module["tables"](json.loads(FIGURES.read_text()))
    assert "| all, ms |" in rates
    page = {head: rows(head) for head in ("a first build, static model", "bytes", "")}
    monkeypatch.setitem(globals(), "PAGE", "\n\n" + "\n\n".join(planned))
    for head, expected in page.items():
        found = rows(head)
        assert found and found == {name: expected[name] for name in found}, head


def blocks() -> Iterator[tuple[str, str]]:
    """The blocks of the steps, each with its language."""
    steps = PAGE.partition("## The steps")[2]
    yield from re.findall(r"```(\w+)\n(.*?)```", steps, re.DOTALL)


def configured(work: Workspace, sections: dict[str, dict[str, object]], text: str) -> None:
    """Add what a block of the page sets to the settings of a workspace; Qdrant is its client in a
    folder.
    """
    for section, values in tomllib.loads(
        text.replace("http://qdrant.internal:6333", f"file:{work.folder}/qdrant")
    ).items():
        sections[section] = {**({} if "kind" in values else sections.get(section, {})), **values}
    two_lists(work.folder, **sections)


@pytest.mark.exhaustive
def test_the_steps_of_the_page_run_and_leave_what_was_made(
    built_once: Workspace, tmp_path: Path, s3: Any, every_key: None
):
    for module in ("s3fs", "ray", "qdrant_client"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    sections: dict[str, dict[str, object]] = {
        "storage": {"root": "state"},
        "search": {"weak": True},
    }
    work, made = two_lists(built_once.copied(tmp_path / "work").folder, **sections), []
    s3.create_bucket(Bucket="bucket")
    for language, text in blocks():
        if language == "toml":
            configured(work, sections, text)
            continue
        for line in text.splitlines():
            program, *arguments = shlex.split(line)
            if program == "aws":
                lake = work.settings.root / "lake"
                for file in lake.rglob("*.*"):
                    s3.upload_file(str(file), "bucket", f"lake/{file.relative_to(lake)}")
                continue
            said = work.weft(*arguments)
            expected = (0, 7) if "--deployment" in arguments else (0,)
            assert said.exit_code in expected, f"{line}\n{said.output}"
            if arguments[0] == "plan":
                assert work.plan().is_empty, said.output
            made.append((line, said.output))
    deployed = [said for line, said in made if "--deployment" in line]
    assert (
        "can be written, read and locked" in deployed[0]
        and "tasks of ray see the lake" in deployed[1]
    )
    assert "compactor" in made[-2][1] or "log" in made[-2][1]
    in_archives = sum(
        path.read_bytes().count(b"\nMessage-ID: ") for path in work.folder.glob("mail/*/*")
    )
    assert f" {in_archives} " in made[-1][1], (
        "the lake has a mail of two lists in a partition of each"
    )
