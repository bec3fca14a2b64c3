"""Sessions of `weft context`: turns that do not repeat themselves, blocks that can be made again,
bounds of a lens.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from dagster_project.context.sessions import opened_session
from dagster_project.outgoing.receipts import Receipts
from dagster_project.outgoing.screen import Disclosure
from tests.archives import Workspace
from transforms.errors import ContextError

MANIFEST: dict[str, Any] = {"chosen": [{"chunk_id": "c1"}]}
QUESTION = "How does the write-ahead log behave when the load doubles? And which run measured the compactor?"


def asked(work: Workspace, *arguments: str) -> Result:
    return work.weft("context", *arguments, input=QUESTION)


def test_a_session_keeps_its_turns_and_loses_one_that_a_kill_cut_off(tmp_path: Path):
    with opened_session(tmp_path, "mine") as session:
        session.add(None, MANIFEST, [Disclosure("d", "0" * 64, 3, 9)])
        session.add(None, MANIFEST, [])
    file = tmp_path / "sessions" / "mine.jsonl"
    file.write_bytes(file.read_bytes()[:-10])
    with opened_session(tmp_path, "mine") as session:
        assert [turn["turn"] for turn in session.turns] == [1]
        assert session.entries == [Disclosure("d", "0" * 64, 3, 9)]
        session.add(None, MANIFEST, [])
    with opened_session(tmp_path, "mine") as session:
        assert len(session.turns) == 2
        with pytest.raises(ContextError, match="turns, not 3"):
            session.manifest(3)
        with pytest.raises(ContextError, match="goes under no lens"):
            session.require_lens("contractors")
    file.write_text("{}\n")
    with (
        pytest.raises(ContextError, match="line 1 of session mine"),
        opened_session(tmp_path, "mine"),
    ):
        pass
    with pytest.raises(ContextError, match="named by"), opened_session(tmp_path, "../mine"):
        pass


def test_turns_show_what_no_turn_has_shown_and_each_can_be_made_again(built: Workspace):
    turns = [asked(built, "--stdin", "--session", "s", "--budget", "150") for _ in range(3)]
    assert [turn.exit_code for turn in turns[:2]] == [0, 0]
    with opened_session(built.settings.root, "s") as session:
        chosen = [
            [entry["chunk_id"] for entry in manifest["chosen"]] for manifest in session.manifests
        ]
    assert len(chosen) == 3
    shown = [chunk for turn in chosen for chunk in turn]
    assert len(shown) == len(set(shown)) > len(chosen[0])
    again = asked(built, "--stdin", "--session", "s", "--again", "--budget", "150", "--json")
    assert [
        entry["chunk_id"] for entry in json.loads(again.stdout)["manifest"]["chosen"]
    ] == chosen[0]
    for number, turn in enumerate(turns[:2], 1):
        assert asked(built, "--session", "s", "--turn", str(number)).stdout == turn.stdout
    assert not any(
        "measured" in path.read_text() for path in (built.settings.root / "sessions").iterdir()
    )


@pytest.mark.exhaustive
def test_a_turn_is_made_again_from_a_later_version_that_says_the_same(built: Workspace):
    turn = asked(built, "--stdin", "--session", "s", "--budget", "150")
    built.write(
        "dev/dev.2004-03.mbox", (built.folder / "mail/users/users.2004-01.mbox").read_bytes()
    )
    built.build()
    for old in built.index.glob("weft-*.duckdb"):
        if old != (built.index / "CURRENT").resolve():
            old.unlink()
    assert asked(built, "--session", "s", "--turn", "1").stdout == turn.stdout


def test_a_lens_bounds_what_a_session_is_shown_and_each_answer_leaves_a_receipt(built: Workspace):
    text = built.config.read_text()
    built.config.write_text(f'{text}\n[lenses.few]\nwhere = "source:dev"\npassages = 2\n')
    before = len(list(Receipts(built.settings.root).read()))
    first = asked(built, "--stdin", "--lens", "few", "--session", "s", "--budget", "90", "--json")
    assert first.exit_code == 0, first.output
    seen = len(json.loads(first.stdout)["manifest"]["chosen"])
    late = asked(built, "--stdin", "--lens", "few", "--session", "s")
    assert late.exit_code == 3 and "2 passages in a session" in late.output
    assert asked(built, "--stdin", "--session", "s").exit_code == 1
    receipts = list(Receipts(built.settings.root).read())[before:]
    assert [(r["tool"], r["lens"], len(r["passages"])) for r in receipts] == [
        ("weft context", "few", seen)
    ]


def test_the_plan_says_what_each_stage_did_and_where_passages_stand(built: Workspace):
    plan = json.loads(asked(built, "--stdin", "--explain", "--json").stdout)["plan"]
    assert [stage["stage"] for stage in plan["stages"]] == [
        "cut",
        "queries",
        "candidates",
        "documents",
        "passages",
        "block",
    ]
    assert all(stage["milliseconds"] >= 0 for stage in plan["stages"])
    assert plan["stages"][-1]["gave"] == len(plan["chosen"]) > 0
    for entry in plan["chosen"]:
        (body,) = built.column(f"SELECT body FROM messages WHERE message_id = '{entry['doc_id']}'")
        before = body.encode()[: entry["byte_start"]].decode()
        shown = body.encode()[entry["byte_start"] : entry["byte_end"]].decode().rstrip("\n")
        first = before.count("\n") + 1
        assert entry["lines"] == [first, first + shown.count("\n")]
    words = asked(built, "--stdin", "--explain").stdout
    assert "candidates" in words and f"lines {entry['lines'][0]}-" in words


def test_rules_name_sources_words_and_what_stands_first(built: Workspace):
    text = built.config.read_text()
    rules = """
[[context.rules]]
match = ["drafts/*.md"]
sources = ["dev"]
terms = ["garbage", "collector"]
include = ["m202@example.org", "nosuch@example.org"]

[[context.rules]]
match = ["*.txt"]
sources = ["users"]
"""
    built.config.write_text(f"{text}\n{rules}")
    drafted = [
        built.put(name, "How does the shell behave when the load doubles?")
        for name in ("drafts/a.md", "b.md")
    ]
    by_rule, plain = (
        json.loads(asked(built, str(file), "--json").stdout)["manifest"] for file in drafted
    )
    assert by_rule["chosen"][0]["doc_id"] == "m202@example.org"
    sources = dict(built.sql("SELECT doc_id, min(source) FROM chunks GROUP BY doc_id"))
    assert {sources[entry["doc_id"]] for entry in by_rule["chosen"][1:]} == {"dev"}
    assert by_rule["rules"]["unknown"] == ["nosuch@example.org"]
    words = by_rule["queries"][-1]
    assert len(by_rule["queries"]) == len(plain["queries"]) + 1
    assert words["passages"] and words["evidence"] > 1
    assert plain["rules"] == {"sources": [], "terms": [], "include": [], "unknown": []}
