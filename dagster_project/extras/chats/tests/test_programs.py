"""Exports of further programs: each is recognised by its first bytes, and its messages are those
that people saw.
"""

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.config.settings import ConversationSourceSettings
from dagster_project.extras.chats.transforms.zulip import PROGRAM
from dagster_project.sources.chat_exports import (
    BROKEN,
    FILE_PROGRAMS,
    Export,
    ExportReader,
    exports_at,
)
from dagster_project.sources.detection import sources_at
from tests.dagster_project.sources.test_attached_files import written
from transforms.conversations.exports import Chat
from transforms.conversations.programs import program_of
from transforms.conversations.pseudonyms import keyed_pseudonym
from transforms.conversations.windows import masked_chat
from transforms.errors import ChatFormatError
from transforms.settings.conversations import ConversationSettings
from transforms.settings.mail import MailSettings, ThreadSettings


def sample(name: str) -> str:
    """A file of `files/`: one of each form, written for this project."""
    return (Path(__file__).parent / "files" / name).read_text()


IRSSI, WEECHAT, ZNC, HEXCHAT = (
    sample(f"{one}.log") for one in ("irssi", "weechat", "znc", "hexchat")
)
VTT, SRT, WHISPER = sample("meeting.vtt"), sample("meeting.srt"), sample("whisper.json")
NAMES = ("maud", "Maud", "Eaves", "Pires", "jo_away", "+44700", "44700900", "Ilva")
MAUD, JO = ("maud", "is the sluice open?"), ("jo", "yes, since noon")


def chats_of(name: str, data: bytes | str, place: str = "in/doors") -> list[Chat]:
    """The chats of a file that the program of that name recognises as its own, and no earlier one."""
    raw = data.encode() if isinstance(data, str) else data
    suffixes = FILE_PROGRAMS[name].suffixes
    assert {program_of(FILE_PROGRAMS, raw[:4096], suffix) for suffix in suffixes} == {name}
    chats = list(FILE_PROGRAMS[name].read(raw, place, "Europe/Berlin"))
    for chat in chats:
        masked = masked_chat(chat, keyed_pseudonym(b"key"))
        shown = " ".join(
            [masked.title, *(f"{entry.author} {entry.text}" for entry in masked.entries)]
        )
        assert not [name for name in NAMES if name in shown], shown
    return chats


def said(chat: Chat) -> list[tuple[str, str]]:
    return [(entry.author, entry.text) for entry in chat.entries if entry.kind == "message"]


@pytest.mark.parametrize(
    ("log", "messages", "first", "last"),
    [
        (IRSSI, [MAUD, ("jo", "looks"), JO], "2024-03-01 22:58:00", "2024-03-01 23:02:00"),
        (WEECHAT, [MAUD, ("jo", "looks"), JO], "2024-03-01 22:58:00", "2024-03-01 23:01:00"),
        (ZNC, [MAUD, ("jo", "looks")], "2024-03-05 22:58:10", "2024-03-05 22:59:01"),
        (HEXCHAT, [MAUD, JO], "2023-12-31 22:58:10", "2023-12-31 23:01:00"),
    ],
    ids=["irssi", "weechat", "znc", "hexchat"],
)
def test_a_line_of_irc_has_nick_text_time(
    log: str, messages: list[tuple[str, str]], first: str, last: str
):
    (chat,) = chats_of("irc", log, "znc/#doors/2024-03-05")
    assert said(chat) == messages
    assert [f"{at:%Y-%m-%d %H:%M:%S}" for at in (chat.entries[0].at, chat.entries[-1].at)] == [
        first,
        last,
    ]
    assert {"maud", "jo"} <= chat.names and not chat.faults
    with pytest.raises(ChatFormatError, match=r"no_date: .*2024-03-01\.log"):
        chats_of("irc", ZNC)


def test_a_room_of_matrix_shows_edits_answers_and_reactions():
    (chat,) = chats_of("element", sample("element.json"))
    jo = "@jo:example.org"
    assert said(chat) == [("Maud Eaves", MAUD[1]), (jo, JO[1]), (jo, "[plan.pdf]")]
    asked, answered = chat.entries[1:3]
    assert (asked.is_edited, answered.answers, answered.reactions) == (True, asked.key, 1)
    others = [(e.kind, e.text) for e in chat.entries if e.kind != "message"]
    assert others == [("system", "Maud Eaves: join"), ("deleted", "")]
    assert chat.title == "Doors" and [f.name for e in chat.entries for f in e.files] == ["plan.pdf"]


