"""What people meet at the command line: odd input, odd settings, and what each exit code says."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from assets.partitions import MAIL
from dagster_project.cli.main import COMMANDS, main
from dagster_project.cli.render.builds import BuildView
from dagster_project.cli.terminal.lazy_group import LazyGroup, loaded
from dagster_project.config.allowed_commands import allow
from dagster_project.orchestration.plan import Plan
from tests.archives import Mail, Workspace, discussion
from transforms.errors import SourceError
from transforms.retrieval.query_language import CONDITIONS


def reasons(work: Workspace) -> dict[str, str]:
    """Code of the reason of every quarantined place, by file name."""
    rows = work.sql("SELECT place, reason FROM quarantine")
    return {place.split(":")[0]: reason.split(":")[0] for place, reason in rows}


def test_one_key_shows_what_is_around_each_hit(
    built_once: Workspace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WEFT_SEARCH__EXPAND", '["parent", "neighbours"]')
    result = built_once.weft("search", "compactor load", "--json", "--limit", "6")
    hits = json.loads(result.stdout)["queries"][0]["hits"]
    assert {"parent"} <= {near["kind"] for hit in hits for near in hit["expansions"]}
    assert "parent: " in built_once.weft("search", "compactor load", "--limit", "6").stdout


def test_an_agent_gets_the_titles_above_a_text_and_then_the_whole_text(library: Workspace):
    ask = ("search", "source:notes snapshot reader", "--limit", "3")
    hits = json.loads(library.weft(*ask, "--json").stdout)["queries"][0]["hits"]
    expected = ""
    for hit in hits:
        body = library.weft("get", hit["citation"]).stdout.strip("\n")
        expected += f"⟨{hit['citation']}⟩\n{hit['breadcrumb']}\n\n{body}\n\n"
    assert hits and all(hit["breadcrumb"].startswith("> ") for hit in hits)
    assert library.weft(*ask, "--agent").stdout == expected
    ask = ("search", "source:dev compactor", "--limit", "1")
    (mail,) = json.loads(library.weft(*ask, "--json").stdout)["queries"][0]["hits"]
    above = f"⟨{mail['citation']}⟩\n> {mail['subject']}\n\n"
    assert library.weft(*ask, "--agent").stdout.startswith(above)
    assert library.weft("search", "zzyzzyx qwfpgj", "--agent").exit_code == 3
    assert library.weft("search", "compactor", "--agent", "--json").exit_code == 2


@pytest.mark.exhaustive
def test_options_change_one_search(built_once: Workspace):
    def found(*options: str) -> list[dict[str, Any]]:
        result = built_once.weft("search", "compactor load", "--json", "--limit", "6", *options)
        return list(json.loads(result.stdout)["queries"][0]["hits"])

    plain = found()
    assert not any(hit["expansions"] for hit in plain)
    assert any(hit["expansions"] for hit in found("--expand", "parent"))
    threads = [hit["thread_id"] for hit in found("--threads")]
    assert len(set(threads)) == len(threads) > len({hit["thread_id"] for hit in plain}) - 1
    assert found("--profile", "lexical")[0]["score"] != plain[0]["score"]
    assert len(found("--strict")) < len(plain)
    refused = built_once.weft("search", "compactor", "--profile", "none")
    assert refused.exit_code == 2 and "known are default" in refused.stderr


def test_hits_are_printed_without_scores_unless_they_are_asked_for(built_once: Workspace):
    assert "fused" not in built_once.weft("search", "compactor").stdout
    assert "fused" in built_once.weft("search", "compactor", "--explain").stdout


def test_sql_prints_csv_and_whole_tables_and_runs_one_statement(built_once: Workspace):
    wide = "SELECT 1 AS a, repeat('word ', 60) || 'end' AS b"
    printed = built_once.weft("sql", wide).stdout.splitlines()
    assert [line.count("word") for line in printed if "word end" in line] == [60]
    assert built_once.weft("sql", "--csv", "SELECT 1 AS a, 'x, y' AS b").stdout == 'a,b\n1,"x, y"\n'
    refused = built_once.weft("sql", "SELECT 1; SELECT 2")
    assert refused.exit_code == 2 and "2 SQL statements" in refused.stderr


def test_what_cannot_be_read_is_quarantined_with_its_reason(library: Workspace):
    expected = {
        "empty.mbox": "empty_file",
        "folder.mbox": "not_a_file",
        "broken.mbox.gz": "truncated_archive",
        "nothing.mbox.gz": "empty_file",
        "false.mbox.gz": "broken_archive",
        "picture.mbox": "not_mail",
        "huge.mbox": "too_large",
        "bomb.mbox.gz": "compression_bomb",
    }
    assert reasons(library).items() >= expected.items()


def test_other_mails_and_archives_than_a_broken_one_and_quotes_ten_thousand_deep_are_read(
    library: Workspace,
):
    assert library.column(
        "SELECT count(*) BETWEEN 31 AND 59 FROM messages WHERE place LIKE 'broken%'"
    ) == [True]
    chosen = "place LIKE 'huge%' OR message_id IN ('m0@example.org', 'm300@example.org')"
    assert library.column(f"SELECT count(*) FROM messages WHERE {chosen}") == [3]
    read = "SELECT max(byte_end) = any_value(strlen(body)) FROM blocks JOIN messages m USING (message_id)"
    assert library.column(f"{read} WHERE message_id = 'm500@example.org'") == [True]


@pytest.mark.exhaustive
def test_a_second_build_of_odd_archives_finds_nothing_to_do(library: Workspace, tmp_path: Path):
    result = library.copied(tmp_path / "work").weft("build", "--json")
    assert (result.exit_code, json.loads(result.output)["outcome"]) == (0, "UNCHANGED")


@pytest.mark.exhaustive
def test_copies_in_one_partition_are_kept_once_and_reused_ids_are_kept_apart(workspace: Workspace):
    mail = Mail(1, "The first text.", "Once")
    workspace.write("dev.2004-01.mbox", [mail, mail, Mail(1, "Another text.", "Twice")])
    workspace.write("dev.2004-02.mbox", [mail, Mail(2, "Unrelated.", "Other")])
    assert workspace.weft("build").exit_code == 0
    ids = workspace.column("SELECT message_id FROM messages ORDER BY 1")
    assert (ids[0], ids[2]) == ("m1@example.org", "m2@example.org")
    assert ids[1].startswith("m1@example.org+")
    assert reasons(workspace) == {"dev.2004-01.mbox": "duplicate"}
    assert workspace.column(
        "SELECT count(*) FROM memberships WHERE message_id = 'm1@example.org'"
    ) == [2]


SETTINGS = '[[sources]]\nname = "dev"\nkind = "mbox"\npath = "mail/*"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("[[sources]\n", "not valid TOML", id="bad TOML"),
        pytest.param("\udcff", "not valid TOML", id="no UTF-8"),
        pytest.param(
            SETTINGS + "[chunks]\nmessage_chars = 0\n", "greater than 0", id="out of range"
        ),
        pytest.param(SETTINGS + SETTINGS, "two sources are named 'dev'", id="one name twice"),
        pytest.param(
            SETTINGS.replace('"dev"', '"../dev"'), "sources.0.name", id="a name that is a path"
        ),
        pytest.param(SETTINGS.replace('"mbox"', '"pst"'), "sources.0.kind", id="an unknown kind"),
        pytest.param("[storage]\n", "sources", id="no sources"),
    ],
)
def test_wrong_settings_are_explained(workspace: Workspace, text: str, said: str):
    workspace.config.write_bytes(text.encode(errors="surrogateescape"))
    result = workspace.weft("build")
    assert result.exit_code == 2
    assert said in result.stderr
    assert str(workspace.config) in result.stderr
    assert not workspace.folder.joinpath("state").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["serach"], "is it `weft search`?"),
        (["eval", "rnu"], "is it `weft eval run`?"),
        (
            ["search", "x", "--since", "5.4.2025"],
            "2024, 2024-05 or 2024-05-17, not '5.4.2025'; or yesterday, today",
        ),
    ],
)
def test_a_slip_is_told_what_to_write(command: list[str], said: str):
    assert said in " ".join(CliRunner().invoke(main, command, prog_name="weft").output.split())


@pytest.mark.parametrize("query", ["-meta.x:y", "-f:tom wal", '-"torn record"'])
def test_a_query_that_is_read_as_an_option_is_told_how_to_be_asked(tmp_path: Path, query: str):
    for command in ["search", *(["graph ask"] if "graph" in COMMANDS else [])]:
        said = CliRunner().invoke(main, [*command.split(), query], prog_name="weft")
        text = " ".join(said.output.split())
        assert said.exit_code == 2 and f"weft {command} -- {shlex.quote(query)}" in text


def test_there_are_23_commands_and_a_former_one_names_what_replaced_it():
    former = {old: new for command in COMMANDS.values() for old, new in command.former.items()}
    assert len(COMMANDS) <= 23 and not former.keys() & COMMANDS.keys()
    for old, new in former.items():
        said = CliRunner().invoke(main, [old, "--help"])
        assert said.exit_code == 2 and f"`weft {new}`" in said.stderr and new.split()[0] in COMMANDS


def test_a_missing_settings_file_is_named(tmp_path: Path):
    result = CliRunner().invoke(main, ["build", "--config", str(tmp_path / "none.toml")])
    assert result.exit_code == 2
    assert "none.toml" in result.stderr and "WEFT_CONFIG" in result.stderr


NOT_THERE = {"name": "users", "kind": "mbox", "path": "mial/*"}


@pytest.mark.exhaustive
def test_a_source_that_is_not_there_removes_nothing(built: Workspace):
    built.configure({"name": "dev", "kind": "mbox", "path": "mail/dev/*"}, NOT_THERE)
    plan = built.plan()
    assert (list(plan.broken), plan.vanished, plan.stale) == (["users"], (), {})


@pytest.mark.exhaustive
def test_a_source_that_is_not_there_loses_nothing_and_stops_no_other(built: Workspace):
    told = built.folder / "told"
    command = [
        sys.executable,
        "-c",
        f"import sys; open({str(told)!r}, 'a').write(sys.stdin.read())",
    ]
    built.configure(
        {"name": "dev", "kind": "mbox", "path": "mail/dev/*"},
        NOT_THERE,
        alerts={"command": command},
    )
    allow(command, built.settings.root)
    built.write(
        "dev/dev.2004-03.mbox", [Mail(900, "a mail that came while another source was gone")]
    )
    result = built.weft("build", "--json")
    assert result.exit_code == 4
    assert result.stderr.count("source users: ") == 1
    printed = json.loads(result.stdout)
    assert (printed["outcome"], printed["removed"], list(printed["broken"])) == (
        "PUBLISHED",
        [],
        ["users"],
    )
    assert json.loads(told.read_text())["event"] == "source_failed"
    assert built.column("SELECT count(*) FROM messages WHERE source = 'users'") == [6]
    assert built.column("SELECT count(*) FROM messages WHERE message_id = 'm900@example.org'") == [
        1
    ]
    assert built.lake.partitions("messages")[-1] == "users/2004-01"
    again = built.weft("build", "--json")
    assert (again.exit_code, json.loads(again.stdout)["outcome"]) == (4, "UNCHANGED")
    assert built.weft("doctor").output.count("source users: ") == 1


def test_no_source_at_all_stops_the_build_and_deletes_nothing(built: Workspace):
    built.configure({"name": "dev", "kind": "mbox", "path": "mial/*"})
    before = (built.index / "CURRENT").resolve()
    result = built.weft("build", "--json")
    assert (result.exit_code, json.loads(result.stdout)["kind"]) == (4, "SourceError")
    assert (built.index / "CURRENT").resolve() == before


@pytest.mark.exhaustive
def test_what_a_lost_source_would_have_to_be_read_for_is_left_or_stops_the_build(built: Workspace):
    """Settings of reading that changed are not applied to it; a damaged file of the lake cannot be
    made again.
    """
    sources = (
        {"name": "dev", "kind": "mbox", "path": "mail/dev/*"},
        {"name": "users", "kind": "mbox", "path": "x/*"},
    )
    built.configure(*sources, mail={"max_archive_bytes": 10_000_000})
    result = built.build()
    assert {p.partition("/")[0] for p in result.plan.stale} == {"dev"}
    assert built.column("SELECT count(*) FROM messages WHERE source = 'users'") == [6]
    built.lake.path("messages", "users/2004-01").write_bytes(b"damaged")
    with pytest.raises(SourceError, match="source users"):
        built.build()
    assert built.column("SELECT count(*) FROM messages WHERE source = 'users'") == [6]


def test_storage_that_cannot_be_written_is_explained(workspace: Workspace):
    workspace.write("dev.2004-01.mbox", discussion(0, 2, "compactor"))
    (workspace.folder / "state").write_text("not a folder")
    result = workspace.weft("build")
    assert result.exit_code == 2
    assert str(workspace.folder / "state") in result.stderr


def test_hits_are_printed_with_their_citation(built_once: Workspace):
    result = built_once.weft("search", "compactor")
    assert result.exit_code == 0
    (size,) = built_once.column(
        "SELECT strlen(body) FROM messages WHERE message_id = 'm0@example.org'"
    )
    assert f"\u27e8m0@example.org block 0 bytes 0-{size}\u27e9" in result.stdout


def test_three_mails_that_a_hit_stands_for_are_named_and_further_ones_counted(
    built_once: Workspace,
):
    queries = "compactor", "compactor -f:ada -f:p0"
    said = [
        built_once.weft("search", "--threads", "--limit", "1", query).stdout for query in queries
    ]
    named = [len(re.findall(r"^       Re: .* \u27e8m\d@", text, re.M)) for text in said]
    assert named == [3, 3]
    counts = r"(\d) more of the same thread(?: \(--more shows (\d) further\))?"
    assert [re.findall(counts, text) for text in said] == [[("5", "2")], [("3", "")]]


def test_hits_as_json_name_every_query(built_once: Workspace):
    result = built_once.weft(
        "search", "compactor load", "garbage collector", "--json", "--limit", "2"
    )
    answer = json.loads(result.stdout)
    assert answer["outcome"] == "HITS"
    hits = [(q["query"], len(q["hits"])) for q in answer["queries"]]
    assert hits == [("compactor load", 2), ("garbage collector", 2)]
    assert answer["queries"][0]["hits"][0]["doc_id"] == "m0@example.org"


def test_a_wide_row_fits_a_terminal(built_once: Workspace, monkeypatch: pytest.MonkeyPatch):
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    assert "28 more columns: text_hash" in built_once.weft("sql", "FROM messages LIMIT 1").stdout


def test_a_search_without_hits_is_no_error_and_has_its_own_exit_code(built_once: Workspace):
    result = built_once.weft("search", "compactor", "--since", "2030-01-01", "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["outcome"] == "NO_RESULTS"
    assert "no text of the index is of this time" in result.stdout
    swapped = built_once.weft("search", "compactor", "--since", "2004-02", "--until", "2004-01")
    assert (swapped.exit_code, "exchange the two" in swapped.stderr) == (2, True)


def _truncated(current: Path) -> None:
    current.write_bytes(current.read_bytes()[: current.stat().st_size // 2])


def _hollow(current: Path) -> None:
    data = current.read_bytes()
    current.write_bytes(data[:20_000] + b"\x00" * (len(data) - 40_000) + data[-20_000:])


def _a_folder(current: Path) -> None:
    current.unlink()
    current.mkdir()


def _after(statement: str) -> Callable[[Path], None]:
    def change(current: Path) -> None:
        with duckdb.connect(str(current)) as connection:
            connection.execute(statement)

    return change


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda current: current.write_bytes(b""), "cannot be read"),
        (_truncated, "cannot be read"),
        (_hollow, "cannot be read"),
        (_a_folder, "cannot be read"),
        (_after("DROP TABLE manifest"), "cannot be read"),
        (_after("DROP TABLE chunks"), "cannot be read"),
        (_after("UPDATE manifest SET value = '1' WHERE key = 'layout_version'"), "layout 1"),
    ],
    ids=["empty", "truncated", "hollow", "folder", "no manifest", "no chunks", "layout"],
)
def test_an_unusable_index_is_explained(
    built: Workspace, damage: Callable[[Path], object], said: str
):
    current = (built.index / "CURRENT").resolve()
    damage(current)
    result = built.weft("search", "compactor", "--json")
    assert result.exit_code == 5, result.output
    assert said in result.stderr and "weft build" in result.stderr and str(current) in result.stderr
    assert json.loads(result.stdout)["outcome"] == "ERROR"
    if damage is _truncated:  # what was opened stays open in the process of a test
        current.unlink()
        assert built.weft("build").exit_code == 0
        assert built.weft("search", "compactor").exit_code == 0


def test_faults_of_a_query_point_at_their_character(built_once: Workspace):
    result = built_once.weft("search", 'load "not closed', "--json")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[1:] == ['  load "not closed', "       ^"]
    assert json.loads(result.stdout)["position"] == 5
    assert built_once.weft("search", 'compactor "load', "--plain").exit_code == 0


def test_a_search_says_what_it_understood(built_once: Workspace):
    query = "f:p1 load -shell"
    result = built_once.weft("search", query, "--json")
    understood = json.loads(result.stdout)["queries"][0]["understood"]
    assert (understood["text"], understood["order"]) == ("load", "score")
    assert [c["condition"] for c in understood["conditions"]] == ["f:p1", "-shell"]
    assert "only f:p1 (" in built_once.weft("search", query).stdout


def test_an_index_of_a_table_answers_until_another_is_built_and_one_of_another_model_is_refused(
    built: Workspace,
):
    built.config.write_text(f'{built.config.read_text()}\n[embedding]\nmodel = "static"\n')
    for command in (["search", "compactor"], ["sql", "FROM search_semantic('compactor')"]):
        assert built.weft(*command).exit_code == 0
    with duckdb.connect(str((built.index / "CURRENT").resolve())) as connection:
        connection.execute("UPDATE manifest SET value = 'another' WHERE key = 'model'")
    assert built.weft("search", "compactor").exit_code == 6


@pytest.mark.parametrize("damage", [Path.unlink, _truncated])
def test_a_damaged_file_of_the_lake_is_noticed(built: Workspace, damage: Callable[[Path], None]):
    january = "dev/2004-01"
    files = (
        ("messages", january),
        ("message_chunks", january),
        ("threads", None),
        ("embeddings", None),
    )
    for table, partition in (*files, ("embeddings", january)):
        path = Path(str(built.lake.path(table, partition)))
        before = path.read_bytes()
        damage(path)
        plan = built.plan()
        assert plan.publish
        assert list(plan.stale) == ([partition] if table in MAIL.tables else [])
        path.write_bytes(before)
        assert built.plan().is_empty


def test_a_search_imports_nothing_that_builds():
    packages = packages_after("search", "--help")
    assert {
        "dagster",
        "ibis",
        "pandas",
        "matplotlib",
        "docutils",
        "torch",
        "sqlalchemy",
        "duckdb",
        "numpy",
        "polars",
        "pyarrow",
        "pydantic",
    }.isdisjoint(packages)


def test_the_list_of_commands_imports_no_command():
    assert {"dagster", "duckdb", "ibis", "polars", "pyarrow"}.isdisjoint(packages_after("--help"))


def packages_after(*arguments: str) -> set[str]:
    """The packages that a process has loaded after a command."""
    code = f"""import sys
