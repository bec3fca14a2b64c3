"""Mail of Google Takeout: the labels of each mail are lists that it is found in."""

import ibis
import pytest

from transforms.mail.messages import MailTables, Means, read_mail, split_mbox
from transforms.mail.threads.threads import canonical, memberships
from transforms.settings.mail import MailSettings

# As Takeout writes: an id with @xxx above, labels in the language of the account, encoded where
# they are not ASCII.
TAKEOUT = b"""\
From 1791234567890123456@xxx Tue Mar 02 10:00:00 +0000 2004
X-GM-THRID: 1791234567890123456
X-Gmail-Labels: Inbox,Important,Work/Doors
Message-ID: <1@example.org>
From: Ann <ann@example.org>
Date: Tue, 2 Mar 2004 10:00:00 +0000
Subject: doors

The hinges came.

From 1791234567890123457@xxx Tue Mar 02 11:00:00 +0000 2004
X-Gmail-Labels: =?UTF-8?Q?Archiviert,B=C3=BCro,"Ann,_L?=
 =?UTF-8?Q?ee"?=
Message-ID: <2@example.org>
From: Bo <bo@example.org>
Date: Tue, 2 Mar 2004 11:00:00 +0000
Subject: Re: doors

All of them?

From 1791234567890123458@xxx Tue Mar 02 12:00:00 +0000 2004
X-Gmail-Labels: 
Message-ID: <3@example.org>
From: Bo <bo@example.org>
Date: Tue, 2 Mar 2004 12:00:00 +0000
Subject: alone

No label.

"""


def read(quick: bool = True) -> MailTables:
    mails, refused = split_mbox(TAKEOUT, name="All mail.mbox")
    assert not refused
    means = Means(quick=quick)
    return read_mail(
        mails,
        source="g",
        partition="g/All mail",
        list_id="g/All mail",
        settings=MailSettings(),
        means=means,
    )


@pytest.mark.parametrize("quick", [True, False])
def test_labels_are_read_as_takeout_writes_them(quick: bool):
    assert read(quick).messages.column("labels").to_pylist() == [
        ["Inbox", "Important", "Work/Doors"],
        ["Archiviert", "Büro", "Ann, Lee"],
        [],
    ]


def test_labels_are_lists_and_the_mail_is_published_once():
    stored = ibis.memtable(read().messages)
    found = memberships(stored)
    rows = found.to_pyarrow().to_pylist()
    assert [(r["message_id"], r["list_id"], r["is_canonical"]) for r in rows] == [
        ("1@example.org", "g/Important", True),
        ("1@example.org", "g/Inbox", False),
        ("1@example.org", "g/Work/Doors", False),
        ("2@example.org", "g/Ann, Lee", True),
        ("2@example.org", "g/Archiviert", False),
        ("2@example.org", "g/Büro", False),
        ("3@example.org", "g/All mail", True),
    ]
    assert canonical(stored, found).count().to_pyarrow().as_py() == 3