def test_posts_of_mattermost_stand_in_their_channels():
    channel, private, refused = chats_of("mattermost", sample("mattermost.jsonl"))
    assert channel.name == "in/doors/weir/doors"
    assert said(channel) == [("maud", "is the sluice open?\n[plan.pdf]"), JO]
    assert [(e.answers, e.reactions) for e in channel.entries] == [
        ("", 1),
        (channel.entries[0].key, 0),
    ]
    assert (private.name, private.title, said(private)) == (
        "in/doors/direct/1",
        "",
        [("jo", "lunch?")],
    )
    (fault,) = refused.faults
    assert fault.reason.startswith("no_time: ") and "Eaves" in channel.names


def test_messages_of_signal_have_the_names_that_people_see():
    chat, refused = chats_of("signal", sample("signal.jsonl"), "in/main")
    assert (chat.name, chat.title, len(refused.faults)) == ("in/main/1", "Doors", 2)
    assert said(chat) == [("Maud Eaves", MAUD[1]), ("Me", f"{JO[1]}, says Ilva Roth\n[plan.pdf]")]
    assert [(e.kind, e.text, e.answers == chat.entries[0].key) for e in chat.entries[1:]] == [
        ("message", chat.entries[1].text, True),
        ("deleted", "", False),
        ("system", "Maud Eaves: groupChange", False),
    ]
    first = chat.entries[0]
    assert (first.reactions, first.is_edited, f"{first.at:%H:%M}") == (1, True, "21:53")
    with pytest.raises(ChatFormatError, match="no_signal"):
        chats_of("signal", '{"version":"1","backupTimeMs":"1"}\n')


def test_chats_of_signal_come_from_signal_cli_and_signal_export_too():
    texts = [("Maud Eaves", MAUD[1]), ("Me", f"{JO[1]}\n[plan.pdf]")]
    one, group, refused = chats_of("signal_cli", sample("signal-cli.jsonl"))
    (exported,) = chats_of("signal_export", sample("signal-export.json"), "in/Maud Eaves/data")
    assert [(chat.title, said(chat)) for chat in (one, exported)] == [("Maud Eaves", texts)] * 2
    asked, answered = one.entries
    assert (asked.is_edited, answered.answers, answered.reactions) == (True, asked.key, 1)
    assert (group.title, said(group)) == ("Doors", [("Maud Eaves", "ask @Ilva Roth")])
    assert [e.kind for e in group.entries] == ["message", "deleted"]
    assert [f"{e.at:%H:%M} {e.reactions}" for e in exported.entries] == [
        "21:53 1",
        "21:54 0",
        "21:55 0",
    ]
    assert [p for e in exported.entries for f in e.files for p in f.places] == ["media/plan.pdf"]
    assert len(exported.faults) == len(refused.faults) == 1


def test_text_messages_stand_by_number():
    one, group, refused = chats_of("sms", sample("sms.xml"))
    assert (one.title, said(one)) == ("Maud Eaves", [("Maud Eaves", MAUD[1]), ("Me", JO[1])])
    assert said(group) == [("+44700900456", "the plan\n[plan.jpg]")]
    assert {"+44700900123", "+44700900456", "Maud Eaves"} <= group.names and len(
        refused.faults
    ) == 1
    with pytest.raises(ChatFormatError, match="entities"):
        chats_of("sms", '<!DOCTYPE x [<!ENTITY a "b">]><smses/>')


