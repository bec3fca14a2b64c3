"""What README and docs say, held against the code and against the sample built anew."""

import ast
import importlib.util
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import click
import duckdb
import nbformat
import pytest
import yaml
from click.testing import CliRunner, Result
from nbclient import NotebookClient

from dagster_project.cli.main import COMMANDS, main
from dagster_project.cli.terminal.lazy_group import loaded
from dagster_project.config.settings import load_settings
from dagster_project.definitions import build_definitions
from dagster_project.orchestration.asset_graph import make_assets
from dagster_project.orchestration.instance import open_instance
from dagster_project.orchestration.names import SEARCH
from dagster_project.outgoing.receipts import Receipts, Seen
from tests.timing import HUNG

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCE = '\n[[sources]]\nname = "sample"\nkind = "mbox"\npath = "mail/*"\n'
"""What completes a TOML block that shows no source."""

EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
MOST_LINES, LEAST_LINES = 35, 4
"""Lines of an example, and of what it prints."""

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


class Sample(NamedTuple):
    """The sample, built in a folder of its own."""

    config: Path
    index: Path

    def weft(self, *arguments: str) -> Result:
        return CliRunner(env={"COLUMNS": "110"}).invoke(
            main, [*arguments, "--config", str(self.config)]
        )

    def rows(self, statement: str) -> list[tuple]:
        """The rows of a statement on the published file, opened as docs/sql.md says."""
        with closing(duckdb.connect(str(self.index), read_only=True)) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return connection.execute(statement).fetchall()


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    line: int
    text: str


def blocks(*languages: str) -> list[Block]:
    """The fenced blocks of all pages in one of the languages."""
    return [
        Block(page, text[: found.start()].count("\n") + 1, found[2])
        for page in PAGES
        for text in [page.read_text(encoding="utf-8")]
        for found in _FENCE.finditer(text)
        if found[1] in languages
    ]


def each(found: list[Block]) -> pytest.MarkDecorator:
    """One test per block, named after its place; `make test-all` alone runs those that evaluate."""
    assert found
    cases = [
        pytest.param(b, marks=pytest.mark.exhaustive if "weft eval" in b.text else ())
        for b in found
    ]
    return pytest.mark.parametrize("block", cases, ids=[f"{b.page.name}:{b.line}" for b in found])


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sample]:
    folder = tmp_path_factory.mktemp("docs") / "sample"
    shutil.copytree(ROOT / "data" / "sample", folder, ignore=shutil.ignore_patterns("state"))
    made = Sample(folder / "weft.toml", folder / "state" / "index" / "CURRENT")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DAGSTER_HOME", raising=False)
        # Pseudonyms are words of the chat: with another key a chunk more or less is cut.
        patch.setenv("WEFT_PSEUDONYM_KEY", "the key with which the figures of the pages were made")
        built = made.weft("build", "--quiet")
        assert built.exit_code == 0, built.output
        yield made


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        spec.loader.exec_module(module)
    return module


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@each(blocks("sql"))
def test_every_statement_returns_rows(sample: Sample, block: Block):
    assert sample.rows(block.text)


@pytest.mark.exhaustive
@each(blocks("sql"))
def test_every_statement_runs_through_weft_sql(sample: Sample, block: Block):
    result = sample.weft("sql", block.text, "--json")
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)) == len(sample.rows(block.text))


