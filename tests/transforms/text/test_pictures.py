"""Pictures as texts: what is one picture and nothing else."""

from base64 import b64decode

import pytest

from transforms.settings.models import SafetySettings
from transforms.text.redaction import screened
from transforms.text.visible import Picture, is_picture, picture_of, picture_text

HEAD = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0"
PICTURE = Picture("image/png", HEAD + bytes(range(256)))
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
        "data:image/png;base64,AKIAIOSFODNN7EXAMPLE",
    ],
)
def test_what_holds_words_is_no_picture(text: str):
    assert not is_picture(text) and picture_of(text) is None


def test_nothing_is_masked_in_a_picture_and_all_beside_it():
    key = "AKIAIOSFODNN7EXAMPLE"
    odd = picture_text(Picture("image/png", HEAD + b64decode(key)))
    assert odd.endswith(key)
    sent = screened([odd, f"{odd} {key}", f"data:image/png;base64,{key}"], SafetySettings()).texts
    assert sent[0] == odd and not any(text.endswith(key) for text in sent[1:])
