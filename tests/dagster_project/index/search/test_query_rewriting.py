"""Queries of a conversation from the command line, by rules and by a language model that may fail."""

import json
from typing import Any

import pytest

from tests import gemini_loopback as server
from tests.archives import Workspace
from tests.gemini_loopback import KEY, loopback

TURNS = ["--turn", "I wrote to ann@example.org.", "--turn", "The compactor stalls under load."]


def explained(work: Workspace, *arguments: str) -> dict[str, Any]:
    result = work.weft("search", *arguments, "--weak", "--json")
    assert result.exit_code == 0, result.output
    (query,) = json.loads(result.stdout)["queries"]
    assert query["hits"]
    assert query["query"] == query["explain"]["given"] == arguments[0]
    return query["explain"]


@pytest.mark.exhaustive
def test_a_leaning_query_is_completed_by_rules(built: Workspace):
    found = explained(built, "why does it?", *TURNS)
    assert (found["used"], found["rewritten_by"]) == ("why does it? compactor stalls load", "rules")
    whole = "compactor pace of each run at double load"
    assert explained(built, whole, *TURNS)["rewritten_by"] is None
    assert explained(built, "why the load?")["used"] == "why the load?"


def test_a_language_model_rewrites_and_rules_do_where_it_fails(
    built: Workspace, monkeypatch: pytest.MonkeyPatch
):

    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    with loopback() as gemini:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", gemini.url)
        built.config.write_text(built.config.read_text() + '\n[queries]\nrewrite = "gemini"\n')
        gemini.reply = lambda prompt: json.dumps(
            {"query": "why does the compactor stall", "entities": ["load"]}
        )
        found = explained(built, "why does it?", *TURNS)
        assert found["used"] == "why does the compactor stall load"
        assert found["rewritten_by"] == "gemini-3.5-flash-lite"
        (asked,) = (json.loads(r["contents"][0]["parts"][0]["text"]) for r in gemini.requests)
        assert asked == {"turns": ["I wrote to [email].", TURNS[3]], "query": "why does it?"}

        gemini.rule = lambda texts: server.status(503, "UNAVAILABLE")
        found = explained(built, "why does it?", *TURNS)
        assert found["used"] == "why does it? compactor stalls load"
        assert (
            found["rewritten_by"].startswith("rules (gemini-3.5-flash-lite: ")
            and "503" in found["rewritten_by"]
        )

        count = len(gemini.requests)
        assert explained(built, "why does it?")["used"] == "why does it?"
        assert len(gemini.requests) == count
