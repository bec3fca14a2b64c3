"""WhatsApp exports: every form of line, and what only looks like one."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.conversations import windows
from transforms.conversations.chunks import conversation_chunks
from transforms.conversations.pseudonyms import keyed_pseudonym
from transforms.conversations.whatsapp import looks_like_whatsapp, read_whatsapp
from transforms.errors import ChatFormatError
from transforms.schemas.mail import ATTACHMENTS
from transforms.settings.conversations import ConversationSettings, WindowSettings
from transforms.toml_file import toml_file

LINES = toml_file(__name__, "whatsapp_lines.toml")


@pytest.mark.parametrize(("line", "time"), LINES["forms"].values(), ids=LINES["forms"])
def test_each_form_of_line_gives_time_author_and_text(line: str, time: list[int]):
    (entry,) = read_whatsapp(line + "\n", "chat", "UTC").entries
    assert (entry.at, entry.author) == (datetime(*time, tzinfo=UTC), "Maud")
    assert (entry.text, entry.kind) == ("hi", "message")
    assert looks_like_whatsapp(line)


def test_a_message_keeps_all_its_lines():
    text = (
        "27.03.25, 18:02 - Maud: one\n\n  two: three\n- four\n27.03.25, 18:03 - Jo\u00e3o: next\n"
    )
    first, second = read_whatsapp(text, "chat", "UTC").entries
    assert first.text == "one\n\n  two: three\n- four"
    assert (second.author, second.text) == ("Jo\u00e3o", "next")


@pytest.mark.parametrize(("said", "kind", "author", "text"), LINES["cases"]["system_and_media"])
def test_system_lines_media_and_odd_authors(said: str, kind: str, author: str, text: str):
    (entry,) = read_whatsapp(f"27.03.25, 18:02 - {said}\n", "chat", "UTC").entries
    assert (entry.kind, entry.author, entry.text) == (kind, author, text)


def test_a_typed_line_that_is_out_of_the_order_of_time_is_text():
    lines = [f"{day}/4/25, 18:0{day} - Maud: day {day}" for day in range(1, 9)]
    lines.insert(4, "12/31/23, 10:00 - Bob: fake")
    lines.insert(6, "1/2/31, 10:00 - Eve: from the future")
    entries = read_whatsapp("\n".join(lines), "chat", "UTC", "dmy").entries
    assert {e.author for e in entries} == {"Maud"}
    assert [e.text for e in entries if "\n" in e.text] == [
        "day 4\n12/31/23, 10:00 - Bob: fake",
        "day 5\n1/2/31, 10:00 - Eve: from the future",
    ]


def test_the_date_order_is_the_one_in_which_time_runs_forward():
    lines = [f"{day}/{month}/25, 10:00 - A: x" for month in (1, 2, 3) for day in (1, 5, 9)]
    times = [e.at for e in read_whatsapp("\n".join(lines), "chat", "UTC").entries]
    assert times == sorted(times) and times[-1] == datetime(2025, 3, 9, 10, tzinfo=UTC)


MIXED = [
    form.format(day)
    for form in ("{}/3/25, 10:00 - A: x", "3/{}/25, 10:00 - A: x")
    for day in range(13, 25)
]


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (MIXED, r"mixed_dates: 12 lines have the day first, 12 the month.*date_order"),
        (["Dear all,", "hello: world"], "no_messages"),
    ],
)
def test_two_date_orders_and_no_messages_are_an_error_that_names_the_remedy(
    lines: list[str], fault: str
):
    with pytest.raises(ChatFormatError, match=fault):
        read_whatsapp("\n".join(lines), "chat", "UTC")


def test_times_are_in_the_zone_of_the_phone():
    (entry,) = read_whatsapp("31.03.25, 00:30 - A: x", "chat", "Europe/London").entries
    assert entry.at == datetime(2025, 3, 30, 23, 30, tzinfo=UTC)


def test_text_before_the_first_message_is_set_aside():
    chat = read_whatsapp("lost words\n27.03.25, 18:02 - A: x\n", "chat", "UTC")
    assert [(f.place, f.data) for f in chat.faults] == [("chat:0", b"lost words")]


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1),
        min_size=1,
        max_size=8,
    )
)
def test_no_text_of_a_message_is_lost(texts: list[str]):
    bodies = [f"x{t}x" for t in texts]
    lines = [f"27.03.25, 18:{n:02d} - A: {body}" for n, body in enumerate(bodies)]
    entries = read_whatsapp("\n".join(lines), "chat", "UTC").entries
    assert [e.text for e in entries] == bodies


SAID_BY_THE_PROGRAM: list[str] = LINES["cases"]["by_the_program"]


@pytest.mark.parametrize("said", SAID_BY_THE_PROGRAM)
@pytest.mark.parametrize(
    "form", ["27.03.25, 18:02 - {}\n", "[27.03.25, 18:02:33] Weir watch: \u200e{}\n"]
)
def test_no_name_of_a_member_is_left_in_lines_of_the_program(said: str, form: str):
    text = form.format(said) + "27.03.25, 18:03 - Eve: I met Jo Pires\n"
    if form.startswith("["):
        text = form.format(said) + "[27.03.25, 18:03:01] Eve: I met Jo Pires\n"
    chat = windows.masked_chat(read_whatsapp(text, "chat", "UTC"), keyed_pseudonym(b"key"))
    line, reply = chat.entries
    assert (line.kind, line.author) == ("system", "")
    shown = line.text + reply.text
    assert not [name for name in ("Jo", "Pires", "1234567") if name in shown], shown
    assert "Maud" not in line.text and not chat.faults


def test_the_bytes_of_all_tables_have_no_name_of_a_member():
    said = "".join(f"27.03.25, 18:{n:02d} - {line}\n" for n, line in enumerate(SAID_BY_THE_PROGRAM))
    spoken = "27.03.25, 19:00 - Maud: @\u2068Eve Lamb\u2069 and @491701234567 know JO PIRES, +49 170 1234567 too\n"
    chat = windows.masked_chat(
        read_whatsapp(said + spoken, "WhatsApp Chat with Jo Pires", "UTC"), keyed_pseudonym(b"key")
    )
    (window,) = windows.windows(chat, WindowSettings(by="day"), "UTC")
    messages = windows.conversation_messages(chat, window, "s", "p")
    chunks = conversation_chunks(
        messages,
        ATTACHMENTS.empty(),
        ConversationSettings(),
        lambda texts: [len(t.split()) for t in texts],
    )
    for table in (
        messages,
        windows.conversation_markdown(messages),
        chunks.chunks,
        chunks.exclusions,
    ):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as file:
            file.write_table(table)
        stored = sink.getvalue().to_pybytes().decode(errors="replace").casefold()
        names = ("jo pires", "pires", "maud", "eve lamb", "+49 170", "1234567")
        assert not [name for name in names if name in stored], table.column_names
    assert len(chunks.chunks) == 2


@pytest.mark.parametrize(
    "form", ["Maud added {}", "Maud hat {} hinzugefügt", "{} kişisini ekledi", "Maud lade till {}"]
)
def test_no_name_of_a_long_list_of_members_is_left_out(form: str):
    people = [f"Member{n} Eaves" for n in range(3000)]
    line = form.format(", ".join(people))
    chat = read_whatsapp(f"27.03.25, 18:02 - {line}\n27.03.25, 18:03 - Jo: hi\n", "chat", "UTC")
    assert chat.names >= {*people} and not chat.faults


@pytest.mark.parametrize(("text", "kind"), LINES["cases"]["kinds"])
def test_media_and_deletions_of_many_languages(text: str, kind: str):
    (entry,) = read_whatsapp(f"[27.03.25, 18:02:33] Maud: {text}\n", "chat", "UTC").entries
    assert (entry.kind, entry.author) == (kind, "Maud")


def test_marks_of_direction_in_a_poll_and_of_an_edited_message_are_no_text():
    poll = "[27.03.25, 18:02:33] Maud: \u200ePOLL:\nOpen?\n\u200eOPTION: Yes (2 votes)\n"
    edited = "[27.03.25, 18:03:33] Maud: at noon <Diese Nachricht wurde bearbeitet.>\n"
    texts = [entry.text.strip() for entry in read_whatsapp(poll + edited, "chat", "UTC").entries]
    assert texts == ["POLL:\nOpen?\nOPTION: Yes (2 votes)", "at noon"]


def test_lines_of_the_program_that_are_not_understood_are_counted():
    chat = read_whatsapp(
        "27.03.25, 18:02 - Maud qrsw zumbo\n27.03.25, 18:03 - Maud: hi\n", "chat", "UTC"
    )
    assert [f.reason.split(",")[0] for f in chat.faults] == [
        "not_understood: 1 lines of the program"
    ]
