"""Real mailing lists, embedded by a service that may see no address: builds, their costs, and
second builds.
"""

import json
import mailbox
from collections.abc import Iterator
from email import message_from_binary_file
from email.utils import getaddresses
from pathlib import Path

import pytest

from tests.archives import Workspace
from tests.gemini_loopback import Loopback

MONTHS = ("pgsql-admin.200410", "pgsql-hackers.199804", "pgsql-hackers.200105")


@pytest.mark.exhaustive
def test_a_list_is_embedded_without_its_addresses_and_once(
    corpora: Path, workspace: Workspace, gemini: Loopback
):
    archives = [corpora / "pgsql" / name for name in MONTHS]
    workspace.configure(
        {"name": "pgsql", "kind": "mbox", "path": "mail/*", "dialect": "mboxrd"},
        embedding={"model": "gemini"},
        gemini={"requests_per_minute": 100_000, "tokens_per_minute": 10_000_000},
    )
    for archive in archives:
        workspace.write(archive.name, archive.read_bytes())

    costs = weft(workspace, "plan", "--cost")
    assert not gemini.asked
    built = weft(workspace, "build")["embedding"]
    assert built["embedded"] == costs["texts_to_embed"] == len(gemini.paid) > len(archives)
    assert 0 < built["tokens"] <= costs["tokens"]
    assert built["screened_email"] > 0
    assert set(gemini.paid.values()) == {1}

    sent = "\n".join(gemini.asked).lower()
    known = {address for archive in archives for address in addresses(archive)}
    assert len(known) > len(archives)
    assert sorted(address for address in known if address in sent) == []

    requests = len(gemini.requests)
    (workspace.settings.root / "lake" / "chunk_context.parquet").unlink()
    again = weft(workspace, "build")["embedding"]
    assert (again["embedded"], again["calls"], len(gemini.requests)) == (0, 0, requests)
    assert weft(workspace, "plan", "--cost")["texts_to_embed"] == 0


def weft(work: Workspace, *command: str) -> dict:
    result = work.weft(*command, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def addresses(archive: Path) -> Iterator[str]:
    """The addresses in the headers of an archive, as Python's `email` reads them."""
    for mail in mailbox.mbox(archive, message_from_binary_file, create=False):
        values = [
            str(v) for name in ("from", "to", "cc", "reply-to") for v in mail.get_all(name, [])
        ]
        for _, address in getaddresses(values):
            name, _, host = address.lower().partition("@")
            if name and "." in host:
                yield f"{name}@{host}"
