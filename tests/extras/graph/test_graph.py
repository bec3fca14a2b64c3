"""A build with the graph enabled: published stripes, the export, the command line, and what changes bring."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from dagster_project.cli.main import main
from tests.archives import Once, Workspace, differences, discussion, rebuilt
from transforms.graph.hal_export import CHUNKS
from transforms.graph.hal_schema import SCHEMA

pytestmark = pytest.mark.exhaustive
DOCS = {"name": "docs", "kind": "tree", "path": "docs", "grain": "folder"}
SECTIONS = [
    ("Opening", "Open a store with a path. The lock keeps a second writer out."),
    ("Writing", "A batch of keys is written at once, or not at all."),
    ("Reading", "A reader sees what was committed before it began."),
    ("Compaction", "Sorted runs are merged, level by level, while nobody waits."),
    ("Snapshots", "A snapshot is a number; taking one costs nothing."),
    ("Backup", "Copy a snapshot to another disk, then check the copy."),
    ("Recovery", "After a power cut the log is cut at its last good record."),
    ("Limits", "Keys have at most sixty-four bytes, values at most a gigabyte."),
    ("Command line", "```sh\nstore open path\nstore put key value\nstore check path\n```"),
]
MANUAL = "# Manual\n\nHow the store is used.\n\n" + "\n\n".join(f"## {t}\n\n{text}" for t, text in SECTIONS)
PAIRS = "## Q: What happens to the log after a power cut?\n\nA: See [the manual](manual.md).\n"
INDEX = "# Guide\n\nStart with [the manual](manual.md#reading).\n"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory, once: Once) -> Workspace:
    """A built workspace of a mailing list and a tree in two folders; for reading only."""
    work = Workspace(tmp_path_factory.mktemp("graph") / "work").configure(
        {"name": "dev", "kind": "mbox", "path": "mail/*"},
        DOCS,
        graph={"enabled": True, "prompts": "top"},
        document_chunks={"chunker": "tree"},
    )
    work.write("dev.2004-01.mbox", discussion(0, 3, "compactor"))
    work.put("docs/guide/manual.md", MANUAL)
    work.put("docs/guide/index.md", INDEX)
    work.put("docs/guide/qa-pairs.md", PAIRS)
    work.put("docs/notes/one.md", "One note about the weather.")
    work.put("docs/old/gone.md", "Soon gone.")
    return once(work)


def graph(work: Workspace) -> dict[str, bytes]:
    """The exported files by path."""
    folder = work.settings.root / "graph"
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def stripes(work: Workspace) -> dict[str, tuple[int, int]]:
    """What a file that is written again changes, of the lake's files of orders by partition."""
    lake = work.lake
    paths = {p: Path(str(lake.path("stripe_orders", p))) for p in lake.partitions("stripe_orders")}
    return {p: (path.stat().st_ino, path.stat().st_mtime_ns) for p, path in paths.items()}


def run(work: Workspace, *arguments: str):
    return CliRunner().invoke(main, [arguments[0], "--config", str(work.config), *arguments[1:]])


def test_every_document_is_exported_and_valid(made_once: Workspace):
    files = graph(made_once)
    documents = made_once.column(
        "SELECT source || '/' || path FROM documents WHERE doc_id IN (SELECT doc_id FROM chunks)"
    )
    assert {f"{d}/index.json" for d in documents} <= set(files)
    assert (
        sum(CHUNKS in name for name in files)
        == made_once.column("SELECT count(*) FROM stripe_orders WHERE baseline = 'conceptual'")[0]
    )
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for name, data in files.items():
        if name.endswith("index.json"):
            validator.validate(json.loads(data))


def test_sql_python_the_command_line_and_the_export_show_one_order(made_once: Workspace):
    index = json.loads(graph(made_once)["docs/guide/manual.md/index.json"])
    chunks = index["_embedded"]["chunks"]["manual"]
    assert chunks["count"] == 11
    order = [chunks["baseline_conceptual"], *chunks["stripe_order"]]
    for count in (1, 4, 11):
        rows = made_once.column(f"SELECT chunk_index FROM stripe('docs:guide/manual.md', {count})")
        assert rows == order[:count]
        shown = run(made_once, "stripe", "--json", "-n", str(count), "manual.md")
        assert [c["chunk_index"] for c in json.loads(shown.output)["chunks"]] == order[:count]
    technical = made_once.column(
        "SELECT chunk_index FROM stripe('docs:guide/manual.md', 99, kind := 'technical')"
    )
    assert technical == [chunks["baseline_technical"], *chunks["stripe_order_technical"]]
    assert technical[0] == 10


