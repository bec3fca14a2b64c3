"""The settings of a stage as a run's configuration, and the columns that Dagster shows of it."""

import pytest
from pydantic import ValidationError

from assets.stages.shown import chosen_settings, column_lineage, config_of
from transforms.schemas.registry import REGISTRY
from transforms.settings.documents import DocumentChunkSettings
from transforms.settings.mail import ChunkSettings, ThreadSettings
from transforms.settings.search import TermSettings

BY_SOURCE = {
    "": DocumentChunkSettings(),
    "my-notes": DocumentChunkSettings(chunker="tree"),
    "docs": DocumentChunkSettings(target_chars=900),
}


@pytest.mark.parametrize(
    "settings",
    [ChunkSettings(message_chars=900), ThreadSettings(), TermSettings(), BY_SOURCE],
    ids=lambda value: type(value).__name__,
)
def test_the_defaults_of_a_configuration_are_the_configured_values(settings: object):
    config = config_of("stage", settings)  # type: ignore[arg-type]
    assert config
    assert chosen_settings(settings, config().model_dump()) == settings


def test_a_changed_value_changes_the_settings_of_one_run_or_of_one_source():
    settings = ChunkSettings()
    chosen = chosen_settings(settings, {"message_chars": 900})
    assert chosen == ChunkSettings(message_chars=900) and chosen.digest() != settings.digest()
    by_source = chosen_settings(BY_SOURCE, {"my-notes": {"chunker": "semantic"}})
    assert by_source == BY_SOURCE | {"my-notes": DocumentChunkSettings(chunker="semantic")}


@pytest.mark.parametrize("values", [{"message_chars": 0}, {"policy": "neither"}])
def test_a_value_that_the_settings_refuse_is_refused(values: dict[str, object]):
    with pytest.raises(ValidationError):
        chosen_settings(ChunkSettings(), values)


def test_a_choice_says_what_there_is_to_choose_from():
    config = config_of("stage", ChunkSettings())
    assert config and "one of pairs, message" in str(config.model_fields["policy"].description)


def test_without_a_source_there_is_nothing_to_configure():
    assert config_of("stage", {"": DocumentChunkSettings()}) is None


def test_a_column_comes_from_what_its_stage_names_or_from_an_input_with_the_same():
    table = REGISTRY["message_chunks"].schema
    for named, expected in (({}, "messages"), ({"source": ["attachments.source"]}, "attachments")):
        (dep,) = column_lineage(table, ["messages", "attachments"], named).deps_by_column["source"]
        assert (dep.asset_key.to_user_string(), dep.column_name) == (expected, "source")
