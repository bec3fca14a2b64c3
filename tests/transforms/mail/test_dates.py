"""Times of a mail, whole and broken."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.mail.dates import SentDate, effective_time, envelope_time, received_times, sent_date

DOS = datetime(1980, 1, 1, tzinfo=UTC)
T = datetime(2002, 4, 12, 8, 35, 52, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ("Fri, 12 Apr 2002 09:35:52 +0100", False),
        ("12 Apr 2002 09:35:52 +0100", False),
        ("Fri, 12 Apr 2002 03:35:52 -0500 (EST)", False),
        ("Fri, 12 Apr 2002 08:35:52 GMT", False),
        ("Fri, 12 Apr 2002 03:35:52 EST", False),
        ("Fri,\r\n 12 Apr 2002 09:35:52\r\n +0100", False),
        ("Fri, 12 Apr 2002 08:35:52", True),
        ("Fri, 12 Apr 2002 08:35:52 +9900", True),
        ("Fri, 12 Apr 2002 03:35:52 -7700 (EST)", True),
        ("Fri, 12 Apr 2002 00:35:52 --800", True),
        ("Fri, 12 Apr 2002 08:35:52 +000", True),
        ("Fri, 12 Apr 2002 00:35:52 -8:00", True),
        ("Fri, 12 Apr 02 09:35:52 +0100", True),
        ("Fri, 12 Apr 102 09:35:52 +0100", True),
        ("Fri, 12 Apr 2002 09.35.52 +0100", True),
        ("Fri, 12 April 2002 09:35:52 +0100", True),
        ("Friday, 12-Apr-02 08:35:52 GMT", True),
        ("Fri Apr 12 08:35:52 2002", True),
        ("Fri Apr 12 03:35:52 EST 2002", True),
        ("2002-04-12 08:35:52", True),
        ("2002-04-12T09:35:52+01:00", True),
        ("April 12, 2002 9:35:52 AM +0100", True),
        ("Fri, 12 Apr 2002 08:35:52 XYZT", True),
    ],
)
def test_one_time_in_many_forms(text, repaired):
    assert sent_date(text) == SentDate(T, repaired)


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "Fri, 31 Feb 2002 09:35:52 +0100", "99:99:99", "\0", "Date", "Mon, 1 Jan"],
)
def test_what_is_no_date(text):
    assert sent_date(text).at is None


@pytest.mark.parametrize(("year", "full"), [("49", 2049), ("50", 1950), ("98", 1998), ("00", 2000)])
def test_two_digit_years(year, full):
    at = sent_date(f"1 Jan {year} 00:00:00 +0000").at
    assert at is not None and at.year == full


def test_received_headers():
    newest = "from a by b; Fri, 12 Apr 2002 08:35:52 +0000"
    oldest = "from c by a; Fri, 12 Apr 2002 08:30:00 +0000"
    assert received_times([newest, "from x by y", oldest]) == (T, T - timedelta(seconds=352))
    assert received_times(["by b; nonsense", oldest])[0] == T - timedelta(seconds=352)
    assert received_times(["by b; Thu, 1 Jan 1970 00:00:00 +0000"]) == (None, None)
    assert received_times([]) == (None, None)


@pytest.mark.parametrize(
    ("line", "at"),
    [
        (b"From a@b Fri Apr 12 08:35:52 2002", T),
        (b"From a@b  Fri Apr 12 08:35:52 2002\r", T),
        (b"From mboxrd@z Thu Jan  1 00:00:00 1970", None),
        (b"From mboxrd@z Tue Jan  1 00:00:00 1980", None),
        (b"From nobody", None),
        (b"From a@b Fri Feb 31 08:35:52 2002", None),
    ],
)
def test_envelope_lines(line, at):
    assert envelope_time(line) == at


DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("sent", "received", "first_hop", "envelope", "expected"),
    [
        pytest.param(SentDate(T, False), T, T, None, (T, "sent"), id="as sent"),
        pytest.param(SentDate(T, True), T, T, None, (T, "sent_repaired"), id="repaired"),
        pytest.param(
            SentDate(T + 2 * DAY, False), T, T, None, (T, "received"), id="from the future"
        ),
        pytest.param(
            SentDate(T + DAY / 2, False), T, T, None, (T + DAY / 2, "sent"), id="a zone off"
        ),
        pytest.param(
            SentDate(T - 40 * DAY, False), T, T, None, (T - 40 * DAY, "sent"), id="late delivery"
        ),
        pytest.param(
            SentDate(T - 400 * DAY, False), T, T, None, (T, "received"), id="a dead clock"
        ),
        pytest.param(
            SentDate(T, False), T + 900 * DAY, T, None, (T, "sent"), id="put in an archive later"
        ),
        pytest.param(SentDate(T - 30 * 365 * DAY, False), T, T, None, (T, "received"), id="1972"),
        pytest.param(
            SentDate(DOS, False), T, T, None, (T, "received"), id="a clock of DOS at zero"
        ),
        pytest.param(SentDate(DOS, False), None, None, None, (None, "none"), id="zero alone"),
        pytest.param(
            SentDate(DOS + 3 * DAY, False),
            None,
            None,
            None,
            (DOS + 3 * DAY, "sent"),
            id="January 1980",
        ),
        pytest.param(SentDate(None, True), None, None, T, (T, "envelope"), id="only the envelope"),
        pytest.param(
            SentDate(T + 9 * DAY, False), None, None, T, (T, "envelope"), id="envelope bounds"
        ),
        pytest.param(SentDate(None, True), None, None, None, (None, "none"), id="nothing"),
    ],
)
def test_effective_time(sent, received, first_hop, envelope, expected):
    assert effective_time(sent, received, first_hop, envelope) == expected


@given(st.one_of(st.text(), st.text(alphabet="0123456789:.-+/ ,AaPpMmJjanFebTZ()", max_size=60)))
def test_any_text_has_a_time_of_utc_or_none(text):
    times = (sent_date(text).at, *received_times([text]), envelope_time(text.encode()))
    assert all(at is None or at.utcoffset() == timedelta(0) for at in times)
