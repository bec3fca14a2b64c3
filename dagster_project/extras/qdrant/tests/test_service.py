"""A workspace whose settings name Qdrant, played by its client in a folder."""

from contextlib import closing
from pathlib import Path

import pytest

from dagster_project.config.settings import load_settings
from dagster_project.extras.qdrant.batch import PointRanking
from dagster_project.index.search.opened_index import open_index
from tests.archives import Mail, two_lists
from transforms.errors import IndexUnavailableError, SettingsError

pytest.importorskip("qdrant_client", reason="the extra qdrant is not installed")

pytestmark = pytest.mark.exhaustive


def test_a_build_sends_what_it_publishes_and_a_search_is_ranked_there(tmp_path: Path):
    url = f"file:{tmp_path}/qdrant/weft"
    work = two_lists(tmp_path / "work", index={"target": url})
    work.build()
    with closing(open_index(work.settings)) as index:
        assert isinstance(index.ranking, PointRanking) and index.ranking.points.facts.number == 1
        before = index.search(["compactor"]).hits.to_pylist()
    assert before
    plain = work.config.read_text().replace(f'target = "{url}"', 'target = "duckdb"')
    (other := work.folder / "plain.toml").write_text(plain)
    with (
        closing(open_index(load_settings(other))) as index,
        pytest.raises(
            IndexUnavailableError, match=r"are in Qdrant, and `index.target`.* `weft build`"
        ),
    ):
        index.search(["compactor"])
    work.write(
        "dev/dev.2004-03.mbox", [Mail(900, "The compactor of the shell is new.", "Compactor news")]
    )
    work.build()
    assert work.plan().is_empty
    for command in (["search"], ["search", "--stages"]):
        said = work.weft(*command, "compactor of the shell is new")
        assert said.exit_code == 0 and "Compactor news" in said.output, said.output
    with closing(open_index(work.settings)) as index:
        assert isinstance(index.ranking, PointRanking) and index.ranking.points.facts.number == 2
    said = work.weft("doctor", "--json")
    assert "has all points; the mean length moved by 0." in said.output


def test_a_service_that_does_not_answer_is_told_with_the_remedy(tmp_path: Path):
    from dagster_project.extras.qdrant.collection import Collection, connected

    with pytest.raises(IndexUnavailableError, match=r'does not answer .*`index.target = "duckdb"`'):
        Collection(connected("http://127.0.0.1:9"), "weft-1").count(1)


@pytest.mark.parametrize(
    "url", ["http://host:6333", "host/weft", "http://user:s3cret@host:6333/weft", ""]
)
def test_an_address_names_a_service_without_credentials_and_an_alias(tmp_path: Path, url: str):
    work = two_lists(tmp_path, index={"target": url})
    with pytest.raises(SettingsError) as fault:
        load_settings(work.config)
    assert "s3cret" not in str(fault.value)