@each(blocks("python"))
def test_every_python_block_runs_on_the_published_file(
    sample: Sample,
    block: Block,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(sample.config.parent)
    exec(
        compile(block.text, f"{block.page.name}:{block.line}", "exec"), {"path": str(sample.index)}
    )
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("script", EXAMPLES, ids=[script.stem for script in EXAMPLES])
def test_an_example_needs_no_import_of_weft_but_its_own(
    sample: Sample,
    script: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    text = script.read_text(encoding="utf-8")
    imported = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    names = {name for node in imported for name in modules_of(node)}
    assert "weft" in names and len(text.splitlines()) <= MOST_LINES
    assert names <= {"weft", "polars", *sys.stdlib_module_names}
    if "to_pandas" in text:
        pytest.importorskip("pandas", reason="pandas is not installed, nor needed by Weft")
    monkeypatch.chdir(sample.config.parent)
    # Its classes are found by the name of their module.
    runpy.run_path(str(script), run_name="example")
    assert len(capsys.readouterr().out.splitlines()) >= LEAST_LINES
    assert f"examples/{script.name}" in page("docs/python.md")


def modules_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    names = (
        [alias.name for alias in node.names]
        if isinstance(node, ast.Import)
        else [node.module or ""]
    )
    return [name.partition(".")[0] for name in names]


def test_others_verify_receipts_by_the_script_of_the_docs(sample: Sample):
    (script,), receipts = blocks("py"), Receipts(load_settings(sample.config).root)
    for _ in range(2):
        receipts.add("search", "words", Seen("v"), [], Counter())
        receipts.renew_key()
    export = sample.weft("mcp", "receipts", "export").stdout
    command = [sys.executable, "-c", script.text, json.loads(export.splitlines()[0])["key"]]
    for text, says in (
        (export, "receipts 1 to 4 are whole\n"),
        (export.replace('"search"', '"get"'), ""),
    ):
        assert subprocess.run(command, input=text, capture_output=True, text=True).stdout == says


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_own", [True, False])
def test_the_notebook_runs_on_the_published_file(
    sample: Sample, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_own: bool
):
    file = tmp_path / "own.ipynb" if is_own else ROOT / "docs" / "published_index.ipynb"
    if is_own:
        assert sample.weft("init", "--notebook", str(file)).exit_code == 0
    else:
        monkeypatch.setenv("WEFT_INDEX", str(sample.index))
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in cells)
    NotebookClient(
        notebook, timeout=int(HUNG), resources={"metadata": {"path": str(ROOT / "docs")}}
    ).execute()
    assert all(cell.outputs for cell in cells)


@each([b for b in blocks("yaml") if b.text.startswith("ops:")])
def test_a_scheduled_search_of_the_docs_finds_something(sample: Sample, block: Block):
    settings = load_settings(sample.config)
    with open_instance(settings) as instance:
        done = (
            build_definitions(settings)
            .resolve_job_def(SEARCH)
            .execute_in_process(yaml.safe_load(block.text), instance=instance)
        )
    (event,) = done.get_asset_materialization_events()
    assert event.materialization.metadata["hits"].value


@each(blocks("toml"))
def test_every_settings_block_is_valid(tmp_path: Path, block: Block):
    whole = block.text if "[[sources]]" in block.text else block.text + SOURCE
    path = tmp_path / "weft.toml"
    path.write_text(whole, encoding="utf-8")
    assert load_settings(path).sources


@each(blocks("console", "bash"))
def test_every_command_runs_or_is_known(sample: Sample, block: Block):
    for line in block.text.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        if program == "make":
            assert re.search(rf"^{arguments[0]}:", page("Makefile"), re.M), line
        elif arguments[0] in ("ui", "serve", "mcp") or arguments[:2] == ["graph", "serve"]:
            assert CliRunner().invoke(main, [*arguments, "--help"]).exit_code == 0, line
        else:
            assert program == "weft", line
            at = arguments.index("--config")
            result = sample.weft(*arguments[:at], *arguments[at + 2 :])
            assert result.exit_code == 0, f"{line}\n{result.output}"


def test_every_command_that_is_mentioned_has_its_options():
    for path in PAGES:
        for name, rest in re.findall(
            r"\bweft (build|search|context|sql|ui|serve(?! tokens)|get|similar|mcp(?! receipts)|plan|"
            r"backfill|forget)\b"
            r"([^`\n]*)",
            path.read_text(encoding="utf-8"),
        ):
            options = [p for p in loaded(COMMANDS[name]).params if isinstance(p, click.Option)]
            known = {o for option in options for o in (*option.opts, *option.secondary_opts)}
            assert set(re.findall(r"(?<!\S)--[\w-]+", rest)) <= known, (path.name, name, rest)


def test_links_between_pages_resolve():
    for path in (*PAGES, *ROOT.glob("dagster_project/extras/*/README.md")):
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if target.startswith("https://"):
                continue
            file, _, anchor = target.partition("#")
            linked = (path.parent / file).resolve() if file else path
            assert linked.is_file(), (path.name, target)
            assert not anchor or anchor in anchors(linked), (path.name, target)


def anchors(path: Path) -> set[str]:
    """The anchors that headings make."""
    heads = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


def test_each_change_is_one_line_in_the_imperative():
    changes = page("CHANGELOG.md").partition("\n### ")[2].splitlines()
    form = r"- (?!An?\b|The\b|\w+s\b)[A-Z][a-z]+,? .{,140}|(?:### )?[A-Z][\w ]+|"
    assert [change for change in changes if not re.fullmatch(form, change)] == []


def test_all_pages_are_reached_from_the_readme():
    linked = set(re.findall(r"\]\(docs/([\w-]+\.md)\)", page("README.md")))
    assert linked == {p.name for p in (ROOT / "docs").glob("*.md")}


def test_generated_pages_are_current(generator: ModuleType):
    assert len(generator.PAGES) > 8
    for name, made in generator.PAGES.items():
        assert page(f"docs/{name}") == made(), f"{name}: run `python docs/generate.py`"


def test_the_tables_page_describes_the_published_file(sample: Sample):
    published, _, _ = page("docs/tables.md").partition("## In the lake only")
    described = {
        (name, column, kind)
        for section in published.split("\n## ")[1:]
        for name in [section.partition("\n")[0]]
        for column, kind in re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.M)
    }
    there = sample.rows(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE database_name = current_database() AND NOT internal"
    )
    assert described == {(t, c, re.sub(r'"(\w+)"', r"\1", d)) for t, c, d in there}


