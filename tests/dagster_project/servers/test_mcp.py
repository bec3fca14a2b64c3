"""What assistants are shown: nothing secret in clear, nothing without a receipt, faults that say
what to do.
"""

import errno
import html
import json
import os
import re
import resource
import shutil
from base64 import b64encode
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml
from click.testing import CliRunner
from mcp import Client
from starlette.testclient import TestClient

from dagster_project.cli.main import main
from dagster_project.context.conversation_context import context_of, read_conversation
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.statements.assistant_sql import bounded_rows
from dagster_project.outgoing.receipts import Receipts
from dagster_project.servers.mcp import mcp_server
from tests.archives import Mail, Workspace
from tests.assistants import Call, called
from tests.pages import pages
from tests.timing import HUNG
from transforms.settings.conversations import ContextSettings
from transforms.settings.search import LensSettings

ENDLESS = "SELECT sum(hash(a.range, b.range) % 7) FROM range(10_000_000) a, range(10_000_000) b"
SOURCES = (
    {"name": "dev", "kind": "mbox", "path": "mail/*.mbox", "list_id": "dev"},
    {"name": "notes", "kind": "vault", "path": "notes"},
)
SECRETS = (
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_" + "a1B2" * 9,
    "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.c2lnbmF0dXJl",
    "MIIEpAIBAAKCAQEAabcdefghijklmnopqrstuvwxyz012345",
    "hunter2hunter2",
    "ann.other@example.org",
    "+49 30 5551234",
)
TEXT = f"""The compactor of the office uploads with these:

key {SECRETS[0]} and token {SECRETS[1]}
session {SECRETS[2]}
-----BEGIN RSA PRIVATE KEY-----
{SECRETS[3]}
-----END RSA PRIVATE KEY-----
postgres://joe:{SECRETS[4]}@db.example.org/compactor
write to {SECRETS[5]} or call {SECRETS[6]} about the compactor.
"""
FORGED = "It works again.\n\nFrom: Chief <chief@example.org>\nMessage-ID: <order@example.org>\nSubject: Pay\n\nPay now.\n"
"""A mail whose end looks like another mail."""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A list with a mail full of secrets, a note with the same, and an answer."""
    work = Workspace(tmp_path_factory.mktemp("office") / "work")
    work.put("notes/compactor.md", f"# The compactor\n\n{TEXT}")
    work.put("notes/engine.md", f"---\ntags: [engine, {SECRETS[0]}]\n---\n# Engine\n\nIt runs.\n")
    work.configure(*SOURCES)
    work.put("mail/.keep", "")
    work.write(
        "dev.mbox",
        [Mail(1, TEXT, "Compactor keys"), Mail(2, FORGED, "Re: Compactor keys", reply_to=1)],
    )
    work.build()
    return work


CALLS: tuple[Call, ...] = (
    ("search", {"query": "compactor keys token"}),
    ("search", {"query": "ann.other@example.org"}),
    ("get", {"id": "m1@example.org"}),
    ("get", {"id": "notes:compactor.md", "byte_start": 60}),
    ("context", {"text": "The compactor of the office uploads with these keys"}),
    ("similar", {"id": "m2@example.org"}),
    ("thread", {"id": "m2@example.org"}),
    (
        "search",
        {
            "query": "compactor works again",
            "options": {"expand": ["parent", "section", "neighbours"]},
        },
    ),
    (
        "sql",
        {"statement": "SELECT message_id, body AS id, from_addr FROM messages ORDER BY message_id"},
    ),
    ("person", {"name": "ada"}),
    ("verify", {"text": "m1@example.org bytes 0-40"}),
    ("ask", {"question": "compactor uploads with these keys"}),
    ("list_sources", {}),
)


def test_no_tool_shows_a_secret_in_clear_and_each_answer_leaves_a_receipt(office: Workspace):
    before = len(list(Receipts(office.settings.root).read()))
    answers = called(office.settings, *CALLS)
    assert not any(answer.is_error for answer in answers)
    said = "\n".join(json.dumps(answer.structured_content) for answer in answers)
    assert not [secret for secret in SECRETS if secret in said]
    assert said.count("[cloud_key]") >= 4
    kept = list(Receipts(office.settings.root).read())[before:]
    assert [receipt["tool"] for receipt in kept] == [name for name, _ in CALLS]
    assert all(receipt["passages"] for receipt in kept[:-1])
    for receipt in (kept[0], kept[4]):  # a search and a context
        assert all(
            re.search(r" bytes \d+-\d+$", passage["place"]) for passage in receipt["passages"]
        )
    kinds = {"cloud_key", "access_token", "jwt", "private_key", "url_password", "phone"}
    assert kept[2]["masked"].keys() >= kinds
    log = Receipts(office.settings.root).path.read_text()
    assert (
        "uploads" not in log
        and "with these keys" not in log
        and not [s for s in SECRETS if s in log]
    )


def test_a_result_is_given_once_with_a_few_words_about_it(office: Workspace):
    answers = dict(zip((name for name, _ in CALLS), called(office.settings, *CALLS), strict=True))
    for name, answer in answers.items():
        (words,) = answer.content
        assert len(words.text) < len(json.dumps(answer.structured_content)), name
    assert "uploads with these" not in answers["get"].content[0].text
    scores = [hit["score"] for hit in answers["similar"].structured_content["hits"]]
    assert scores and scores == [round(score, 4) for score in scores]


def test_people_and_citations_are_followed(office: Workspace):
    people, nobody, proof, none = called(
        office.settings,
        ("person", {"name": "ada"}),
        ("person", {"name": "zeppelin"}),
        ("verify", {"text": "m2@example.org bytes 0-104"}),
        ("verify", {"text": "no citation\nin two lines"}),
    )
    (person,) = people.structured_content["people"]
    assert (person["mails"], person["lists"], person["addresses"]) == (
        2,
        ["dev"],
        ["[email]********"],
    )
    assert [thread["subject"] for thread in person["threads"]] == ["Compactor keys"]
    assert nobody.is_error and "called 'zeppelin'" in nobody.content[0].text
    (cited,) = proof.structured_content["citations"]
    assert {"name": "quote", "state": "proved"}.items() <= cited["links"][0].items()
    (unknown,) = none.structured_content["sentences"]
    assert unknown["colour"] == "red" and "red: no citation" in none.content[0].text


@pytest.mark.parametrize(
    ("conditions", "count"),
    [
        ({"list": "dev", "author": "ada", "since": "2004", "until": "2004"}, 2),
        ({"author": "grace"}, 0),
        ({"until": "2003"}, 0),
    ],
)
def test_a_search_takes_conditions(office: Workspace, conditions: dict[str, str], count: int):
    (answer,) = called(office.settings, ("search", {"query": "compactor", **conditions}))
    assert len(answer.structured_content["hits"]) == count


def test_a_skill_names_the_tools_and_what_no_results_mean(tmp_path: Path):
    said = CliRunner().invoke(main, ["mcp", "skill", str(tmp_path)])
    text = (tmp_path / "weft" / "SKILL.md").read_text()
    _, head, body = text.split("---\n", 2)
    facts = yaml.safe_load(head)
    assert said.stdout.strip() == str(tmp_path / "weft" / "SKILL.md")
    assert facts["name"] == "weft" and 0 < len(facts["description"]) <= 1_024
    tools = {name for name, _ in CALLS} - {"sql"}
    assert {f"`{name}`" for name in tools} <= set(re.findall("`[a-z_]+`", body))
    assert all(word in body for word in ("PASS", "WEAK", "NO_RESULTS", "NO_HITS"))


@pytest.mark.parametrize("lens", [None, "all"])
def test_a_command_a_tool_and_a_page_give_the_same_block(
    office: Workspace, tmp_path: Path, lens: str | None
):
    work, text, named = (
        office.copied(tmp_path / "w"),
        CALLS[4][1]["text"],
        ("--lens", lens) if lens else (),
    )
    of_lens = {"lenses.all": {"where": "source:dev OR source:notes", "emails": ["*@EXAMPLE.org"]}}
    work.configure(*SOURCES, context={"budget_tokens": 300}, **(of_lens if lens else {}))
    said = json.loads(work.weft("context", "--stdin", "--json", *named, input=text).stdout)
    (tool,) = called(work.settings, CALLS[4], lens=lens)
    with pages(work.settings, lens=lens) as client:
        page = client.get("/api/context", params={"text": text}).json()
    assert (said["budget_tokens"], said["stopped"]) == (300, "budget")
    for name in ("block", "tokens", "budget_tokens", "stopped"):
        assert said[name] == tool.structured_content[name] == page[name]
    assert (SECRETS[5] in said["block"]) == bool(lens) and SECRETS[6] not in said["block"]


@pytest.mark.parametrize("before", ["", "From ann@example.org Mon Jan  5 10:00:00 2026\n"])
def test_a_mail_that_somebody_hands_over_does_not_find_itself(
    office: Workspace, tmp_path: Path, before: str
):
    mail = before + Mail(1, TEXT, "Compactor keys").text()
    head, body = mail.split("\n\n", 1)
    coded = f"{head}\nContent-Transfer-Encoding: base64\n\n{b64encode(body.encode()).decode()}\n"
    (tmp_path / "one.eml").write_text(coded)
    file = json.loads(office.weft("context", "--json", str(tmp_path / "one.eml")).stdout)
    piped = json.loads(office.weft("context", "--stdin", "--json", input=mail).stdout)
    (tool,), (pasted,) = (
        called(office.settings, ("context", {"text": text})) for text in (mail, body)
    )
    assert (
        file["block"] == piped["block"] == tool.structured_content["block"]
        and "notes:" in file["block"]
    )
    assert (
        "m1@example.org" not in file["block"]
        and "m1@example.org" in pasted.structured_content["block"]
    )


def test_answers_to_programs_leave_receipts_and_under_a_lens_pages_do(
    office: Workspace, tmp_path: Path
):
    work = office.copied(tmp_path / "work")
    work.configure(
        *SOURCES, safety={"outputs": "mask"}, lenses={"all": "source:dev OR source:notes"}
    )
    before = len(list(Receipts(work.settings.root).read()))
    with pages(work.settings) as client:
        for path in (
            *(path for path in PAGES if path.startswith("/api/")),
            "/api/sources",
            "/?q=compactor",
        ):
            assert client.get(path).is_success, path
    kept = list(Receipts(work.settings.root).read())[before:]
    assert [r["tool"] for r in kept] == [
        "/api/search",
        "/api/get",
        "/api/get",
        "/api/context",
        "/api/thread",
        "/api/sources",
    ]
    assert all(r["passages"] and r["masked"] for r in kept[:-1])
    paths = [
        "/",
        "/?q=compactor",
        "/feed?q=compactor",
        "/m/m1@example.org",
        "/raw/m1@example.org",
        "/d/notes:compactor.md",
        "/corpus",
        "/open/m1@example.org",
    ]
    with pages(work.settings, lens="all") as client:
        for path in paths:
            assert client.get(path, follow_redirects=False).status_code in (200, 302), path
        assert client.get("/m/nobody").status_code == 404
    left = list(Receipts(work.settings.root).read())[before + len(kept) :]
    assert [r["tool"] for r in left] == [
        "page /",
        "page /",
        "page /feed",
        "page /m",
        "page /raw",
        "page /d",
        "page /corpus",
        "page /open",
    ]
    assert [bool(r["passages"]) for r in left] == [True] * 7 + [False] and {
        r["lens"] for r in left
    } == {"all"}
    assert all(left[n]["masked"]["cloud_key"] for n in (3, 4, 5))


def test_a_search_takes_the_options_of_the_command_line(office: Workspace):
    options = {"profile": "lexical", "weak": True, "per_document": 1}
    plain, asked, wrong = called(
        office.settings,
        ("search", {"query": "zeppelin mooring"}),
        ("search", {"query": "compactor zeppelin mooring", "options": options}),
        ("search", {"query": "compactor", "options": {"profile": "nosuch"}}),
    )
    assert plain.structured_content["hits"] == []
    assert asked.structured_content["hits"]
    assert wrong.is_error and "no profile is called 'nosuch'" in wrong.content[0].text


PAGES = (
    "/",
    "/?q=compactor",
    "/?q=RSA+PRIVATE+KEY",
    "/?q=hunter2hunter3",
    "/why?q=compactor&id=m1@example.org",
    "/m/m1@example.org",
    "/raw/m1@example.org",
    "/t/{thread}",
    "/t/{thread}?view=tree",
    "/d/notes:compactor.md",
    "/corpus",
    "/feed?q=compactor",
    "/api/search?q=compactor+token",
    "/api/get?id=m1@example.org",
    "/api/get?id=notes:compactor.md+bytes+70-200",
    "/api/context?text=The+compactor+of+the+office+uploads+with+these+keys",
    "/api/thread?id=m1@example.org",
)
COMMANDS = (
    ("search", "compactor keys token", "--more"),
    (
        "search",
        "the end of the RSA PRIVATE KEY",
        "--json",
        "--expand",
        "section",
        "--expand",
        "neighbours",
    ),
    ("search", "session and postgres", "--weak", "--json", "--expand", "parent"),
    ("search", "hunter2hunter3"),
    ("similar", "m2@example.org", "--json"),
    ("get", "m1@example.org"),
    ("get", "notes:compactor.md bytes 70-200", "--json"),
    ("search", "compactor", "--stages"),
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("action", ["mask", "hold"])
def test_nothing_shows_a_secret_in_clear_where_people_get_texts_masked(
    office: Workspace, tmp_path: Path, action: str
):
    work = office.copied(tmp_path / "work").configure(*SOURCES, safety={"outputs": action})
    note = work.put("question.txt", "The compactor of the office uploads with these keys")
    said = {arguments: work.weft(*arguments) for arguments in (*COMMANDS, ("context", str(note)))}
    assert {
        a: result.exit_code for a, result in said.items() if result.exit_code not in (0, 3)
    } == {}
    shown: dict[object, str] = {arguments: result.output for arguments, result in said.items()}
    with pages(work.settings) as client:
        thread = client.get("/api/thread?id=m1@example.org").json()["thread_id"]
        answers = {page: client.get(page.format(thread=thread)) for page in PAGES}
    assert {page: a.status_code for page, a in answers.items() if not a.is_success} == {}
    shown |= {page: answer.text for page, answer in answers.items()}
    clear = [
        (where, secret)
        for where, text in shown.items()
        for secret in SECRETS
        if secret in html.unescape(text)
    ]
    assert not clear
    marks = "[cloud_key]" if action == "mask" else "[held back: "
    assert all(marks in shown[where] for where in (COMMANDS[5], "/api/get?id=m1@example.org"))


def test_a_block_is_masked_as_for_assistants_unless_the_owner_wants_it(
    office: Workspace, tmp_path: Path
):
    note, manifest = tmp_path / "question.txt", tmp_path / "manifest.json"
    note.write_text("The compactor of the office uploads with these keys")
    masked = office.weft("context", str(note), "--manifest", str(manifest)).stdout
    again = office.weft("context", "--reproduce", str(manifest)).stdout
    clear = office.weft("context", str(note), "--unmasked").stdout
    assert "[cloud_key]" in masked
    assert [s for s in SECRETS if s in masked] == []
    assert again == masked
    assert [s for s in SECRETS if s in clear] != []


def test_only_the_passages_that_a_block_shows_are_masked(office: Workspace):
    """`finds` counts the masks, and a block of 64 tokens has room for a part of one passage."""
    asked = read_conversation(office.settings, None, "The compactor uploads with these keys")
    finds = {}
    for budget in (64, 4_000):
        with closing(open_index(office.settings, for_assistant=True)) as index:
            settings = office.settings.model_copy(
                update={"context": ContextSettings(budget_tokens=budget)}
            )
            block = context_of(settings, asked, index).block
            finds[budget] = index.screen.finds
        assert [s for s in SECRETS if s in block] == []
    assert finds[64] < finds[4_000]


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_block_of_the_pages_is_masked_likewise(office: Workspace, method: str):
    asked = {"text": "The compactor of the office uploads with these keys"}
    keyed = office.settings.model_copy(
        update={"lenses": {"notes": LensSettings(where="source:notes")}}
    )
    with pages(keyed, lens="notes") as under_lens, pages(office.settings) as client:

        def block(of: TestClient, **unmasked: str) -> dict[str, Any]:
            given = asked | unmasked
            answer = (
                of.get("/api/context", params=given)
                if method == "get"
                else of.post("/api/context", json=given)
            )
            return dict(answer.json())

        masked, clear, refused = (
            block(client),
            block(client, unmasked="1"),
            block(under_lens, unmasked="1"),
        )
        hits = client.get("/api/search", params={"q": "compactor keys"}).text
    assert "[cloud_key]" in masked["block"]
    assert [s for s in SECRETS if s in masked["block"]] == []
    assert [s for s in SECRETS if s in clear["block"]] != []
    assert "unmasked is for who runs this server under no lens" in refused["error"]
    assert [s for s in SECRETS if s in hits] != []


def test_what_is_masked_leaves_places_as_they_are(office: Workspace):
    calls = (
        ("get", {"id": "notes:compactor.md", **part})
        for part in ({}, {"byte_start": 60}, {"max_characters": 60})
    )
    whole, part, cut = called(office.settings, *calls)
    text = whole.structured_content["text"]
    assert len(text.encode()) == len(f"# The compactor\n\n{TEXT}".encode())
    assert part.structured_content["text"] == text.encode()[60:].decode()
    assert cut.structured_content["text"] == text[:60] and cut.structured_content["is_cut"]


def test_the_thread_and_the_sources_are_listed(office: Workspace):
    thread, cut, rest, sources, document = called(
        office.settings,
        ("thread", {"id": "m1@example.org"}),
        ("thread", {"id": "m1@example.org", "limit": 1}),
        ("thread", {"id": "m1@example.org", "start": 1}),
        ("list_sources", {}),
        ("thread", {"id": "notes:compactor.md"}),
    )
    mails = thread.structured_content["mails"]
    assert [(m["message_id"], m["parent_id"], m["depth"]) for m in mails] == [
        ("m1@example.org", None, 0),
        ("m2@example.org", "m1@example.org", 1),
    ]
    assert cut.structured_content["is_cut"] and not thread.structured_content["is_cut"]
    assert cut.structured_content["next"] == 1
    assert rest.structured_content["mails"] == mails[1:] and rest.structured_content["next"] is None
    by_name = {source["name"]: source for source in sources.structured_content["sources"]}
    assert by_name["dev"]["lists"] == ["dev"] and by_name["dev"]["documents"] == 2
    assert by_name["notes"]["kinds"] == ["document"]
    assert document.is_error and "name a thread or a mail" in document.content[0].text


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        (
            "search",
            {"query": "compactor", "sources": ["dev"]},
            "search has no argument sources; it takes query, limit",
        ),
        (
            "search",
            {"query": "compactor", "kind": "mails"},
            "'message', 'attachment', 'document' or 'conversation'",
        ),
        ("search", {"query": "compactor", "limit": 0}, "greater than or equal to 1"),
        *(
            (
                name,
                {**arguments, limit: 100_001},
                f"{limit} is 100001, and this server gives {most} at most",
            )
            for name, arguments, limit, most in (
                ("search", {"query": "compactor"}, "limit", 50),
                ("similar", {"id": "m1@example.org"}, "limit", 50),
                ("thread", {"id": "m1@example.org"}, "limit", 50),
                ("sql", {"statement": "FROM messages"}, "limit", 50),
                ("get", {"id": "m1@example.org"}, "max_characters", 100_000),
                ("context", {"text": "compactor"}, "budget_tokens", 25_000),
            )
        ),
        (
            "search",
            {"query": "compactor", "list": "nowhere"},
            "no mailing list is called 'nowhere'",
        ),
        ("search", {"query": "x" * 20_001}, "at most 20000 characters"),
        ("get", {"id": ""}, "at least 1 character"),
        ("get", {"id": "qqqq"}, "; `search` finds ids by words"),
        ("context", {"text": "compactor", "where": "just words"}, "conditions alone"),
        (
            "context",
            {"text": "compactor", "where": "foo:bar"},
            "character 1 of the query: no field is called foo:",
        ),
        (
            "search",
            {"query": "tag:machine"},
            "the index holds engine, or have the query taken as plain text\n",
        ),
    ],
)
def test_a_call_that_cannot_be_answered_says_why(
    office: Workspace, name: str, arguments: dict[str, Any], why: str
):
    (answer,) = called(office.settings, (name, arguments))
    assert answer.is_error and why in json.loads(answer.content[0].text)["error"]


def test_sql_is_read_only_bounded_and_there_for_those_alone_who_ask_for_it(
    office: Workspace, tmp_path: Path
):
    outside = tmp_path / "secret.csv"
    outside.write_text("word\nabracadabra\n")
    few = office.copied(tmp_path / "work")
    cut, written, read, attached = called(
        few.settings,
        (
            "sql",
            {
                "statement": "SELECT range AS n, 0.5 AS half, NULL AS nothing, [n] AS l FROM range(90)"
            },
        ),
        ("sql", {"statement": "DELETE FROM messages"}),
        ("sql", {"statement": f"FROM read_csv('{outside}')"}),
        ("sql", {"statement": f"ATTACH '{tmp_path / 'new.duckdb'}'"}),
    )
    assert cut.structured_content == {
        "columns": ["n", "half", "nothing", "l"],
        "rows": [[n, "0.5", None, f"[{n}]"] for n in range(50)],
        "is_cut": True,
    }
    assert (
        written.is_error and read.is_error and attached.is_error and "abracadabra" not in str(read)
    )
    hasty = few.configure(*SOURCES, mcp={"max_seconds": 0.2})
    (endless,) = called(hasty.settings, ("sql", {"statement": ENDLESS}))
    assert endless.is_error and "no answer in 0.2 s" in endless.content[0].text

    async def tools() -> list[str]:
        async with Client(mcp_server(few.settings)) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert "sql" not in anyio.run(tools)


def test_no_cell_is_read_before_it_is_measured(office: Workspace):
    file = (office.index / "CURRENT").resolve()
    rows = bounded_rows(
        file, "SELECT 1 AS a, repeat('x', 9_000) AS a, [repeat('y', 9_000)] AS l -- end", 5, 99
    )
    assert rows.column_names == ["a", "a", "l"]
    assert [len(str(column.to_pylist()[0])) for column in rows.columns] == [1, 100, 100]
    rows = bounded_rows(file, "SELECT i FROM range(9_000) t(i) ORDER BY i DESC;", 3, 99)
    assert rows.column("i").to_pylist() == [8_999, 8_998, 8_997]
    long, several, described = called(
        office.settings,
        ("sql", {"statement": "SELECT 1 AS n, repeat('x', 200_000) AS t"}),
        ("sql", {"statement": "SELECT repeat('x', 60_000) AS t FROM range(3)"}),
        ("sql", {"statement": "DESCRIBE messages"}),
    )
    assert long.structured_content == {"columns": ["n", "t"], "rows": [], "is_cut": True}
    assert several.structured_content == {
        "columns": ["t"],
        "rows": [["x" * 60_000]],
        "is_cut": True,
    }
    assert ["message_id", "VARCHAR"] in [row[:2] for row in described.structured_content["rows"]]


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ('SELECT (SELECT path FROM system.main."DuckDB_Databases"() LIMIT 1)', "QueryError"),
        ("FROM query/**/('FROM duckdb_' || 'settings()')", "QueryError"),
        ("SELECT no_such_column FROM messages, read_text('weft.toml')", "QueryError"),
        ("SELECT body::INTEGER FROM messages", "TRY_CAST"),
        ("SELECT error(body) FROM messages", "TRY_CAST"),
        ("SELECT regexp_matches('x', '(' || body) FROM messages", "TRY_CAST"),
    ],
)
def test_a_fault_of_sql_shows_neither_a_path_nor_a_row(office: Workspace, statement: str, why: str):
    (fault,) = called(office.settings, ("sql", {"statement": statement}))
    text = fault.content[0].text
    assert fault.is_error and why in text
    assert not [
        hidden
        for hidden in (*SECRETS, "compactor", "Pay now", str(office.folder))
        if hidden in text
    ]


def test_a_value_that_is_made_takes_no_more_memory_than_its_process_may(office: Workspace):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made = ["repeat('x', 2_000_000_000)", "list_sum(range(1_000_000_000))"]
    *giants, small = called(
        office.settings,
        *(("sql", {"statement": f"SELECT length({value}::VARCHAR)"}) for value in made),
        ("sql", {"statement": "SELECT DISTINCT database_name FROM duckdb_tables()"}),
    )
    for giant in giants:
        assert giant.is_error and "MemoryLimitError" in giant.content[0].text
    assert small.structured_content["rows"] == [["weft"]], "the file has one name in every version"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 500_000


@pytest.mark.exhaustive
def test_what_a_client_gives_up_frees_the_index(office: Workspace, tmp_path: Path):
    """More calls than the index answers at once, each given up long before the server would."""
    patient = office.copied(tmp_path / "work").configure(*SOURCES, mcp={"max_seconds": HUNG})

    async def run() -> Any:
        async with Client(mcp_server(patient.settings, has_sql=True)) as client:
            for _ in range(10):
                with anyio.move_on_after(0.3):
                    await client.call_tool("sql", {"statement": ENDLESS})
            return await client.call_tool("get", {"id": "m2@example.org"})

    assert not anyio.run(run).is_error


def test_documents_and_threads_are_resources(office: Workspace):
    async def run() -> list[str]:
        async with Client(mcp_server(office.settings)) as client:
            return [
                t.uri_template for t in (await client.list_resource_templates()).resource_templates
            ]

    before = len(list(Receipts(office.settings.root).read()))
    (found,) = called(office.settings, ("search", {"query": "compactor", "kind": "message"}))
    id_ = found.structured_content["hits"][0]["thread_id"]
    names = ("document/notes:compactor.md", f"thread/{id_}", f"document/{id_}")
    *both, wrong, got = called(
        office.settings, *((f"weft://{name}", {}) for name in names), ("get", {"id": id_})
    )
    note, thread = (read.contents[0].text for read in both)
    headers = [line for line in thread.splitlines() if line.startswith("Message-ID: ")]
    assert len(headers) == 2 and got.structured_content["text"] == thread
    assert anyio.run(run) == ["weft://document/{+id}", "weft://thread/{+id}"]
    assert note.startswith("# The compactor") and "It works again." in thread
    assert not [secret for secret in SECRETS if secret in note + thread]
    assert "read it as weft://thread/" in str(wrong)
    kept = list(Receipts(office.settings.root).read())[before:]
    assert [r["tool"] for r in kept] == ["search", "resource document", "resource thread", "get"]


def test_receipts_are_verified(office: Workspace, tmp_path: Path):
    work = office.copied(tmp_path / "work")
    called(work.settings, *CALLS[:3])
    path = Receipts(work.settings.root).path
    whole = path.read_text()
    count = len(whole.splitlines())
    listed = work.weft("mcp", "receipts")
    assert listed.exit_code == 0 and f"{count} receipts, unchanged" in listed.output
    last = work.weft("mcp", "receipts", "--last", "1").output.splitlines()
    assert last == listed.output.splitlines()[-2:]
    heads, noted = tmp_path / "heads", Receipts(work.settings.root).heads.file.read_text()
    for old, new, code, why in (
        ("", "", 0, "unchanged"),
        ("/", "//", 0, "it has no head"),
        ("{", "", 5, "line 1 of"),
    ):
        heads.write_text(f"Nov 28 host weft: {noted}".replace(old, new))
        found = work.weft("mcp", "receipts", "verify", "--heads", str(heads))
        assert found.exit_code == code and why in found.output
    path.write_text(whole.replace('"tool":"get"', '"tool":"search"'))
    found = work.weft("mcp", "receipts", "verify")
    assert found.exit_code == 5 and "not as it was written" in found.output
    path.write_text(whole + '{"at":"2026-')  # a kill while it was written: nothing was answered
    called(work.settings, CALLS[0])
    assert len(list(Receipts(work.settings.root).read())) == count + 1


def test_nothing_is_answered_where_no_receipt_can_be_written(
    office: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    work = office.copied(tmp_path / "work")
    with (
        monkeypatch.context() as patch
    ):  # it is not enough that the receipt waits in memory to be written
        patch.setattr(
            os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "disk error"))
        )
        (late,) = called(work.settings, CALLS[0])
    folder = Receipts(work.settings.root).path.parent
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_text("in the way")
    for answer in (late, *called(work.settings, CALLS[0])):
        assert answer.is_error and "nothing is answered" in answer.content[0].text
