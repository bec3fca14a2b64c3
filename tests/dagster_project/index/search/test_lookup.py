"""Ids and citations lead to exact texts, to what is near them, and to assistants by the Model
Context Protocol.
"""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from dagster_project.servers.mcp import mcp_server
from tests.archives import Mail, Workspace
from tests.timing import HUNG, PAUSE


def got(work: Workspace, name: str) -> dict[str, Any]:
    result = work.weft("get", name, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def one(work: Workspace, statement: str) -> Any:
    return work.column(statement)[0]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "kind", "statement"),
    [
        (
            "m0@example.org",
            "message",
            "SELECT body FROM messages WHERE message_id = 'm0@example.org'",
        ),
        (
            " <m0@example.org> ",
            "message",
            "SELECT body FROM messages WHERE message_id = 'm0@example.org'",
        ),
        ("docs:manual.md", "document", "SELECT text FROM documents WHERE path = 'manual.md'"),
        ("old/manual.md", "document", "SELECT text FROM documents WHERE path = 'old/manual.md'"),
        ("docs:manual.md#repair", "node", "SELECT 'Run the checker on a copy of the store first.'"),
        ("old/manual.md#repair", "node", "SELECT 'Run the checker on a copy of the store first.'"),
        ("{SELECT attachment_id FROM attachments}", "attachment", "SELECT text FROM attachments"),
        (
            "{SELECT min(chunk_id) FROM chunks}",
            "chunk",
            "SELECT min_by(text_display, chunk_id) FROM chunks",
        ),
    ],
)
def test_an_id_leads_to_its_text(library: Workspace, name: str, kind: str, statement: str):
    name = one(library, name[1:-1]) if name.startswith("{") else name
    found = got(library, name)
    assert found["kind"] == kind
    assert found["text"].strip() == one(library, statement).strip()
    shown = library.weft("get", name)
    assert shown.stdout == found["text"]
    assert found["id"] in shown.stderr


def test_a_thread_is_all_its_mails_in_order(library: Workspace):
    text = got(
        library,
        one(library, "SELECT thread_id FROM thread_tree WHERE message_id = 'm0@example.org'"),
    )["text"]
    places = [text.index(f"Message-ID: <m{n}@example.org>") for n in range(4)]
    assert places == sorted(places)
    assert one(library, "SELECT body FROM messages WHERE message_id = 'm3@example.org'") in text


def test_the_citation_of_every_hit_leads_to_its_bytes(library: Workspace):
    queries = ("compactor load", "table of segments", "segment bytes one 4096", "checker on a copy")
    found = json.loads(library.weft("search", *queries, "--json", "--limit", "4").stdout)
    hits = {hit["citation"]: hit for query in found["queries"] for hit in query["hits"]}.values()
    assert {h["source_kind"] for h in hits} >= {"message", "attachment", "document"}
    stored = dict(
        library.sql(
            "SELECT message_id, body FROM messages UNION ALL SELECT doc_id, text FROM documents "
            "UNION ALL SELECT attachment_id, text FROM attachments "
            "UNION ALL SELECT doc_id, markdown FROM conversation_windows"
        )
    )
    for hit in hits:
        whole = stored[hit["attachment_id"] or hit["doc_id"]].encode()
        read = got(library, f"\u27e8{hit['citation']}\u27e9")
        assert read["text"].encode() == whole[hit["byte_start"] : hit["byte_end"]]


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("m0@example.com", 3, "m0@example.org"),
        ("manul.md", 3, "docs:manual.md"),
        ("'; DROP TABLE chunks; --", 3, "holds nothing"),
        ("nul\0byte", 3, "holds nothing"),
        ("", 3, "holds nothing"),
        ("docs:manual.md#repairs", 3, "docs:manual.md#repair"),
        ("m0@example.com block 0 bytes 0-4", 3, "m0@example.org"),
        ("m0@example.org attachment abcdef bytes 0-4", 3, "no attachments"),
        ("m0@example.org bytes 0-99999", 2, "which has"),
        ("m0@example.org bytes 9-3", 2, "which has"),
    ],
)
def test_what_is_unknown_is_an_error_with_the_nearest(
    library: Workspace, name: str, code: int, says: str
):
    result = library.weft("get", "--", name) if name.startswith("-") else library.weft("get", name)
    assert (result.exit_code, says in result.stderr) == (code, True), result.stderr
    assert result.stdout == ""


def test_bytes_inside_of_a_letter_are_refused(library: Workspace):
    body = one(library, "SELECT body FROM messages WHERE message_id = 'm50@example.org'").encode()
    cut = body.index("\u00ef".encode()) + 1
    result = library.weft("get", f"m50@example.org bytes 0-{cut}")
    assert (result.exit_code, "inside of a letter" in result.stderr) == (2, True)


@pytest.mark.exhaustive
def test_the_beginning_of_a_hash_suggests_the_whole(library: Workspace):
    whole = one(library, "SELECT min(chunk_id) FROM chunks")
    result = library.weft("get", whole[:10])
    assert (result.exit_code, whole in result.stderr) == (3, True)


def test_similar_is_what_is_nearest_in_the_shape_of_a_search(library: Workspace):
    result = json.loads(library.weft("similar", "m0@example.org", "--json", "--limit", "3").stdout)
    searched = json.loads(library.weft("search", "compactor", "--json").stdout)
    (query,) = result["queries"]
    assert query["hits"][0].keys() == searched["queries"][0]["hits"][0].keys()
    scores = [hit["score"] for hit in query["hits"]]
    assert scores == sorted(scores, reverse=True)
    ids = [hit["doc_id"] for hit in query["hits"]]
    assert len(set(ids)) == 3 and "m0@example.org" not in ids
    (best,) = library.column(
        "SELECT max(array_cosine_similarity(a.vector, b.vector)) FROM embeddings a JOIN chunks c USING (chunk_id), "
        "embeddings b JOIN chunks d USING (chunk_id) WHERE c.doc_id = 'm0@example.org' AND d.doc_id <> c.doc_id"
    )
    assert scores[0] == pytest.approx(best, abs=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name", ["docs:manual.md", "docs:manual.md#repair", "{SELECT attachment_id FROM attachments}"]
)
def test_a_document_a_section_and_an_attachment_have_neighbours(library: Workspace, name: str):
    name = one(library, name[1:-1]) if name.startswith("{") else name
    result = library.weft("similar", name, "--limit", "2")
    assert result.exit_code == 0, result.output
    assert "2 hits" in result.stdout


@pytest.mark.exhaustive
def test_an_assistant_sees_a_new_version_in_its_session(library: Workspace, tmp_path: Path):
    work = library.copied(tmp_path / "work")

    async def run() -> tuple[Any, Any]:
        async with Client(mcp_server(work.settings)) as client:
            before = await client.call_tool("get", {"id": "m70@example.org"})
            await anyio.to_thread.run_sync(publish)
            with anyio.fail_after(HUNG):
                while (after := await client.call_tool("get", {"id": "m70@example.org"})).is_error:
                    await anyio.sleep(PAUSE)  # until the new version is open
            return before, after

    def publish() -> None:
        work.write("dev.2004-02.mbox", [Mail(70, "A later mail about the compactor.", "Later")])
        work.build()

    before, after = anyio.run(run)
    assert before.is_error
    assert after.structured_content["text"].strip() == "A later mail about the compactor."
