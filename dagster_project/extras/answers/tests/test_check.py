"""The check of a sentence: what is true by its source is green, and no fault of one word is."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.extras.answers.transforms.check import GREEN, RED, Evidence, Verdict, verdict
from dagster_project.extras.answers.transforms.words import sentence_ranges
from transforms.settings.search import TermSettings

TERMS = TermSettings()


@cache
def fixtures() -> dict[Any, Any]:
    content: dict[Any, Any] = yaml.safe_load(Path(__file__).with_name("sentences.yaml").read_text())
    return content


def evidence(name: str) -> Evidence:
    row = fixtures()["passages"][name]
    at = datetime(row["at"].year, row["at"].month, row["at"].day, tzinfo=UTC)
    return Evidence(row["text"], row["speaker"], at, row["title"])


def judged(row: dict[str, Any]) -> Verdict:
    return verdict(row["says"], [evidence(name) for name in row["of"]], TERMS)


@pytest.mark.parametrize("aside", [False, True])
def test_no_planted_fault_is_green_and_what_differs_is_named(aside: bool):
    rows = [row for row in fixtures()[False] if row.get("aside", False) == aside]
    verdicts = [judged(row) for row in rows]
    assert len(rows) == 25
    assert [row["says"] for row, v in zip(rows, verdicts, strict=True) if v.colour == GREEN] == []
    assert all(v.differs for v in verdicts if v.colour != RED)


@pytest.mark.parametrize("aside", [False, True])
def test_what_a_source_says_is_green(aside: bool):
    rows = [row for row in fixtures()[True] if row.get("aside", False) == aside]
    assert len(rows) == 25
    assert sum(judged(row).colour == GREEN for row in rows) >= 23


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("Alice paid Bob 50 euros.", "Bob paid Alice 50 euros."),
        ("I think Bob is late.", "Bob is late."),
        ("The test failed on x86 but passed on arm.", "The test passed on x86."),
        ("More than 50 users complained.", "50 users complained."),
        ("I used to live in Rome.", "Ann lives in Rome."),
        ("We have decided against using Rust.", "Ann decided using Rust."),
        ("I stopped using Rust.", "Ann used Rust."),
        ("I plan to move to Berlin.", "Ann moves to Berlin."),
        ("Did Bob sign the lease?", "Bob signed the lease."),
        ("Bob, I moved to Berlin.", "Bob moved to Berlin."),
        ("Bob thanked me for the cake.", "Ann thanked Bob for the cake."),
        ("The flat costs 900 euros.", "Ann denied that the flat costs 900 euros."),
        ("The flat costs 900 euros.", "Ann did not say that the flat costs 900 euros."),
        ("The flat costs 900 euros.", "On 4 March 2024 Ann said that the flat costs 900 euros."),
        ("Bob left Rome and Carol joined Paris.", "Bob joined Paris."),
        ("It was fast, not slow.", "It was slow."),
        ("The red car costs 5 and the blue car costs 9.", "The red car costs 9."),
        ("The race is cancelled if it rains.", "The race is cancelled."),
        ("Nobody knows that Bob left.", "Bob left."),
        ("It is false that Bob left.", "Bob left."),
        ("“The API is stable” is a lie.", "The API is stable."),
        ("Bob says the lock is wrong.", "Ann says the lock is wrong."),
        ("We tested 12 of 15 machines.", "We tested 15 machines."),
        ("Sold for 45 in 2021, bought for 30 in 2019.", "Bought for 45 in 2019."),
        ("Weder Bob noch Carol kommen morgen zu uns.", "Bob kommt morgen."),
        ("I prefer tabs to spaces.", "Ann prefers spaces to tabs."),
        ("Buses stop and trains wait if it snows.", "Buses stop."),
        ("It is fast, but only on ext4.", "It is fast."),
        ("All tests pass, unless the disk is full, and if so it says so.", "All tests pass."),
    ],
)
def test_a_sentence_that_leaves_out_or_moves_what_matters_is_not_green(source: str, sentence: str):
    said = Evidence(source, "Ann", datetime(2024, 3, 3, tzinfo=UTC))
    assert verdict(sentence, [said], TERMS).colour != GREEN


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("The red car costs 5 and the blue car costs 9.", "The red car costs 5."),
        ("The US delegation left on Monday.", "The US delegation left on Monday."),
        ("All tests pass, and if you want I send the log.", "All tests pass."),
        ("The kiln holds 40 pots; when it is full, tell Bob.", "The kiln holds 40 pots."),
        ("Alle Tests laufen, und wenn du willst, schicke ich sie.", "Alle Tests laufen."),
        ("I prefer tabs to spaces.", "Ann prefers tabs to spaces."),
        ("Latency is 250ms now.", "On 3 March 2024 Ann wrote: latency is 250 ms."),
        ("Bob says the lock is wrong.", "Bob says the lock is wrong."),
    ],
)
def test_a_sentence_that_keeps_what_matters_is_green(source: str, sentence: str):
    said = Evidence(source, "Ann", datetime(2024, 3, 3, tzinfo=UTC))
    assert verdict(sentence, [said], TERMS).colour == GREEN


@given(st.sampled_from(sorted(fixtures()["passages"])), st.data())
def test_every_sentence_of_a_source_is_green_and_its_words_are_bytes_of_it(name: str, data: Any):
    source = evidence(name)
    first, last = data.draw(st.sampled_from(list(sentence_ranges(source.text))))
    found = verdict(source.text[first:last], [Evidence("Another text."), source], TERMS)
    assert (found.colour, found.evidence) == (GREEN, 1)
    stored = source.text.encode()
    assert stored[found.start : found.end].decode() == source.text[first:last]
    assert all(stored[a:b].decode() in source.text[first:last] for a, b in found.words)


def test_without_a_source_near_a_sentence_is_red():
    assert verdict("The moon is made of cheese.", [evidence("gao")], TERMS) == Verdict(RED)
    assert verdict("The moon is made of cheese.", [], TERMS) == Verdict(RED)
