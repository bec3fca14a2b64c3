"""What is left if folders of extras are deleted: the package imports, answers, and lacks those
commands alone.
"""

import os
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import click
import pytest

import dagster_project
from dagster_project import extensions
from dagster_project.cli.main import main
from dagster_project.cli.terminal import lazy_group
from tests.archives import Workspace
from tests.changed_extras import digests
from tests.timing import HUNG
from transforms.errors import SettingsError

PACKAGE = Path(dagster_project.__file__).parent
WEB = {"starlette", "uvicorn", "jinja2"}
UNUSED = {"asyncio", "tokenizers", "pyarrow.compute", "pandas", "transforms.text.redaction"}
FOLDERS = sorted(file.parent.name for file in (PACKAGE / "extras").glob("*/__init__.py"))


def without(folders: set[str], place: Path) -> Path:
    """A folder of the three packages that lacks these extras; all others are links."""
    extras = place / "dagster_project" / "extras"
    extras.mkdir(parents=True)
    for child in (PACKAGE.parent / "transforms", PACKAGE.parent / "assets"):
        (place / child.name).symlink_to(child)
    for folder, left_out in ((PACKAGE, {"extras"}), (PACKAGE / "extras", folders)):
        for child in folder.iterdir():
            if child.name not in left_out:
                (place / child.relative_to(PACKAGE.parent)).symlink_to(child)
    return place


def weft(packages: Path, *commands: str) -> list[str]:
    """The outputs of commands of these packages, in one process; AssertionError unless all succeed."""
    code = (
        "import shlex, sys\nfrom dagster_project.cli.main import main\nfor command in sys.argv[1:]:\n"
        " assert not main(shlex.split(command), standalone_mode=False), command\n print('=====')"
    )
    environment = {**os.environ, "PYTHONPATH": str(packages), "PYTHONSAFEPATH": "1"}
    program = [sys.executable, "-c", code, *commands]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=HUNG)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("=====\n")


@pytest.mark.parametrize(
    "deleted",
    [set(FOLDERS), *(pytest.param({name}, marks=pytest.mark.exhaustive) for name in FOLDERS)],
    ids=["all", *FOLDERS],
)
def test_without_an_extra_everything_else_works(
    deleted: set[str], built_once: Workspace, tmp_path: Path
):
    packages = without(deleted, tmp_path)
    under = f"--config {shlex.quote(str(built_once.config))}"
    helped, found, _, _ = weft(packages, "--help", f"search compactor {under}", f"plan {under}")
    listed = {line.split()[0] for line in helped.splitlines() if line.startswith("  ")}
    assert {name: name in listed for folder in FOLDERS for name in commands(folder)} == {
        name: folder not in deleted for folder in FOLDERS for name in commands(folder)
    }
    assert "@example.org" in found


@pytest.mark.exhaustive
def test_without_any_extra_the_tests_of_the_core_pass(tmp_path: Path):
    root, place = PACKAGE.parent, without(set(FOLDERS), tmp_path)
    (place / "tests").mkdir()
    for child in (*root.iterdir(), *(root / "tests").iterdir()):
        if child.name != "extras" and not (there := place / child.relative_to(root)).exists():
            there.symlink_to(child)
    rooms = "tests/docs tests/dagster_project/composition tests/dagster_project/cli/test_command_line.py"
    program = shlex.split(
        f"{sys.executable} -m pytest -q -m 'not exhaustive' -p no:cacheprovider {rooms}"
    )
    done = subprocess.run(program, cwd=place, capture_output=True, text=True, timeout=HUNG)
    assert done.returncode == 0 and "...." in done.stdout, done.stdout + done.stderr


def commands(folder: str) -> set[str]:
    return set(dict(zip(FOLDERS, extensions.extras(), strict=True))[folder].commands)


PACKAGE_OF = {
    "qdrant.service:make_mirror": "qdrant_client",
    "web.command:serve": "jinja2",
}


@pytest.mark.parametrize("place", PACKAGE_OF)
def test_the_fault_of_a_missing_package_names_it(place: str, monkeypatch: pytest.MonkeyPatch):
    extra, package, place = (
        place.partition(".")[0],
        PACKAGE_OF[place],
        f"dagster_project.extras.{place}",
    )
    for loaded in [
        name for name in sys.modules if name.startswith(f"dagster_project.extras.{extra}.")
    ]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        SettingsError, match=f"{package} is not installed: `pip install 'weft.{extra}.'`"
    ):
        extensions.load(place)
    with pytest.raises(click.UsageError, match=package):
        lazy_group.loaded(extensions.Command(place, "", ""))


def test_the_ui_says_how_to_get_the_web_server(
    built_once: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("dagster_project.cli.ui.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        main(["ui", "--config", str(built_once.config)])
    assert ended.value.code == 2
    assert "dagster_webserver is not installed: `pip install 'weft[ui]'`" in capsys.readouterr().err


def test_a_search_loads_no_extra(built_once: Workspace):
    """Each is known by its `__init__.py` and its models of settings; nothing large that a search
    does not use is loaded.
    """
    code = (
        "import sys\nfrom dagster_project.cli.main import main\n"
        "from dagster_project.system.unasked_pandas import keep_out\nkeep_out()\n"
        f"main(['search', 'compactor', '--config', {str(built_once.config)!r}], standalone_mode=False)\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HUNG
    )
    loaded = set(done.stderr.split())
    ours = {name for name in loaded if name.startswith("dagster_project.extras.")}
    known = {f"dagster_project.extras.{name}" for name in FOLDERS}
    models = {section.__module__ for section in extensions.sections().values()}
    models |= {remote.model.partition(":")[0] for remote in extensions.offered("remotes").values()}
    known |= models | {name.rpartition(".")[0] for name in models}
    assert (ours, loaded & (WEB | UNUSED)) == (known, set())


OTHER = """
from dagster_project.extensions import Command, Extra
EXTRA = Extra(commands={"count": Command("weft_count:count", "Search and read", "Counts.")})
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (OTHER, "  count "),
        (
            "EXTRA = 3",
            "the extra count is not a dagster_project.extensions.Extra: repair the package",
        ),
        ("", "the extra count does not load"),
    ],
)
def test_another_package_adds_an_extra_by_an_entry_point(tmp_path: Path, code: str, said: str):
    (tmp_path / "weft_count.py").write_text(code)
    facts = tmp_path / "weft_count-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: weft-count\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[weft.extras]\ncount = weft_count:EXTRA\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    program = [sys.executable, "-m", "dagster_project.cli", "--help"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=HUNG)
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr and bool(done.returncode) == (code != OTHER)


def test_an_extra_is_another_if_its_files_or_its_tests_are(tmp_path: Path):
    places = ("a/x.py", "b/y/z.sql", "a/tests/test_x.py", "b/tests/test_y.py")
    files = [tmp_path / "dagster_project" / "extras" / place for place in places]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    seen = [digests(tmp_path)]
    for file in files:
        file.write_text("more")
        seen.append(digests(tmp_path))
    changed = [[name for name in new if new[name] != old[name]] for old, new in pairwise(seen)]
    assert changed == [["a"], ["b"], ["a"], ["b"]]
    files[0].rename(files[0].with_name("w.py"))
    assert digests(tmp_path)["a"] != seen[-1]["a"]