def test_the_published_comments_are_those_of_the_tables_page(sample: Sample):
    text = page("docs/tables.md").replace("\\|", "|")
    rows = sample.rows(
        "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"
    )
    assert rows and [(t, c) for t, c, comment in rows if not comment or comment not in text] == []


def test_the_readme_shows_the_row_counts_of_the_sample(sample: Sample):
    shown = dict(re.findall(r"^│ (\w+) +│ +([\d,]+) │$", page("README.md"), re.M))
    (counted,) = sample.rows("SELECT value FROM manifest WHERE key = 'rows'")
    real = json.loads(counted[0])
    assert shown.keys() >= {"messages", "threads"}
    assert {name: int(n.replace(",", "")) for name, n in shown.items()} == {
        name: real[name] for name in shown
    }


def test_the_readme_shows_hits_that_the_sample_gives(sample: Sample):
    (output,) = [
        b.text for b in blocks("text") if b.page.name == "README.md" and " 2 hits " in b.text
    ]
    shown = re.findall(
        r"^(\S.*?)   2 hits of about (\d+) in (\d+) threads\n  1\. (.*)\n     (.*)\n", output, re.M
    )
    assert shown
    for query, hits, threads, subject, described in shown:
        assert f'"{query}"' in page("Makefile")
        found = sample.weft("search", query, "--limit", "1", "--json")
        result = json.loads(found.stdout)["queries"][0]
        (hit,) = result["hits"]
        # Each clone has pseudonyms of its own in its chats, whose words move the count by one or two.
        counted = (result["count"]["hits"], result["count"]["threads"])
        assert counted == pytest.approx((int(hits), int(threads)), abs=3)
        assert (hit["subject"], hit["from_name"], hit["list_id"]) == (
            subject,
            *described.split(" · ")[0:3:2],
        )
        assert f"mail {hit['thread_position']} of {hit['thread_size']}" in described


def test_make_run_ends_with_a_question_and_offers_context_for_all_three_topics_of_the_chat(
    sample: Sample,
):
    (budget, chat) = re.findall(
        r'weft context .*--budget (\d+) "data/sample/(.*)"', page("Makefile")
    )[0]
    found = sample.weft("context", "--json", "--budget", budget, str(sample.config.parent / chat))
    made = json.loads(found.stdout)
    heads = "\n".join(line for line in made["block"].splitlines() if line.startswith("## "))
    for topic in (
        "shifted by an hour|Time zones|Daylight",
        "Backup|Back up",
        "WAL|power cut|Recover",
    ):
        assert re.search(topic, heads), (topic, heads)
    assert made["tokens"] <= int(budget)
    (recipe,) = re.findall(r"^run:.*\n((?:\t.*\n)+)", page("Makefile"), re.M)
    assert re.findall(r"/weft (\w+)", recipe) == ["build", "search"]


def test_the_readme_shows_the_result_of_its_statement(sample: Sample):
    statement = next(b.text for b in blocks("sql") if b.page.name == "README.md")
    lines = ["│".join(str(v) for v in row) for row in sample.rows(statement)]
    assert "\n".join(lines) in re.sub(r" *│ *", "│", page("README.md"))


