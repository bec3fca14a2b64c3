"""The exported graph on disk: written once, exchanged whole, cleaned of what is gone."""

import os
from pathlib import Path

import pytest

from dagster_project.extras.graph import exporter as graph_export
from dagster_project.extras.graph.exporter import FileGraphExporter
from dagster_project.extras.graph.transforms.hal_export import Folder


def document(name: str, *texts: str) -> Folder:
    chunks = {f"_chunks/{name}-{n}.md": text.encode() for n, text in enumerate(texts)}
    return Folder(
        f"s/{name}.md", f"s:{name}.md", {"index.json": " ".join(texts).encode(), **chunks}
    )


def top(text: str = "{}") -> Folder:
    return Folder("", None, {"index.json": text.encode(), "schema.json": b"{}"})


def files(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    return {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in folder.rglob("*")}


@pytest.fixture
def exporter(tmp_path: Path) -> FileGraphExporter:
    return FileGraphExporter(tmp_path / "graph")


def test_the_export_is_the_folders(exporter: FileGraphExporter):
    table, done = exporter.export([document("a", "one", "two"), top()])
    assert files(exporter.folder) == {
        "index.json": "{}",
        "s/a.md/_chunks/a-0.md": "one",
        "s/a.md/_chunks/a-1.md": "two",
        "s/a.md/index.json": "one two",
        "schema.json": "{}",
    }
    assert table.column("path").to_pylist() == sorted(files(exporter.folder))
    assert done == {"folders_written": 2, "folders_unchanged": 0, "folders_deleted": 0}


def test_a_second_run_touches_nothing(exporter: FileGraphExporter):
    folders = [document("a", "one", "two"), document("b", "three"), top()]
    first, _ = exporter.export(folders)
    before = stamps(exporter.folder)
    second, done = exporter.export(folders)
    assert stamps(exporter.folder) == before
    assert second.equals(first)
    assert done == {"folders_written": 0, "folders_unchanged": 3, "folders_deleted": 0}


def test_only_what_changed_is_written(exporter: FileGraphExporter):
    exporter.export([document("a", "one", "two"), document("b", "three"), top()])
    before = stamps(exporter.folder)
    _, done = exporter.export([document("a", "ONE"), document("b", "three"), top()])
    assert done["folders_written"] == 1
    assert sorted((exporter.folder / "s/a.md/_chunks").iterdir()) == [
        exporter.folder / "s/a.md/_chunks/a-0.md"
    ]
    other = exporter.folder / "s/b.md"
    assert {p: s for p, s in before.items() if p.is_relative_to(other)} == stamps(other) | {
        other: (other.stat().st_ino, other.stat().st_mtime_ns)
    }


def test_deleted_documents_and_strangers_go(exporter: FileGraphExporter):
    exporter.export([document("a", "one"), document("b", "two"), top()])
    (exporter.folder / "s/a.md/_chunks/a-7.md").write_text("left over")
    (exporter.folder / "s/a.md/_chunks/a-0.md").unlink()
    _, done = exporter.export([document("a", "one"), top()])
    assert done["folders_deleted"] == 1
    assert sorted(files(exporter.folder)) == [
        "index.json",
        "s/a.md/_chunks/a-0.md",
        "s/a.md/index.json",
        "schema.json",
    ]
    exporter.export([top()])
    assert sorted(files(exporter.folder)) == ["index.json", "schema.json"]


def test_a_document_becomes_a_folder_of_documents_and_back(exporter: FileGraphExporter):
    inside = Folder("s/a.md/x.md", "s:a.md/x.md", {"index.json": b"x"})
    over = Folder("s/a.md", None, {"index.json": b"folder"})
    for folders in (
        [document("a", "one"), top()],
        [inside, over, top()],
        [document("a", "one"), top()],
    ):
        exporter.export(folders)
        expected = {
            os.path.join(f.path, n): d.decode()  # noqa: PTH118
            for f in folders
            for n, d in f.files.items()
        }
        assert files(exporter.folder) == dict(sorted(expected.items()))


def test_an_interrupted_export_leaves_whole_documents_and_the_next_ends_it(
    exporter: FileGraphExporter, tmp_path: Path
):
    exporter.export([document("a", "one"), document("b", "two"), top("old")])

    def broken():
        yield document("a", "new one", "more")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exporter.export(broken())
    now = files(exporter.folder)
    assert (now["s/a.md/index.json"], now["s/a.md/_chunks/a-1.md"]) == ("new one more", "more")
    assert (now["s/b.md/index.json"], now["index.json"]) == ("two", "old")
    exporter.export([document("a", "new one", "more"), top("new")])
    assert "s/b.md/index.json" not in files(exporter.folder)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".graph.lock", "graph"]


def test_folders_are_exchanged_where_the_system_cannot_do_it_at_once(
    exporter: FileGraphExporter, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(graph_export.ctypes, "CDLL", lambda *_, **__: object())
    exporter.export([document("a", "one"), top()])
    exporter.export([document("a", "two", "three"), top()])
    assert files(exporter.folder)["s/a.md/index.json"] == "two three"
