"""The settings of the stages."""

import importlib
import pkgutil

import pytest
from pydantic import ValidationError

import transforms.settings
from transforms.settings.base import StageSettings
from transforms.settings.mail import ChunkSettings
from transforms.settings.search import TermSettings

STAGES = [
    s
    for module in pkgutil.iter_modules(transforms.settings.__path__)
    for s in vars(importlib.import_module(f"transforms.settings.{module.name}")).values()
    if isinstance(s, type) and issubclass(s, StageSettings) and s is not StageSettings
]


@pytest.mark.parametrize("stage", STAGES)
def test_every_setting_says_what_it_means(stage: type[StageSettings]):
    public = stage.model_fields.keys() - stage.internal()
    assert all(stage.model_fields[name].description for name in public)


@pytest.mark.parametrize("stage", STAGES)
def test_settings_cannot_change_and_take_no_unknown_name(stage: type[StageSettings]):
    required = {"match": ("*.md",), "where": "x"}
    required = {
        name: required[name] for name, field in stage.model_fields.items() if field.is_required()
    }
    made = stage(**required)
    with pytest.raises(ValidationError, match="frozen"):
        setattr(made, next(iter(stage.model_fields)), 1)
    with pytest.raises(ValidationError, match="extra_forbidden|Extra inputs"):
        stage(**required, no_such_setting=1)


def test_the_digest_depends_on_every_value_and_on_nothing_else():
    same = {ChunkSettings().digest(), ChunkSettings(message_chars=2000).digest()}
    assert len(same) == 1
    assert ChunkSettings(message_chars=2001).digest() not in same


def test_only_known_stemmers_are_taken():
    assert TermSettings(stemmer="german").stemmer == "german"
    with pytest.raises(ValidationError, match="known are"):
        TermSettings(stemmer="klingon")
