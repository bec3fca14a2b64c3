"""How Dagster sees what is made of the published index: the vector index, and the context of each window."""

from __future__ import annotations

import dagster as dg
import pytest

from assets.conversations import context_stages
from assets.partitions import CONTEXT, CONVERSATIONS
from assets.publish import search_index_asset, vector_index_asset
from assets.stages.stage import BACKFILL, assets_of, partitions_of
from dagster_project.models.static import PackagedTokenCounter
from transforms.settings.conversations import ContextSettings

WINDOWS = assets_of(context_stages(ContextSettings(), PackagedTokenCounter()))


def test_the_vector_index_follows_the_index_and_both_say_what_they_are():
    after = vector_index_asset().get_asset_spec()
    assert [dep.asset_key for dep in after.deps] == [dg.AssetKey("search_index")]
    for spec in (after, search_index_asset().get_asset_spec()):
        assert (spec.group_name, spec.kinds) == ("publish", {"duckdb"}) and spec.description


@pytest.mark.parametrize("definition", WINDOWS, ids=CONTEXT.tables)
def test_the_context_is_made_by_window_and_says_which_version_it_asks(definition: dg.AssetsDefinition):
    assert definition.partitions_def == partitions_of(CONVERSATIONS)
    assert definition.backfill_policy == BACKFILL
    assert dg.AssetKey("search_index") in definition.dependency_keys
    (spec,) = definition.specs
    assert spec.kinds == {"parquet", "polars"} and spec.description


def test_the_stages_of_a_window_stand_in_order():
    assert tuple(key.path[-1] for definition in WINDOWS for key in definition.keys) == CONTEXT.tables
