"""The settings of the stages."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from transforms import settings

STAGES = [
    s
    for s in vars(settings).values()
    if isinstance(s, type) and issubclass(s, settings.StageSettings) and s is not settings.StageSettings
]


@pytest.mark.parametrize("stage", STAGES)
def test_every_setting_says_what_it_means(stage: type[settings.StageSettings]):
    assert all(field.description for field in stage.model_fields.values())


@pytest.mark.parametrize("stage", STAGES)
def test_settings_cannot_change_and_take_no_unknown_name(stage: type[settings.StageSettings]):
    made = stage()
    with pytest.raises(ValidationError, match="frozen"):
        setattr(made, next(iter(stage.model_fields)), 1)
    with pytest.raises(ValidationError, match="extra_forbidden|Extra inputs"):
        stage(no_such_setting=1)  # type: ignore[call-arg]


def test_the_digest_depends_on_every_value_and_on_nothing_else():
    same = {settings.ChunkSettings().digest(), settings.ChunkSettings(message_chars=2000).digest()}
    assert len(same) == 1
    assert settings.ChunkSettings(message_chars=2001).digest() not in same


def test_only_known_stemmers_are_taken():
    assert settings.TermSettings(stemmer="german").stemmer == "german"
    with pytest.raises(ValidationError, match="known are"):
        settings.TermSettings(stemmer="klingon")
