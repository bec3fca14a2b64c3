"""Why a search returns what it returns, on a built index."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from dagster_project.cli.main import main
from dagster_project.index.search.explain import explanation
from dagster_project.index.search.search_index import SearchIndex
from tests.archives import Workspace
from transforms.errors import UnknownIdError
from transforms.retrieval.search_filters import Filters

QUERY = "how the compactor behaves under load"


def test_every_stage_is_told_and_the_last_one_is_the_ranking(index: SearchIndex):
    made = explanation(index, QUERY, limit=3)
    ranked = index.ranked([QUERY], limit=3)
    order = "lexical vector fused threads documents pool latest reranked units final"
    assert " ".join(t.stage for t in made.stages) == order
    final = made.stages[-1].steps.drop_nulls("rank")
    assert final["chunk_no"].to_list() == ranked.hits["chunk_no"].to_list()
    assert final["score"].to_list() == ranked.hits["score"].to_list()
    assert made.label == ranked.labels[0]


def test_the_fate_of_a_hit_of_one_below_the_limit_and_of_one_that_a_filter_leaves_out(
    index: SearchIndex,
):
    chunks = index.ranked([QUERY], limit=5).hits["chunk_no"].to_list()
    facts = index.arrays.rows.of(chunks)
    ids = [facts[chunk]["chunk_id"] for chunk in chunks]
    told = {n: explanation(index, QUERY, ids[n], limit=2).fate for n in (1, 4)}
    assert {n: f.answer for n, f in told.items() if f} == {
        1: "hit 2",
        4: "dropped by the stage final: behind the first 2",
    }
    late = explanation(index, QUERY, ids[1], Filters(since=datetime(2020, 1, 1, tzinfo=UTC)))
    assert late.fate and late.fate.answer == "no candidate: the filters leave it out"


def test_what_is_no_candidate_says_its_places(index: SearchIndex):
    narrow = {"candidates_lexical": 1, "candidates_vector": 1, "thread_weight": 0.0}
    index.settings, before = index.settings.model_copy(update=narrow), index.settings
    try:
        ids = index.search([QUERY]).hits["doc_id"].to_pylist()
        other = index.connection.execute(
            "SELECT doc_id FROM chunks WHERE doc_id NOT IN (SELECT unnest(?)) AND text_lex ILIKE '%compactor%' "
            "ORDER BY ALL LIMIT 1",
            [ids],
        ).fetchall()[0][0]
        made = explanation(index, QUERY, other)
    finally:
        index.settings = before
    assert made.fate is not None
    assert "and only the first 1 are taken" in made.fate.answer and made.fate.moments == ()


def test_an_unknown_id_is_an_error_that_says_what_ids_are(index: SearchIndex):
    with pytest.raises(UnknownIdError, match="nothing in the index has the id"):
        explanation(index, QUERY, "no@such.mail")


def test_the_command_prints_stages_and_fate_and_json(built_once: Workspace):
    found = built_once.weft("search", QUERY, "--json")
    first = json.loads(found.stdout)["queries"][0]["hits"][0]["doc_id"]
    arguments = ["search", QUERY, "--why", first, "--rows", "2", "--config", str(built_once.config)]
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code == 0
    assert f"{first}: hit 1" in shown.stdout
    assert (
        "lexical vector fused threads documents pool latest reranked units final\n" in shown.stdout
    )
    told = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    assert told["id"]["answer"] == "hit 1"
    assert [s["rank"] for s in told["id"]["stages"] if s["stage"] == "final"] == [1]
    assert all(len(stage["rows"]) <= 4 for stage in told["stages"])
    assert {"chunk_id", "id", "title", "rank_before", "rank", "score", "reason", "into"} <= told[
        "stages"
    ][-1]["rows"][0].keys()


@pytest.mark.exhaustive
def test_two_processes_return_the_same_bytes(
    built_once: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    script = (
        "import hashlib, sys; from dagster_project.index.search.opened_index import open_index;"
        "from dagster_project.config.settings import load_settings; from pathlib import Path;"
        "settings = load_settings(Path(sys.argv[1]));"
        "search = settings.search.model_copy(update={'diversity': 0.3, 'cutoff_ratio': 0.5,"
        "'expand': ('parent', 'neighbours', 'section', 'links')});"
        "index = open_index(settings.model_copy(update={'search': search}));"
        "hits = index.search(sys.argv[2:]).hits;"
        "print(hits.num_rows, hashlib.sha256(repr(hits.to_pylist()).encode()).hexdigest())"
    )
    arguments = [str(built_once.config), QUERY, "release schedule", "Yes."]
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    paths = os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed}
    asked = [sys.executable, "-c", script, *arguments]
    other = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)
    monkeypatch.setattr(sys, "argv", ["here", *arguments])
    exec(script, {})
    assert capsys.readouterr().out == other.stdout
    assert int(other.stdout.split()[0]) > 0
