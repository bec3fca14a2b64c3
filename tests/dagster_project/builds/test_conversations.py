"""Chats become windows, are published beside mail and notes, and get their context from them."""

import json
import shutil
import stat
from contextlib import closing, nullcontext
from datetime import timedelta
from pathlib import Path

import dagster as dg
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from assets.partitions import CONTEXT
from assets.protocols.search import Asker
from dagster_project.cli.main import COMMANDS
from dagster_project.config.settings import Settings
from dagster_project.context.context_index import PublishedVersions
from dagster_project.context.conversation_context import (
    ConversationText,
    context_of,
    read_conversation,
)
from dagster_project.index.search.opened_index import open_index
from dagster_project.orchestration import reconcile
from dagster_project.orchestration.asset_jobs import asset_definitions
from dagster_project.orchestration.runs import run_here
from dagster_project.orchestration.work import Work
from tests.archives import Mail, Once, Workspace, differences, mbox
from tests.assistants import called
from tests.format_files import zipped
from tests.pages import pages
from transforms.context.candidates import strangers
from transforms.conversations.pseudonyms import short_pseudonyms
from transforms.retrieval.search_filters import Filters
from transforms.settings.conversations import ContextSettings
from transforms.settings.designs import DESIGNS

NOTES = {"name": "notes", "kind": "vault", "path": "notes"}
CHAT = {"name": "chat", "kind": "conversation", "path": "chats", "windows": {"messages": 20}}
TOPICS = {
    "Paris": "The train to Paris leaves at nine, the hotel near the museum is booked and the tickets for the tower are paid",
    "Crash": "The debugger shows a null pointer in the parser, the stack trace names the tokenizer and the unit test fails",
    "Bread": "The recipe wants rye flour, sourdough and salt, the dough rests overnight and the oven is hot when it goes in",
}
PEOPLE = ("Maud Fenwick", "Jo\u00e3o Pires", "Oskar Wendt")
PHONE = "+44 7700 900123"
MENTIONED = "@\u2068Eve Lamb\u2069 @447700900123"


def export(count: int, extra: str = "") -> str:
    """A WhatsApp export of `count` messages, 20 on each topic in turn."""
    lines = [f"27.03.25, 09:00 - Maud Fenwick added Jo\u00e3o Pires and {PHONE}"]
    for n in range(count):
        topic = list(TOPICS)[n // 20 % 3]
        words = TOPICS[topic].lower().split()
        said = " ".join(words[n % 7 : n % 7 + 12])
        mentioned = f" {MENTIONED}" if n == 5 else ""
        lines.append(
            f"27.03.25, {10 + n // 60}:{n % 60:02d} - {PEOPLE[n % 3]}: {said}, says Maud Fenwick number {n}{mentioned}"
        )
    return "\n".join(lines) + "\n" + extra


def write(work: Workspace, name: str, data: str | bytes) -> Path:
    path = work.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def contexts(work: Workspace) -> list[dict]:
    lake = work.lake
    windows = lake.partitions("conversation_context")
    return [row for w in windows for row in lake.read("conversation_context", w).table.to_pylist()]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory, once: Once) -> Workspace:
    """A vault and a chat on three topics of the vault, built; for reading only."""
    work = Workspace(tmp_path_factory.mktemp("chats") / "work")
    configure(work, NOTES, CHAT)
    for title, text in TOPICS.items():
        write(
            work, f"notes/{title}.md", f"---\ntags: [{title.lower()}]\n---\n# {title}\n\n{text}.\n"
        )
    write(
        work,
        "notes/Gardening.md",
        "# Gardening\n\nRoses want sun and water, tulips are planted in autumn.\n",
    )
    write(work, "chats/WhatsApp Chat with Maud Fenwick.txt", export(60))
    return once(work)


