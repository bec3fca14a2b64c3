"""Decisions on a topic: who stated what when, in the words of the source, and what replaced it."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

import weft
from dagster_project.extras.answers.transforms.decisions import decision_signs
from dagster_project.extras.web.app import web_app
from tests.archives import Mail, Once, Workspace

DIFF = "\n\n---\n--- a/kiln.c\n+++ b/kiln.c\n@@ -1,2 +1,2 @@ int fire(void)\n-\treturn 0;\n+\treturn {};\n"
EVA, TIM = "Eva Lind <eva@example.org>", "Tim Ode <tim@example.org>"
REVIEW = "Reviewed-by: Tim Ode <tim@example.org>"
MAILS = (
    Mail(1, "Fire the kiln longer." + DIFF.format(1), "[PATCH] kiln: fire longer", sender=EVA),
    Mail(
        2,
        f"Looks fine.\n\n{REVIEW}\n\nHow often does it break?",
        "Re: [PATCH] kiln: fire longer",
        1,
        TIM,
    ),
    Mail(
        3,
        "Fire the kiln longer, twice." + DIFF.format(2),
        "[PATCH v2] kiln: fire longer",
        sender=EVA,
    ),
    Mail(
        4,
        f"> Fire the kiln longer, twice.\n> Acked-by: Nobody <no@example.org>\n\nApplied, thanks!\n\n{REVIEW}",
        "Re: [PATCH v2] kiln: fire longer",
        3,
        TIM,
    ),
    Mail(
        10,
        "Which glaze of the kiln shall we buy this year, the blue or the green glaze?",
        "The glaze",
        sender=EVA,
    ),
    Mail(11, "Let's buy the blue glaze? I'd apply it if it were cheap.", "Re: The glaze", 10, TIM),
    Mail(12, "We decided to use the blue glaze for the kiln.", "Re: The glaze", 11, TIM),
    Mail(
        13,
        "We decided to use the green glaze for the kiln, it is cheaper.",
        "Re: The glaze",
        12,
        EVA,
    ),
    Mail(20, "The secret falcon of the kiln. Rejected.", "Falcons"),
    Mail(21, "We decided to sell the falcon of the kiln.", "Re: Falcons", 20),
)
TURNS = (
    ("Ada", "who fires the kiln on Friday?"),
    ("Cem", "ok, let's go with Dora and her key of the kiln"),
)


@pytest.fixture(scope="module")
def made_once(once: Once, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A patch in two revisions, a choice that changed, a chat, and a list that a lens hides."""
    work = Workspace(tmp_path_factory.mktemp("decisions") / "work").configure(
        {"name": "dev", "kind": "mbox", "path": "mail/dev/*"},
        {"name": "private", "kind": "mbox", "path": "mail/private/*"},
        {"name": "chat", "kind": "conversation", "path": "chat", "pseudonyms": False},
        **{"lenses.open": {"where": "source:dev"}},
    )
    work.write("dev/dev.mbox", MAILS[:-2])
    work.write("private/private.mbox", MAILS[-2:])
    lines = [f"27.03.25, 18:0{n} - {name}: {text}\n" for n, (name, text) in enumerate(TURNS)]
    work.put("chat/kiln.txt", "".join(lines))
    return once(work)


def decisions(work: Workspace, topic: str, *options: str) -> list[dict[str, Any]]:
    run = work.weft("ask", "--decisions", topic, "--json", *options)
    listed: list[dict[str, Any]] = json.loads(run.stdout)["decisions"]
    return listed


def test_a_patch_has_who_approved_and_applied_it_and_which_revision_replaced_it(
    made_once: Workspace,
):
    found = [d for d in decisions(made_once, "kiln fire longer") if d["version"]]
    said = [(d["kind"], d["version"], d["speaker"], d["doc_id"]) for d in found]
    assert said == [
        ("approved", 1, "Tim Ode", "m2@example.org"),
        ("posted", 2, "Eva Lind", "m3@example.org"),
        ("accepted", 2, "Tim Ode", "m4@example.org"),
        ("approved", 2, "Tim Ode", "m4@example.org"),
    ]
    assert [d["replaced_by"] and d["replaced_by"]["citation"] for d in found] == [
        "m3@example.org",
        None,
        None,
        None,
    ]


def test_a_later_choice_replaces_an_earlier_one_and_questions_decide_nothing(made_once: Workspace):
    found = [d for d in decisions(made_once, "which glaze") if "glaze" in d["text"]]
    assert [d["text"] for d in found] == [MAILS[6].body, MAILS[7].body]
    assert found[0]["replaced_by"]["title"] == MAILS[7].body and found[1]["replaced_by"] is None