def test_a_stripe_is_shown_with_its_text(made_once: Workspace):
    shown = run(made_once, "stripe", "-n", "1", "--technical", "docs:guide/manual.md")
    assert "Manual › Command line  chunk 10, similarity 1.000, code" in shown.output
    assert "store put key value" in shown.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["manuel.md"], "no document 'manuel.md'; the nearest names are docs:guide/manual.md"),
        (["--technical", "one.md"], "docs:notes/one.md has no technical stripe"),
    ],
)
def test_what_has_no_stripe_is_explained(made_once: Workspace, arguments: list[str], message: str):
    shown = run(made_once, "stripe", *arguments)
    assert shown.exit_code == 3
    assert message in shown.output


def test_a_question_is_answered_by_its_hash(made_once: Workspace):
    shown = run(made_once, "ask", "--static", "--json", "what happens to the log after a power cut")
    answer = json.loads(shown.output)
    assert answer["outcome"] == "PROMPTS"
    assert answer["hits"][0]["distance"] == 0
    assert answer["hits"][0]["question"] == "What happens to the log after a power cut?"
    assert "log" in answer["hits"][0]["text"]


@pytest.mark.parametrize(
    "arguments", [["--static", "merging sorted runs"], ["what happens to the log after a power cut"]]
)
def test_other_questions_are_searched(made_once: Workspace, arguments: list[str]):
    answer = json.loads(run(made_once, "ask", "--json", *arguments).output)
    assert answer["outcome"] == "HITS"
    assert answer["queries"][0]["hits"]


def test_incremental_equals_full(made: Workspace, tmp_path: Path):
    text = MANUAL.replace("## Reading", "## Deleting\n\nA deleted key is gone.\n\n## Reading")
    made.put("docs/guide/manual.md", text.replace("level by level", "one after the other"))
    made.put("docs/guide/qa-pairs.md", PAIRS + "\n## Q: What costs a snapshot?\n\nA: Nothing.\n")
    made.put("docs/added/more.md", "# More\n\nSee [the manual](../guide/manual.md).\n")
    (made.folder / "docs/guide/index.md").unlink()
    shutil.rmtree(made.folder / "docs/old")
    before = stripes(made)
    made.build()
    assert {p for p, state in stripes(made).items() if before.get(p) != state} == {"docs/added", "docs/guide"}
    after = graph(made)
    assert not [name for name in after if "index.md" in name or name.startswith("docs/old")]
    anew = rebuilt(made, tmp_path / "anew")
    assert graph(anew) == after
    assert differences(made.index, anew.index) == {}


def test_new_mail_touches_no_file_of_the_graph_and_a_lost_export_is_missed(made: Workspace):
    folder = made.settings.root / "graph"
    before, orders = {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in folder.rglob("*")}, stripes(made)
    assert made.plan().is_empty
    made.write("dev.2004-02.mbox", discussion(50, 2, "cache"))
    assert made.build().published
    assert {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in folder.rglob("*")} == before
    assert stripes(made) == orders
    assert made.plan().is_empty
    shutil.rmtree(folder)
    assert made.plan().publish


@pytest.mark.parametrize(
    ("table", "stale"),
    [
        ("chunk_classes", ("chunk_classes", "chunk_similarities", "stripe_orders")),
        ("stripe_orders", ("chunk_similarities", "stripe_orders")),
        ("chunk_keywords", ("chunk_keywords",)),
    ],
)
def test_a_lost_table_of_the_graph_is_made_again_with_what_depends_on_it(
    made: Workspace, table: str, stale: tuple[str, ...]
):
    made.lake.path(table, "docs/notes").unlink()
    plan = made.plan()
    assert plan.publish and not plan.stale
    assert not plan.whole and plan.graph == {"docs/notes": stale}