def test_what_a_chat_retrieved_is_joined_with_what_it_asked(made_once: Workspace):
    def rows(statement: str, *options: str) -> list[dict]:
        result = made_once.weft("sql", statement, "--json", *options)
        assert result.exit_code == 0, result.output
        return list(json.loads(result.stdout))

    windows = {row["window_id"]: row for row in contexts(made_once)}
    found = rows(
        "SELECT r.*, c.title FROM conversation_retrievals r JOIN chunks c USING (chunk_id) "
        "ORDER BY r.window_id, r.query, r.rank"
    )
    with weft.open(made_once.folder) as index:
        in_python = index.sql(
            "SELECT window_id, query, rank, title FROM conversation_retrievals JOIN chunks "
            "USING (chunk_id) ORDER BY ALL"
        ).fetchall()
    assert in_python == sorted(
        (row["window_id"], row["query"], row["rank"], row["title"]) for row in found
    )
    lake = made_once.lake
    stored = {
        name: [
            row
            for partition in lake.partitions(f"conversation_{name}")
            for row in lake.read(f"conversation_{name}", partition).table.to_pylist()
        ]
        for name in ("query_chunks", "candidates", "documents")
    }
    assert len(found) == len(stored["candidates"])
    asked = {
        (row["doc_id"], row["chunk_index"]): row["text_query"] for row in stored["query_chunks"]
    }
    place = {(row["window_id"], row["chunk_id"]): row["place"] for row in stored["documents"]}
    of_rank = sum(row["rank"] > 0 for row in found)
    assert of_rank == sum(window["result_count"] for window in windows.values()) > 0
    for row in found:
        window = windows[row["window_id"]]
        assert row["query_text"] == asked.get((row["window_id"], row["query"]), row["query_text"])
        assert row["place"] == place.get((row["window_id"], row["chunk_id"]))
        is_shown = row["chunk_id"] in {record["chunk_id"] for record in window["records"]}
        assert (row["is_shown"], row["outcome"]) == (is_shown, window["outcome"])
    assert {row["title"] for row in found if row["is_shown"]} >= set(TOPICS)
    for name in ("query_chunks", "candidates", "documents", "context"):
        statement = f"SELECT count(*) AS n FROM conversation_{name}"
        assert rows(statement) == rows(statement, "--lake") != [{"n": 0}]
    refused = made_once.weft("sql", "FROM conversation_context, read_text('/etc/hostname')")
    assert refused.exit_code == 2 and "disabled by configuration" in refused.stderr


RETRIEVED = (
    "SELECT string_agg(r.rank, ' ' ORDER BY r.rank), string_agg(DISTINCT c.title, '|') "
    "FROM conversation_retrievals r JOIN chunks c USING (chunk_id) WHERE r.rank > 0 "
    "GROUP BY r.window_id, r.query"
)


def test_under_a_lens_chats_retrieved_what_its_own_texts_give(made_once: Workspace):
    hidden = min(TOPICS)
    lens = {"sources": [NOTES], "lenses": {"part": {"where": f"-path:{hidden}.md"}}}
    settings = made_once.settings.model_copy(
        update={"lenses": Settings.model_validate(lens).lenses}
    )
    titles: dict[str | None, set[str]] = {}
    for shown in (None, "part"):
        answers = called(
            settings,
            ("sql", {"statement": RETRIEVED}),
            ("sql", {"statement": "SELECT DISTINCT index_version FROM conversation_context"}),
            lens=shown,
        )
        assert not any(answer.is_error for answer in answers), answers
        queries, versions = (answer.structured_content["rows"] for answer in answers)
        with closing(open_index(settings, lens=shown)) as index:
            assert versions == [[index.manifest["version"]]]
        titles[shown] = {title for _, several in queries for title in several.split("|")}
        for ranks, _ in queries:
            assert ranks.split() == [str(n + 1) for n in range(len(ranks.split()))]
    assert titles[None] >= set(TOPICS) and titles["part"] == titles[None] - {hidden}


def configure(work: Workspace, *sources: dict) -> None:
    """Write the settings file; nested settings of sources as inline tables."""
    lines = ["[storage]", 'root = "state"', ""]
    for source in sources:
        lines.append("[[sources]]")
        for key, value in source.items():
            shown = (
                "{" + ", ".join(f"{k} = {json.dumps(v)}" for k, v in value.items()) + "}"
                if isinstance(value, dict)
                else json.dumps(value)
            )
            lines.append(f"{key} = {shown}")
    work.config.write_text("\n".join(lines))


def test_each_window_is_a_partition_and_is_published(made_once: Workspace):
    windows = [
        p.name.rpartition(".")[2]
        for p in made_once.plan().partitions
        if p.source_type == "conversations"
    ]
    assert windows == ["0001", "0002", "0003", "0004"]
    assert made_once.column("SELECT count(*) FROM conversations") == [61]
    assert made_once.column("SELECT sum(message_count) FROM conversation_windows") == [60]
    assert set(
        made_once.column(
            "SELECT DISTINCT chunk_kind FROM chunks WHERE source_kind = 'conversation'"
        )
    ) == {"turn", "window_segment"}


