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


def test_pages_without_an_author_or_a_time_neither_ask_nor_come_first(work: Workspace):
    """A manual that repeats the words is no question of anybody, and has no place in time."""
    sluice = (
        "# Sluice\n\n"
        + "A sluice that sticks: grease the sluice, then lift the sluice again.\n" * 3
    )
    (work.folder / "manual").mkdir()
    (work.folder / "manual" / "sluice.txt").write_text(sluice)
    asked, answer = "m1@example.org", "m2@example.org"
    work.write(
        "dev.mbox",
        [
            Mail(1, "Our sluice sticks since the frost. Who knows a way?", "Trouble at the mill"),
            Mail(2, "Warm water frees such a sluice when it sticks.", "Re: Trouble", reply_to=1),
            *(Mail(n, f"Minutes {n} of the council.", f"Minutes {n}") for n in range(3, 20)),
        ],
    )
    work.configure(
        {"name": "dev", "kind": "mbox", "path": "mail/*"},
        {"name": "manual", "kind": "tree", "path": "manual"},
    ).build()
    assert found(work, "sluice sticks")[0] == "manual:sluice.txt"
    assert found(work, "who asked about the sluice that sticks")[0] == asked
    assert found(work, "first mail about a sluice that sticks")[0] == asked
    assert found(work, "latest on a sluice that sticks")[0] == answer
