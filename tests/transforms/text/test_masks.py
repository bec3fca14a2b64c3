"""The usual shapes of secrets and personal data are masked, ordinary sentences are not, and labels
say the same.
"""

import random
import re
import time
from collections.abc import Callable

import polars as pl
import pytest

from tests.transforms.text.pattern_samples import sample
from tests.transforms.text.secret_shapes import (
    SENTENCES,
    SHAPES,
    UNSEEN_LINES,
    UNSEEN_SHAPES,
    shapes,
)
from transforms.settings.models import SafetySettings
from transforms.text.finds import SECRETS
from transforms.text.finds.finder import finds_in
from transforms.text.redaction import masked_in_place, screened, sensitivity
from transforms.toml_file import toml_file

MASK = SafetySettings()
PLAIN = [re.sub("[«»]", "", shape) for shape in SHAPES]
_PIECE = 6
"""Bytes of a secret that would stand out as a part of it."""


def _stays(shape: str, masked: str) -> bool:
    """True if a part of what `shape` marks is in the masked text."""
    secrets = re.findall("«([^»]*)»", shape)
    return any(
        s[n : n + _PIECE] in masked for s in secrets for n in range(max(1, len(s) - _PIECE + 1))
    )


def _screened(texts: list[str]) -> list[str]:
    return screened(texts, MASK).texts


def _in_place(texts: list[str]) -> list[str]:
    return masked_in_place(texts, MASK)[0]


@pytest.mark.parametrize("masked", [_screened, _in_place])
def test_secrets_of_the_usual_shapes_are_masked(masked: Callable[[list[str]], list[str]]):
    missed = [
        shape for shape, text in zip(SHAPES, masked(PLAIN), strict=True) if _stays(shape, text)
    ]
    assert len(SHAPES) >= 520
    assert len(missed) <= len(SHAPES) * 0.01, missed


def test_ordinary_sentences_are_not_masked():
    altered = [
        pair for pair in zip(SENTENCES, _screened(SENTENCES), strict=True) if pair[0] != pair[1]
    ]
    assert len(SENTENCES) >= 200
    assert len(altered) <= len(SENTENCES) * 0.01, altered


def test_shapes_and_lines_that_no_rule_was_written_after_are_told_apart():
    texts = _screened([re.sub("[«»]", "", shape) for shape in UNSEEN_SHAPES])
    missed = [
        shape for shape, text in zip(UNSEEN_SHAPES, texts, strict=True) if _stays(shape, text)
    ]
    assert len(UNSEEN_SHAPES) >= 230
    assert len(missed) <= len(UNSEEN_SHAPES) * 0.07, missed
    newest = shapes("newest_shapes.txt")
    texts = _screened([re.sub("[«»]", "", shape) for shape in newest])
    missed = [shape for shape, text in zip(newest, texts, strict=True) if _stays(shape, text)]
    assert len(missed) <= len(newest) * 0.1, missed
    altered = [
        pair
        for pair in zip(UNSEEN_LINES, _screened(UNSEEN_LINES), strict=True)
        if pair[0] != pair[1]
    ]
    assert len(UNSEEN_LINES) >= 400
    assert len(altered) <= len(UNSEEN_LINES) * 0.01, altered


def test_every_rule_of_gitleaks_finds_texts_of_its_form():
    lot = random.Random(7)
    silent = []
    for row in toml_file("transforms.text.finds", "gitleaks.toml")["rules"]:
        word = "" if row["is_first"] else f"{row['words'][0]}: "
        texts = pl.Series([f"{word}{sample(row['pattern'], lot).strip()} x" for _ in range(8)])
        if sum(1 for _ in finds_in(texts, SECRETS)) < 4:
            silent.append((row["id"], texts.to_list()))
    assert silent == []


def test_labels_say_what_masks_find():
    texts = [*PLAIN, *SENTENCES]
    is_masked = [text != masked for text, masked in zip(texts, _screened(texts), strict=True)]
    assert [label != "public" for label in sensitivity(pl.Series(texts))] == is_masked


def test_a_mask_in_place_takes_as_many_bytes():
    assert [len(t.encode()) for t in _in_place(PLAIN)] == [len(t.encode()) for t in PLAIN]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "psql postgres://app:hunter2@db.example.org/x",
            "psql postgres://app:[url_password]@db.example.org/x",
        ),
        ("password: hunter2, host: db", "password: [password], host: db"),
        ("x\u200bAK" + "IA" + "IOSFODNN7EXAMPLE.", "x\u200b[cloud_key]."),
        ("Call +44 20 7946 0958 or ask ann (at) example.org.", "Call [phone] or ask [email]."),
        ("Pay GB82 WEST 1234 5698 7654 32 TODAY 2024", "Pay [iban] TODAY 2024"),
        ("card 4111 1111 1111 1112", "card 4111 1111 1111 1112"),
        ("IBAN XX12 3456 7890 1234 5678", "IBAN XX12 3456 7890 1234 5678"),
    ],
)
def test_a_mask_ends_where_the_secret_does(text: str, expected: str):
    assert _screened([text]) == [expected]


REPEATED = (
    "ghp_",
    "xoxb-",
    "-eyJ.",
    "password: ",
    "://a:",
    "curl ",
    "Cookie: a=b; ",
    "+1 ",
    "4111 ",
    "Z2hwXw",
    "%5F",
    "(at)",
    "'",
    "wifi:",
    "radius key ",
    "openssl -",
    "pw for x ",
    "password, ",
    "password\n",
    "log in with a / ",
    "http -a x:",
    '"d": "',
    "\u00a0",
    "seed phrase ",
    "word ",
    "recovery code 1a2b3c4d ",
    ":::",
    "<a@b",
)
KEY_LINES = ("-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----\n", "MIIE" * 16 + "\n")


@pytest.mark.exhaustive
def test_a_text_of_eight_times_the_length_takes_about_eight_times_as_long():
    def seconds(size: int, piece: str) -> float:
        begin = time.process_time()
        _in_place([piece * (size // len(piece))])
        return time.process_time() - begin

    slow = {
        piece: (seconds(25_000, piece), seconds(200_000, piece))
        for piece in (*REPEATED, *KEY_LINES)
    }
    assert {
        piece: took for piece, took in slow.items() if took[1] > 0.2 and took[1] > 24 * took[0]
    } == {}