@pytest.mark.exhaustive
def test_no_name_of_a_person_is_stored_anywhere(made_once: Workspace):
    people = (*PEOPLE, "Maud", "Wendt", "Eve", "Lamb", PHONE, "447700900123")
    state = made_once.folder / "state"
    for path in (state / "lake").rglob("*.parquet"):
        if "notes" not in path.parts:
            stored = repr(pq.read_table(path).to_pylist()) + str(path)
            assert not [p for p in people if p in stored], path
    tables = made_once.column("SELECT table_name FROM duckdb_tables()")
    for table in tables:
        stored = repr(made_once.sql(f'SELECT * FROM "{table}"'))
        assert not [p for p in people if p in stored], table
    for path in (p for p in made_once.index.rglob("*") if p.is_file()):
        stored_bytes = path.read_bytes()
        assert not [p for p in people if p.encode() in stored_bytes], path
    assert len(tables) > 20 and made_once.column("SELECT count(*) FROM messages") == [0]


def test_the_key_is_outside_the_data_and_of_its_owner_alone(made_once: Workspace):
    key = made_once.folder / "pseudonym.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(key.read_text().strip()) == 64


def test_the_bytes_of_a_chunk_are_in_its_window(made_once: Workspace):
    rows = made_once.sql(
        "SELECT w.markdown, c.spans, c.text_display FROM chunks c JOIN conversation_windows w USING (doc_id)"
    )
    assert len(rows) > 60
    for markdown, spans, display in rows:
        data = markdown.encode()
        assert all(data[s["byte_start"] : s["byte_end"]].decode().strip() in display for s in spans)


def test_every_window_gets_its_context_and_never_itself(made_once: Workspace):
    rows = contexts(made_once)
    assert len(rows) == 4 and {r["outcome"] for r in rows} == {"CONTEXT"}
    for row in rows:
        assert row["window_id"] not in {r["document_id"] for r in row["records"]}
        assert row["block"].startswith(
            "\n\n## Related Previous Posts (for continuity and linking):\n"
        )
    found = {r["document_id"] for row in rows for r in row["records"]}
    assert {f"notes:{t}.md" for t in TOPICS} <= found


@pytest.mark.exhaustive
def test_more_messages_make_the_last_window_alone_again_and_its_context(made: Workspace):
    assert made.plan().is_empty
    before = contexts(made)
    write(made, "chats/WhatsApp Chat with Maud Fenwick.txt", export(64))
    result = made.build()
    assert [p.rpartition(".")[2] for p in result.plan.stale] == ["0004"]
    assert contexts(made)[:3] == before[:3]
    assert made.plan().is_empty
    anew = Workspace(made.folder.parent / "anew")
    shutil.copytree(
        made.folder, anew.folder, ignore=shutil.ignore_patterns("state"), dirs_exist_ok=True
    )
    anew.build()
    assert differences(made.index, anew.index) == {}
    assert contexts(made)[3] == contexts(anew)[3]


@pytest.mark.exhaustive
def test_a_changed_note_is_a_question_of_the_last_window_alone_until_another_is_asked(
    made: Workspace,
):
    before = contexts(made)
    write(
        made,
        "notes/Gardening.md",
        "# Gardening\n\nDough of sourdough and rye flour rests overnight.\n",
    )
    assert made.build().published
    after, version = contexts(made), made.column("SELECT value FROM manifest WHERE key = 'version'")
    assert after[:3] == before[:3]
    assert [after[3]["index_version"]] == version and before[3]["index_version"] not in version
    assert made.plan().is_empty
    (first, *others), before = made.lake.partitions("conversation_context"), after
    with made.instance() as instance:
        run_here(asset_definitions(made.settings), instance, Work(CONTEXT.tables, first, first), {})
        at = instance.fetch_materializations(dg.AssetKey("conversation_context"), limit=1).records[
            0
        ]
    after = contexts(made)
    assert (
        at.partition_key == first and at.asset_materialization.metadata["without_hits"].value == 0
    )
    assert after[0]["index_version"] == before[3]["index_version"] != before[0]["index_version"]
    assert after[1:] == before[1:] and len(others) == 3
    assert made.plan().is_empty


@pytest.mark.exhaustive
def test_a_window_with_other_candidates_is_asked_on(made: Workspace):
    first = made.lake.partitions("conversation_context")[0]
    made.lake.discard("conversation_candidates", first)
    assert made.plan().context == {first: CONTEXT.tables}
    second = made.lake.partitions("conversation_context")[1]
    for table in CONTEXT.tables[1:]:
        made.lake.discard(table, second)
    assert [*made.plan().context.values()] == [CONTEXT.tables, CONTEXT.tables[1:]]
    before = made.column("SELECT value FROM manifest WHERE key = 'version'")
    assert made.build().published is None and made.plan().is_empty
    assert {r["index_version"] for r in contexts(made)} == {*before}


