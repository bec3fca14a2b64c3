"""A credential, wherever it stands in settings or environment, is in no output, message or file of
Weft or Dagster.
"""

import json
import traceback
from pathlib import Path
from typing import Any

import pytest

from dagster_project.config.allowed_commands import allow
from dagster_project.config.settings import load_settings
from tests.archives import Workspace, discussion
from tests.fuzz.fuzzing import SECRET
from transforms.errors import SettingsError

DEV = {"name": "dev", "kind": "mbox", "path": "mail/*"}
FETCH = {"kind": "http", "url": "https://example.org/{year}{month:02}", "since": "2004-01"}
_NAMED = ("plan", "build --json", "doctor", "build --fetch-only", "cache stats", "search compactor")
COMMANDS = [name.split() for name in _NAMED]


def fetched(**fetch: object) -> dict[str, Any]:
    return {"name": "far", "kind": "mbox", "fetch": FETCH | fetch}


@pytest.mark.parametrize(
    ("source", "sections"),
    [
        (DEV, {"storage": {"root": "state", "lake": f"s3://key:{SECRET}@bucket/lake"}}),
        (DEV, {"storage": {"root": "state", "lake": f"s3://{SECRET}@bucket/lake"}}),
        (DEV, {"storage": {"root": "state", "lake": f"s3://key:{SECRET}/slash@bucket/lake"}}),
        (DEV, {"alerts": {"url": [SECRET]}}),
        (DEV, {"embedding": {"model": SECRET}}),
        (fetched(url=f"https://user:{SECRET}@example.org/{{year}}{{month:02}}"), {}),
        (fetched(url=f"ftp://user:{SECRET}@example.org/{{year}}{{month:02}}"), {}),
        (fetched(url=f"https://user:{SECRET}@[/{{year}}{{month:02}}"), {}),
        (fetched(credentials=f"{SECRET}!"), {}),
        (fetched(password=SECRET), {}),
        (fetched(since=SECRET), {}),
    ],
    ids=lambda value: str(value).replace(SECRET, "***"),
)
def test_settings_that_are_refused_do_not_repeat_a_secret(
    tmp_path: Path, source: dict[str, Any], sections: dict[str, Any]
):
    work = Workspace(tmp_path / "work").configure(source, **sections)
    for command in (["plan"], ["doctor", "--json"]):
        result = work.weft(*command)
        assert result.exit_code == 2 and str(work.config) in result.stderr
        assert SECRET not in result.output + result.stderr
    with pytest.raises(SettingsError) as fault:
        load_settings(work.config)
    # Dagster prints the whole chain where it loads the definitions.
    assert SECRET not in "".join(traceback.format_exception(fault.value))


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace with a secret in every place where one may stand; nothing answers its remotes."""
    for name in (
        "FETCH_PASSWORD",
        "OTHER_TOKEN",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "WEFT_PSEUDONYM_KEY",
    ):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("FETCH_USER", "ada")
    monkeypatch.setattr("assets.fetch._BACKOFF_SECONDS", 0.01)
    closed = "http://127.0.0.1:9/{year}{month:02}"
    work = Workspace(tmp_path / "work").configure(
        DEV,
        {**fetched(url=closed, credentials="FETCH"), "name": "a"},
        {**fetched(url=f"{closed}?token={SECRET}", credentials="OTHER"), "name": "b"},
        {"name": "chat", "kind": "conversation", "path": "chats"},
        alerts={"url": f"http://127.0.0.1:9/hooks/{SECRET}", "command": ["false", SECRET]},
    )
    allow(work.settings.alerts.command, work.settings.root)
    work.write("dev.2004-01.mbox", discussion(0, 3, "compactor"))
    work.put(
        "chats/WhatsApp Chat with Ada.txt", "27.03.25, 18:02 - Ada: the compactor keeps its pace\n"
    )
    return work


@pytest.mark.exhaustive
def test_settings_that_are_used_leave_no_secret_anywhere(trusted: Workspace):
    before = {path for path in trusted.folder.rglob("*") if path.is_file()}
    for command in COMMANDS:
        result = trusted.weft(*command)
        assert SECRET not in result.output + result.stderr, command
        if "--json" in command:
            assert json.loads(result.stdout)["published"], result.stderr
    written = [path for path in trusted.folder.rglob("*") if path.is_file() and path not in before]
    assert any("dagster" in path.parts for path in written)
    assert [path for path in written if SECRET.encode() in path.read_bytes()] == []
