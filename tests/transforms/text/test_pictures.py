"""Pictures as texts: what is one picture and nothing else."""

from __future__ import annotations

import pytest

from transforms.settings.models import SafetySettings
from transforms.text.pictures import Picture, is_picture, picture_of, picture_text
from transforms.text.redaction import screened

PICTURE = Picture("image/png", bytes(range(256)))
TEXT = picture_text(PICTURE)


def test_a_picture_comes_back_from_its_text():
    assert is_picture(TEXT) and picture_of(TEXT) == PICTURE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "words",
        f" {TEXT}",
        f"{TEXT}\npassword: hunter2",
        "data:image/svg+xml;base64,PHN2Zz4=",
        "data:image/png,x",
    ],
)
def test_what_holds_words_is_no_picture(text: str):
    assert not is_picture(text) and picture_of(text) is None


def test_nothing_is_masked_in_a_picture_and_all_beside_it():
    odd = "data:image/png;base64,AKIAIOSFODNN7EXAMPLE"
    beside = f"{odd} and"
    sent = screened([odd, beside], SafetySettings()).texts
    assert sent[0] == odd and "AKIA" not in sent[1]