@pytest.mark.exhaustive
def test_other_settings_of_the_context_find_it_again_without_publishing(made: Workspace):
    version = contexts(made)[0]["index_version"]
    made.config.write_text(
        made.config.read_text().replace("[storage]", "[context]\ntop_k = 1\n\n[storage]")
    )
    result = made.build()
    assert result.published is None
    assert [r["final_count"] for r in contexts(made)] == [1] * 4
    assert contexts(made)[0]["index_version"] == version


@pytest.mark.exhaustive
def test_a_source_that_goes_takes_its_windows_and_their_context_with_it(made: Workspace):
    configure(made, NOTES)
    made.build()
    assert made.column("SELECT count(*) FROM conversation_windows") == [0]
    assert contexts(made) == [] and made.plan().is_empty


def test_conversations_are_found_and_cited(made_once: Workspace):
    found = made_once.weft("search", "--json", "--kind", "conversation", "sourdough rye flour")
    hit = json.loads(found.output)["queries"][0]["hits"][0]
    assert "@000" in hit["doc_id"] and hit["byte_start"] < hit["byte_end"]
    for search in (
        "search_text('rye')",
        f"similar('{hit['chunk_id']}')",
        "search_semantic('rye flour')",
    ):
        statement = f"SELECT DISTINCT title FROM {search} WHERE source_kind = 'conversation'"
        assert hit["subject"] in made_once.weft("sql", "--csv", statement).output.splitlines()
    lines = made_once.weft("search", "sourdough dough").output.splitlines()
    shown = "\n".join(line for line in lines if not line.strip().startswith("\u27e8chat:"))
    assert len(shown.splitlines()) < len(lines) and short_pseudonyms(shown) == shown


def test_a_window_is_not_a_hit_beside_its_turns(made_once: Workspace):
    with closing(open_index(made_once.settings)) as index:
        found = index.search([TOPICS["Bread"]], Filters(kind="conversation")).hits.to_pylist()
    turns = [(hit["doc_id"], hit["byte_start"]) for hit in found if hit["chunk_kind"] == "turn"]
    for hit in found:
        inside = [
            at
            for d, at in turns
            if d == hit["doc_id"] and hit["byte_start"] <= at < hit["byte_end"]
        ]
        assert hit["chunk_kind"] == "turn" or not inside
    reasons = {also["relation"] for hit in found for also in hit["folded"]}
    assert turns and "its turns are hits" in reasons


def test_a_chat_is_of_all_the_time_from_its_first_turn_to_its_last(made_once: Workspace):
    statement = "SELECT doc_id, last_at FROM conversation_windows WHERE first_at < last_at ORDER BY ALL LIMIT 1"
    with closing(open_index(made_once.settings)) as index:
        window, last = index.connection.execute(statement).fetchone() or ()
        for since, is_found in ((last, True), (last + timedelta(seconds=1), False)):
            filters = Filters(kind="conversation", since=since)
            found = index.search(["kind:conversation"], filters, limit=10_000).hits
            assert (window in found.column("doc_id").to_pylist()) == is_found


def test_context_of_a_conversation_in_hand(made_once: Workspace, tmp_path: Path):
    chat = str(made_once.folder / "chats" / "WhatsApp Chat with Maud Fenwick.txt")
    manifest = tmp_path / "manifest.json"
    result = made_once.weft(
        "context", chat, "--json", "--budget", "300", "--manifest", str(manifest)
    )
    assert result.exit_code == 0, result.output
    made = json.loads(result.output)
    assert made["outcome"] == "CONTEXT" and made["tokens"] <= made["budget_tokens"] == 300
    assert made["stopped"] == "evidence"
    assert {f"notes:{t}.md" for t in TOPICS} <= {p["doc_id"] for p in made["manifest"]["chosen"]}
    assert not [p for p in made["manifest"]["chosen"] if p["doc_id"].startswith("chat:")]
    again = made_once.weft("context", "--reproduce", str(manifest))
    assert again.output == made["block"]
    smaller = tmp_path / "smaller.json"
    made_once.weft("context", chat, "--budget", "100", "--manifest", str(smaller))
    changes = json.loads(
        made_once.weft("context", "--json", "--compare", str(manifest), str(smaller)).output
    )
    assert changes["removed"] and not changes["added"]


