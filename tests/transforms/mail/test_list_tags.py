"""Tags before a title that name a mailing list are not shown; others are."""

import pytest

from transforms.mail.list_tags import without_list_tags


@pytest.mark.parametrize(
    ("subject", "list_id", "shown"),
    [
        ("[USRP-users] X310 rate", "usrp-users.lists.example.org", "X310 rate"),
        ("Re: [linux-raid] [PATCH v2 1/3] md: x", "linux-raid", "Re: [PATCH v2 1/3] md: x"),
        ("[HACKERS] vacuum", "pgsql-hackers", "vacuum"),
        ("[PATCH] x", "linux-patches", "[PATCH] x"),
        ("[SOLVED] x", "dev", "[SOLVED] x"),
        ("[f2fs-dev] y", "linux-erofs", "[f2fs-dev] y"),
        ("a list [dev] of", "dev", "a list [dev] of"),
        ("[dev]", "dev", "[dev]"),
        ("", "dev", ""),
    ],
)
def test_tags_of_lists_are_not_shown(subject: str, list_id: str, shown: str):
    assert without_list_tags(subject, [list_id]) == shown
