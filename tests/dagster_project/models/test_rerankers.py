"""Reranking of real hits: by features, by a language model through the real client, by a
cross-encoder.
"""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dagster_project.extensions import load, model_service
from dagster_project.index.search.opened_index import open_index
from dagster_project.models.language_models import Reranker, make_reranker
from tests import gemini_loopback as server
from tests.archives import Workspace
from tests.gemini_loopback import KEY, Loopback
from tests.timing import HUNG
from transforms.errors import SettingsError
from transforms.settings.models import GeminiSettings, SafetySettings
from transforms.settings.search import RerankSettings

QUERIES = ["compactor load", "release schedule of ann@example.org"]
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None,
    reason="the extra `transformer` is not installed",
)


def hits(work: Workspace, reranker: Reranker | None, limit: int = 4) -> list[list[dict[str, Any]]]:
    """What the search ranks for each of QUERIES."""
    index = open_index(work.settings)
    index.reranker = reranker
    ranked = index.ranked(QUERIES, limit=limit)
    rows = ranked.hits.to_dicts()
    failed = {row["reranker"] for row in rows if " (" in (row["reranker"] or "")}
    assert set(ranked.missing) == {f"the second look as set: {why}" for why in failed}
    return [[r for r in rows if r["query"] == n] for n in range(len(QUERIES))]


def by_gemini(gemini: Loopback, **given: object) -> Reranker | None:
    settings = RerankSettings.model_validate({"method": "gemini", "top": 4, **given})
    quick = GeminiSettings(base_url=gemini.url, backoff_seconds=0.01)
    return make_reranker(settings, quick, SafetySettings())


def reversing(prompt: str) -> str:
    """An answer that finds the last passage best."""
    return json.dumps({"scores": [p["number"] for p in json.loads(prompt)["passages"]]})


def test_features_reorder_what_the_search_found_and_say_why(built: Workspace):
    plain = hits(built, None)
    found = hits(built, Reranker(RerankSettings(method="features", top=4)))
    for before, after in zip(plain, found, strict=True):
        assert sorted(h["chunk_no"] for h in before) == sorted(h["chunk_no"] for h in after)
        assert [h["rerank_score"] for h in after] == sorted(
            (h["rerank_score"] for h in after), reverse=True
        )
        for hit in after:
            assert before[hit["rank_before"] - 1]["chunk_no"] == hit["chunk_no"]
            assert hit["reranker"] == "features"
            assert hit["rerank_score"] == pytest.approx(
                sum(p["value"] for p in hit["rerank_parts"]), abs=1e-5
            )
    assert {h["reranker"] for query in plain for h in query} == {None}


def test_the_new_order_is_reported_as_a_stage_of_its_own(built: Workspace):
    reranker = Reranker(RerankSettings(method="features", top=2))
    index = open_index(built.settings)
    index.reranker = reranker
    told: dict[str, pl.DataFrame] = {}
    ranked = index.ranked(
        QUERIES, limit=4, report=lambda stage, hits, dropped: told.update({stage: hits})
    ).hits
    for number in range(len(QUERIES)):
        hits = ranked.filter(ranked["query"] == number)["chunk_no"].to_list()
        lists = {
            stage: found.filter(pl.col("query") == number)["chunk_no"].to_list()
            for stage, found in told.items()
        }
        assert lists["final"] == hits == lists["reranked"][:4]
        assert sorted(lists["reranked"]) == sorted(lists["pool"]) != lists["reranked"]


@pytest.mark.exhaustive
def test_a_language_model_scores_all_hits_of_a_query_in_one_call(
    built: Workspace, gemini: Loopback
):
    gemini.reply = reversing
    plain, found = hits(built, None), hits(built, by_gemini(gemini))
    assert [[h["chunk_no"] for h in q] for q in found] == [
        [h["chunk_no"] for h in reversed(q)] for q in plain
    ]
    assert [h["rerank_score"] for h in found[0]] == [4, 3, 2, 1]
    assert {h["reranker"] for q in found for h in q} == {"gemini-3.5-flash-lite"}
    prompts = [json.loads(r["contents"][0]["parts"][0]["text"]) for r in gemini.requests]
    assert [p["query"] for p in prompts] == [QUERIES[0], "release schedule of [email]"]
    assert all(len(passage["text"]) <= 500 for p in prompts for passage in p["passages"])


def test_a_model_labels_each_hit_that_it_reads(built: Workspace, gemini: Loopback):
    def labels() -> list[tuple[float | None, str | None]]:
        result = built.weft("search", QUERIES[0], "--json")
        assert result.exit_code == 0, result.output
        (query,) = json.loads(result.stdout)["queries"]
        return [(hit["rerank_score"], hit["label"]) for hit in query["hits"]]

    assert {label for _, label in labels()} == {None}
    gemini.reply = lambda prompt: json.dumps({"scores": [10.0, 4.0, 0.0]})
    lines = '\n[rerank]\nmethod = "gemini"\ntop = 3\n'
    built.config.write_text(built.config.read_text() + lines)
    found = labels()
    accepted = [label for score, label in found if score is not None and score >= 5]
    denied = [label for score, label in found if score is not None and score < 5]
    assert set(accepted) == {"PASS"} and denied
    assert set(denied) <= {"HALLUCINATION_RISK", "IRRELEVANT"}
    assert {label for score, label in found if score is None} <= {None}