@pytest.mark.parametrize(
    "question", ["Does the dough rest?", "When does the train to Paris leave?"]
)
def test_a_block_has_the_first_hit_of_a_search_in_a_stretch(made_once: Workspace, question: str):
    context = made_once.settings.context.model_copy(update={"where": "source:chat"})
    settings = made_once.settings.model_copy(update={"context": context})
    with closing(open_index(settings)) as index:
        first = index.search([f"source:chat {question}"]).hits.to_pylist()[0]
        made = context_of(settings, ConversationText(question), index)
    assert first["chunk_id"] in {p.chunk_id for p in made.passages}
    assert "## Message" not in made.block and made.block.count("\u27e8") < len(made.passages)


def test_what_only_fills_counts_half_however_much_of_a_document_is_shown(made_once: Workspace):
    asked = pl.DataFrame(
        {"window_id": ["x"], "query": [0], "text": ["Is the museum hotel near the oven?"]}
    )
    with PublishedVersions(made_once.settings).open() as index:
        settings = [ContextSettings(dedup_max_per_doc=n, where="source:notes") for n in (None, 1)]
        every, one = (index.candidates(asked, some) for some in settings)
    assert every["fills"].to_list() == [False, True] and one.equals(every)
    assert every["score"][1] < every["score"][0] / 2


def test_each_door_gives_a_window_the_same_block(made_once: Workspace):
    for row in contexts(made_once):
        result = made_once.weft("context", "--window", row["window_id"], "--json")
        assert json.loads(result.output)["block"] == row["compiled"]
    first, text = made_once.sql(
        "SELECT doc_id, markdown FROM conversation_windows ORDER BY doc_id"
    )[0]
    context = made_once.settings.context.model_copy(update={"where": "source:notes"})
    settings = made_once.settings.model_copy(update={"context": context})
    compiled = next(row["compiled"] for row in contexts(made_once) if row["window_id"] == first)
    (tool,) = called(settings, ("context", {"text": text}))
    blocks = [context_of(settings, ConversationText(text)).block, tool.structured_content["block"]]
    with pages(settings) if "serve" in COMMANDS else nullcontext() as client:
        blocks += (
            [client.get("/api/context", params={"text": text}).json()["block"]] if client else []
        )
    assert set(blocks) == {compiled}
    (file,) = (made_once.folder / "chats").glob("*.txt")
    assert read_conversation(made_once.settings, file, None).markdown.startswith(text)
    unknown = made_once.weft("context", "--window", "chat:nobody@0001")
    assert unknown.exit_code == 3 and "no window of a conversation" in unknown.output


def test_a_conversation_finds_neither_itself_nor_what_is_later(made_once: Workspace):
    windows = dict(
        made_once.sql("SELECT doc_id, last_at FROM conversation_windows ORDER BY last_at, doc_id")
    )
    early, *_, late = windows
    queries = pl.DataFrame(
        {"window_id": ["x"] * 3, "query": [0, 1, 2], "text": list(TOPICS.values())}
    )
    found = {}
    with PublishedVersions(made_once.settings).open() as index:
        for name, asker, included in (
            ("early", Asker(until=windows[early]), "earlier"),
            ("late", Asker(until=windows[late]), "earlier"),
            ("same chat", Asker(conversation_id=early.partition("@")[0]), "earlier"),
            ("all but one", Asker((late,), early.partition("@")[0], windows[early]), "later"),
        ):
            settings = ContextSettings(include=included, candidates=1000)
            rows = index.candidates(queries, settings, {"x": asker})
            found[name] = {d for d in rows["document_id"] if d in windows}
    assert found == {
        "early": {early},
        "late": set(windows),
        "same chat": set(),
        "all but one": set(windows) - {late},
    }


def test_an_excerpt_of_a_chat_does_not_find_its_own_turns(made_once: Workspace):
    turns = "SELECT split_part(text_display, chr(10), 2) FROM chunks WHERE chunk_kind = 'turn' ORDER BY doc_id, chunk_index"
    own = [line for line in made_once.column(turns) if len(line) > 40][:6]
    text = "\n".join(f"[10:4{n}] Ann: {line}" for n, line in enumerate(own))
    of_text, of_turn = (
        json.loads(made_once.weft("context", "--stdin", "--json", input=t).output)["block"]
        for t in (text, own[0])
    )
    assert (
        of_text and not any(f": {line}\n" in of_text for line in own) and f": {own[0]}\n" in of_turn
    )


