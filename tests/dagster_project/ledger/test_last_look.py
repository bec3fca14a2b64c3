"""A build where the ledger says that nothing changed: it is done without a look only if a look would
find nothing.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from dagster_project.cli.build import _looked_at, run_build
from dagster_project.composition.stores import make_ledger
from dagster_project.ledger import last_look
from dagster_project.orchestration.outcomes import BuildResult
from dagster_project.system.locks import RUNS, only_build
from tests.archives import Mail, Workspace


@pytest.fixture
def noted(built: Workspace) -> Workspace:
    """A workspace whose last build found nothing to do."""
    assert built.weft("build", "--quiet").exit_code == 0
    return built


def is_done(work: Workspace, *options: str) -> bool:
    return last_look.is_done(["build", *options, "--config", str(work.config)], work.config)


def rewritten(file: Path) -> None:
    """Other bytes, as many as before, and the old time."""
    before, data = file.stat(), file.read_bytes()
    file.write_bytes(data.swapcase())
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def changes(work: Workspace) -> Iterator[Callable[[], object]]:
    mails, root = work.folder / "mail", work.settings.root
    yield lambda: work.write("users/users.2004-01.mbox", [Mail(900, "Other mail.", "News")])
    yield lambda: rewritten(mails / "users" / "users.2004-01.mbox")
    yield lambda: work.write("users/users.2004-02.mbox", [Mail(901, "Another month.", "News")])
    yield (mails / "users" / "users.2004-02.mbox").unlink
    yield lambda: work.config.write_text(f"{work.config.read_text()}\n# a remark\n")
    yield (root / "lake" / "threads.parquet").unlink
    yield next((root / "lake" / "messages").rglob("*.parquet")).unlink
    yield lambda: rewritten(next((root / "index").glob("*.arrays/*.npy")))
    yield (root / RUNS / "some-run").touch


def test_whatever_changes_is_looked_at(noted: Workspace, capsys: pytest.CaptureFixture[str]):
    for change in changes(noted):
        seen = _looked_at(noted.settings, noted.config)
        assert seen
        last_look.record(make_ledger(noted.settings), seen[0] | seen[1], {}, has_remotes=False)
        assert is_done(noted, "--quiet")
        change()
        assert not is_done(noted, "--quiet")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_it_prints_what_a_build_prints_and_says_when_it_looked(
    noted: Workspace, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    before = make_ledger(noted.settings).rows("sources")
    printed = noted.weft("build", *options).stdout.removeprefix(
        "Looking for changes in the sources\n"
    )
    assert is_done(noted, *options)
    seconds = r'(?<=\()[\d.]+ s|(?<="seconds": )[\d.]+'
    assert re.sub(seconds, "", capsys.readouterr().out) == re.sub(seconds, "", printed)
    after = make_ledger(noted.settings).rows("sources")
    assert before.keys() == after.keys()
    assert all(str(before[name][1]) < str(after[name][1]) for name in after)


def test_a_record_holds_for_a_day_for_these_options_and_without_remotes(noted: Workspace):
    ledger, last = make_ledger(noted.settings), ("last",)
    (day, has_remotes, result) = ledger.rows("builds")[last]
    assert day == str(date.today()) and not has_remotes
    assert not is_done(noted, "--verify") and not is_done(noted, "--help")
    with only_build(noted.settings.root):
        assert not is_done(noted)
    ledger.record("builds", {last: (day, 1, result)})
    assert not is_done(noted) and not is_done(noted, "--no-fetch", "--fetch")
    assert is_done(noted, "--no-fetch")
    ledger.record("builds", {last: ("2004-01-31", 0, result)})
    assert not is_done(noted, "--no-fetch")
    ledger.file.write_bytes(b"{")
    assert not is_done(noted)


def test_a_build_that_published_notes_that_the_next_has_nothing_to_do(
    noted: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    noted.write("users/users.2004-03.mbox", [Mail(910, "A third month.", "News")])
    assert noted.weft("build", "--quiet").exit_code == 0
    assert is_done(noted, "--json")
    told = json.loads(capsys.readouterr().out)
    make_ledger(noted.settings).record("builds", {}, [("last",)])
    looked = json.loads(noted.weft("build", "--json").stdout)
    assert {**told, "seconds": 0} == {**looked, "seconds": 0} and told["outcome"] == "UNCHANGED"

    def with_a_late_mail(*args: Any, **options: Any) -> BuildResult:
        result = run_build(*args, **options)
        noted.write("users/users.2004-05.mbox", [Mail(912, "Too late for that build.", "News")])
        return result

    noted.write("users/users.2004-04.mbox", [Mail(911, "A fourth month.", "News")])
    monkeypatch.setattr("dagster_project.cli.build.run_build", with_a_late_mail)
    assert noted.weft("build", "--quiet").exit_code == 0 and not is_done(noted)


MODULES = """
import sys
sys.argv = ["weft", "build", "--config", sys.argv[1]]
from dagster_project.cli.__main__ import run
run()
print(sum(name.partition(".")[0] in ("transforms", "assets", "dagster_project") for name in sys.modules))
"""
MOST_MODULES = 60


def test_an_hour_without_news_loads_few_modules(noted: Workspace):
    command = [sys.executable, "-c", MODULES, str(noted.config)]
    *printed, count = subprocess.check_output(command, text=True).splitlines()
    print(f"{count} modules of Weft")
    assert printed[-1].startswith("Nothing changed") and int(count) <= MOST_MODULES


def test_nothing_is_noted_where_not_all_is_seen(noted: Workspace, tmp_path: Path):
    make_ledger(noted.settings).record("builds", {}, [("last",)])
    (noted.folder / "mail" / "dev" / ".elsewhere").symlink_to(tmp_path)
    assert noted.weft("build", "--quiet").exit_code == 0
    assert make_ledger(noted.settings).rows("builds") == {}
