"""Which files of a vault or a tree are read, and why the others are not."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dagster_project.config.settings import DocumentSourceSettings
from dagster_project.sources.trees import TreeFile, tree_files, tree_parts
from tests.broken_files import UNREADABLE, a_folder, empty
from tests.timing import seconds
from transforms.errors import SourceError


def source(**given: object) -> DocumentSourceSettings:
    return DocumentSourceSettings.model_validate(
        {"name": "notes", "kind": "vault", "path": ".", **given}
    )


def found(root: Path, **given: object) -> dict[str, str | None]:
    """Names of files with the code of their fault."""
    files = tree_files(source(**given), root, root / "state")
    return {f.name: f.fault and f.fault.partition(":")[0] for f in files}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("Index.md", "b/Deep.md", "b/c/Deeper.MD", "plan.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}\n")
    return tmp_path


READ = {"Index.md": None, "b/Deep.md": None, "b/c/Deeper.MD": None, "plan.txt": None}


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (".obsidian/app.json", {".obsidian": "hidden"}),
        ("b/.draft.md", {"b/.draft.md": "hidden"}),
        ("node_modules/left-pad/README.md", {"node_modules": "excluded"}),
        ("b/node_modules/x/README.md", {"b/node_modules": "excluded"}),
        ("All Tasks.md", {"All Tasks.md": "excluded"}),
        ("b/_chunks/x.md", {"b/_chunks": "excluded"}),
        ("image.png", {"image.png": "needs_ocr"}),
        ("state/cache/note.md", {}),
        ("b/entities.xml", {"b/entities.xml": "confluence_xml"}),
        ("_authority/x.md", {"_authority": "excluded"}),
    ],
)
def test_files_are_in_order_and_what_is_not_read_has_its_reason(
    root: Path, name: str, fault: dict[str, str]
):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("x")
    assert list(found(root).items()) == sorted({**READ, **fault}.items())


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"include": ["*.txt"]}, {"plan.txt"}),
        ({"include": ["b/*.md"]}, {"b/Deep.md"}),
        ({"include": ["b/**/*.md"]}, {"b/Deep.md", "b/c/Deeper.MD"}),
        ({"include": ["*.md"], "exclude": ["b/"]}, {"Index.md"}),
        ({"include": ["*.md"], "exclude": ["b/c/**"]}, {"Index.md", "b/Deep.md"}),
        ({"include": ["*.md"], "exclude": []}, {"Index.md", "b/Deep.md", "b/c/Deeper.MD"}),
        ({"include": ["*.md"], "exclude": ["c"]}, {"Index.md", "b/Deep.md"}),
        ({"include": ["*.md"], "exclude": ["/deep.md", "INDEX.*"]}, {"b/Deep.md", "b/c/Deeper.MD"}),
        ({"include": ["*.md"], "exclude": ["*.md", "!deep*.md"]}, {"b/Deep.md", "b/c/Deeper.MD"}),
        ({"include": ["b/"]}, {"b/Deep.md", "b/c/Deeper.MD"}),
    ],
)
def test_patterns_choose_files(root: Path, given: dict[str, object], read: set[str]):
    assert {name for name, fault in found(root, **given).items() if fault is None} == read


@pytest.mark.parametrize(
    ("given", "read"),
    [({}, False), ({"exclude": ["x.md"]}, False), ({"exclude": ["!_chunks/"]}, True)],
)
def test_patterns_of_exclude_are_beside_the_usual_ones(
    root: Path, given: dict[str, object], read: bool
):
    (root / "_chunks").mkdir()
    (root / "_chunks" / "a.md").write_text("x")
    assert (found(root, **given).get("_chunks/a.md", "excluded") is None) == read


def test_links_out_of_the_root_into_circles_and_to_nothing_are_not_followed(
    root: Path, tmp_path_factory
):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.md").write_text("no")
    (root / "out.md").symlink_to(outside / "secret.md")
    (root / "folder").symlink_to(outside)
    (root / "b" / "circle").symlink_to(root)
    (root / "nothing.md").symlink_to(root / "gone.md")
    (root / "same.md").symlink_to(root / "Index.md")
    assert found(root) == {
        **READ,
        "out.md": "outside_root",
        "folder": "outside_root",
        "nothing.md": "broken_link",
        "same.md": None,
    }


@pytest.mark.parametrize("put", UNREADABLE)
@pytest.mark.parametrize("name", ["odd.md", "b/odd.md", "odd", ".odd", "line\nbreak.md"])
def test_whatever_lies_in_a_tree_all_else_is_read(
    root: Path, put: Callable[[Path], None], name: str
):
    put(root / name)
    entries = found(root)
    assert {n: f for n, f in entries.items() if n in READ} == READ
    assert name in entries or put is a_folder
    assert put is a_folder or (put is empty and name.endswith("md")) or entries[name]


def test_a_thousand_folders_deep_is_one_entry(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(root)
    for _ in range(1100):
        Path("d").mkdir()
        os.chdir("d")
    Path("deep.md").write_text("x")
    os.chdir(root)
    entries = found(root)
    subprocess.run(["rm", "-rf", "d"], check=True)  # shutil cannot
    assert {n: f for n, f in entries.items() if n in READ} == READ
    assert [f for n, f in entries.items() if n not in READ] == ["path_too_long"]


def test_a_name_that_is_no_utf8_is_written_with_escapes(root: Path):
    for name in (b"/x.\xe9", b"/caf\xe9.md"):
        os.close(os.open(bytes(root) + name, os.O_CREAT))
    faults = {f.name: f.fault for f in tree_files(source(include=["*"]), root, root / "state")}
    assert (
        faults["x.\\xe9"] == "no_format: files ending in .\\xe9 are not read"
        and "caf\\xe9.md" in faults
    )


def test_a_missing_root_and_one_without_files_are_errors(tmp_path: Path):
    with pytest.raises(SourceError, match="is not a folder"):
        tree_files(source(), tmp_path / "gone", tmp_path / "state")
    (tmp_path / "image.png").write_text("x")
    with pytest.raises(SourceError, match="no file of .* matches"):
        tree_files(source(), tmp_path, tmp_path / "state")


@pytest.mark.exhaustive
def test_a_file_a_hundred_times_as_deep_takes_little_more_time(tmp_path: Path):
    def taken(depth: int) -> float:
        folder = tmp_path.joinpath(str(depth), *"d" * depth)
        folder.mkdir(parents=True)
        for number in range(1000):
            (folder / f"{number}.md").touch()
        top = tmp_path / str(depth)
        return seconds(lambda: tree_files(source(), top, top / "state"))

    assert taken(400) / taken(4) < 6


def listed(texts: int, slow: int) -> list[TreeFile]:
    """Files of a tree, one of which is not read."""
    names = [*(f"a/{n}.md" for n in range(texts)), *(f"a/{n}.pdf" for n in range(slow))]
    return [TreeFile(Path(name), name) for name in names] + [
        TreeFile(Path("x.pdf"), "x.pdf", "hidden: x")
    ]


@pytest.mark.parametrize(
    ("texts", "slow", "parts"),
    [
        (3, 0, {"all": 4}),
        (0, 1, {"all": 1, "files": 1}),
        (499, 40, {"all": 500, "files": 40}),
        (
            500,
            41,
            {
                "part-000-of-2": 247,
                "part-001-of-2": 254,
                "files-000-of-2": 20,
                "files-001-of-2": 21,
            },
        ),
    ],
)
def test_what_takes_long_is_apart_and_many_files_are_dealt_into_parts(
    texts: int, slow: int, parts: dict[str, int]
):
    made = tree_parts(listed(texts, slow), "auto")
    assert {name: len(files) for name, files in made.items()} == parts


def test_a_file_that_comes_or_goes_changes_its_own_part_alone():
    before, after = (tree_parts(listed(count, 90), "auto") for count in (2900, 2901))
    changed = {name for name in before if before[name] != after[name]}
    assert len(before) == len(after) == 8 + 4 and len(changed) == 1
    assert max(map(len, after.values())) < 500
    assert tree_parts(listed(2900, 90)[::-1], "auto").keys() == before.keys()
