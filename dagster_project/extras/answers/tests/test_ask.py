"""Answers: sentences that are the bytes that they cite, of texts that whoever asks may see, or none."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

import weft
from dagster_project.extras.answers.tests.checker import differing, faults
from dagster_project.extras.web.app import web_app
from dagster_project.index.search.opened_index import open_index
from dagster_project.servers.answers import question_answered
from dagster_project.servers.requests import AskRequest
from tests.archives import Mail, Once, Workspace
from transforms.errors import QueryError
from transforms.retrieval.search_filters import Filters

NOTE = "# Kiln\n\nThe kiln is fired on Mondays. Dora keeps the key of the kiln.\n\nGlaze dries for 12 hours.\n"
SAID = (
    ("Ada", "is the wheel free on Monday evening?"),
    ("Cem", "no, Dora repairs the wheel until 9 May. It squeaks."),
)
EARLY, LATE = (datetime(2024, month, 3, 10, tzinfo=UTC) for month in (3, 5))
MAILS = (
    Mail(
        1,
        "The read latency of the cache is 250 ms.\n\nI ask again."
        "\n\n kiln.c | 2 +-\n\nThanks,\nÆlfric\n\n> an older claim of 900 ms",
        sender="Ælfric Moor <moor@example.org>",
        at=EARLY,
    ),
    Mail(2, "The read latency of the cache is 180 ms now, and it is not final.", at=LATE),
    Mail(3, "The secret wedding of the falcons is in Tromso.", "Falcons"),
    Mail(
        4,
        "Hi Ælfric,\n\nWhat is the read latency of the cache on Monday?\n\nThe numbers of the cache:\n\n"
        "cache: read latency\ncache: write latency\n\nThanks for the latency of the cache!\n\n"
        "Fixes: 1ab23cd (cache: read latency of the cache)\n",
        at=LATE,
    ),
)
QUESTIONS = (
    "what is the read latency of the cache?",
    "when is the kiln fired?",
    "who repairs the wheel?",
    "where is the wedding of the falcons?",
    "how long does glaze dry?",
)
OFF_TOPIC = ("which enzyme unwinds the double helix", "tax treaty between Peru and Iceland")


@pytest.fixture(scope="module")
def made_once(once: Once, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Two lists of mails, notes and a chat; a lens hides one of the lists."""
    work = Workspace(tmp_path_factory.mktemp("answers") / "work").configure(
        {"name": "dev", "kind": "maildir", "path": "mail/dev"},
        {"name": "private", "kind": "mbox", "path": "mail/private/*"},
        {"name": "notes", "kind": "vault", "path": "notes"},
        {"name": "chat", "kind": "conversation", "path": "chat", "pseudonyms": False},
        **{"lenses.open": {"where": "source:dev OR source:notes"}},
    )
    for mail in (
        *MAILS[:2],
        MAILS[3],
    ):  # in an archive, dates before the line of its month would not count
        work.write(f"dev/new/{mail.number}.host", mail.text().encode())
    work.write("private/private.mbox", MAILS[2:3])
    work.put("notes/Kiln.md", NOTE)
    lines = [f"27.03.25, 18:0{n} - {name}: {text}\n" for n, (name, text) in enumerate(SAID)]
    work.put("chat/wheel.txt", "".join(lines))
    return once(work)


def answer(work: Workspace, question: str, **conditions: str) -> dict[str, Any]:
    with weft.open(work.config) as index:
        return index.ask(question, **conditions).model_dump(mode="json")


def stored(work: Workspace) -> dict[str, tuple[str, str]]:
    """Text and header of each document, by SQL."""
    rows = work.sql(
        "SELECT message_id, body, concat(from_name, ' ', from_addr, ' ', subject) FROM messages "
        "UNION ALL SELECT doc_id, text, title FROM documents "
        "UNION ALL SELECT doc_id, markdown, markdown FROM conversation_windows"
    )
    return {name: (text, header) for name, text, header in rows}


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_sentence_is_the_bytes_that_it_cites(made_once: Workspace, question: str):
    found, texts = answer(made_once, question), stored(made_once)
    assert found["outcome"] == "ANSWER" and found["sentences"]
    assert faults(found, texts) == [] and differing(found, texts) == []
    assert sum(len(said["text"].split()) for said in found["sentences"]) <= 120


def test_the_check_finds_what_is_planted(made_once: Workspace):
    found, texts = answer(made_once, QUESTIONS[0]), stored(made_once)
    for said, anew in (("250", "260"), ("latency", "latency of Bob"), ("is 250", "is not 250")):
        changed = json.loads(json.dumps(found).replace(said, anew))
        assert faults(changed, texts)


def test_quotes_headings_and_the_words_of_others_are_no_answer(made_once: Workspace):
    texts = [s["text"] for q in QUESTIONS for s in answer(made_once, q)["sentences"]]
    assert not any("900" in text or text.startswith("#") for text in texts)
    assert not any("Ælfric" in text or "kiln.c" in text for text in texts)


def test_questions_thanks_and_lists_of_subjects_are_no_answer(made_once: Workspace):
    found = answer(made_once, QUESTIONS[0])["sentences"]
    assert found and not [said for said in found if said["doc_id"] == "m4@example.org"]