def test_messages_of_macos_are_read_from_their_file():
    archived = b"\x04\x0bstreamtyped\x12NSAttributedString\x00\x84\x08NSString\x01\x94\x84\x01+\x0fyes, since noon\x86"
    with sqlite3.connect(":memory:") as made:
        made.executescript(
            "CREATE TABLE message (ROWID INTEGER PRIMARY KEY, guid, text, attributedBody, date, is_from_me, handle_id, "
            "item_type, associated_message_guid, associated_message_type);"
            "CREATE TABLE handle (ROWID INTEGER PRIMARY KEY, id); CREATE TABLE chat_message_join (chat_id, message_id);"
            "CREATE TABLE chat (ROWID INTEGER PRIMARY KEY, display_name, chat_identifier);"
            "CREATE TABLE attachment (ROWID INTEGER PRIMARY KEY, transfer_name, filename, mime_type);"
            "CREATE TABLE message_attachment_join (message_id, attachment_id);"
            "INSERT INTO handle VALUES (1, '+44700900123'); INSERT INTO chat VALUES (7, '', '+44700900123');"
            "INSERT INTO chat_message_join VALUES (7, 1), (7, 2), (7, 3);"
        )
        noon = 731_000_000 * 10**9
        rows = [
            (1, "A", "is the sluice open?", None, noon, 0, 1, 0, None, 0),
            (2, "B", None, archived, noon + 10**9, 1, 0, 0, None, 0),
            (3, "C", "Liked", None, noon + 2 * 10**9, 0, 1, 0, "p:0/B", 2001),
        ]
        made.executemany("INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        made.commit()
        data = made.serialize()
    (chat,) = chats_of("imessage", data)
    assert said(chat) == [("+44700900123", MAUD[1]), ("Me", JO[1])]
    assert [e.reactions for e in chat.entries] == [0, 1] and f"{chat.entries[0].at:%Y}" == "2024"
    with pytest.raises(ChatFormatError, match="no_imessage"):
        chats_of("imessage", b"SQLite format 3\0" + bytes(100))


@pytest.mark.parametrize(
    "data", [VTT, VTT.replace("\n", "\r\n"), SRT, WHISPER], ids=["vtt", "crlf", "srt", "whisper"]
)
def test_a_transcript_is_a_chat_of_who_spoke(data: str):
    (chat,) = chats_of("transcript", data, "in/2024-03-01 14.30 planning")
    assert said(chat) == [("Maud Eaves", MAUD[1]), ("Jo Pires", JO[1])]
    assert [f"{e.at:%d %H:%M:%S}" for e in chat.entries] == ["01 13:30:01", "01 13:31:00"]
    with pytest.raises(ChatFormatError, match="no_date"):
        chats_of("transcript", data, "in/planning")


TOPIC = [
    {
        "id": 7,
        "sender_full_name": "Jo Pires",
        "timestamp": 1709298060,
        "content": "<p>yes, <em>since</em> noon</p>",
        "last_edit_timestamp": 1709298070,
    },
    {
        "id": 5,
        "sender_full_name": "Maud Eaves",
        "timestamp": 1709298000,
        "content": "<p>is the sluice open?</p>",
        "display_recipient": "doors",
        "subject": "sluice",
    },
    {"id": 9, "sender_full_name": "Jo Pires", "timestamp": None, "content": "x"},
]


@pytest.mark.parametrize("form", [list, lambda rows: {"result": "success", "messages": rows}])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_topic_of_the_api_of_zulip_is_a_chat(form, separators: tuple[str, str]):
    (chat,) = chats_of("zulip_topic", json.dumps(form(TOPIC), separators=separators))
    assert said(chat) == [("Maud Eaves", MAUD[1]), ("Jo Pires", "yes, *since* noon")]
    assert (chat.title, chat.entries[1].is_edited) == ("doors > sluice", True)
    assert [fault.place for fault in chat.faults] == ["in/doors:9"]


PAGE = """\
---
layout: page
---
<h2>Stream: <a href="https://o.example/archive/1doors/index.html">doors</a>
<h3>Topic: <a href="https://o.example/archive/1doors/2sluice.html">sluice</a></h3>

<hr>

<base href="https://o.example">

<a name="5"></a>
<h4><a href="https://o.example/#narrow/near/5" class="zl"><img src="z.png" alt="view this post on Zulip"></a> \
<a href="https://o.example/2sluice.html#5">Maud Eaves (Mar 01 2024 at 13:00)</a>:</h4>
<p>is the sluice open?</p>

<a name="7"></a>
<h4><a href="https://o.example/#narrow/near/7" class="zl"><img src="z.png" alt="view this post on Zulip" style="x"></a> \
Jo Pires <a href="https://o.example/2sluice.html#7">(Mar 01 2024 at 13:01 (UTC))</a>:</h4>
<p>yes, <em>since</em> noon</p>

<a name="9"></a>
<h4><a href="https://o.example/#narrow/near/9" class="zl"><img src="z.png" alt="view this post on Zulip"></a> Jo Pires:</h4>
<p>x</p>

<hr><p>Last updated: Mar 02 2024 UTC</p>
"""


def test_a_page_of_zulip_has_turns_with_names_and_times(tmp_path: Path):
    (chat,) = chats_of("zulip_page", PAGE)
    assert said(chat) == [("Maud Eaves", MAUD[1]), ("Jo Pires", "yes, *since* noon")]
    assert [f"{entry.at:%d %H:%M}" for entry in chat.entries] == ["01 13:00", "01 13:01"]
    assert (chat.title, [fault.place for fault in chat.faults]) == (
        "doors > sluice",
        ["in/doors:9"],
    )
    with pytest.raises(ChatFormatError, match="no_zulip"):
        chats_of("zulip_page", PAGE.replace('<a name="', '<a id="'))
    folder = written(
        tmp_path / "in", {"1doors/2sluice.html": PAGE.encode(), "1doors/index.html": b"<p>"}
    )
    (source,) = sources_at(folder)
    assert source.kind == "conversation"


def test_an_export_on_one_line_is_known_by_its_content():
    row = {"date": "2024-03-01T13:00:00", "from": "Maud Eaves", "text": MAUD[1], "type": "message"}
    export = {"name": "Doors", "type": "personal_chat", "id": 1, "messages": [row]}
    (chat,) = chats_of("telegram", json.dumps(export, separators=(",", ":")))
    assert said(chat) == [("Maud Eaves", MAUD[1])]


ZULIP = {
    f"z/{name}": sample(f"zulip/{name}").encode() for name in ("realm.json", "messages-000001.json")
}
ZULIP["z/attachment.json"] = b"{}"


@pytest.mark.parametrize("root", [".", "z"])
def test_each_topic_of_zulip_is_a_chat(tmp_path: Path, root: str):
    folder = written(tmp_path / "in", ZULIP) / root
    source = ConversationSourceSettings(name="x", kind="conversation", path=str(folder))
    ((place, form, files),) = exports_at(folder, source)
    assert place == tmp_path / "in" / "z"
    name = place.relative_to(folder).as_posix()
    export = Export(source, name, name, form, files, "")
    read = list(
        ExportReader(ConversationSettings(), MailSettings(), ThreadSettings()).chats(export)
    )
    before = "z/" if root == "." else ""
    assert [(chat.name, chat.title, len(chat.entries)) for chat in read] == [
        (f"{before}doors/sluice", "doors > sluice", 2),
        (f"{before}direct/1", "", 1),
    ]
    assert (
        read[0].entries[1].files[0].places == ("uploads/2/plan.pdf",)
        and read[0].entries[1].is_edited
    )


@pytest.mark.parametrize(
    ("members", "form", "has_zone"),
    [
        (ZULIP, "zulip", True),
        ({"doors.log": IRSSI.encode()}, "irc", False),
        (
            {
                "main.jsonl": sample("signal.jsonl").encode(),
                "metadata.json": b"{}",
                "files/a.csv": b"1",
            },
            "signal",
            True,
        ),
        ({"2024-03-01.vtt": VTT.encode()}, "transcript", False),
    ],
)
def test_init_recognises_an_export_and_what_lies_beside_it_is_no_chat(
    tmp_path: Path, members: Mapping[str, bytes], form: str, has_zone: bool
):
    (found,) = sources_at(written(tmp_path, members))
    assert (found.kind, found.form, found.has_zone) == ("conversation", form, has_zone)
    source = ConversationSourceSettings(name="x", kind="conversation", path=found.path, format=form)
    assert len(list(exports_at(tmp_path, source))) == 1


ODD = st.sampled_from([None, [], {}, "x", -1, 1e400, float("nan"), 10**30, True, "\0", [[]]])
FILES: Mapping[str, tuple[bytes, ...]] = {
    "irc": (IRSSI.encode(), WEECHAT.encode(), ZNC.encode(), HEXCHAT.encode()),
    "transcript": (VTT.encode(), SRT.encode(), WHISPER.encode()),
    "signal": (b"".join(sample("signal.jsonl").encode().splitlines(True)[6:7]),),
    "signal_cli": (b"".join(sample("signal-cli.jsonl").encode().splitlines(True)[3:4]),),
    "zulip": (ZULIP["z/realm.json"], ZULIP["z/messages-000001.json"]),
}


@given(st.data())
def test_a_broken_export_is_refused_or_read(data: st.DataObject):
    form = data.draw(st.sampled_from(sorted(FILES)))
    broken = [_broken(data, raw) for raw in FILES[form]]
    for raw in broken if form != "zulip" else broken[:1]:
        try:
            if form == "zulip":
                chats = list(PROGRAM.read(raw, [("messages-000001.json", broken[1])], "z"))
            else:
                chats = list(FILE_PROGRAMS[form].read(raw, "in/2024-03-01", "Europe/Berlin"))
        except BROKEN:
            continue
        for chat in chats:
            assert all(isinstance(name, str) for name in chat.names | {chat.title, chat.name})
            texts = [text for e in chat.entries for text in (e.author, e.text, e.key, e.answers)]
            assert all(isinstance(text, str) for text in texts)


def _broken(data: st.DataObject, raw: bytes) -> bytes:
    """A file with one value of its JSON exchanged, or some bytes of it."""
    try:
        tree = json.loads(raw)
    except ValueError:
        where = data.draw(st.integers(0, len(raw) - 1))
        return raw[:where] + data.draw(st.binary(max_size=4)) + raw[where + 2 :]
    node = tree
    while True:
        key = data.draw(
            st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node)))
        )
        if not (isinstance(node[key], (dict, list)) and node[key] and data.draw(st.booleans())):
            node[key] = data.draw(ODD)
            return json.dumps(tree).encode()
        node = node[key]