from dagster_project.cli.command import main
main({list(arguments)}, standalone_mode=False)
print("packages:", *{{name.partition(".")[0] for name in sys.modules}})"""
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(run.stdout.rpartition("packages:")[2].split())


@pytest.mark.parametrize("group", [main, loaded(COMMANDS["eval"])], ids=["weft", "eval"])
def test_the_list_of_commands_has_the_first_sentence_of_the_help_of_each(group: LazyGroup):
    helps = {name: loaded(command).get_short_help_str(1000) for name, command in group.lazy.items()}
    assert {name: command.help for name, command in group.lazy.items()} == helps


def test_the_module_runs_as_the_command():
    command = [sys.executable, "-m", "dagster_project.cli", "--help"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.startswith(
        "Usage: weft "
    )


def test_on_a_pipe_every_stage_ends_with_a_tick_and_the_rows_that_it_made(
    capsys: pytest.CaptureFixture[str],
):
    with BuildView(show=True) as view:
        view.plan(Plan((), {"dev/2004-01": ("messages",)}, (), True))
        view.step("messages", "dev/2004-01", 3)
        view.step("search_index", None, 1200)
        view.step("conversation_context", None, 2)
    lines = capsys.readouterr().out.splitlines()
    shown = [
        (line[0], line[2:20].strip(), line.split(" rows")[0].split()[-1]) for line in lines[2:]
    ]
    assert shown == [
        ("✓", "reading mail", "3"),
        ("✓", "publishing", "1,200"),
        ("✓", "finding context", "2"),
    ]


def test_on_a_pipe_lines_say_how_far_a_long_build_is(capsys: pytest.CaptureFixture[str]):
    text = ""
    with BuildView(show=True, every=0.01) as view:
        view.plan(Plan((), {"dev/2004-01": ("messages",), "dev/2": ("messages",)}, (), True))
        view.step("messages", "dev/2004-01", 1200)
        while "s: reading mail, 1 of 2 partitions, 1,200 rows\n" not in text:
            text += capsys.readouterr().out


def test_where_nothing_was_to_do_nothing_is_drawn(capsys: pytest.CaptureFixture[str]):
    with BuildView(show=True) as view:
        view.plan(Plan((), {}, (), False))
    assert capsys.readouterr().out.splitlines() == [
        "Looking for changes in the sources",
        "0 partitions in the sources, 0 to make, 0 to remove",
    ]


def test_each_stage_ends_with_its_own_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    clock = [100.0]
    monkeypatch.setattr("dagster_project.cli.render.builds.time.monotonic", lambda: clock[0])
    steps = [
        ("messages", "dev/1", 3),
        ("threads", None, 0),
        ("messages", "dev/2", 4),
        ("threads", None, 5),
    ]
    with BuildView(show=True) as view:
        view.plan(Plan((), {"dev/1": ("messages",), "dev/2": ("messages",)}, (), True))
        for step in steps:
            clock[0] += 2
            view.step(*step)
    lines = [
        re.sub("[━╸ ]+", " ", line).strip() for line in capsys.readouterr().out.splitlines()[2:]
    ]
    assert lines == ["✓ reading mail 7 rows 4.0 s", "✓ threading 5 rows 4.0 s"]


def test_the_help_of_a_search_begins_with_few_options_and_has_all_fields():
    few, every = (
        CliRunner().invoke(main, ["search", name]).stdout for name in ("--help", "--help-all")
    )
    options = [line.split()[0].rstrip(",") for line in few.splitlines() if line.startswith("  -")]
    assert len(options) <= 12 and "--help-all" in options
    assert all(f"{field}:" in few for field in CONDITIONS)
    assert set(options) < set(re.findall(r"(?m)^  (-[\w-]+)", every))
    assert {"--diversity", "--series"} <= set(re.findall(r"--[\w-]+", every))