def test_a_value_that_changed_is_said_with_both_days(made_once: Workspace):
    found = answer(made_once, QUESTIONS[0])
    assert len(found["changes"]) == 1, found["sentences"]
    (change,) = found["changes"]
    days = [found["sentences"][change[name]]["at"][:10] for name in ("earlier", "later")]
    assert (days, change["before"], change["after"]) == (["2024-03-03", "2024-05-03"], "250", "180")
    printed = made_once.weft("ask", QUESTIONS[0]).stdout
    assert "On 2024-03-03: 250; on 2024-05-03: 180, the later." in printed


def test_a_turn_of_a_chat_has_its_speaker_and_day(made_once: Workspace):
    said = next(s for s in answer(made_once, QUESTIONS[2])["sentences"] if "Dora" in s["text"])
    assert (said["speaker"], said["at"][:10]) == ("Cem", "2025-03-27")


@pytest.mark.parametrize("question", OFF_TOPIC)
def test_where_search_finds_nothing_there_is_no_answer(made_once: Workspace, question: str):
    found = answer(made_once, question)
    assert (found["outcome"], found["sentences"]) == ("NO_RESULTS", [])
    run = made_once.weft("ask", question, "--json")
    assert run.exit_code == 3 and json.loads(run.stdout)["outcome"] == "NO_RESULTS"


def test_an_empty_question_is_refused(made_once: Workspace):
    with weft.open(made_once.config) as index, pytest.raises(QueryError, match="empty"):
        index.ask(" ")


def test_conditions_narrow_an_answer(made_once: Workspace):
    found = answer(made_once, "the kiln or the latency", source="notes")
    assert {said["doc_id"] for said in found["sentences"]} == {"notes:Kiln.md"}


def test_under_a_lens_nothing_of_a_hidden_text_is_there(made_once: Workspace):
    for question in (*QUESTIONS, "falcons in Tromso"):
        run = made_once.weft("ask", question, "--lens", "open", "--json")
        assert "romso" not in run.stdout.replace(question, "") and "m3@" not in run.stdout
        shown = made_once.weft(
            "verify", "The secret wedding of the falcons is in Tromso.", "--lens", "open"
        )
        assert "red" in shown.stdout and "m3@" not in shown.stdout


def test_masked_texts_stay_masked(made_once: Workspace):
    with closing(open_index(made_once.settings, for_assistant=True)) as index:
        found = question_answered(
            made_once.settings, index, AskRequest(q=QUESTIONS[0]), Filters()
        ).answer
    assert found.sentences and faults(found.model_dump(mode="json"), stored(made_once)) == []


@pytest.fixture
def client(made_once: Workspace) -> Iterator[TestClient]:
    with TestClient(web_app(made_once.settings), base_url="http://127.0.0.1:8320") as client:
        yield client


def test_pages_and_programs_get_the_same_answer(made_once: Workspace, client: TestClient):
    found = answer(made_once, QUESTIONS[1])
    of_api = client.get(f"/api/ask?q={quote(QUESTIONS[1])}").json()
    assert {**of_api, "completeness": 0} == {**found, "completeness": 0}
    page = client.get(f"/ask?q={quote(QUESTIONS[1])}").text
    assert all(said["text"] in page for said in found["sentences"])
    assert "No text answers this" in client.get(f"/ask?q={quote(OFF_TOPIC[0])}").text


TEXT = (
    "The kiln is fired on Mondays. The read latency of the cache is 160 ms now. "
    "Penguins invented the telegraph."
)
COLOURS = ["green", "yellow", "red"]


def checked(work: Workspace, text: str) -> list[Mapping[str, Any]]:
    run = work.weft("verify", text, "--json")
    sentences: list[Mapping[str, Any]] = json.loads(run.stdout)["sentences"]
    assert run.exit_code == (0 if all(s["colour"] == "green" for s in sentences) else 7)
    return sentences


def test_each_sentence_of_a_text_has_its_colour(made_once: Workspace, client: TestClient):
    found = checked(made_once, TEXT)
    assert [sentence["colour"] for sentence in found] == COLOURS
    labels = [sentence["label"] for sentence in found]
    assert labels == ["PASS", "HALLUCINATION_RISK", "IRRELEVANT"]
    assert {"kind": "number", "claim": "160", "stands": "180"} in found[1]["differs"]
    page = client.post("/verify", data={"text": TEXT}, headers={"Origin": "http://127.0.0.1:8320"})
    assert page.text.count('class="claim ') == 3 and "<mark>kiln</mark>" in page.text
    with weft.open(made_once.config) as index:
        answer = index.verify(TEXT)
    assert [sentence.colour for sentence in answer.sentences] == COLOURS
    assert [chain.citation for chain in answer.citations] == [found[0]["citation"]]
    assert answer.citations[0].links[0].state == "proved"


def test_a_citation_that_does_not_say_it_is_named(made_once: Workspace):
    citation = checked(made_once, "The kiln is fired on Mondays.")[0]["citation"]
    assert checked(made_once, f"The kiln is fired on Mondays. ⟨{citation}⟩")[0]["colour"] == "green"
    run = made_once.weft(
        "verify", "The kiln is fired on Mondays. ⟨m1@example.org bytes 0-40⟩", "--json"
    )
    (sentence,) = json.loads(run.stdout)["sentences"]
    assert (sentence["colour"], sentence["differs"][0]["kind"]) == ("yellow", "citation")
    assert sentence["differs"][0]["stands"] == citation


def test_an_answer_of_its_own_is_green(made_once: Workspace):
    for question in QUESTIONS:
        said = answer(made_once, question)["sentences"]
        text = " ".join(f"{s['text']} ⟨{s['citation']}⟩" for s in said)
        assert {s["colour"] for s in checked(made_once, text)} <= {"green"}
