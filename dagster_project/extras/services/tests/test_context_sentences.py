"""Builds with sentences: kept apart, asked for once, and the same whether built at once or bit by
bit.
"""

import json
from pathlib import Path

import pytest

from dagster_project.models.answer_cache import SQLiteAnswerCache
from tests import gemini_loopback as server
from tests.archives import Workspace, discussion
from tests.gemini_loopback import Loopback
from transforms.errors import AnswerCacheError, WeftError

ROWS = "SELECT chunk_id, sentence, sentence_kind, text_embed, checksum FROM chunk_context ORDER BY chunk_id"


@pytest.fixture
def gemini(gemini: Loopback) -> Loopback:
    gemini.reply = answered
    return gemini


def answered(prompt: str) -> str:
    """A sentence on each chunk; too long a one on chunks that speak of a load of 3."""
    chunks = json.loads(prompt)["chunks"]
    return json.dumps(
        {
            "sentences": [
                "x" * 999 if "3" in c["text"] else f"About {c['text'][:20]!r}." for c in chunks
            ]
        }
    )


def telling(work: Workspace, kind: str, more: str = "") -> Workspace:
    lines = f'\n[sentences]\nkind = "{kind}"\n{more}'
    work.config.write_text(work.config.read_text() + lines)
    return work


@pytest.mark.exhaustive
def test_sentences_of_what_is_known_are_the_same_however_they_are_built(
    built: Workspace, tmp_path: Path
):
    telling(built, "structural")
    built.write("dev/dev.2004-03.mbox", discussion(800, 3, "planner"))
    built.build()
    whole = built.copied(tmp_path / "again")
    for state in ("lake", "index", "cache"):
        for path in sorted((whole.settings.root / state).rglob("*"), reverse=True):
            path.unlink() if path.is_file() or path.is_symlink() else path.rmdir()
    whole.build()
    for statement in (
        ROWS,
        "FROM chunk_lengths ORDER BY ALL",
        "SELECT term, df FROM terms ORDER BY ALL",
        "SELECT * EXCLUDE (term_id) FROM postings JOIN terms USING (term_id) ORDER BY ALL",
    ):
        assert built.sql(statement) == whole.sql(statement)
    chunks = built.sql("SELECT count(*) FROM chunks")
    assert (
        built.sql(
            "SELECT count(*) FROM chunk_context WHERE sentence LIKE 'Mail by % in the thread “%'"
        )
        == chunks
    )


@pytest.mark.exhaustive
def test_each_chunk_is_asked_about_once(built: Workspace, gemini: Loopback):
    telling(built, "gemini")
    gemini.rule = lambda texts: (
        server.status(403, "PERMISSION_DENIED") if len(gemini.requests) > 2 else None
    )
    with pytest.raises(WeftError, match="PERMISSION_DENIED"):
        built.build()
    paid = dict(gemini.paid)
    gemini.rule = lambda texts: None
    built.write("dev/dev.2004-03.mbox", discussion(800, 1, "planner"))
    built.build()
    assert paid and set(gemini.paid.values()) == {1}
    asked = [json.loads(p) for p in gemini.paid]
    chunks = [(c["place"], c["before"], c["text"]) for p in asked for c in p["chunks"]]
    assert len(chunks) == len(set(chunks))
    kinds = dict(built.sql("SELECT sentence_kind, count(*) FROM chunk_context GROUP BY ALL"))
    assert kinds.keys() == {"gemini", "structural"}
    assert built.sql(
        "SELECT count(*) FROM chunk_context WHERE sentence_kind = 'gemini' AND sentence NOT LIKE 'About %'"
    ) == [(0,)]


@pytest.mark.exhaustive
def test_sentences_of_one_that_reads_the_whole_document_are_asked_for_once(
    workspace: Workspace, gemini: Loopback
):
    workspace.configure({"name": "notes", "kind": "vault", "path": "notes"})
    sections = [
        f"## Part {'abcdefghij'[n // 5] * (n % 5 + 1)}\n\n{'The compactor rewrites a run. ' * 30}"
        for n in range(30)
    ]
    workspace.put("notes/Long.md", "# Compaction\n\n" + "\n\n".join(sections))
    telling(workspace, "document")
    workspace.build()
    rows = "SELECT DISTINCT sentence_kind, sentence LIKE 'About %' FROM chunk_context"
    assert gemini.holds == 1 and workspace.sql(rows) == [("gemini", True)]
    asked = len(gemini.requests)
    workspace.put("notes/Short.md", "# Short\n\nA pause is a fault.\n")
    workspace.build()
    assert (gemini.holds, len(gemini.requests)) == (1, asked + 1)


