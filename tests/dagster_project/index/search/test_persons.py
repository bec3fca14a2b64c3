"""Hits by a person that a question names, of a word that hundreds of mails have."""

import json

import pytest

from tests.archives import Mail, Workspace

OTHERS, THREAD = 300, 30
_LONG = "It keeps zero through frost and flood, as readings of the last three winters say. " * 12


@pytest.fixture
def gauges(work: Workspace) -> Workspace:
    """Many short mails with the word, and three long ones that have it once: two by Ann, one an answer."""
    mails = [
        Mail(
            n,
            f"The gauge {n} of the gauge house at {n * 7919} has a gauge.",
            f"{'Re: ' if n % THREAD else ''}gauge {n // THREAD}",
            reply_to=n // THREAD * THREAD if n % THREAD else None,
            sender=f"Bo Ek <bo{n}@example.org>",
        )
        for n in range(OTHERS)
    ]
    ann = "Ann Lee <ann@example.org>"
    mails += [
        Mail(400, f"{_LONG} So says the gauge.", "Winters", sender=ann),
        Mail(401, "Does it rust?", "Rust", sender="Cy Oz <cy@example.org>"),
        Mail(402, f"{_LONG} No gauge rusts.", "Re: Rust", reply_to=401, sender=ann),
    ]
    work.write("dev.mbox", mails)
    work.configure().build()
    return work


def found(work: Workspace, query: str) -> list[str]:
    """The mails that a command finds for a query, the first ten."""
    output = work.weft("search", "--json", query, "--limit", "10").stdout
    return [hit["doc_id"] for hit in json.loads(output)["queries"][0]["hits"]]


def test_a_person_is_found_behind_hundreds_of_others(gauges: Workspace):
    by_ann = {"m400@example.org", "m402@example.org"}
    assert {*found(gauges, "what did Ann Lee say about the gauge")[:2]} == by_ann
    assert found(gauges, "did Ann Lee answer about the gauge")[0] == "m402@example.org"
    assert not by_ann & {*found(gauges, "the gauge")}
