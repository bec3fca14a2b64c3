"""Builds with a model of the network: what they cost, what they say, and what happens when models
change.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import dagster as dg
import pytest
from click.testing import Result

from assets import vector_parts
from assets.publish import REUSE
from dagster_project.composition.objects import make_embedding_cache, make_publisher
from tests import gemini_loopback as server
from tests.archives import Mail, Workspace, differences, discussion, embedded, mbox, rebuilt
from tests.assistants import called
from tests.gemini_loopback import KEY, Loopback
from tests.pages import pages
from tests.timing import until
from transforms.errors import ModelMismatchError

pytestmark = pytest.mark.exhaustive


def with_gemini(work: Workspace, **settings: object) -> Workspace:
    lines = [
        "",
        "[embedding]",
        'model = "gemini"',
        "[gemini]",
        *(f"{k} = {json.dumps(v)}" for k, v in settings.items()),
    ]
    work.config.write_text(work.config.read_text() + "\n".join(lines) + "\n")
    return work


def answer(result: Result) -> Mapping:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_moving_to_another_model_and_back(built: Workspace, gemini: Loopback):
    before = built.config.read_text()
    with_gemini(built)
    costs = answer(built.weft("plan", "--cost", "--json"))
    assert not gemini.requests
    assert costs["texts"] == costs["texts_to_embed"] > 0
    assert costs["price_usd"] == round(costs["tokens"] * 0.20e-6, 4)
    assert costs["batch_price_usd"] == round(costs["tokens"] * 0.10e-6, 4)

    gemini.rule = lambda texts: server.expired_key
    failed = built.weft("build", "--json")
    assert failed.exit_code == 9
    assert "does not accept the key in GEMINI_API_KEY" in failed.stderr
    assert built.weft("search", "compactor").exit_code == 0

    gemini.rule = lambda texts: None
    figures = answer(built.weft("build", "--json"))["embedding"]
    assert figures["embedded"] == costs["texts_to_embed"] == len(gemini.paid)
    assert 0 < figures["tokens"] <= costs["tokens"]
    assert figures["calls"] == len(list(gemini.times)) - 1
    assert built.sql("SELECT DISTINCT model FROM embeddings") == [("gemini-embedding-2",)]
    assert built.weft("search", "compactor").exit_code == 0

    asked = len(gemini.requests)
    answer(built.weft("build", "--json"))
    assert len(gemini.requests) == asked
    built.config.write_text(before)
    mismatch = built.weft("search", "compactor")
    assert mismatch.exit_code == 6
    assert "run `weft build` with these settings, or search with the old ones" in mismatch.stderr
    again = answer(built.weft("build", "--json"))["embedding"]
    assert (again["embedded"], again["reuse_ratio"]) == (0, 1.0)
    holding = [p for p in built.folder.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
    assert holding == []
    assert all(KEY not in r.output + r.stderr for r in (failed, mismatch))


def test_a_mail_with_an_address_is_masked_sent_once_and_published(
    workspace: Workspace, gemini: Loopback
):
    with_gemini(workspace)
    mails = [
        Mail(1, "Write to ann@example.org."),
        Mail(2, "Write to bob@example.org."),
        Mail(3, "Write."),
    ]
    workspace.write("dev.2004-01.mbox", mails)
    costs = answer(workspace.weft("plan", "--cost", "--json"))
    figures = answer(workspace.weft("build", "--json"))["embedding"]
    assert figures["screened_email"] == 2
    assert (costs["texts_to_embed"], figures["embedded"], len(gemini.paid)) == (2, 2, 2)
    assert not [text for text in gemini.asked if "@" in text]
    vectors = workspace.column(
        "SELECT vector FROM embeddings JOIN chunks USING (chunk_no) ORDER BY doc_id"
    )
    assert vectors[0] == vectors[1] != vectors[2]
    again = answer(workspace.weft("plan", "--cost", "--json"))
    assert (again["texts_to_embed"], again["price_usd"]) == (0, 0)
    workspace.write("dev.2004-02.mbox", [Mail(4, "Write to ben@example.org.")])
    answer(workspace.weft("build", "--json"))
    assert (len(gemini.paid), set(gemini.paid.values())) == (2, {1})


def test_the_build_after_a_kill_says_what_is_perhaps_paid_twice(
    workspace: Workspace, gemini: Loopback
):
    with_gemini(workspace)
    workspace.write("dev.2004-01.mbox", discussion(0, 5, "compactor"))
    gemini.rule = lambda texts: server.hangs
    command = [Path(sys.executable).parent / "weft", "build", "--config", workspace.config]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as build:
        until(lambda: gemini.requests or build.poll() is not None, "a request of the build")
        build.kill()
    assert build.returncode == -signal.SIGKILL
    gemini.rule = lambda texts: None
    costs = answer(workspace.weft("plan", "--cost", "--json"))
    assert costs["texts_perhaps_paid"] == costs["texts_to_embed"] == 5
    built = workspace.weft("build")
    assert "5 texts were in requests whose answer an earlier run did not see" in built.stdout
    assert "texts_perhaps_paid" not in answer(workspace.weft("plan", "--cost", "--json"))


def test_vectors_made_in_groups_are_those_made_at_once(
    built: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(vector_parts, "_HASHES_AT_ONCE", 3)
    assert differences(built.index, rebuilt(built, tmp_path / "groups").index) == {}


def test_a_budget_that_each_group_of_texts_keeps_holds_for_all(
    built: Workspace, gemini: Loopback, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(vector_parts, "_HASHES_AT_ONCE", 3)
    with_gemini(built, budget_tokens=10)
    needed = answer(built.weft("plan", "--cost", "--json"))["tokens"]
    for budget in (10, needed - 1):
        built.config.write_text(built.config.read_text().replace("= 10\n", f"= {budget}\n"))
        result = built.weft("build")
        assert f"the budget of a run has {budget:,} left" in result.stderr
        assert result.exit_code == 9 and not gemini.requests
    built.config.write_text(built.config.read_text().replace(f"= {needed - 1}\n", f"= {needed}\n"))
    assert answer(built.weft("build", "--json"))["embedding"]["embedded"] == len(gemini.paid)


def test_a_text_that_is_refused_is_published_without_a_vector(built: Workspace, gemini: Loopback):
    with_gemini(built)
    built.write(
        "dev/dev.2004-03.mbox",
        [Mail(800, f"The zeppelin has {server.FORBIDDEN} on it.", "Zeppelins")],
    )
    gemini.rule = server.blocks_forbidden
    result = built.weft("build")
    assert result.exit_code == 0
    assert "1 texts are refused by the model and found by their words alone" in result.stdout
    ((mail, model, reason),) = built.sql("SELECT doc_id, model, reason FROM embedding_refusals")
    assert (mail, model) == ("m800@example.org", "gemini-embedding-2")
    assert "The content is blocked" in reason
    hits = answer(built.weft("search", "zeppelin", "compactor load", "--json"))["queries"]
    assert (hits[0]["hits"][0]["doc_id"], hits[0]["hits"][0]["vector_rank"]) == (mail, None)
    assert mail not in {h["doc_id"] for h in hits[1]["hits"] if h["vector_rank"]}
    statements = statements_of_all_doors(built, f"zeppelin of {server.FORBIDDEN}")
    assert {*map(str, statements)} == {"['vectors (the model refuses 1 of 1 queries)']"}

    asked = gemini.asked[
        built.column("SELECT text_embed FROM chunks WHERE doc_id = 'm800@example.org'")[0]
    ]
    assert built.plan().is_empty
    gemini.rule = lambda texts: None
    assert (
        answer(built.weft("cache", "prune", "--refused", "--json"))["refusals"] == 2
    )  # and a query
    figures = answer(built.weft("build", "--json"))["embedding"]
    assert (figures["embedded"], figures.get("refused_texts")) == (1, None)
    assert built.sql("SELECT count(*) FROM embedding_refusals") == [(0,)]
    text = built.column("SELECT text_embed FROM chunks WHERE doc_id = 'm800@example.org'")[0]
    assert gemini.asked[text] == asked + 1


def statements_of_all_doors(work: Workspace, text: str) -> list[list[str]]:
    """The legs that each door says it lacked for a text."""
    of_tools = called(work.settings, ("search", {"query": text}), ("context", {"text": text}))
    command = ("context", "--stdin", "--json")
    given = [
        *(said.structured_content for said in of_tools),
        answer(work.weft("search", text, "--json")),
    ]
    given.append(answer(work.weft(*command, input=text)))
    with pages(work.settings) as client:
        doors = {"/api/search": {"q": text}, "/api/context": {"text": text}}
        given += [client.get(path, params=params).json() for path, params in doors.items()]
    return [statement["completeness"]["missing_legs"] for statement in given]


def test_vectors_of_another_model_in_the_lake_are_not_published(built: Workspace, gemini: Loopback):
    of_table = built.lake.tables["embeddings"]
    with_gemini(built)
    publisher = make_publisher(built.settings, built.lake)
    publisher.lake.tables["embeddings"] = of_table
    with pytest.raises(ModelMismatchError, match="weft-1-256 with 256 dimensions"):
        publisher.publish(dict.fromkeys(built.lake.partitions("messages"), "mail"))


def test_a_check_warns_of_texts_that_are_embedded_a_second_time(built: Workspace):
    key = dg.AssetCheckKey(dg.AssetKey("embeddings"), REUSE)

    def last_check() -> tuple[bool, float]:
        with built.instance() as instance:
            records = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])
            assert (found := records[key].evaluation)
        assert found.severity == dg.AssetCheckSeverity.WARN
        return found.passed, float(str(found.metadata["reuse_ratio"].value))

    assert last_check() == (True, 1.0)
    (vectors,) = make_embedding_cache(built.settings).root.rglob("vectors.sqlite")
    vectors.unlink()
    built.write("dev/dev.2004-03.mbox", discussion(800, 3, "planner"))
    built.build()
    assert last_check() == (True, 1.0)
    texts = (
        "SELECT count(DISTINCT coalesce(x.checksum, c.checksum)) FROM chunks c "
        "LEFT JOIN chunk_context x USING (chunk_id)"
    )
    (before,) = built.column(texts)
    (own,) = built.column(f"{texts} WHERE partition = 'dev/2004-01'")
    with (built.folder / "mail" / "dev" / "dev.2004-01.mbox").open("ab") as archive:
        archive.write(mbox([Mail(990, "One more came to January.", "more")]))
    built.build()
    assert last_check() == (False, pytest.approx(1 - own / before))
    assert built.plan().is_empty


def test_the_cache_is_looked_after_from_the_command_line(built: Workspace, tmp_path: Path):
    (holding,) = answer(built.weft("cache", "stats", "--json"))
    assert (holding["model"], holding["dimensions"]) == ("weft-1-256", 256)
    assert built.weft("cache", "verify").exit_code == 0

    (built.folder / "mail" / "dev" / "dev.2004-01.mbox").unlink()
    built.build()
    needed = len(set(built.column("SELECT vector::VARCHAR FROM embeddings")))
    assert answer(built.weft("cache", "prune", "--json"))["vectors"] == holding["count"] - needed

    (vectors,) = make_embedding_cache(built.settings).root.rglob("vectors.sqlite")
    vectors.write_bytes(b"no database")
    damaged = built.weft("cache", "verify")
    assert damaged.exit_code == 7
    assert "not a database" in damaged.stdout and "weft cache verify --discard" in damaged.stderr
    assert built.weft("cache", "verify", "--discard").exit_code == 0
    assert built.weft("cache", "stats").stdout == "The cache is empty.\n"

    index = str((built.index / "CURRENT").resolve())
    taken = answer(built.weft("cache", "import", index, "--json"))
    assert taken == {"model": holding["model"], "vectors": needed, "new": needed}
    built.write("dev/dev.2004-03.mbox", discussion(800, 2, "planner"))
    assert embedded(built.build()) == 2
    assert built.weft("cache", "import", str(built.config)).exit_code == 5


def test_an_hours_mail_makes_its_own_part_of_vectors_and_leaves_others(
    built: Workspace, tmp_path: Path
):
    lake = built.lake
    before = files_of_vectors(built)
    assert set(lake.parts("embeddings")) == set(before) == set(lake.partitions("messages"))
    built.write(
        "dev/dev.2004-03.mbox",
        [*discussion(800, 3, "planner"), Mail(850, "The same words.", "Same")],
    )
    built.write(
        "dev/dev.2004-04.mbox", [Mail(860, "The same words.", "Same"), Mail(861, "Others.", "Same")]
    )
    result = built.build()
    assert embedded(result) == 5
    after = files_of_vectors(built)
    assert {name: after[name] for name in before} == before
    assert after.keys() - before.keys() == {"dev/2004-03", "dev/2004-04"}
    assert len(lake.ids("embeddings", "dev/2004-04")) == 1

    (built.folder / "mail" / "dev" / "dev.2004-03.mbox").unlink()
    assert embedded(built.build()) == 0
    assert len(lake.ids("embeddings", "dev/2004-04")) == 2
    full = rebuilt(built, tmp_path / "full")
    assert differences(built.index, full.index) == {}
    written = [
        {name: data for name, (_, data) in files_of_vectors(work).items()} for work in (built, full)
    ]
    assert written[0] == written[1]
    assert lake.footer("embeddings") == full.lake.footer("embeddings")


def files_of_vectors(work: Workspace) -> dict[str, tuple[int, bytes]]:
    """By part of the stored table of vectors when it was written, and its bytes."""
    paths = {
        name: Path(str(work.lake.path("embeddings", name)))
        for name in work.lake.partitions("embeddings")
    }
    return {name: (path.stat().st_mtime_ns, path.read_bytes()) for name, path in paths.items()}


def test_a_table_of_vectors_in_one_file_is_parted_without_a_call(built: Workspace):
    whole = built.lake.read("embeddings").table
    for name in built.lake.parts("embeddings"):
        Path(str(built.lake.path("embeddings", name))).unlink()
    built.lake.stage(
        "embeddings", None, whole, code_version="of another version", inputs={}
    ).commit()
    plan = built.plan()
    assert plan.publish and not plan.damaged
    assert embedded(built.build()) == 0
    assert (
        built.lake.read("embeddings").table.sort_by("text_hash").equals(whole.sort_by("text_hash"))
    )
    assert built.plan().is_empty
