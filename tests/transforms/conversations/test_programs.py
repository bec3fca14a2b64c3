"""Slack, Discord and Telegram: what bots, forwards, files and the programs themselves write has
text.
"""

import json

import pyarrow as pa
import pytest

from transforms.conversations.chunks import conversation_chunks
from transforms.conversations.discord import looks_like_telegram, read_discord, read_telegram
from transforms.conversations.pseudonyms import keyed_pseudonym
from transforms.conversations.slack import read_slack
from transforms.conversations.windows import conversation_messages, masked_chat, windows
from transforms.schemas.mail import ATTACHMENTS
from transforms.settings.conversations import ConversationSettings, WindowSettings

USERS = [
    {"id": "U1", "name": "maud.e", "real_name": "Maud Eaves", "profile": {"display_name": "maudie"}}
]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            {"text": "see <https://example.org|the weir> &amp; <#C1|doors>"},
            "see the weir (https://example.org) & #doors",
        ),
        ({"text": "<!here> until <!date^1392734382^{date}|Feb 18>"}, "@here until Feb 18"),
        (
            {"text": "", "files": [{"title": "Plan of the weir", "name": "plan.pdf"}]},
            "[Plan of the weir]",
        ),
        (
            {
                "text": "",
                "attachments": [
                    {"title": "Build 7", "title_link": "https://ci.example.org/7", "text": "failed"}
                ],
            },
            "Build 7 (https://ci.example.org/7)\nfailed",
        ),
        ({"attachments": [{"fields": [{"title": "Level", "value": "2.4 m"}]}]}, "Level: 2.4 m"),
        (
            {
                "text": "",
                "blocks": [
                    {"type": "section", "text": {"type": "mrkdwn", "text": "The *gate* opens"}}
                ],
            },
            "The *gate* opens",
        ),
        (
            {
                "text": "the gate opens",
                "blocks": [
                    {
                        "type": "rich_text",
                        "elements": [
                            {
                                "type": "rich_text_section",
                                "elements": [{"type": "text", "text": "the gate opens"}],
                            }
                        ],
                    }
                ],
            },
            "the gate opens",
        ),
    ],
)
def test_messages_of_slack_have_the_text_that_people_saw(row: dict[str, object], text: str):
    data = json.dumps([{"ts": "1743098520.1", "user": "U1", **row}]).encode()
    chat = read_slack([("2025-03-27.json", data)], USERS, "doors")
    assert [(e.author, e.text, e.kind) for e in chat.entries] == [("Maud Eaves", text, "message")]
    assert not chat.faults


def test_a_message_of_slack_without_text_is_counted():
    data = json.dumps([{"ts": "1743098520.1", "user": "U1", "subtype": "new_kind"}]).encode()
    chat = read_slack([("2025-03-27.json", data)], USERS, "doors")
    assert [f.reason for f in chat.faults] == [
        "no_text: a message of the subtype new_kind has no text"
    ]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            {
                "embeds": [
                    {
                        "title": "Weir",
                        "description": "open",
                        "fields": [{"name": "Level", "value": "2"}],
                    }
                ]
            },
            "Weir\nopen\nLevel: 2",
        ),
        ({"attachments": [{"fileName": "plan.pdf", "url": "x"}]}, "[plan.pdf]"),
        ({"forwardedMessage": {"content": "the gate opens"}}, "the gate opens"),
        ({"content": "hi <:weir:123>"}, "hi :weir:"),
        (
            {"poll": {"question": {"text": "Open?"}, "answers": [{"pollMedia": {"text": "Yes"}}]}},
            "Open?\n- Yes",
        ),
    ],
)
def test_messages_of_discord_have_the_text_that_people_saw(row: dict[str, object], text: str):
    message = {
        "timestamp": "2025-03-27T18:02:00+00:00",
        "type": "Default",
        "author": {"id": "1", "name": "Maud"},
        **row,
    }
    (chat,) = read_discord(
        json.dumps({"channel": {"name": "doors"}, "messages": [message]}).encode(), "c", "UTC"
    )
    assert [(e.author, e.text, e.kind) for e in chat.entries] == [("Maud", text, "message")]


def telegram(*messages: dict[str, object]) -> bytes:
    base = {
        "type": "message",
        "date": "2025-03-27T18:02:00",
        "date_unixtime": "1743098520",
        "from": "Maud Eaves",
    }
    rows = [{"id": n, **base, **m} for n, m in enumerate(messages)]
    return json.dumps(
        {"name": "Weir watch", "type": "private_group", "id": 7, "messages": rows}
    ).encode()


@pytest.mark.parametrize(
    ("row", "text", "kind"),
    [
        ({"text": "hi"}, "hi", "message"),
        (
            {
                "text": [
                    "see ",
                    {"type": "text_link", "text": "the weir", "href": "https://example.org"},
                ]
            },
            "see the weir (https://example.org)",
            "message",
        ),
        ({"text": "", "media_type": "sticker", "sticker_emoji": "👍"}, "[👍]", "message"),
        ({"text": "", "file_name": "plan.pdf"}, "[plan.pdf]", "message"),
        (
            {"text": "", "poll": {"question": "Open?", "answers": [{"text": "Yes"}]}},
            "Open?\n- Yes",
            "message",
        ),
        (
            {"text": "", "location_information": {"latitude": 1.5, "longitude": 2}},
            "1.5, 2",
            "message",
        ),
        ({"text": "", "media_type": "voice_message"}, "", "media"),
    ],
)
def test_messages_of_telegram(row: dict[str, object], text: str, kind: str):
    assert looks_like_telegram(telegram(row))
    (chat,) = read_telegram(telegram(row), "c", "UTC")
    assert [(e.author, e.text, e.kind) for e in chat.entries] == [("Maud Eaves", text, kind)]
    assert (chat.title, chat.faults) == ("Weir watch", [])


