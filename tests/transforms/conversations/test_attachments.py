"""Files that messages of chats name: which, where, with whose names masked, and their chunks."""

import json
from datetime import UTC, datetime

import pytest

from transforms.conversations.chunks import FileText, conversation_attachments, conversation_chunks
from transforms.conversations.discord import read_discord, read_telegram
from transforms.conversations.exports import Chat, Entry, NamedFile
from transforms.conversations.pseudonyms import keyed_pseudonym
from transforms.conversations.slack import read_slack
from transforms.conversations.whatsapp import read_whatsapp
from transforms.conversations.windows import Window, conversation_messages, masked_chat
from transforms.settings.conversations import ConversationSettings

NINE = datetime(2025, 3, 27, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "name", "text"),
    [
        ("27.03.25, 18:02 - Ada: Plan.pdf (file attached)", "Plan.pdf", ""),
        (
            "27.03.25, 18:02 - Ada: \u200ePlan.pdf (archivo adjunto)\nthe weir",
            "Plan.pdf",
            "the weir",
        ),
        ("[27/03/2025, 18:02:33] Ada: \u200e<Anhang: 00000012-Plan.pdf>", "00000012-Plan.pdf", ""),
        (
            "[27/03/2025, 18:02:33] Ada: Plan.pdf \u2022 \u200e2 pages \u200e<attached: 00000012-Plan.pdf>",
            "00000012-Plan.pdf",
            "Plan.pdf \u2022 \u200e2 pages",
        ),
        (
            "[27/03/2025, 18:02:33] Ada: \u200ePlan.pdf \u2022 \u200e2 pages \u200e<attached: 00000012-Plan.pdf>",
            "00000012-Plan.pdf",
            "Plan.pdf \u2022 \u200e2 pages",
        ),
        ("27.03.25, 18:02 - Ada: <Media omitted>", None, ""),
        ("27.03.25, 18:02 - Ada: I sent Plan.pdf", None, "I sent Plan.pdf"),
    ],
)
def test_files_that_whatsapp_names(line: str, name: str | None, text: str):
    (entry,) = read_whatsapp(line, "chat", "UTC").entries
    assert [f.places for f in entry.files] == ([(name,)] if name else [])
    assert (entry.author, entry.text.strip()) == ("Ada", text)


def test_files_that_the_other_programs_name():
    file = {"id": "F1", "name": "plan.pdf", "mimetype": "application/pdf"}
    day = json.dumps(
        [{"ts": "1736937000.1", "user": "U1", "files": [file, {"id": "F2", "mode": "tombstone"}]}]
    )
    (slack,) = read_slack([("2025-01-15.json", day.encode())], [], "export/general").entries
    (row,) = slack.files
    assert (row.name, row.declared_type) == ("plan.pdf", "application/pdf")
    assert {"__uploads/F1/plan.pdf", "general/attachments/F1-plan.pdf"} <= {*row.places}

    attached = [
        {"fileName": "plan.pdf", "url": "general.json_Files\\plan%20b-1A2B.pdf"},
        {"fileName": "far.pdf", "url": "https://cdn.example/far.pdf"},
    ]
    message = {
        "timestamp": "2025-01-15T10:30:00+00:00",
        "author": {"id": "1"},
        "attachments": attached,
    }
    ((discord,),) = (
        c.entries
        for c in read_discord(json.dumps({"messages": [message]}).encode(), "general", "UTC")
    )
    assert [f.places for f in discord.files] == [("general.json_Files/plan b-1A2B.pdf",), ()]

    rows = [
        {"id": 1, "type": "message", "date_unixtime": "1736937000", "file": "files/plan.pdf"},
        {
            "id": 2,
            "type": "message",
            "date_unixtime": "1736937001",
            "file": "(File not included.)",
            "file_name": "b.pdf",
        },
    ]
    (telegram,) = read_telegram(json.dumps({"messages": rows}).encode(), "chat", "UTC")
    assert [(f.name, f.places) for e in telegram.entries for f in e.files] == [
        ("plan.pdf", ("files/plan.pdf",)),
        ("b.pdf", ()),
    ]


def test_a_document_has_pages_chunks_and_no_name_of_a_member():
    files = (
        NamedFile("Ada Lovelace.pdf", ("a",), place="a", digest="1"),
        NamedFile("gone.pdf", ()),
    )
    entry = Entry(NINE, "Ada Lovelace", "", "media", files=files)
    said = Entry(NINE, "Ada Lovelace", "see the plan", "message")
    chat = masked_chat(Chat("chat", [entry, said]), keyed_pseudonym(b"key"))
    text = FileText("The plan of Ada Lovelace\n\nSecond page\n", None, [0, 26], 100)

    def text_of(file: NamedFile) -> FileText:
        return text if file.place else FileText(None, "missing: not there")

    window = Window("0001", 0, chat.entries)
    table = conversation_attachments(chat, window, "s", "s/p", text_of)
    plan, gone = table.to_pylist()
    assert "Lovelace" not in str(plan)
    assert plan["text"].encode()[plan["page_starts"][1] :] == b"Second page\n"
    assert (gone["text"], gone["reason"]) == (None, "missing: not there")
    turns = conversation_messages(chat, window, "s", "s/p")
    chunks, excluded = conversation_chunks(
        turns, table, ConversationSettings(), lambda texts: [1 for _ in texts]
    )
    chunk = chunks.to_pylist()[-1]
    assert (chunk["doc_id"], chunk["attachment_id"]) == ("s:chat@0001", plan["attachment_id"])
    assert chunk["source_kind"] == "attachment"
    assert [row["attachment_id"] for row in excluded.to_pylist()] == [gone["attachment_id"]]