def test_every_decision_is_the_bytes_that_it_cites(made_once: Workspace):
    found = decisions(made_once, "kiln")
    assert {d["kind"] for d in found} >= {"accepted", "approved", "chosen", "posted", "rejected"}
    with weft.open(made_once.config) as index:
        for one in found:
            if one["kind"] != "posted":
                assert index.get(one["citation"]).text == one["text"]
        assert index.ask("kiln", decisions=True).model_dump(mode="json")["decisions"] == found


def test_a_turn_of_a_chat_decides(made_once: Workspace):
    (said,) = [
        d for d in decisions(made_once, "who fires the kiln on Friday") if "Dora" in d["text"]
    ]
    assert (said["kind"], said["speaker"], said["at"][:10]) == ("chosen", "Cem", "2025-03-27")


def test_under_a_lens_no_decision_of_a_hidden_text_is_there(made_once: Workspace):
    assert "falcon" in made_once.weft("ask", "--decisions", "falcon kiln").stdout
    shown = made_once.weft("ask", "--decisions", "kiln", "--lens", "open").stdout
    assert "green glaze" in shown and "falcon" not in shown and "m21@" not in shown


def test_a_thread_alone_can_be_the_topic(made_once: Workspace):
    found = decisions(made_once, "thread:m10@example.org")
    assert [d["doc_id"] for d in found] == ["m12@example.org", "m13@example.org"]


def test_off_topic_nothing_was_decided(made_once: Workspace):
    run = made_once.weft("ask", "--decisions", "tax treaty between Peru and Iceland")
    assert run.exit_code == 3 and "NO_RESULTS" in run.stdout


def test_the_command_says_who_when_and_what_replaced_it(made_once: Workspace):
    shown = made_once.weft("ask", "--decisions", "kiln fire longer").stdout
    assert "accepted v2 by Tim Ode: Re: [PATCH v2] kiln: fire longer\n  Applied, thanks!" in shown
    assert "by [PATCH v2] kiln: fire longer ⟨m3@example.org⟩" in shown


@pytest.fixture
def client(made_once: Workspace) -> Iterator[TestClient]:
    with TestClient(web_app(made_once.settings), base_url="http://127.0.0.1:8320") as client:
        yield client


def test_pages_and_programs_list_the_same_decisions(made_once: Workspace, client: TestClient):
    found = decisions(made_once, "kiln fire longer")
    address = f"ask?q={quote('kiln fire longer')}&decisions=1"
    assert client.get(f"/api/{address}").json()["decisions"] == found
    page = client.get(f"/{address}").text
    assert all(quote(d["doc_id"]) in page for d in found) and "Applied, thanks!" in page
    ((thread,),) = made_once.sql(
        "SELECT thread_id FROM thread_tree WHERE message_id = 'm10@example.org'"
    )
    shown = client.get(f"/t/{thread}").text
    assert f"/ask?q=thread%3A{thread}&amp;decisions=1" in shown
    listed = client.get(f"/ask?q=thread:{thread}&decisions=1").text
    assert "We decided to use the green glaze" in listed and "Applied, thanks!" not in listed


@pytest.mark.parametrize(
    ("text", "kind", "language"),
    [
        ("Applied to master, thanks!", "accepted", "english"),
        ("I've applied this original version.", "accepted", "english"),
        ("Thanks, queued for 6.9.", "accepted", "english"),
        ("I’ll apply these patches soon.", "accepted", "english"),
        ("Let's go with the second option.", "chosen", "english"),
        ("Nack, this breaks old images.", "rejected", "english"),
        ("I won't merge this.", "rejected", "english"),
        ("Please ignore this patch.", "replaced", "english"),
        ("I will send v3 later.", "replaced", "english"),
        ("Thanks, that fixed it.", "settled", "english"),
        ("Wir haben uns für die blaue Glasur entschieden.", "chosen", "german"),
        ("Der Vorschlag wurde von allen abgelehnt.", "rejected", "german"),
        ("Nous avons décidé de garder la version deux.", "chosen", "french"),
        ("Hemos decidido usar la segunda versión.", "chosen", "spanish"),
    ],
)
def test_a_sign_of_a_decision_has_its_kind(text: str, kind: str, language: str):
    assert [sign.kind for sign in decision_signs(text, language=language)] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "Could this be applied?",
        "It was not applied.",
        "If it helps, let's use v2.",
        "When the patch was applied, the test failed.",
        "Let's see whether it works.",
        "Let's keep our eyes open.",
        "I am not in favour of this change.",
        "The filter is applied to data files.",
        "That works on ext4 only since the cache is flushed by hand.",
        "It works, but it is as slow as the whole of the other project.",
        "Wir haben nichts entschieden.",
    ],
)
def test_what_is_asked_denied_or_supposed_is_no_decision(text: str):
    assert decision_signs(text) == []
