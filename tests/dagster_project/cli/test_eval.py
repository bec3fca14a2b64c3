"""Evaluations of a published index: by command, as assets, before publishing, and as a page in a
browser.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
import yaml
from click.testing import CliRunner, Result

from dagster_project.cli.main import main
from dagster_project.config.settings import load_settings
from dagster_project.definitions import build_definitions
from dagster_project.evaluation.evaluate import require_as_good
from dagster_project.evaluation.evaluator import drafting_tables
from dagster_project.index.search.opened_index import open_index
from dagster_project.orchestration.names import EVALUATE
from tests.archives import Workspace
from transforms.errors import CheckFailedError, SettingsError
from transforms.evaluation.ground_truth import draft_queries
from transforms.retrieval.pipeline import RANKED
from transforms.settings.designs import DESIGNS
from transforms.settings.search import SearchSettings

TOPICS = {"compactor": 0, "write-ahead log": 100, "shell": 200, "garbage collector": 300}


def queries() -> list[dict[str, Any]]:
    """For each topic two queries whose answers are the mails of its thread, and one chat that is
    nowhere.
    """
    made = []
    for topic, first in TOPICS.items():
        for number, words in enumerate((topic, f"what about the {topic} </script><b>now</b>")):
            answers: list[dict[str, Any]] = [
                {"message": f"m{first + n}@example.org", "grade": 2 - n % 2} for n in range(3)
            ]
            made.append(
                {
                    "id": f"{topic.split()[0]}-{number}",
                    "query": words,
                    "tags": [
                        "first" if number == 0 else "second",
                        "chat" if first == 200 else "mail",
                    ],
                    "relevant": [
                        *answers,
                        {"thread": answers[0]["message"]},
                        {"chat": "never said"},
                    ],
                }
            )
    return made


@pytest.fixture(scope="module")
def measured(built_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    made = built_once.copied(tmp_path_factory.mktemp("evaluated") / "work")
    strict = "[profiles.strict]\nsimilarity_threshold = 0.48\ncandidates_lexical = 1\n"
    with_queries(made, f"profiles = ['default', 'lexical', 'vector', 'rrf', 'strict']\n{strict}")
    return made


def with_queries(workspace: Workspace, extra: str = "") -> None:
    (workspace.folder / "queries.yaml").write_text(yaml.safe_dump({"queries": queries()}))
    text = workspace.config.read_text()
    workspace.config.write_text(f'{text}\n[evaluation]\nqueries = ["queries.yaml"]\n{extra}')


def weft(workspace: Workspace, *arguments: str) -> Result:
    return workspace.weft("eval", *arguments, env={"COLUMNS": "140"})


@pytest.fixture(scope="module")
def report(measured: Workspace) -> dict[str, Any]:
    done = weft(measured, "run", "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def without_times(report: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in report.items() if k != "timing"}


@pytest.mark.exhaustive
def test_the_same_index_gives_the_same_report_but_for_the_times(
    measured: Workspace, report: dict[str, Any]
):
    again = json.loads(weft(measured, "run", "--json", "--no-page").stdout)
    assert json.dumps(without_times(again)) == json.dumps(without_times(report))
    assert again["timing"].keys() == {"made_at", "latency"}


def test_a_report_lies_below_the_root_under_model_and_time(
    measured: Workspace, report: dict[str, Any]
):
    files = sorted((measured.settings.root / "eval").iterdir())
    assert {f.suffix for f in files} == {".json", ".html"}
    assert all(f.name.startswith("weft-1-256-20") for f in files)
    assert json.loads(files[0].with_suffix(".json").read_text())["index"] == report["index"]


def test_the_right_mails_are_found_and_chat_is_left_out(report: dict[str, Any]):
    assert len(report["queries"]) == 2 * len(TOPICS)
    assert {"form": "chat", "status": "unanswerable", "entries": 8} in report["entries"]["counts"]
    (row,) = [
        r
        for r in report["summary"]
        if (r["profile"], r["stage"], r["level"], r["measure"], r["tag"])
        == ("default", "final", "document", "Recall@100", None)
    ]
    assert row["mean"] == 1
    assert report["order"] == ["default", "lexical", "vector", "rrf", "strict"]
    order = "lexical vector fused gated threads documents pool latest reranked units final"
    assert " ".join(report["stages"]) == order
    assert "gated" not in report["stages_of"]["default"]
    results = [
        result["hits"] for query in report["queries"] for result in query["results"].values()
    ]
    assert all(len({hit["chunk_id"] for hit in hits}) == len(hits) for hits in results)


def test_the_table_names_profiles_measures_and_what_was_left_out(measured: Workspace):
    run = weft(
        measured,
        "run",
        "--no-page",
        "--tag",
        "first",
        "--profile",
        "lexical",
        "--profile",
        "default",
    )
    assert run.exit_code == 0, run.output
    assert "4 queries" in run.output
    assert run.output.index("lexical") < run.output.index("default")
    assert "8 right answers are chat" not in run.output
    assert "4 right answers are chat, and no conversation is published" in run.output


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (
            ["run", "--profile", "nosuch"],
            "no profile is called 'nosuch'; known are default, lexical",
            2,
        ),
        (
            ["run", "--tag", "nosuch"],
            "no query has the tag 'nosuch'; there are chat, first, mail, second",
            2,
        ),
        (["run", "--queries", "nosuch.yaml"], "nosuch.yaml cannot be read as ground truth", 2),
        (["run", "--queries", sys.executable], "cannot be read as ground truth", 2),
        (["sweep", "--set", "lexical_weight"], "write NAME=VALUE,VALUE", 2),
        (["sweep", "--set", "nosuch=1"], "nosuch", 2),
        (["sweep"], "give --set or --build", 2),
        (["sweep", "--build", "sources.path=x"], "write SECTION.KEY", 2),
        (["sweep", "--build", "chunks.nosuch=x"], "--build chunks: nosuch", 2),
        (["sweep", "--set", "lexical_weight=-1"], "lexical_weight", 2),
        (["sweep", "--set", "lexical_weight=1", "--measure", "luck"], "known are nDCG@10", 2),
    ],
)
def test_faults_say_what_is_known(measured: Workspace, arguments: list[str], said: str, code: int):
    done = weft(measured, *arguments)
    assert said in done.output
    assert done.exit_code == code


def test_without_queries_the_remedy_is_named(built: Workspace):
    done = weft(built, "run")
    assert (done.exit_code, "weft eval init" in done.output) == (2, True)


def test_a_profile_of_the_settings_is_checked_when_they_are_read(built: Workspace):
    text = built.config.read_text()
    built.config.write_text(
        f"{text}\n[profiles.mine]\nlimit = 5\nfusion = 'rrf'\n[evaluation]\nprofiles = ['mine']\n"
    )
    assert load_settings(built.config).profile("mine") == SearchSettings(limit=5, fusion="rrf")
    built.config.write_text(f"{text}\n[profiles.mine]\nlimitt = 5\n")
    with pytest.raises(SettingsError, match="profile 'mine': limitt"):
        load_settings(built.config)


def test_a_sweep_orders_settings_by_quality_and_marks_the_frontier(measured: Workspace):
    done = weft(
        measured,
        "sweep",
        "--set",
        "lexical_weight=0,1",
        "--set",
        "quote_weight=0.1,0.3,2",
        "--json",
    )
    rows = json.loads(done.stdout)
    assert len(rows) == 6
    assert [r["mean"] for r in rows] == sorted((r["mean"] for r in rows), reverse=True)
    assert rows[0]["frontier"]
    assert {r["profile"] for r in rows} >= {
        "lexical_weight=0 quote_weight=0.1",
        "lexical_weight=1 quote_weight=2",
    }
    (kept,) = (measured.settings.root / "eval").glob("sweep-*.json")
    again = json.loads(kept.read_text())
    assert [row["mean"] for row in again["rows"]] == [row["mean"] for row in rows]
    assert [row["ms_per_query"] for row in again["timing"]["rows"]] == [
        row["ms_per_query"] for row in rows
    ]
    kept.unlink()


@pytest.mark.exhaustive
def test_every_stage_that_a_profile_switches_on_is_measured(measured: Workspace, every_key: None):
    text = measured.config.read_text()
    everything = (
        "[profiles.everything]\ncutoff_ratio = 0.5\naggregation = 'before_elbow'\ndiversity = 0.3\n"
        "collapse_threads = true\nsimilarity_threshold = 0.1\n"
    )
    measured.config.write_text(f"{text}\n{everything}")
    try:
        chosen = ["--profile", "default", "--profile", "everything"]
        found = json.loads(weft(measured, "run", "--json", "--no-page", *chosen).stdout)
        said = weft(measured, "run", "--no-page", *chosen).output
    finally:
        measured.config.write_text(text)
    own = [
        "gated",
        "sources",
        "reranked",
        "aggregated",
        "elbow",
        "diverse",
        "one_per_thread",
    ]
    assert [stage for stage in found["stages_of"]["everything"] if stage in own] == own
    assert set(own) & set(found["stages_of"]["default"]) == {"reranked"}
    for profile, stages in found["stages_of"].items():
        assert {r["stage"] for r in found["summary"] if r["profile"] == profile} == set(stages)
    for query in found["queries"]:
        assert all(
            set(own) <= hit["stages"].keys() for hit in query["results"]["everything"]["hits"]
        )
    assert all(stage in said for stage in own)


@pytest.mark.exhaustive
def test_a_sweep_over_settings_of_a_build_builds_beside_the_published_index(measured: Workspace):
    before = (measured.index / "CURRENT").resolve()
    arguments = [
        "sweep",
        "--build",
        "mail.max_message_bytes=1",
        "--set",
        "lexical_weight=0.5,0.7",
        "--json",
    ]
    rows = json.loads(weft(measured, *arguments).stdout)
    assert [r["mean"] for r in rows] == [0.0, 0.0]
    assert {r["profile"] for r in rows} == {
        f"mail.max_message_bytes=1 lexical_weight={w}" for w in ("0.5", "0.7")
    }
    assert (measured.index / "CURRENT").resolve() == before
    assert not measured.plan().publish


@pytest.mark.exhaustive
def test_the_designs_are_measured_beside_the_default_each_over_its_own_index(measured: Workspace):
    run = measured.weft("eval", "run", "--designs", "--json")
    rows = {row["design"]: row for row in json.loads(run.stdout)}
    assert [*rows] == ["default", *DESIGNS]
    assert rows["default"]["ahead"] == 0 and rows["default"]["build_seconds"] > 0
    assert all(row["low"] <= row["nDCG@10"] <= row["high"] for row in rows.values())
    assert all(
        (measured.settings.root / "eval" / "designs" / name / "index").is_dir() for name in rows
    )
    again = measured.weft("eval", "run", "--designs")
    assert "information-graph" in again.stdout and "beside the default" in again.stdout
    refused = measured.weft("eval", "run", "--designs", "--profile", "rrf")
    assert refused.exit_code == 2 and "--designs measures" in refused.stderr


def test_profiles_together_rank_as_each_does_alone(measured: Workspace):
    settings = load_settings(measured.config)
    profiles = {
        "first": SearchSettings(quote_weight=0.5),
        "middle": SearchSettings(quote_weight=2.0, stopwords=()),
        "last": SearchSettings(quote_weight=0.5, fusion="rrf", thread_weight=0),
    }
    asked = [q["query"] for q in queries()]
    index = open_index(settings)
    together, _ = index.rank_each(asked, profiles, 10, lambda *told: None)
    for name, search in profiles.items():
        index.settings = search
        alone = index.ranked(asked, limit=10).hits.select(list(RANKED))
        assert together.filter(profile=name).drop("profile", "label").equals(alone)
    index.close()


def test_an_index_without_titles_that_say_enough_gives_no_draft(
    measured: Workspace, tmp_path: Path
):
    done = weft(measured, "init", str(tmp_path / "draft.yaml"))
    assert (done.exit_code, "holds no subject, heading" in done.output) == (2, True)
    index = open_index(measured.settings)
    mails, nodes, links = drafting_tables(index)
    index.close()
    titled = mails.with_columns(subject=pl.col("subject") + " under heavy load")
    truth = draft_queries(titled, nodes, links, 3, "draft")
    assert "compactor under heavy load" in truth.queries.column("query").to_pylist()


def test_no_file_is_written_over(measured: Workspace):
    done = weft(measured, "init", str(measured.config))
    assert (done.exit_code, "is there already" in done.output) == (2, True)


def test_files_of_beir_are_converted(measured: Workspace, tmp_path: Path):
    (tmp_path / "queries.jsonl").write_text('{"_id": "1", "text": "compactor load"}\n')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\tm0@example.org\t1\n")
    target = tmp_path / "truth.yaml"
    given = [
        "--from-queries",
        str(tmp_path / "queries.jsonl"),
        "--from-qrels",
        str(tmp_path / "qrels.tsv"),
    ]
    done = weft(measured, "init", str(target), *given, "--form", "message")
    assert done.exit_code == 0, done.output
    (query,) = yaml.safe_load(target.read_text())["queries"]
    assert query["relevant"] == [{"message": "m0@example.org", "grade": 1}]


def test_two_reports_are_compared(measured: Workspace, tmp_path: Path):
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    for place, profile in ((before, "vector"), (after, "default")):
        place.write_text(weft(measured, "run", "--no-page", "--json", "--profile", profile).stdout)
    page = tmp_path / "compared.html"
    done = CliRunner().invoke(
        main, ["eval", "compare", str(before), str(after), "--page", str(page)]
    )
    assert done.exit_code == 0, done.output
    assert "after − before" in done.output
    assert page.stat().st_size > 10_000
    before.write_text('{"format": 0}')
    failed = CliRunner().invoke(main, ["eval", "compare", str(before), str(after)])
    assert (failed.exit_code, "not a report of this version" in failed.output) == (2, True)


def test_runs_of_trec_are_measured_as_they_are(tmp_path: Path):
    texts = {
        "qrels": "1 0 a 1\n",
        "one.run": "1 Q0 b 1 2 x\n1 Q0 a 2 1 x\n",
        "two.run": "1 Q0 a 1 1 y\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    places = [str(tmp_path / name) for name in texts]
    done = CliRunner().invoke(main, ["eval", "trec", *places, "--json"])
    means = {
        row["profile"]: row["mean"]
        for row in json.loads(done.stdout)["summary"]
        if row["measure"] == "MRR@10"
    }
    assert means == {"one.run": 0.5, "two.run": 1.0}
    assert "two.run − one.run" in CliRunner().invoke(main, ["eval", "trec", *places]).output
    failed = CliRunner().invoke(main, ["eval", "trec", places[0], places[0]])
    assert (failed.exit_code, "line 1: not the 6 fields" in failed.output) == (2, True)


@pytest.mark.exhaustive
def test_the_job_measures_what_the_command_measures(measured: Workspace, report: dict[str, Any]):
    definitions = build_definitions(measured.settings)
    with dg.DagsterInstance.ephemeral() as instance:
        done = definitions.resolve_job_def(EVALUATE).execute_in_process(instance=instance)
    (event,) = done.asset_materializations_for_node("evaluation_report")
    written = json.loads(Path(event.metadata["json"].value).read_text())  # type: ignore[arg-type]
    assert without_times(written) == without_times(report)
    assert event.metadata["queries"].value == len(report["queries"])


@pytest.mark.exhaustive
def test_a_publish_that_makes_answers_worse_is_refused(built: Workspace):
    with_queries(built, "publish_check = true\n")
    before = (built.index / "CURRENT").resolve()
    text = built.config.read_text()
    built.config.write_text(f'{text}\n[terms]\nstemmer = "porter"\n')
    assert built.build().published, "what answers as well as before is published"
    better = (built.index / "CURRENT").resolve()
    assert better != before
    built.config.write_text(f'{text}\n[terms]\nstemmer = "porter"\n[mail]\nmax_message_bytes = 1\n')
    with pytest.raises(
        CheckFailedError, match=r"nothing was published: nDCG@10 of profile default fell by"
    ):
        built.build()
    assert (built.index / "CURRENT").resolve() == better


def test_a_drop_beyond_chance_is_refused_and_names_the_worst_query():
    def values(*each: float) -> pl.DataFrame:
        return pl.DataFrame({"query_id": [f"q{n}" for n in range(len(each))], "value": each})

    with pytest.raises(
        CheckFailedError, match=r"default fell by 0\.5.* on 8 queries, most for q7, "
    ):
        require_as_good(values(*[1.0] * 8), values(*[0.5] * 7, 0.1), "default")
    require_as_good(
        values(*[1.0] * 8), values(0.1, *[1.0] * 7), "default"
    )  # one of eight may be chance
    require_as_good(values(*[1.0] * 4), values(*[0.0] * 4), "default")  # too few to tell


WINDOWS = [
    pytest.param(window, marks=pytest.mark.exhaustive)
    for window in ((1100, "light"), (390, "dark"))
]


@pytest.fixture(params=WINDOWS, ids=["desk", "phone-dark"])
def opened(
    chromium: Any, measured: Workspace, report: dict[str, Any], request: pytest.FixtureRequest
) -> Iterator[Any]:
    """The page, opened without network; what it complained about and asked for is checked at the
    end.
    """
    width, scheme = request.param
    file = max((measured.settings.root / "eval").glob("*.html"))
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request",
        lambda asked: complaints.extend([asked.url] if asked.url != file.as_uri() else []),
    )
    page.goto(file.as_uri())
    page.scheme = scheme
    yield page
    assert [c for c in complaints if not c.startswith("data:")] == []
    context.close()


def test_the_page_shows_plots_filters_queries_and_opens_one(opened: Any):
    assert opened.locator("svg circle").count() > 8
    assert opened.locator("#queries details").count() == 8
    opened.select_option("#tag", "chat")
    assert opened.locator("#queries details").count() == 2
    opened.fill("#find", "what about")
    assert opened.locator("#queries details").count() == 1
    opened.locator("#queries summary").click()
    hit = opened.locator("#queries .hit.right").first
    assert "grade" in hit.inner_text()
    assert "lexical #" in opened.locator("#queries .why").first.inner_text()
    assert "Where the right answers went" in opened.locator("#queries .pair").inner_text()
    assert "</script><b>now</b>" in opened.locator("#queries summary").inner_text()
    opened.select_option("#which", "lost")
    assert "of 8 queries" in opened.locator("#count").inner_text()


def test_the_page_says_which_stage_dropped_a_right_answer_and_why(opened: Any):
    opened.select_option("#second", "strict")
    opened.locator("#queries summary").first.click()
    pair = opened.locator("#queries .pair").first
    pair.wait_for()  # a folded part is drawn when the page hears of its opening, which is after the click
    strict, default = pair.locator("> div").all()
    dropped = strict.locator("td.dropped").all_inner_texts()
    assert all(re.fullmatch(r"gated: cosine \d\.\d+ is below 0\.48", why) for why in dropped if why)
    assert any(dropped)
    assert not any(default.locator("td.dropped").all_inner_texts())
    losses = opened.locator("#table-losses").inner_text()
    assert "gated" in losses
    assert "cosine … is below …" in losses
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_page_fits_its_window_and_follows_the_colour_scheme(opened: Any):
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    red, green, blue = opened.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    )
    assert (red + green + blue < 200) == (opened.scheme == "dark")


def test_measures_and_levels_can_be_chosen(opened: Any):
    first = opened.locator("#plot-profiles svg title").all_inner_texts() or opened.evaluate(
        "[...document.querySelectorAll('#plot-profiles title')].map(t => t.textContent)"
    )
    opened.select_option("#measure", "Recall@100")
    second = opened.evaluate(
        "[...document.querySelectorAll('#plot-profiles title')].map(t => t.textContent)"
    )
    assert first != second
    assert all("Recall@100" in text for text in second)
    opened.select_option("#level", "thread")
    assert opened.locator("#plot-stages svg circle").count() >= 4