def test_a_note_does_not_find_itself(made_once: Workspace):
    note = str(made_once.folder / "notes" / "Paris.md")
    said = (made_once.folder / "notes" / "Paris.md").read_text()
    for finds_itself, given in ((False, (note,)), (True, ("--stdin",))):
        result = made_once.weft("context", *given, "--where", "source:notes", "--json", input=said)
        cited = {entry["place"] for entry in json.loads(result.output)["manifest"]["chosen"]}
        assert any("Paris" in place for place in cited) == finds_itself


@pytest.mark.parametrize(
    ("text", "answered"),
    [
        ("Which GPU do I need to train a diffusion model?", []),
        ("qwzrx vlompf tregnok", []),
        (
            "Which GPU do I need for diffusion? Does the dough of rye flour and sourdough rest overnight?",
            [False, True],
        ),
    ],
)
def test_what_the_index_says_nothing_about_gets_no_context(
    made_once: Workspace, text: str, answered: list[bool]
):
    result = made_once.weft("context", "--stdin", "--json", input=text)
    told = json.loads(result.output)
    assert (result.exit_code, told["outcome"]) == ((0, "CONTEXT") if answered else (3, "NO_HITS"))
    parts = told["manifest"]["queries"][1:] if answered else []
    assert [bool(part["passages"]) for part in parts] == answered


@pytest.mark.parametrize(
    ("where", "kinds"),
    [
        ("source:notes tag:bread", {"Bread"}),
        ("kind:conversation", {"chat"}),
        ("-kind:conversation -tag:bread", {"Paris", "Crash"}),
    ],
)
def test_conditions_say_what_is_found(made_once: Workspace, where: str, kinds: set[str]):
    result = made_once.weft(
        "context", "--stdin", "--where", where, "--json", input="\n\n".join(TOPICS.values())
    )
    places = {entry["place"] for entry in json.loads(result.output)["manifest"]["chosen"]}
    assert {
        next(k for k in (*TOPICS, "Gardening", "chat") if k in place) for place in places
    } == kinds


def test_conditions_that_are_none_are_refused(made_once: Workspace):
    result = made_once.weft("context", "--stdin", "--where", "just words", input="rye")
    assert (
        result.exit_code == 2
        and "context.where" in result.output
        and "conditions alone" in result.output
    )


@pytest.mark.parametrize(
    ("said", "outcome", "code"),
    [
        ("rye flour and sourdough", "CONTEXT", 0),
        ("\U0001f44d \u2764", "NO_HITS", 3),
        (" \n", "SYSTEM_ERROR", 2),
    ],
)
def test_outcomes_have_their_exit_codes(made_once: Workspace, said: str, outcome: str, code: int):
    result = made_once.weft("context", "--stdin", "--json", input=said)
    assert (json.loads(result.output.splitlines()[0])["outcome"], result.exit_code) == (
        outcome,
        code,
    )
    assert ("the text is empty" in result.output) is (code == 2)


def test_an_empty_text_and_a_file_without_a_name_are_faults(made_once: Workspace):
    for argument, said in (
        ("--stdin", "is empty"),
        ("", "is empty"),
        ("why does it fail? " * 99, "with --stdin"),
    ):
        result = made_once.weft("context", argument, input="")
        assert result.exit_code == 2 and said in " ".join(result.output.split())


