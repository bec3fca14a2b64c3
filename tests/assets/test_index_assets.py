"""How Dagster sees what is made of the published index: the vector index, and the context of each
window.
"""

from pathlib import Path

import dagster as dg
import ibis
import numpy as np
import pyarrow as pa
import pytest

from assets.embedding import StoredVectors
from assets.partitions import CONTEXT, CONVERSATIONS
from assets.pipeline import index_stages
from assets.stages.stage import BACKFILL, assets_of, partitions_def
from assets.vector_parts import VectorParts
from dagster_project.config.settings import load_settings
from dagster_project.lake.lake import ParquetLake
from dagster_project.models.embedding_cache import SQLiteEmbeddingCache
from dagster_project.models.static import PackagedTokenCounter
from transforms.schemas.chunks import embeddings_table

SAMPLE = Path(__file__).parents[2] / "data" / "sample" / "weft.toml"
STAGES = index_stages(load_settings(SAMPLE), PackagedTokenCounter())
WINDOWS = assets_of([stage for stage in STAGES if stage.source_type == CONTEXT])


def test_a_part_that_lacks_the_vector_of_a_refused_text_is_looked_at_by_each_run(tmp_path: Path):
    lake = ParquetLake(str(tmp_path / "lake"), {"embeddings": embeddings_table(2)})
    texts = ibis.memtable(
        pa.table({"partition": ["s/a", "s/a", "s/b"], "text_hash": ["1", "2", "3"]})
    )
    key = ("model", 2, "document")
    (cache := SQLiteEmbeddingCache(tmp_path / "cache")).store(
        key, ["1", "3"], np.eye(2, dtype=np.float32)
    )
    parts, vectors = VectorParts(texts, lake, "code"), StoredVectors(cache, key, ["1", "2", "3"])
    for _, staged in parts.filled(["s/a", "s/b"], vectors, "model", 2):
        staged.commit()
    assert VectorParts(texts, lake, "code").groups() == [["s/a"]]


@pytest.mark.parametrize("definition", WINDOWS, ids=CONTEXT.tables)
def test_the_context_is_made_by_window_and_says_which_version_it_asks(
    definition: dg.AssetsDefinition,
):
    assert definition.partitions_def == partitions_def(CONVERSATIONS)
    assert definition.backfill_policy == BACKFILL
    assert dg.AssetKey("search_index") in definition.dependency_keys
    (spec,) = definition.specs
    assert spec.kinds == {"parquet", "polars"} and spec.description


def test_the_stages_of_a_window_stand_in_order():
    assert (
        tuple(key.path[-1] for definition in WINDOWS for key in definition.keys) == CONTEXT.tables
    )
