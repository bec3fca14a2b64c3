"""The settings file: how many keys it has, and what it says of those that it does not know."""

import json
import re
from pathlib import Path

import pytest

from dagster_project.config.file_faults import dotted_keys
from dagster_project.config.settings import Settings, load_settings
from transforms.errors import SettingsError

MOST = 144  # 37 of them are parameters by which a design is tuned
"""Keys that a person can look through."""
SOURCE = {"name": "dev", "kind": "mbox", "path": "mail/*"}


def written(folder: Path, key: str, value: object = 1) -> Path:
    """A settings file with one source and this key."""
    *sections, name = key.split(".")
    fetched = {"kind": "http", "url": "http://localhost/{year}{month}", "since": "2004-01"}
    source = [f"{k} = {json.dumps(v)}" for k, v in SOURCE.items()]
    fetch = [f"{k} = {json.dumps(v)}" for k, v in fetched.items()] if "fetch" in sections else []
    title = (
        ["[sources.fetch]"]
        if fetch
        else []
        if sections == ["sources"]
        else [f"[{'.'.join(sections)}]"]
    )
    path = folder / "weft.toml"
    path.write_text(
        "\n".join(["[[sources]]", *source, *title, *fetch, f"{name} = {json.dumps(value)}", ""])
    )
    return path


def test_a_person_can_look_through_the_keys():
    public = dotted_keys(Settings, internal=False)
    print(f"{len(public)} keys")
    assert len(public) <= MOST


@pytest.mark.parametrize(
    "key",
    sorted({*dotted_keys(Settings, internal=True), "profiles.mine.pool", "search.luck"} - {"base"}),
)
def test_an_internal_key_is_unknown_to_a_file(tmp_path: Path, key: str):
    with pytest.raises(
        SettingsError, match=rf"{key.replace('sources.', 'sources.0.')}: unknown setting"
    ):
        load_settings(written(tmp_path, key))


PLACES = {
    "search.elbow": r"`search\.cutoff_ratio = 0\.5`",
    "index.url": r"`index\.target` is",
    "engine.master": "RAY_ADDRESS",
    "mcp.max_results": "is fixed",
    "embedding.revision": "name@commit",
    "search.fusoin": r"is it `search\.fusion`",
    "serach.limit": "is it `search`",
    "sources.fetch.user_variable": "`credentials",
    "sources.fetch.request_per_minute": r"is it `.*\.requests_per_minute`",
}


@pytest.mark.parametrize("key", PLACES)
def test_an_unknown_key_is_refused_with_the_nearest_or_what_took_its_place(
    tmp_path: Path, key: str
):
    with pytest.raises(
        SettingsError, match=rf"toml:\d+: (source dev: )?\S+: unknown setting; .*{PLACES[key]}"
    ):
        load_settings(written(tmp_path, key))


def test_a_file_may_set_each_parameter_of_the_designs(tmp_path: Path):
    page = (Path(__file__).parents[3] / "docs" / "designs.md").read_text()
    named = dict(re.findall(r"^\|[^|]*\|[^|]*\| `([a-z_.]+) = (.+)` \|$", page, re.M))
    path = written(tmp_path, "people.aliases", {})
    path.write_text("\n".join([*map(" = ".join, named.items()), path.read_text()]))
    assert len(named) >= 25 and load_settings(path).chunks.anchor_chars_short == 1500


def test_synonyms_stand_in_a_file_beside_the_settings(tmp_path: Path):
    path = written(tmp_path, "search.limit", 7)
    assert load_settings(path).search.synonyms == ""
    (tmp_path / "synonyms.txt").write_text("wal, write-ahead log\n")
    settings = load_settings(path)
    assert (settings.search.synonyms, settings.search.limit) == ("wal, write-ahead log\n", 7)
    assert settings.profile("lexical").synonyms == settings.search.synonyms
    (tmp_path / "synonyms.txt").write_text("wal\n")
    with pytest.raises(SettingsError, match=r"synonyms\.txt: line 1: write"):
        load_settings(path)
