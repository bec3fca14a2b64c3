"""The HNSW index of a published file: there up to its limit, of that version's vectors, used by SQL
and measured.
"""

from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest

from dagster_project.index.publish import vector_index
from dagster_project.index.search.statements.sql import query_current
from dagster_project.models.embedders import make_embedder
from tests.archives import Mail, Workspace, differences, discussion
from transforms.settings.models import EmbeddingSettings

pytestmark = [pytest.mark.exhaustive, pytest.mark.usefixtures("every_key")]

SEARCH = {"vector_search": "ann"}


def shown(work: Workspace, asset: str) -> dict[str, Any]:
    """The newest metadata of an asset."""
    with work.instance() as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey(asset))
    assert event and event.asset_materialization
    return {name: value.value for name, value in event.asset_materialization.metadata.items()}


def nearest_of(work: Workspace, message_id: str) -> list[str]:
    """The mails that SQL finds by the index, given the vector of a mail."""
    ((vector,),) = work.sql(
        f"SELECT vector FROM embeddings JOIN chunks USING (chunk_id) WHERE doc_id = '{message_id}' LIMIT 1"
    )
    with duckdb.connect(str((work.index / "CURRENT").resolve()), read_only=True) as connection:
        vector_index.use(connection)
        statement = vector_index.nearest(len(vector), "chunk_id", 3)
        found = [row[0] for row in connection.execute(statement, [vector]).fetchall()]
    documents = dict(work.sql("SELECT chunk_id, doc_id FROM chunks"))
    return [documents[chunk] for chunk in found]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace whose second version updates the first; for reading only."""
    work = Workspace(tmp_path_factory.mktemp("vectors") / "work").configure()
    work.write(
        "a.mbox",
        [m for n, topic in enumerate("abcde") for m in discussion(10 * n, 6, f"{topic} pump")],
    )
    work.build()
    work.write(
        "b.mbox", [Mail(90, "Tulips are planted in autumn, roses want sun and water.", "Gardening")]
    )
    work.build()
    return work


def test_the_index_of_an_update_is_of_the_vectors_of_its_version(made: Workspace, tmp_path: Path):
    assert shown(made, "search_index")["built_on_previous"]
    assert nearest_of(made, "m90@example.org")[0] == "m90@example.org"
    anew = Workspace(tmp_path / "anew").configure()
    for file in (made.folder / "mail").iterdir():
        anew.write(file.name, file.read_bytes())
    anew.build()
    assert not shown(anew, "search_index")["built_on_previous"]
    assert differences(made.index, anew.index) == {}


def test_it_is_measured_and_searches_say_which_way_they_take(made: Workspace):
    facts = shown(made, "vector_index")
    (vectors,) = made.column("SELECT count(*) FROM embeddings")
    assert (facts["kind"], facts["vectors"], facts["queries"]) == (
        "hnsw",
        vectors,
        min(vectors, 30),
    )
    assert facts["recall_at_10"] > 0.9 and facts["used_by_sql"] and facts["seconds"] > 0
    assert [facts["version"]] == made.column("SELECT value FROM manifest WHERE key = 'version'")
    assert shown(made, "search_index")["vector_search"] == "exact"


def test_statements_that_ask_for_it_use_it_without_the_network(made: Workspace):
    statement = vector_index.nearest(256, "chunk_id", 3).replace("?", "$vector")
    plan = query_current(made.index, f"EXPLAIN {statement}", {"vector": [1.0] + [0.0] * 255})
    assert "HNSW_INDEX_SCAN" in str(plan.to_pylist())


@pytest.mark.parametrize("macro", ["search_semantic('the pump is loud', {})", '"similar"($id, {})'])
def test_macros_use_it_and_find_what_all_vectors_say(made: Workspace, macro: str):
    ask = partial(query_current, made.index, embedder=partial(make_embedder, EmbeddingSettings()))
    of_chunk = {"id": made.column("SELECT min(chunk_id) FROM chunks")[0]} if "$" in macro else {}
    plan = ask(f"EXPLAIN FROM {macro.format(3)}", of_chunk)
    assert "HNSW_INDEX_SCAN" in str(plan.to_pylist())
    subquery = (
        macro.replace("$id", "(SELECT $id)").replace("'the", "(SELECT 'the").replace("d'", "d')")
    )
    by_index, by_all = (ask(f"FROM {text.format(3)}", of_chunk) for text in (macro, subquery))
    assert by_index == by_all and by_index.num_rows == 3
    assert of_chunk.get("id") not in by_index.column("chunk_id").to_pylist()
    assert ask("FROM \"similar\"('nothing has this id', 3)").num_rows == 0


def test_above_the_limit_there_is_none_and_the_setting_brings_it_back(
    made: Workspace, tmp_path: Path
):
    work = made.copied(tmp_path / "work")
    for most, kind, way in ((3, "none", "exact"), (9999, "hnsw", "hnsw")):
        work.configure(index={"ann_max_vectors": most}, search=SEARCH)
        work.build()
        facts = shown(work, "vector_index")
        assert (facts["kind"], facts["at_most_vectors"]) == (kind, most)
        assert ("recall_at_10" in facts) == (kind == "hnsw")
        assert shown(work, "search_index")["vector_search"] == way
