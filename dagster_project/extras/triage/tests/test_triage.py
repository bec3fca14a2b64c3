"""Triage on the issues of the sample: repeats, what is missing, what is masked, and summaries."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from dagster_project.extras.triage.transforms.duplicates import MOST, repeats
from dagster_project.extras.triage.transforms.form_fields import fields_of
from dagster_project.extras.triage.transforms.items import issue_items, missing, pieces, shown
from dagster_project.extras.triage.transforms.table import TriageSettings, issue_triage
from tests.documents import read
from tests.timing import growth
from transforms.settings.documents import ISSUE_NEEDS
from transforms.settings.models import SafetySettings
from transforms.settings.search import TermSettings

pytestmark = pytest.mark.exhaustive

SAMPLE = Path(__file__).parents[4] / "data" / "sample" / "issues"
SETTINGS = TriageSettings({"s": ISSUE_NEEDS}, {}, TermSettings(), SafetySettings())


@pytest.fixture(scope="module")
def documents() -> pa.Table:
    return read({file.name: file.read_bytes() for file in SAMPLE.glob("*.md")}).documents


@pytest.fixture(scope="module")
def triaged(documents: pa.Table) -> dict[int, dict]:
    issues = issue_items(documents)
    table = issue_triage(issues, np.zeros((len(issues), 1)), SETTINGS, {})
    return {row["number"]: row for row in table.to_pylist()}


def test_repeats_are_among_the_three_likeliest_even_without_vectors(
    documents: pa.Table, triaged: dict[int, dict]
):
    facts = [json.loads(text) for text in documents["frontmatter"].to_pylist()]
    truth = {int(f["number"]): int(f["duplicate_of"]) for f in facts if "duplicate_of" in f}
    found = {n: [one["number"] for one in triaged[n]["duplicates"]] for n in truth}
    assert len(truth) == 16 and sum(truth[n] in found[n] for n in truth) >= 15
    right = [
        one["confidence"]
        for n in truth
        for one in triaged[n]["duplicates"]
        if one["number"] == truth[n]
    ]
    wrong = [
        one["confidence"]
        for n, row in triaged.items()
        for one in row["duplicates"]
        if truth.get(n) != one["number"]
    ]
    assert np.mean(right) > 5 * np.mean(wrong)


def test_an_issue_repeats_earlier_ones_alone_and_names_each_once(triaged: dict[int, dict]):
    for number, row in triaged.items():
        earlier = [one["number"] for one in row["duplicates"]]
        assert len(earlier) == len(set(earlier)) <= MOST and all(one < number for one in earlier)
        scores = [one["score"] for one in row["duplicates"]]
        assert scores == sorted(scores, reverse=True) and all(
            0 <= one["confidence"] <= 1 for one in row["duplicates"]
        )


def test_passages_are_the_bytes_of_the_documents(documents: pa.Table, triaged: dict[int, dict]):
    texts = dict(zip(documents["doc_id"].to_pylist(), documents["text"].to_pylist(), strict=True))
    agreed = [
        (row, one)
        for row in triaged.values()
        for one in row["duplicates"]
        if one["passage"] and not row["found"]
    ]
    assert len(agreed) > 60
    for row, one in agreed:
        own, earlier = texts[row["doc_id"]].encode(), texts[one["doc_id"]].encode()
        assert own[one["byte_start"] : one["byte_end"]].decode() == one["passage"]
        if "[" not in one["earlier_passage"]:
            assert (
                earlier[one["earlier_start"] : one["earlier_end"]].decode()
                == one["earlier_passage"]
            )


def test_the_result_does_not_depend_on_the_order_of_the_documents(
    documents: pa.Table, triaged: dict[int, dict]
):
    issues = issue_items(documents.take(list(reversed(range(documents.num_rows)))))
    again = issue_triage(issues, np.zeros((len(issues), 1)), SETTINGS, {})
    assert again.to_pylist() == list(triaged.values())


def test_secrets_are_counted_and_shown_nowhere(triaged: dict[int, dict]):
    row = triaged[22]
    assert {one["kind"]: one["count"] for one in row["found"]} == {
        "cloud_key": 1,
        "password": 1,
        "email": 1,
        "phone": 1,
    }
    shown_rows = json.dumps(list(triaged.values()), default=str)
    for secret in ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMIK7MDENG", "felix.harms@", "5550 1234"):
        assert secret not in shown_rows
    assert row["summary"].startswith("When the uploader starts") and "[" not in row["summary"]


def test_what_speaks_to_programs_is_counted_and_not_repeated(triaged: dict[int, dict]):
    assert {one["kind"] for one in triaged[33]["found"]} == {"instruction"}
    assert "EXPORT CSV" in triaged[33]["summary"] and "APPROVED" not in triaged[33]["summary"]


@pytest.mark.parametrize(
    ("text", "tags", "lacks"),
    [
        (
            "### Steps to reproduce\n\n_No response_\n\n### Version\n\nN/A\n\nIt is broken.",
            "",
            ["steps", "version", "log"],
        ),
        (
            "<!-- Please name the version, 1.2.3 say -->\nIt is broken.",
            "",
            ["steps", "version", "log"],
        ),
        ("Since 1.4.2:\n\n1. open it\n2. close it\n\n```\nerror: no\n```", "", []),
        ("Steps: open it with version 3", "", ["log"]),
        (
            "It is broken.\n\n## Comment by ann, 2025-01-01 00:00\n\nThis is version 1.4.2.",
            "",
            ["steps", "log"],
        ),
        ("I wish it could fly.", "enhancement", []),
    ],
)
def test_what_is_missing_follows_the_rules(text: str, tags: str, lacks: list[str]):
    documents = read({"1.md": f"---\ntags: [{tags}]\n---\n# A\n\n{text}\n"}).documents
    assert missing(issue_items(documents), {"s": ISSUE_NEEDS}) == [lacks]


def test_rules_are_those_of_the_source():
    items = issue_items(read({"1.md": "# A\n\nOn Linux.\n"}).documents)
    assert missing(items, {"s": {"system": "(?i)linux|windows", "licence": "licen[cs]e"}}) == [
        ["licence"]
    ]
    assert missing(items, {"other": ISSUE_NEEDS}) == [[]]


def test_a_summary_is_one_short_line_without_addresses():
    assert shown("See https://evil.example/x?y\nfor more.") == "See [link] for more."
    assert (
        shown("Best.", "First. Best.") == "First. Best." and shown("Best.", "long " * 99) == "Best."
    )
    assert len(shown("word " * 200)) == 300


def test_pieces_are_where_they_say_they_are():
    text = "Grüße. Second one.\n\n1. first step\n2. second step\n"
    for _, piece, start in pieces(pl.Series([text])).iter_rows():
        assert text.encode()[start:].decode().startswith(piece)
    assert pieces(pl.Series([text]))["piece"].to_list() == [
        "Grüße.",
        "Second one.",
        "1. first step",
        "2. second step",
    ]


FORM = "### What happened\n\n{}\n\n### Version\n\n{}\n\n### System\n\n{}\n"
DOOR = "The door of the shed stays open in a storm although the bolt is closed."


def confidence(first: str, second: str) -> dict:
    """The entry of the first issue in the triage of the second, among issues on other things."""
    others = ["The lamp in the hall flickers at ten.", "Paint peels off the north wall."]
    texts = [first, *others, second]
    files = {
        f"{n}.md": f"---\ncreated: 2025-01-0{n}\n---\n# Report {n}\n\n{text}\n".encode()
        for n, text in enumerate(texts, 1)
    }
    issues = issue_items(read(files).documents)
    table = issue_triage(issues, np.zeros((len(issues), 1)), SETTINGS, {}).to_pylist()
    return next(one for one in table[-1]["duplicates"] if one["number"] == 1)


def test_likeness_and_evidence_are_told_apart():
    """The same words with two fields that contradict are alike, and less likely one fault."""
    one = FORM.format(DOOR, "1.2", "Linux")
    same = confidence(one, FORM.format(DOOR, "1.2", "Linux"))
    other = confidence(one, FORM.format(DOOR, "3.0", "Windows"))
    assert same["same"] == ["system", "version"] and same["different"] == []
    assert other["same"] == [] and other["different"] == ["system", "version"]
    assert same["confidence"] > 0.9 and other["confidence"] < 0.3
    assert same["evidence"] == other["evidence"] == 1.0


def test_an_unrelated_issue_has_little_evidence():
    near, far = confidence(DOOR, DOOR), confidence(DOOR, "The roof of the garage leaks in rain.")
    assert far["evidence"] < 0.5 < near["evidence"]
    assert far["confidence"] < 0.1 < near["confidence"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Version: 1.2\n- **System**: Linux.\n", {"version": "1.2", "system": "linux"}),
        ("### Version\n\n1.2\n\n### Steps\n\n1. a\n2. b\n", {"version": "1.2"}),
        ("```\nVersion: 1.2\n```\nERROR: no\nhttps://x.example/a\n", {}),
        ("### Version\n\n_No response_\n\nSystem: n/a\n", {}),
    ],
)
def test_fields_are_short_lines_with_a_name(text: str, expected: dict[str, str]):
    assert fields_of(text) == expected


def test_comments_that_nothing_ends_take_time_by_their_number():
    def sorted_out(count: int) -> None:
        items = issue_items(read({"1.md": f"# Crash\n\n{'<!--' * count}\n"}).documents)
        missing(items, {"s": ISSUE_NEEDS})
        issue_triage(items, np.zeros((1, 2), np.float32), SETTINGS, {})

    assert growth(lambda: sorted_out(4_000), lambda: sorted_out(16_000), 9) < 9


def test_few_and_empty_issues_repeat_nothing():
    none = pl.Series([], dtype=pl.String)
    assert repeats(none, none, np.zeros((0, 1)), TermSettings()) == []
    empty = pl.Series(["", ""])
    assert repeats(empty, empty, np.zeros((2, 1)), TermSettings()) == []
    assert (
        issue_triage(issue_items(read({}).documents), np.zeros((0, 1)), SETTINGS, {}).num_rows == 0
    )