def test_bm25_in_sql_is_the_lexical_score_of_a_search(sample: Sample):
    rows = sample.rows("SELECT chunk_id, score FROM search_text('torn WAL records', 10000)")
    by_chunk = dict(rows)
    hits = json.loads(sample.weft("search", "torn WAL records", "--json").stdout)["queries"][0][
        "hits"
    ]
    found = [hit for hit in hits if hit["lexical_score"]]
    assert len(found) >= 3
    assert [by_chunk[hit["found_by"]] for hit in found] == pytest.approx(
        [hit["lexical_score"] for hit in found], abs=1e-4
    )


def test_the_pictures_show_every_asset_and_every_table_that_others_name(sample: Sample):
    shown = {
        name: set(re.findall(r">([a-z_]+)</text>", page(f"docs/images/{name}.svg")))
        for name in ("assets", "tables")
    }
    assert shown["assets"] == {
        k.path[-1] for d in make_assets(load_settings(sample.config)) for k in d.keys
    }
    joined = sample.rows(
        "SELECT DISTINCT table_name FROM duckdb_columns() JOIN duckdb_tables() USING (table_name) "
        "WHERE column_name IN ('message_id', 'thread_id', 'chunk_id', 'doc_id', 'attachment_id') "
    )
    assert {name for (name,) in joined} - shown["tables"] == set()


def test_every_reason_and_kind_of_the_sample_is_explained(sample: Sample):
    text = page("docs/concepts.md")
    found = sample.rows(
        "SELECT reason FROM exclusions UNION SELECT kind FROM blocks UNION SELECT chunk_kind FROM chunks"
    )
    assert [word for (word,) in found if f"`{word}`" not in text] == []


def test_pages_name_no_path_of_a_machine_and_no_design_paper():
    for path in PAGES:
        assert not re.search(r"/(work|tmp|home)/|\bseed \d", path.read_text(encoding="utf-8")), (
            path.name
        )


def test_the_pages_are_read_in_an_evening():
    """Prose, without code, generated pages, tables of what is read and figures of the laboratory."""
    generated = "tables.md settings.md commands.md performance.md"
    reference = [
        *generated.split(),
        "glossary.md",
        "python.md",
        "sources.md",
        "designs.md",
        "scale.md",
        "CHANGELOG.md",
    ]
    not_prose = re.compile(r"^```.*?^```|^\|[^\n]*\.\d\d[^\n]*$", re.M | re.S)
    words = {
        path.name: len(not_prose.sub("", path.read_text(encoding="utf-8")).split())
        for path in PAGES
        if path.name not in reference and path.parent.name != "measurements"
    }
    assert sum(words.values()) < 28_700, words


@pytest.mark.exhaustive
def test_the_site_is_built_without_a_broken_link(tmp_path: Path):
    for name in ("docs", "zensical.toml"):
        place = ROOT / name
        (shutil.copytree if place.is_dir() else shutil.copy)(place, tmp_path / name)
    zensical = Path(sys.executable).with_name("zensical")
    done = subprocess.run(
        [zensical, "build", "--strict"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    listed = set(
        re.findall(r'"([\w/-]+\.md)"', (ROOT / "zensical.toml").read_text(encoding="utf-8"))
    )
    assert listed == {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}
    (picture,) = re.findall(
        r'src="([^"]*way\.svg)"', (tmp_path / "site" / "index.html").read_text()
    )
    assert (tmp_path / "site" / picture).is_file()
    for built in (tmp_path / "site").rglob("*.html"):
        # Of other hosts the pages only have links; the theme's script loads Mermaid for elements of
        # that class.
        html = built.read_text(encoding="utf-8")
        loads = r"(?:script|img|iframe|source)[^>]*\bsrc|link[^>]*rel=[\"']?(?:stylesheet|pre(?:connect|load))[^>]*href"
        assert re.findall(rf"<(?:{loads})=[\"']?(?:https?:)?//", html) == [], built
        assert 'class="mermaid"' not in html and "class=mermaid" not in html


def test_every_module_that_a_page_names_is_there():
    named = {
        (path.name, module)
        for path in PAGES
        for module in re.findall(r"`([\w./]+\.py)`", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 50
    assert sorted((page, module) for page, module in named if not (ROOT / module).is_file()) == []
