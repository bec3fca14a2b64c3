"""What the whole lake tells about real mail: quoted lines stand in the mail that is answered."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from tests.corpora.conftest import mails_of
from transforms.mail.blocks.table import message_blocks
from transforms.mail.threads.threads import build_threads
from transforms.settings.mail import BlockSettings, ThreadSettings

pytestmark = pytest.mark.exhaustive

FOUND, WITH_REWRAPPED = 0.98, 0.99
"""Shares of depth-1 quoted lines that are lines of the parent, and that stand in it if line ends do
not count.
"""


@pytest.fixture(scope="module")
def mails(corpora: Path) -> pa.Table:
    """A year of linux-erofs, each mail once."""
    return mails_of(sorted((corpora / "linux-erofs").glob("linux-erofs.2022*.gz")))


def test_quoted_lines_stand_in_the_mail_that_is_answered(mails: pa.Table) -> None:
    bodies = dict(zip(mails["message_id"].to_pylist(), mails["body"].to_pylist(), strict=True))
    tree = build_threads(mails, mails, ThreadSettings()).tree.to_pylist()
    parents = {r["message_id"]: r["parent_id"] for r in tree if r["parent_id"] in bodies}
    said = {
        i: {"".join(line.split()) for line in bodies[i].splitlines()} for i in set(parents.values())
    }
    whole = {i: "".join(bodies[i].replace(">", "").split()) for i in said}
    total, missing, lost = 0, [], []
    for block in message_blocks(mails, BlockSettings()).to_pylist():
        if (
            block["kind"] == "quote"
            and block["quote_depth"] == 1
            and block["message_id"] in parents
        ):
            text = (
                bodies[block["message_id"]]
                .encode()[block["byte_start"] : block["byte_end"]]
                .decode()
            )
            for line in text.splitlines():
                plain = "".join(re.sub(r"^\s*>", "", line).split())
                total += bool(plain)
                if plain and plain not in said[parents[block["message_id"]]]:
                    missing.append(line)
                    if plain.replace(">", "") not in whole[parents[block["message_id"]]]:
                        lost.append(line)
    found, with_rewrapped = 1 - len(missing) / total, 1 - len(lost) / total
    report = f"{found:.4f} and {with_rewrapped:.4f} of {total}; lost are such as {lost[:: len(lost) // 20 + 1]}"
    assert found >= FOUND and with_rewrapped >= WITH_REWRAPPED, report