FAILING: dict[str, tuple[Callable[[Loopback], None], str]] = {
    "too few scores": (
        lambda g: setattr(g, "reply", lambda prompt: '{"scores": [10]}'),
        "failed 2 times",
    ),
    "no JSON": (lambda g: setattr(g, "reply", lambda prompt: "10, obviously"), "failed 2 times"),
    "unavailable": (
        lambda g: setattr(g, "rule", lambda texts: server.status(503, "UNAVAILABLE")),
        "503",
    ),
    "a hang": (lambda g: setattr(g, "rule", lambda texts: server.hangs), "time limit of 0.5 s"),
    "a bad key": (
        lambda g: setattr(g, "rule", lambda texts: server.expired_key),
        "does not accept the key",
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_features_decide_where_the_model_fails_and_each_hit_says_so(
    built: Workspace, gemini: Loopback, name: str
):
    fail, said = FAILING[name]
    fail(gemini)
    found = hits(built, by_gemini(gemini, seconds=0.5 if name == "a hang" else HUNG))
    expected = hits(built, Reranker(RerankSettings(method="features", top=4)))
    assert [[h["chunk_no"] for h in q] for q in found] == [
        [h["chunk_no"] for h in q] for q in expected
    ]
    (label,) = {h["reranker"] for q in found for h in q}
    assert (
        label.startswith("features (gemini-3.5-flash-lite: ") and said in label and KEY not in label
    )
    assert len(gemini.requests) <= 2


def test_a_refused_query_leaves_the_others_to_the_model(built: Workspace, gemini: Loopback):
    gemini.reply = reversing
    blocked = lambda answer: answer.send(200, {"promptFeedback": {"blockReason": "SAFETY"}})  # noqa: E731
    gemini.rule = lambda texts: blocked if QUERIES[0] in texts[0] else None
    first, second = hits(built, by_gemini(gemini))
    assert "blocks the prompt (SAFETY)" in first[0]["reranker"]
    assert {h["reranker"] for h in second} == {"gemini-3.5-flash-lite"}


def test_the_settings_file_turns_reranking_on(built: Workspace, gemini: Loopback):
    gemini.reply = reversing
    lines = '\n[rerank]\nmethod = "gemini"\ntop = 3\n'
    built.config.write_text(built.config.read_text() + lines)
    result = built.weft("search", QUERIES[0], "--json")
    assert result.exit_code == 0, result.output
    (query,) = json.loads(result.stdout)["queries"]
    before = [h["rank_before"] for h in query["hits"]]
    assert before[0] == 3 and before == sorted(
        before, key=lambda rank: -rank if rank <= 3 else rank
    )
    assert query["hits"][3]["reranker"] is None


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Makes a cross-encoder of one small layer with random weights, of so many labels."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    def make(labels: int) -> Path:
        folder = tmp_path_factory.mktemp("cross")
        words = [
            "[PAD]",
            "[UNK]",
            "[CLS]",
            "[SEP]",
            "[MASK]",
            *"abcdefghijklmnopqrstuvwxyz",
            *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"),
        ]
        (folder / "vocab.txt").write_text("\n".join(words))
        BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
        torch.manual_seed(7)
        config = BertConfig(
            vocab_size=len(words),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            num_labels=labels,
            max_position_embeddings=64,
        )
        BertForSequenceClassification(config).save_pretrained(folder)
        return folder

    return make


@needs_torch
def test_a_cross_encoder_orders_by_its_scores_within_its_time(
    built: Workspace, tiny: Callable[[int], Path]
):
    settings = RerankSettings(method="cross_encoder", name=str(tiny(1)), top=10, seconds=60)
    found = hits(built, make_reranker(settings, GeminiSettings(), SafetySettings()), 10)
    assert {h["reranker"] for q in found for h in q} == {settings.name}
    for query in found:
        scores = [h["rerank_score"] for h in query]
        assert scores == sorted(scores, reverse=True) and len(set(scores)) > 1

    times = iter(range(100))
    scorer_of = load(model_service("cross_encoder").scorer)
    hurried = scorer_of(settings.model_copy(update={"seconds": 1.5}), clock=lambda: next(times))
    texts = [f"{QUERIES[number % 2]} {number}" for number in range(10)]
    part = hurried.scores("compactor", texts, texts).scores
    whole = scorer_of(settings).scores("compactor", texts, texts).scores
    assert len(part) == 8 < len(whole) == len(texts)
    assert part == pytest.approx(whole[:8], abs=1e-6)
    assert 0 <= whole.min() <= whole.max() <= 10


@needs_torch
def test_a_model_of_several_scores_is_no_reranker(tiny: Callable[[int], Path], tmp_path: Path):
    for folder, said in ((tiny(3), "gives 3 numbers"), (tmp_path, "cannot be opened")):
        settings = RerankSettings(method="cross_encoder", name=str(folder))
        scorer = load(model_service("cross_encoder").scorer)(settings)
        with pytest.raises(SettingsError, match=said):
            scorer.scores("q", ["t"], ["text"])


def test_a_cross_encoder_without_its_library_leaves_the_features(built: Workspace):
    pytest.importorskip("dagster_project.extras.transformer")
    if importlib.util.find_spec("sentence_transformers") is not None:
        pytest.skip("the extra `transformer` is installed")
    settings = RerankSettings(method="cross_encoder", name="some/model", top=4)
    found = hits(built, make_reranker(settings, GeminiSettings(), SafetySettings()))
    (label,) = {h["reranker"] for q in found for h in q}
    assert label.startswith("features (some/model: ") and "pip install 'weft[transformer]'" in label