def test_an_account_of_telegram_holds_several_chats():
    one = json.loads(telegram({"text": "hi"}))
    data = json.dumps(
        {"about": "x", "chats": {"list": [one, one | {"id": 8, "name": "Doors"}]}}
    ).encode()
    assert [(c.name, c.title) for c in read_telegram(data, "me", "UTC")] == [
        ("me/7", "Weir watch"),
        ("me/8", "Doors"),
    ]


def test_no_name_of_a_member_is_left_in_what_the_programs_write():
    service = {
        "type": "service",
        "from": None,
        "actor": "Maud Eaves",
        "action": "invite_members",
        "members": ["Jo Pires"],
    }
    (chat,) = read_telegram(telegram(service, {"text": "welcome Jo Pires"}), "c", "UTC")
    joined = json.dumps(
        [
            {
                "ts": "1",
                "user": "U1",
                "subtype": "channel_join",
                "text": "<@U1> joined, maudie to friends",
            }
        ]
    )
    slack = read_slack([("a.json", joined.encode())], USERS, "doors")
    for given in (chat, slack):
        texts = " ".join(
            e.text + e.author for e in masked_chat(given, keyed_pseudonym(b"key")).entries
        )
        assert not [name for name in ("Maud", "Eaves", "maudie", "Pires") if name in texts], texts


def test_replies_threads_reactions_and_edits_of_each_program():
    slack = [
        {
            "ts": "1.5",
            "thread_ts": "1.5",
            "user": "U1",
            "text": "doors?",
            "reactions": [{"name": "x", "count": 2}],
        },
        {"ts": "2.5", "thread_ts": "1.5", "user": "U1", "text": "shut", "edited": {"ts": "3"}},
    ]
    discord = [
        {
            "id": "1.5",
            "timestamp": "2025-03-27T18:02:00+00:00",
            "type": "Default",
            "author": {"id": "1", "name": "Maud"},
            "content": "doors?",
            "reactions": [{"emoji": {}, "count": 2}],
        },
        {
            "id": "2.5",
            "timestamp": "2025-03-27T18:03:00+00:00",
            "type": "Reply",
            "author": {"id": "1", "name": "Maud"},
            "content": "shut",
            "reference": {"messageId": "1.5"},
            "timestampEdited": "2025-03-27T18:04:00+00:00",
        },
    ]
    messages = telegram(
        {"id": 1.5, "text": "doors?", "reactions": [{"type": "emoji", "count": 2}]},
        {"id": 2.5, "text": "shut", "reply_to_message_id": 1.5, "edited": "2025-03-27T18:04:00"},
    )
    chats = (
        read_slack([("a.json", json.dumps(slack).encode())], USERS, "doors"),
        *read_discord(json.dumps({"channel": {}, "messages": discord}).encode(), "c", "UTC"),
        *read_telegram(messages, "c", "UTC"),
    )
    for chat in chats:
        assert [(e.key, e.answers, e.reactions, e.is_edited) for e in chat.entries] == [
            ("1.5", "", 2, False),
            ("2.5", "1.5", 0, True),
        ]


def test_a_reaction_or_an_edit_makes_another_window():
    data = [{"ts": "1.5", "user": "U1", "text": "doors?"}]
    prints = set()
    for more in ({}, {"edited": {"ts": "3"}}, {"reactions": [{"count": 1}]}):
        chat = read_slack([("a.json", json.dumps([data[0] | more]).encode())], USERS, "doors")
        (window,) = windows(chat, WindowSettings(), "UTC")
        prints.add(window.fingerprint)
        table = conversation_messages(chat, window, "chats", "chats/doors")
        assert table.column("message_key").to_pylist() == ["1.5"]
    assert len(prints) == 3


def of_windows(rows: list[dict[str, str]], messages: int) -> list[tuple[pa.Table, list[dict]]]:
    """The table `conversations` of each window of a channel, and the chunks of its turns."""
    chat = read_slack([("a.json", json.dumps(rows).encode())], USERS, "doors")
    settings = ConversationSettings.model_validate({"index": "turns"})
    made = []
    for window in windows(chat, WindowSettings.model_validate({"messages": messages}), "UTC"):
        table = conversation_messages(chat, window, "chats", "chats/doors")
        chunks = conversation_chunks(
            table, ATTACHMENTS.empty(), settings, lambda texts: [1 for _ in texts]
        )
        made.append((table, chunks.chunks.to_pylist()))
    return made


def test_a_reply_is_found_with_what_it_answers_however_far_above_it_stands():
    rows = [{"ts": f"{n}.5", "user": "U1", "text": f"words {n}"} for n in range(1, 9)]
    rows[0]["text"], rows[-1]["thread_ts"] = "who has the hinge?", "1.5"
    ((_, turns),) = of_windows(rows, 8)
    assert [n for n, turn in enumerate(turns) if "hinge" in turn["text_lex"]] == [0, 1, 2, 7]
    # A lens may show the window of a reply and not the one with the question: it holds no word of
    # that.
    *_, (later, turns) = of_windows(rows, 4)
    assert later.column("answered_turn").to_pylist() == [None, None, None, 0]
    assert len(turns) == 4 and "hinge" not in f"{later.to_pylist()} {turns}"
