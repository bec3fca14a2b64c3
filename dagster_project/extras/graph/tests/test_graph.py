"""A build with the graph enabled: published stripes, the export, the command line, and what changes
bring.
"""

import json
import shutil
from pathlib import Path

import dagster as dg
import jsonschema
import pytest

from dagster_project.definitions import build_definitions
from dagster_project.extras.graph.published import PUBLISHED
from dagster_project.extras.graph.transforms.hal_export import CHUNKS, SCHEMA
from dagster_project.extras.graph.transforms.schema import TABLES
from tests.archives import Once, Workspace, differences, discussion, rebuilt

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
MANUAL = "# Manual\n\nHow the store is used.\n\n" + "\n\n".join(
    f"## {t}\n\n{text}" for t, text in SECTIONS
)
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
    folder = work.settings.root / "graph"
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def run(work: Workspace, *arguments: str):
    return work.weft(arguments[0], *arguments[1:])


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
        shown = run(made_once, "graph", "stripe", "--json", "-n", str(count), "manual.md")
        assert [c["chunk_index"] for c in json.loads(shown.output)["chunks"]] == order[:count]
    technical = made_once.column(
        "SELECT chunk_index FROM stripe('docs:guide/manual.md', 99, kind := 'technical')"
    )
    assert technical == [chunks["baseline_technical"], *chunks["stripe_order_technical"]]
    assert technical[0] == 10


def test_a_stripe_is_shown_with_its_text(made_once: Workspace):
    shown = run(made_once, "graph", "stripe", "-n", "1", "--technical", "docs:guide/manual.md")
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
    shown = run(made_once, "graph", "stripe", *arguments)
    assert shown.exit_code == 3
    assert message in shown.output


def test_a_question_is_answered_by_its_hash(made_once: Workspace):
    shown = run(
        made_once, "graph", "ask", "--static", "--json", "what happens to the log after a power cut"
    )
    answer = json.loads(shown.output)
    assert answer["outcome"] == "PROMPTS"
    assert answer["hits"][0]["distance"] == 0
    assert answer["hits"][0]["question"] == "What happens to the log after a power cut?"
    assert "log" in answer["hits"][0]["text"]


@pytest.mark.parametrize(
    "arguments",
    [["--static", "merging sorted runs"], ["what happens to the log after a power cut"]],
)
def test_other_questions_are_searched(made_once: Workspace, arguments: list[str]):
    answer = json.loads(run(made_once, "graph", "ask", "--json", *arguments).output)
    assert answer["outcome"] == "HITS"
    assert answer["queries"][0]["hits"]


def test_incremental_equals_full(made: Workspace, tmp_path: Path):
    text = MANUAL.replace("## Reading", "## Deleting\n\nA deleted key is gone.\n\n## Reading")
    made.put("docs/guide/manual.md", text.replace("level by level", "one after the other"))
    made.put("docs/guide/qa-pairs.md", PAIRS + "\n## Q: What costs a snapshot?\n\nA: Nothing.\n")
    made.put("docs/added/more.md", "# More\n\nSee [the manual](../guide/manual.md).\n")
    (made.folder / "docs/guide/index.md").unlink()
    shutil.rmtree(made.folder / "docs/old")
    made.build()
    after = graph(made)
    assert not [name for name in after if "index.md" in name or name.startswith("docs/old")]
    anew = rebuilt(made, tmp_path / "anew")
    assert graph(anew) == after
    assert differences(made.index, anew.index) == {}


def test_new_mail_touches_no_file_of_the_graph_and_a_lost_export_is_missed(made: Workspace):
    folder = made.settings.root / "graph"
    before = {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in folder.rglob("*")}
    assert made.plan().is_empty
    made.write("dev.2004-02.mbox", discussion(50, 2, "cache"))
    assert made.build().published
    assert {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in folder.rglob("*")} == before
    assert made.plan().is_empty
    shutil.rmtree(folder)
    assert made.plan().publish


@pytest.mark.parametrize("table", ["chunk_classes", "stripe_orders", "chunk_keywords"])
def test_a_lost_table_of_the_graph_is_made_again(made: Workspace, table: str):
    made.lake.path(table).unlink()
    plan = made.plan()
    assert plan.publish and not plan.stale and table in plan.whole
    before = made.index.name
    made.build()
    assert made.plan().is_empty and made.index.name == before


def test_disabled_it_leaves_no_file_and_its_published_tables_are_empty(made: Workspace):
    made.configure(
        {"name": "dev", "kind": "mbox", "path": "mail/*"}, DOCS, document_chunks={"chunker": "tree"}
    )
    made.build()
    assert not [t.name for t in TABLES if made.lake.is_stored(t.name)]
    assert made.column("SELECT count(*) FROM stripe('docs:guide/manual.md', 3)") == [0]
    assert made.column("SELECT count(*) FROM chunk_keywords") == [0]
    shutil.rmtree(made.settings.root / "graph")
    for command, code in ((["graph", "stripe", "guide/index.md"], 3), (["graph", "serve"], 5)):
        shown = run(made, *command)
        assert shown.exit_code == code
        assert "set `enabled = true` in [graph]" in shown.output


def test_each_table_is_an_asset_with_its_lineage_and_a_link_to_its_code(made_once: Workspace):
    specs = {s.key: s for s in build_definitions(made_once.settings).resolve_all_asset_specs()}
    assert {dg.AssetKey(table.name) for table in TABLES} <= specs.keys()
    assert {dg.AssetKey(name) for name in PUBLISHED} <= {
        dep.asset_key for dep in specs[dg.AssetKey("search_index")].deps
    }
    metadata = specs[dg.AssetKey("chunk_keywords")].metadata
    (place,) = metadata["dagster/code_references"].code_references
    line = Path(place.file_path).read_text().splitlines()[place.line_number - 1]
    assert line.startswith("def chunk_keywords(")
    assert "keyword" in metadata["dagster/column_lineage"].deps_by_column


@pytest.mark.parametrize(
    "values", [{"base_url": "https://a:hidden@b.org"}, {"origins": ["https://a:hidden@b.org"]}]
)
def test_an_address_that_is_refused_is_not_repeated(tmp_path: Path, values: dict[str, object]):
    work = Workspace(tmp_path).configure(graph=values)
    shown = run(work, "plan")
    assert shown.exit_code == 2 and "graph." in shown.output and "hidden" not in shown.output