@pytest.mark.exhaustive
def test_a_chunk_that_the_service_refuses_has_a_structural_sentence(
    built: Workspace, gemini: Loopback
):
    telling(built, "gemini")
    first = built.column("SELECT text_display FROM chunks ORDER BY chunk_no")[0]
    gemini.reply = lambda prompt: json.dumps(
        {"sentences": [f"About {c['text']!r}."[:200] for c in json.loads(prompt)["chunks"]]}
    )
    blocked = lambda answer: answer.send(200, {"promptFeedback": {"blockReason": "SAFETY"}})  # noqa: E731
    gemini.rule = lambda texts: (
        blocked if any(c["text"] == first for c in json.loads(texts[0])["chunks"]) else None
    )
    built.build()
    rows = built.sql(
        "SELECT text_display = ?, sentence_kind FROM chunks JOIN chunk_context USING (chunk_id)".replace(
            "?", "'" + first.replace("'", "''") + "'"
        )
    )
    assert {kind for is_first, kind in rows if is_first} == {"structural"}
    assert {kind for is_first, kind in rows if not is_first} == {"gemini"}


@pytest.mark.exhaustive
def test_what_sentences_cost_is_said_before_and_gone_chunks_are_pruned(
    built: Workspace, gemini: Loopback
):
    telling(built, "gemini")

    def said(*arguments: str) -> dict:
        result = built.weft(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    before = said("plan", "--cost")
    assert not gemini.requests
    assert (
        0
        < before["sentences_to_write"]
        <= before["sentences"]
        == before["texts"]
        == before["texts_to_embed"]
    )
    built.build()
    assert before["sentence_calls"] == len(gemini.requests)
    asked = sum(len(json.loads(prompt)["chunks"]) for prompt in gemini.paid)
    assert asked == before["sentences_to_write"]
    after = said("plan", "--cost")
    assert (after["sentences_to_write"], after["sentence_tokens"], after["texts_to_embed"]) == (
        0,
        0,
        0,
    )
    assert before["sentence_price_usd"] > 0 == after["sentence_price_usd"]

    counts = {h["kind"]: h["count"] for h in said("cache", "stats")}
    assert counts["sentences"] == asked
    assert said("cache", "prune")["answers"] == 0
    (built.folder / "mail" / "dev" / "dev.2004-01.mbox").unlink()
    built.build()
    dropped = said("cache", "prune")["answers"]
    kept = {h["kind"]: h["count"] for h in said("cache", "stats")}["sentences"]
    assert 0 < dropped == asked - kept
    assert said("plan", "--cost")["sentences_to_write"] == 0


def test_answers_are_kept_by_their_key(tmp_path: Path):
    cache = SQLiteAnswerCache(tmp_path / "cache" / "answers.sqlite")
    assert cache.known(["a"]) == {}
    cache.store({"a": "1", "b": ""})
    SQLiteAnswerCache(cache.path).store({"a": "2", "c": "3"})
    assert cache.known([*"abcd", *map(str, range(1200))]) == {"a": "1", "b": "", "c": "3"}
    assert cache.drop(["a", "d"]) == 1
    assert (cache.all_keys(), cache.verify()) == (["b", "c"], [])


def test_a_damaged_file_of_answers_is_named_with_the_remedy(tmp_path: Path):
    cache = SQLiteAnswerCache(tmp_path / "answers.sqlite")
    cache.store({str(n): "x" * 99 for n in range(999)})
    data = bytearray(cache.path.read_bytes())
    data[32_768:40_000] = bytes(7_232)
    cache.path.write_bytes(data)
    (damage,) = cache.verify()
    assert damage.path == cache.path
    cache.path.write_bytes(
        b"no database at all, but long enough to be read as the header of one" * 9
    )
    with pytest.raises(
        AnswerCacheError, match="answers.sqlite cannot be used .* `weft cache verify`"
    ):
        cache.known(["1"])
    assert [d.reason for d in cache.verify()] == ["file is not a database"]