def test_the_hnsw_index_finds_what_exact_search_finds(
    made_once: Workspace, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO", "weft")
    queries = pl.DataFrame(
        {"window_id": ["chat:x"] * 3, "query": [0, 1, 2], "text": list(TOPICS.values())}
    )
    with PublishedVersions(made_once.settings).open() as index:
        assert index.index.manifest["vector_search"] == "hnsw"
        found, paths = {}, {}
        for mode in ("exact", "ann"):
            found[mode] = index.candidates(queries, ContextSettings(mode=mode, candidates=5))
            paths[mode] = index.paths
            counts = " + ".join(str(n) for n in found[mode].group_by("query").len()["len"])
            way = {"exact": "exact", "ann": "hnsw"}[mode]
            assert f"context: 3 queries (3 by {way}), {counts} candidates" in caplog.text
        own = {"chat:x": Asker(["notes:Paris.md"])}
        without = index.candidates(queries, ContextSettings(mode="ann", candidates=5), own)
        narrow = ContextSettings(mode="ann", candidates=5, overfetch=1, nprobe=7)
        past_its_own = index.candidates(queries, narrow, own)
        paths["narrow"] = index.paths
        in_view = index.index.connection.execute(
            "SELECT current_setting('hnsw_ef_search')"
        ).fetchone()
    # The index is asked for as many more as the asker's own document has.
    assert paths.pop("narrow") == {"hnsw": 3} and in_view == (7,)
    assert past_its_own.group_by("query").len()["len"].to_list() == [5, 5, 5]
    assert "notes:Paris.md" not in past_its_own["document_id"].to_list()
    assert paths == {"exact": {"exact": 3}, "ann": {"hnsw": 3}}
    assert found["ann"]["chunk_id"].to_list() == found["exact"]["chunk_id"].to_list()
    assert "notes:Paris.md" in found["ann"]["document_id"].to_list()
    assert "notes:Paris.md" not in without["document_id"].to_list()
    assert without.group_by("query").len()["len"].to_list() == [5, 5, 5]


def test_the_least_cosine_of_the_design_is_that_of_its_model_and_for_others_what_few_pairs_reach(
    made_once: Workspace,
):
    seed = ContextSettings(**DESIGNS["egregora"]["context"])
    published = PublishedVersions(made_once.settings)
    with published.open() as index:
        rows = index.index.arrays.rows.of(index.index.sampled)
        facts = [rows[n] for n in index.index.sampled.tolist()]
        vectors = index.index.vector_sample
        pairs = (vectors @ vectors.T)[strangers(facts, ())[0]]
        least = index.suited(seed).min_similarity
        assert least is not None and least != 0.7
        assert least <= round(float(np.quantile(pairs, 0.95)), 4)
        assert index.suited(ContextSettings()).min_similarity == 0
        assert index.suited(seed.model_copy(update={"min_similarity": 0.3})).min_similarity == 0.3
        index.index.manifest["model"] = "gemini-embedding-001"
        assert published.of(index.index).suited(seed).min_similarity == 0.7


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_indexed", [False, True])
def test_a_chat_on_three_topics_finds_the_posts_on_each_as_in_the_design(
    workspace: Workspace, is_indexed: bool
):
    """The design's own integration test, thirty messages, among other posts and a chat: one that
    repeats itself, or the asking one.
    """
    posts = {
        "Travel": "The Paris trip day by day: the museum on the first day, the tower on the second.",
        "Coding": "Debugging an issue: read the message, make it small, debug the issue with a test.",
        "Recipes": "A recipe idea for each day: the recipe of rye bread, an idea for soup.",
        "Gardening": "Roses want sun and water, tulips are planted in autumn.",
        "Taxes": "The form for the income of last year is due in July.",
        "Music": "The choir sings on Thursday, the organ is tuned in spring.",
    }
    configure(workspace, NOTES, CHAT)
    for title, text in posts.items():
        write(workspace, f"notes/{title}.md", f"# {title}\n\n{text}\n")
    turns = [
        f"27.03.25, 10:{n:02d} - Maud: the ferry leaves the harbour late, says number {n}"
        for n in range(40)
    ]
    topics = ("Paris trip day", "Debugging issue", "Recipe idea")
    said = [
        f"15.01.25, {10 + n // 10}:{n % 10:02d} - uuid-{n // 10}: {topics[n // 10]} {n % 10}"
        for n in range(30)
    ]
    chat = said if is_indexed else turns
    write(workspace, "chats/WhatsApp Chat with Maud.txt", "\n".join(chat))
    workspace.build()
    seed = ContextSettings(**DESIGNS["egregora"]["context"], where="source:notes")
    settings = workspace.settings.model_copy(update={"context": seed})
    result = context_of(settings, read_conversation(settings, None, "\n".join(said)))
    assert {p.title for p in result.passages} >= {"Travel", "Coding", "Recipes"}
    far = settings.model_copy(update={"context": seed.model_copy(update={"min_similarity": 0.99})})
    assert not context_of(far, read_conversation(far, None, "\n".join(said))).passages


def test_a_fault_is_no_empty_answer(tmp_path: Path):
    work = Workspace(tmp_path / "work")
    configure(work, NOTES)
    result = work.weft("context", "--stdin", "--json", input="rye flour")
    assert result.exit_code == 5
    assert json.loads(result.output.splitlines()[0])["outcome"] == "SYSTEM_ERROR"


@pytest.mark.exhaustive
def test_every_format_is_read_and_what_is_broken_is_listed(tmp_path: Path):
    work = Workspace(tmp_path / "work")
    configure(
        work,
        {**CHAT, "pseudonyms": False},
        {"name": "slack", "kind": "conversation", "path": "slack"},
    )
    rows = {"timestamp": ["2025-01-15T10:30:00"], "author": ["ada"], "message": ["from a table"]}
    pq.write_table(pa.table(rows), write(work, "chats/table.parquet", b""))
    write(
        work,
        "chats/rows.csv",
        'Date,From,Text\n2025-01-15 10:30,ada,"from, a csv\nwith two lines"\nnever,ada,x\n',
    )
    write(
        work,
        "chats/lines.jsonl",
        '{"ts": 1736937000, "user": "ada", "text": "from json lines"}\nbroken\n',
    )
    discord = {
        "channel": {"name": "general"},
        "messages": [
            {
                "timestamp": "2025-01-15T10:30:00+00:00",
                "type": "Default",
                "author": {"id": "1", "name": "ada"},
                "content": "from discord, <@2>",
                "mentions": [{"id": "2", "name": "grace"}],
            }
        ],
    }
    write(work, "chats/discord.json", json.dumps(discord))
    write(
        work, "chats/ios.zip", zipped({"_chat.txt": b"[27/03/2025, 18:02:33] ada: from a zip\r\n"})
    )
    write(
        work,
        "chats/list.mbox",
        mbox([Mail(1, "from mail"), Mail(2, "answered", "Re: Foxes", 1), Mail(9, "alone", "X")]),
    )
    write(work, "chats/bad.zip", b"PK no zip at all")
    write(work, "chats/outside.zip", zipped({"../../etc/evil.txt": b"27.03.25, 18:02 - a: x"}))
    write(work, "chats/bomb.zip", zipped({"_chat.txt": bytes(40 << 20)}))
    write(work, "chats/picture.zip", zipped({"a.jpg": b"x"}))
    write(work, "chats/letter.txt", "Dear all,\nthis is no chat.\n")
    days = [day for d in range(13, 25) for day in (f"{d}/3/25", f"3/{d}/25")]
    write(work, "chats/mixed.txt", "".join(f"{day}, 10:00 - x: y\n" for day in days))
    write(work, "slack/users.json", json.dumps([{"id": "U1", "real_name": "Ada Lovelace"}]))
    told = {"ts": "1736937000.1", "user": "U1", "text": "<@U1> from &lt;slack&gt;"}
    write(work, "slack/general/2025-01-15.json", json.dumps([told]))
    work.build()
    said = dict(
        work.sql(
            "SELECT title || coalesce(' by ' || author, ''), text FROM conversations WHERE source = 'chat'"
        )
    )
    assert said["table by ada"] == "from a table"
    assert said["rows by ada"] == "from, a csv\nwith two lines"
    assert said["lines by ada"] == "from json lines"
    assert said["general by ada"] == "from discord, @grace"
    assert said["ios by ada"] == "from a zip"
    assert work.column("SELECT count(*) FROM conversations WHERE title LIKE 'list: Foxes%'") == [2]
    (slack,) = work.column("SELECT text FROM conversations WHERE source = 'slack'")
    assert slack.endswith(" from <slack>") and "Ada" not in slack
    reasons = {
        p.split(":")[0]: r.split(":")[0]
        for p, r in work.sql("SELECT place, reason FROM quarantine")
    }
    assert reasons == {
        "bad.zip": "no_zip",
        "outside.zip": "path_traversal",
        "bomb.zip": "too_large",
        "picture.zip": "no_chat",
        "letter.txt": "no_messages",
        "mixed.txt": "mixed_dates",
        "rows": "no_time",
        "lines.jsonl": "no_json",
    }


def test_windows_that_nobody_asked_about_wait_with_a_budget_for_each_build(
    work: Workspace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reconcile, "QUERIES_OF_CONTEXT", 1)
    configure(work, CHAT)
    write(work, "chats/Trip.txt", export(59))
    first = work.build()
    windows = work.lake.partitions("conversations")
    assert first.published and len(windows) == 3
    assert work.lake.partitions("conversation_context") == windows[-1:], "the newest is made"
    assert first.as_json()["waiting_windows"] == 2
    assert any("2 windows of chats wait" in line for line in first.warnings())
    with work.instance() as instance:
        on_demand = Work(CONTEXT.tables, windows[0], windows[0])
        run_here(asset_definitions(work.settings), instance, on_demand, {})
    assert list(work.plan().context) == windows[1:2]
    last = work.build()
    assert last.published is None and last.as_json()["waiting_windows"] == 0
    assert work.lake.partitions("conversation_context") == windows and work.plan().is_empty
