"""The conditions of a search: the same in each place that takes them, as one list declares them."""

import json
from dataclasses import fields

import anyio
import pytest
from mcp import Client

from assets.search import ScheduledSearch
from dagster_project.cli.search import search
from dagster_project.servers.mcp import mcp_server
from tests.archives import Workspace
from tests.pages import pages
from transforms.errors import QueryError
from transforms.retrieval.search_filters import SEARCH_FILTERS, Filters, read_filters

NAMES = [filter_.name for filter_ in SEARCH_FILTERS]
MOST_CHARACTERS = 8_000
"""Characters of the list of tools: an assistant pays for them in each session."""


def test_a_command_a_page_a_tool_and_an_asset_take_the_conditions_of_the_list(
    built_once: Workspace,
):
    async def listed() -> str:
        async with Client(mcp_server(built_once.settings, has_sql=True)) as client:
            tools = await client.list_tools()
            return tools.model_dump_json(by_alias=True, exclude_none=True)

    tools = anyio.run(listed)
    assert len(tools) <= MOST_CHARACTERS
    (tool,) = (tool for tool in json.loads(tools)["tools"] if tool["name"] == "search")
    assert [name for name in tool["inputSchema"]["properties"] if name in NAMES] == NAMES
    options = {option.name: option.opts for option in search.params}
    assert {name: options.get(name) for name in NAMES} == {
        filter_.name: [f"--{filter_.option}"] for filter_ in SEARCH_FILTERS
    }
    with pages(built_once.settings) as client:
        parameters = client.get("/openapi.json").json()["paths"]["/api/search"]["get"]["parameters"]
        for filter_ in SEARCH_FILTERS:
            asked = {"q": "compactor", filter_.option: "no such"}
            assert client.get("/api/search", params=asked).status_code == (
                400
                if filter_.values or filter_.is_day or filter_.name in ("list", "source", "tag")
                else 200
            ), filter_
    assert {f.option for f in SEARCH_FILTERS} <= {parameter["name"] for parameter in parameters}
    assert set(NAMES) <= ScheduledSearch.model_fields.keys()
    assert [field.name for field in fields(Filters)] == NAMES


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ({"lists": "dev"}, "a search has no condition 'lists'; it takes list, author"),
        ({"has": "links"}, "has takes patch, attachment, not 'links'"),
        ({"until": "soon"}, "until takes dates such as 2024"),
    ],
)
def test_a_condition_that_there_is_not_is_refused(texts: dict[str, str], why: str):
    with pytest.raises(QueryError, match=why):
        read_filters(texts)


def test_an_empty_text_is_no_condition():
    assert read_filters({"author": "", "list": None}) == Filters()
