"""The fingerprints of stages: all that a stage uses changes its own, and nothing else does."""

import ast
import gc
import random
import re
import shutil
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from assets.evaluation import evaluation_stages
from assets.stages.declaration import SameOutput, Stage
from assets.stages.stage_run import StageRun
from dagster_project.composition.stage_code import places_of, with_code
from dagster_project.config.settings import load_settings
from dagster_project.extensions import extras, offered
from dagster_project.orchestration.asset_graph import all_stages
from dagster_project.system import code as code_module
from dagster_project.system.code import Code, Fingerprints
from tests.archives import Workspace

ROOT = Path(__file__).parents[3]
_BY_LOT = 12
"""Files that a quick run changes."""


@pytest.fixture(autouse=True, scope="module")
def _parsed_once() -> Iterator[None]:
    """Each text of a module is parsed once for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_module, "module_code", cache(code_module.module_code))
        yield


if not extras():
    pytest.skip("the settings of the sample name an extra", allow_module_level=True)


@cache
def stages() -> dict[str, Stage]:
    """All stages of the sample, and those of evaluations, by name."""
    settings = load_settings(ROOT / "data/sample/weft.toml")
    return {s.name: s for s in (*all_stages(settings), *evaluation_stages())}


@cache
def places() -> dict[str, tuple[str, ...]]:
    return {name: places_of(stage) for name, stage in stages().items()}


def digests(read: Callable[[Path], bytes] = Path.read_bytes) -> dict[str, str]:
    """The hash of the code of each stage, if `read` gives the files."""
    code = Code(read)
    return {name: code.digest(own)[0] for name, own in places().items()}


@cache
def before() -> dict[str, str]:
    return digests()


@cache
def users() -> dict[Path, set[str]]:
    """The stages that use a definition of a file, or the file, by the file."""
    code, result = Code(), defaultdict[Path, set[str]](set)
    for name, own in places().items():
        for use in code.uses(own).values():
            for file in use.files if use.text else ():
                result[file].add(name)
    return dict(result)


def commented(data: bytes) -> bytes:
    """A module with other comments, docstrings and blank lines."""
    lines = data.decode().splitlines()
    for node in ast.walk(ast.parse(data)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and is_docstring(body[0]):
            first, last = body[0].lineno - 1, body[0].end_lineno or 0
            indent = " " * body[0].col_offset
            lines[first:last] = [f'{indent}"""Another text."""'] + [""] * (last - first - 1)
    return ("# A comment.\n\n" + "\n".join(lines) + "\n# The end.\n").encode()


def is_docstring(node: ast.stmt) -> bool:
    alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return alone and isinstance(node.value.value, str)  # type: ignore[attr-defined]


def mutated(path: Path, data: bytes) -> bytes:
    """A file with a change that counts, whose comments and layout change, too."""
    if path.suffix == ".toml":
        return b"mutant = 1\n" + data
    if path.suffix != ".py":
        return data + b"\n1"
    tree = ast.parse(data)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.body.append(ast.Pass())
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            node.value = ast.Tuple([node.value], ast.Load())
    return ast.unparse(tree).encode()


def test_comments_docstrings_and_layout_change_no_fingerprint():
    def read(path: Path) -> bytes:
        data = path.read_bytes()
        if path.suffix == ".toml":
            return b"# A comment.\n" + data
        return commented(data) if path.suffix == ".py" else data

    assert digests(read) == before()
    assert (
        digests(
            lambda p: (
                ast.unparse(ast.parse(p.read_bytes())).encode()
                if p.suffix == ".py"
                else p.read_bytes()
            )
        )
        == before()
    )


SETTINGS = ROOT / "dagster_project/config/settings.py"
READERS = [
    *(ROOT / "transforms/conversations").glob("[dsw][ilh][sa]*.py"),
    *(ROOT / "dagster_project/extras/chats/transforms").glob("*.py"),
]


def test_a_new_setting_another_description_and_another_reader_of_chats_make_nothing_stale():
    """Digests of settings and fingerprints of windows say what changed of these."""

    def read(path: Path) -> bytes:
        data = path.read_bytes()
        if path in READERS:
            return mutated(path, data)
        data = data.replace(b'description="', b'description="Yes: ')
        new = b"    fresh: int = 1\n    gemini: GeminiSettings"
        return data.replace(b"    gemini: GeminiSettings", new) if path == SETTINGS else data

    assert {path.name for path in READERS} > {"discord.py", "slack.py", "whatsapp.py"}
    assert read(SETTINGS).count(b"fresh: int") == 1 and b"Yes: " in read(SETTINGS)
    assert digests(read) == before()


def lot(count: int) -> list[Path]:
    """Files that stages use, by lot; the same for all processes of a run."""
    return random.Random(len(users())).sample(sorted(users()), count)


def require_stale(files: list[Path]) -> None:
    """AssertionError unless a change of each of the files makes the stages that use it stale, and no
    others.
    """
    assert files
    for file in files:
        after = digests(
            lambda path, file=file: (
                mutated(path, path.read_bytes()) if path == file else path.read_bytes()
            )
        )
        changed = {name for name, digest in after.items() if digest != before()[name]}
        assert changed == users()[file], file


def test_a_change_of_a_file_makes_the_stages_that_use_it_stale_and_no_others():
    data = [file for file in users() if file.suffix != ".py"]
    assert {file.suffix for file in data} >= {".toml", ".sql", ".safetensors", ".json"}
    require_stale([*lot(_BY_LOT), min(data)])


@pytest.mark.exhaustive
def test_a_change_of_each_file_makes_the_stages_that_use_it_stale_and_no_others():
    require_stale(sorted(users()))


@pytest.mark.exhaustive
def test_all_code_that_runs_while_a_stage_makes_its_tables_is_in_its_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Except the code that stores and transports tables, and the models, whose results are cached by
    their inputs.
    """
    ran = defaultdict[str, set[tuple[str, str]]](set)
    made = StageRun.make

    def make(run: StageRun, *args: Any, **more: Any) -> Any:
        with Traced(ran[run.stage.name]):
            return made(run, *args, **more)

    monkeypatch.setattr(StageRun, "make", make)
    work = Workspace(
        shutil.copytree(
            ROOT / "data/sample", tmp_path / "s", ignore=shutil.ignore_patterns("state")
        )
    )
    work.build()
    code = Code()
    places = map(":".join, code_module.ELSEWHERE)
    elsewhere = code.uses([*places, *offered("chats").values()]).keys() | _WHICH_FILE
    for stage in all_stages(work.settings):
        uses = code.uses(places_of(stage))
        assert ran[stage.name], stage.name
        assert (others := ran[stage.name] - uses.keys()) <= elsewhere, (stage.name, others)


