"""The layers of the settings: a design, the file, variables; and what says where a value is from."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dagster_project.cli.main import main
from dagster_project.config.layers import design_values, layered
from dagster_project.config.settings import load_settings
from tests.dagster_project.config.test_settings_file import written
from transforms.errors import SettingsError
from transforms.settings.designs import DESIGNS

PAGE = Path(__file__).parents[3] / "docs" / "designs.md"


@pytest.mark.parametrize("name", DESIGNS)
def test_a_design_sets_all_its_values_and_a_key_of_the_file_wins(tmp_path: Path, name: str):
    path = written(tmp_path, "search.limit", 7)
    settings = load_settings(path, name)
    for section, values in design_values(name).items():
        found = getattr(settings, section).model_dump()
        own = {"limit": 7} if section == "search" else {}
        assert {key: found[key] for key in values} == {
            key: {**values, **own}[key] for key in values
        }
    assert settings.search.limit == 7
    assert load_settings(path) == load_settings(path, "")


def test_the_page_names_the_values_of_the_designs():
    """Each row of its table of parameters is a value of the design, or its default."""
    titles = {"Information Graph": "information-graph"}
    rows = re.findall(r"^\|([^|]*)\|[^|]*\| `(\w+)\.(\w+) = (.+)` \|$", PAGE.read_text(), re.M)
    design = ""
    for title, section, key, value in rows:
        design = titles.get(title.strip(), title.strip().lower()) or design
        values = design_values(design).get(section, {})
        assert key not in values or values[key] == json.loads(value), (design, section, key)
    assert len(rows) >= 25


VARIABLES = {
    ("WEFT_SEARCH__LIMIT", "5"): ("search.limit", 5),
    ("WEFT_SEARCH__FUSION", "rrf"): ("search.fusion", "rrf"),
    ("WEFT_SOURCES__0__PATH", "2004.mbox"): ("sources.0.path", "2004.mbox"),
    ("WEFT_STORAGE__ROOT", "2004-01-02"): ("storage.root", "2004-01-02"),
    ("WEFT_PEOPLE__ALIASES", '{"Ann" = ["a@example.org"]}'): (
        "people.aliases",
        {"Ann": ["a@example.org"]},
    ),
}


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_variable_wins_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: tuple[str, str]
):
    path = written(tmp_path, "search.limit", 7)
    monkeypatch.setenv(*variable)
    key, value = VARIABLES[variable]
    run = CliRunner().invoke(main, ["config", "--config", str(path), "--json"])
    row = {"key": key, "value": value, "origin": variable[0]}
    assert row in json.loads(run.stdout)
    assert layered({}).keys.get("design") is None


FAULTS = {
    ("WEFT_SEARCH__LIMT", "5"): "search.limt: unknown setting; is it `search.limit`",
    ("WEFT_SEARCH__LIMIT", "many"): "search.limit: Input should be a valid integer",
    ("WEFT_SEARCH__POOL", "5"): "search.pool: unknown setting; its value is fixed",
    ("WEFT_SEARCH__LIMIT__MORE", "5"): "there is no `search.limit.more`",
    ("WEFT_SOURCES__3__PATH", "x"): "there is no `sources.3.path`",
    (
        "WEFT_CONTEXT__ENABLED",
        "false",
    ): 'context.enabled: unknown setting; `context.strategy = "off"`',
    ("WEFT_RAG__TOP_K", "5"): "rag: unknown setting; `[context]`",
    ("WEFT_DESIGN", "rag"): "no design is called 'rag'; known are pginbox, secondbrain, ra,",
}


@pytest.mark.parametrize("variable", FAULTS)
def test_a_fault_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: tuple[str, str]
):
    monkeypatch.setenv(*variable)
    with pytest.raises(SettingsError) as caught:
        load_settings(written(tmp_path, "search.limit", 7))
    assert str(caught.value).startswith(f"{variable[0]}: ")
    assert FAULTS[variable] in str(caught.value)


def test_each_value_says_where_it_is_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = written(tmp_path, "search.limit", 7)
    monkeypatch.setenv("WEFT_DESIGN", "secondbrain")
    arguments = ["config", "--config", str(path)]
    run = CliRunner().invoke(main, arguments)
    lines = run.stdout.splitlines()
    assert 'design = "secondbrain"  # WEFT_DESIGN' in lines
    assert "search.limit = 7  # file" in lines
    assert "search.candidates_lexical = 50  # design secondbrain" in lines
    assert not any(line.endswith("# default") for line in lines)
    every = CliRunner().invoke(main, [*arguments, "--effective"]).stdout.splitlines()
    assert "chunks.anchor_chars = 800  # default" in every and {*lines} < {*every}