_BELOW = re.compile(r"dagster_project\.(?:lake|models)\.")
_WHICH_FILE = {
    ("dagster_project.index.publish.partition_publisher", "PartitionPublisher"),
    ("dagster_project.index.publish.versions", "current_version"),
}
"""They say which published file `readiness` is of."""
_STAGES = "assets.stages."


class Traced:
    """Notes the functions of the project that run, by module and name, in all threads; not those below
    modules that store and transport, nor methods that Python makes of a record.
    """

    def __init__(self, into: set[tuple[str, str]]):
        self.into, self.depths = into, defaultdict[int, int](int)

    def __enter__(self) -> None:
        gc.disable()  # it ends objects of other stages
        threading.setprofile(self.note)
        sys.setprofile(self.note)

    def __exit__(self, *fault: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        gc.enable()

    def note(self, frame: Any, event: str, argument: object) -> None:
        thread = threading.get_ident()
        if event == "return" and self.depths[thread]:
            self.depths[thread] -= 1
        if event != "call":
            return
        module = frame.f_globals.get("__name__", "")
        name = frame.f_code.co_qualname.partition(".")[0]
        if self.depths[thread] or _BELOW.match(module):
            self.depths[thread] += 1
        elif self._counts(module) and not name.startswith(("<", "__")):
            self.into.add((module, name))

    def _counts(self, module: str) -> bool:
        return module.partition(".")[0] in code_module.PACKAGES and not module.startswith(_STAGES)


def test_every_library_that_decides_about_content_has_a_version():
    """Its name among modules leads to the package that is installed."""
    code = Code()
    libraries = {name for own in places().values() for name in code.digest(own)[2]}
    assert {"selectolax", "PyStemmer", "pyromark", "email"} <= libraries
    assert {name for name in libraries if code_module._version(name) == "absent"} == set()


def test_a_developer_holds_a_fingerprint_still_with_a_reason():
    stage = stages()["memberships"]
    (now,) = with_code([stage])
    assert len(now.code) == code_module._DIGITS and now.code_version(None) == now.code
    held = replace(
        stage, same=SameOutput(since="0123456789ab", now=now.code, because="a name changed")
    )
    assert with_code([held])[0].code == "0123456789ab"
    earlier = replace(
        stage, same=SameOutput(since="0123456789ab", now="another", because="a name changed")
    )
    assert with_code([earlier])[0].code == now.code, "the line is of code that is gone"
    with pytest.raises(ValueError, match="because of what"):
        SameOutput(since="0123456789ab", now=now.code, because=" ")


def test_a_line_that_holds_a_fingerprint_still_is_of_the_code_of_now():
    for stage in stages().values():
        (coded,) = with_code([stage])
        assert stage.same is None or coded.code == stage.same.since, (
            f"the code of {stage.name} changed since `now` of its line: remove the line, or compare the outputs anew"
        )


def test_a_changed_declaration_makes_a_stage_stale():
    stage = stages()["build_threads"]
    (now,) = with_code([stage])
    (other,) = with_code([replace(stage, in_buckets=None)])
    (varied,) = with_code([replace(stage, variant="eng")])
    assert now.code != other.code and varied.code == now.code
    assert varied.code_version(None) == f"{now.code}-eng"


def test_fingerprints_are_remembered_until_a_file_changes(tmp_path: Path):
    """And a memory that is damaged, or of another code, is left alone."""
    memory, own = tmp_path / "code.json", places()["memberships"]
    (digest,) = Fingerprints(memory).of([own])
    unread = Fingerprints(memory, Code(lambda path: pytest.fail(f"{path} is read again")))
    assert unread.of([own]) == [digest]
    memory.write_text(memory.read_text().replace("threads.py", "gone.py"))
    assert Fingerprints(memory).of([own]) == [digest]
    memory.write_text("{")
    assert Fingerprints(memory).of([own]) == [digest]


@cache
def libraries_of(function: Callable[..., Any]) -> set[str]:
    """The libraries that a function computes with, in its module and those beside it."""
    package = function.__module__.rpartition(".")[0]
    uses = Code().uses([f"{function.__module__}:{function.__qualname__}"]).items()
    beside = (use for place, use in uses if place[0].rpartition(".")[0] == package)
    # A table of Ibis is the input of many functions that read its rows.
    names = {place[0] for use in beside for place in use.places if place != ("ibis", "Table")}
    return names & {"ibis", "numpy", "polars"} or {"python"}


@pytest.mark.parametrize("name", sorted(stages()))
def test_the_kinds_of_a_stage_are_the_libraries_that_its_code_computes_with(name: str):
    stage = stages()[name]
    function = stage.shown.code or stage.make
    while isinstance(function, partial):
        function = function.func
    assert {*stage.shown.kinds} - {"duckdb", "json"} == libraries_of(function) - _WRITES.get(
        name, set()
    )


_WRITES = {"document_graph": {"python"}}
"""Its kind is the format of the files that it writes."""
