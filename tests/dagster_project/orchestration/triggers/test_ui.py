"""Dagster's own web server, daemon and Chromium run the shipped sample as any Dagster project."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from assets.partitions import CONTEXT, DOCUMENTS, MAIL
from dagster_project.orchestration.triggers.schedules import HAS_BEGUN
from dagster_project.system.locks import lake_lock
from tests.archives import Workspace, discussion, mbox
from tests.dagster_project.servers.test_own_pages import status
from tests.dagster_ui import Server, answered, weft_ui
from tests.pages import shoot
from tests.processes import weft
from tests.timing import HUNG, until

pytestmark = [pytest.mark.exhaustive, pytest.mark.usefixtures("running")]

HOURLY = "refresh_every_hour"
AUTOMATIONS = (HOURLY, "refresh_goes_on")
NOTHING = "nothing changed: the index shows the sources as they are"
MESSAGES = "SELECT count(*) FROM messages WHERE subject LIKE ?"


@pytest.fixture(scope="module")
def sample(shipped: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A copy of the shipped sample, which tests change."""
    return shipped.copied(tmp_path_factory.mktemp("ui") / "work")


@pytest.fixture(scope="module")
def running(sample: Workspace) -> Iterator[Server]:
    """`weft ui` in a folder that has packages of the names of Weft's own; at its end no tick has
    failed.
    """
    own = sample.folder / "own"
    for name in ("assets", "transforms", "dagster_project"):
        (own / name).mkdir(parents=True)
        (own / name / "__init__.py").write_text(
            "raise RuntimeError('this package is somebody else's')"
        )
    with weft_ui(sample, own) as server:
        yield server
        ticks = [tick for name in AUTOMATIONS for tick in server.ticks(name)]
        assert [tick["error"]["message"] for tick in ticks if tick["error"]] == []
        assert "Unexpected error" not in server.log.read_text()


@pytest.fixture
def server(running: Server) -> Server:
    """The server when nothing runs and nothing follows."""
    running.rest()
    return running


@pytest.fixture
def browser(chromium: Any) -> Iterator[Any]:
    """A page that is at no address yet; one of Dagster's that stays open asks for news all the
    time.
    """
    opened = chromium.new_page(viewport={"width": 1500, "height": 900})
    opened.set_default_timeout(HUNG * 1000)
    yield opened
    opened.close()


def at(server: Server, path: str) -> str:
    return f"http://127.0.0.1:{server.port}{path}"


def write_mails(sample: Workspace, name: str, number: int, topic: str) -> Path:
    """Add a thread of three mails to an archive of the sample, as whoever sends to the list does."""
    file = next(sample.folder.glob(f"quern-*/{name}"))
    with file.open("ab") as archive:
        archive.write(b"\n" + mbox(discussion(number, 3, topic)))
    return file


def count(sample: Workspace, topic: str) -> int:
    ((found,),) = sample.sql(MESSAGES.replace("?", f"'%{topic}%'"))
    return int(found)


def made(server: Server, asset: str) -> int:
    found = server.ask(
        "query($k:AssetKeyInput!){assetOrError(assetKey:$k){... on Asset{assetMaterializations{runId}}}}",
        k={"path": [asset]},
    )
    return len(found["assetOrError"]["assetMaterializations"])


def test_the_server_starts_without_a_warning(server: Server):
    begun = server.log.read_text().partition("Serving dagster-webserver")[0]
    assert "Warning" not in begun and "Traceback" not in begun


def test_the_graph_shows_the_sources_at_the_left(browser: Any, server: Server):
    browser.goto(at(server, "/asset-groups"))
    left = {}
    for group in (
        "sources",
        "mail",
        "documents",
        "conversations",
        "relations",
        "publish",
        "published",
    ):
        node = browser.locator("svg foreignObject", has_text=group).first
        node.wait_for()
        left[group] = node.bounding_box()["x"]
    assert left["sources"] == min(left.values())
    assert left["mail"] < left["relations"] < left["publish"] < left["published"]


RUNS = f"/graphql?query={quote('mutation{reloadWorkspace{__typename}}')}"
READS = f"/graphql?query={quote('{version}')}"
SOCKET = (
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("Sec-WebSocket-Protocol", "graphql-ws"),
)
EMBEDDED = (("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors"))


@pytest.mark.parametrize(
    ("method", "path", "headers", "expected"),
    [
        ("GET", READS, [("Host", "127.0.0.1:PORT")], 200),
        ("POST", RUNS, [("Host", "localhost:PORT"), ("Origin", "http://localhost:PORT")], 200),
        (
            "GET",
            "/graphql",
            [("Host", "127.0.0.1:PORT"), ("Origin", "http://127.0.0.1:PORT"), *SOCKET],
            101,
        ),
        ("GET", READS, [("Host", "rebound.example:PORT")], 421),
        ("POST", RUNS, [("Host", "127.0.0.1:PORT"), ("Origin", "https://elsewhere.example")], 403),
        ("POST", RUNS, [("Host", "127.0.0.1:PORT"), ("Origin", "null")], 403),
        ("GET", RUNS, [("Host", "127.0.0.1:PORT"), *EMBEDDED], 403),
        (
            "GET",
            "/graphql",
            [("Host", "127.0.0.1:PORT"), ("Origin", "https://elsewhere.example"), *SOCKET],
            403,
        ),
        ("GET", "/graphql", [("Host", "rebound.example:PORT"), *SOCKET], 403),
    ],
)
def test_pages_of_other_origins_neither_read_nor_run_anything(
    running: Server, method: str, path: str, headers: list[tuple[str, str]], expected: int
):
    assert status(running.port, method, path, headers)[0] == expected


def test_a_partition_is_materialized_from_the_page(browser: Any, server: Server, sample: Workspace):
    partition = "quern-dev/2025-02"
    file = Path(str(sample.lake.path("messages", partition)))
    before = file.read_bytes()
    file.unlink()
    browser.goto(
        at(server, f"/assets/messages?view=partitions&partition={quote(partition, safe='')}")
    )
    browser.get_by_role("button", name="Materialize…").click()
    browser.get_by_role("button", name="Launch 1 run").click()
    until(file.exists, "the file of the partition")
    assert file.read_bytes() == before
    before = len(server.runs())
    server.rest()
    assert len(server.runs()) == before, "the same content sets off nothing"
    browser.goto(at(server, "/runs"))
    browser.get_by_text("Success", exact=True).first.wait_for()


def test_a_range_of_partitions_is_one_run(server: Server):
    tags = {
        "dagster/asset_partition_range_start": "quern-dev/2025-02",
        "dagster/asset_partition_range_end": "quern-dev/2025-04",
    }
    before = made(server, "message_blocks")
    run = server.materialize(["message_blocks"], tags)
    assert server.ended(run) == "SUCCESS"
    assert made(server, "message_blocks") == before + 3


def test_a_backfill_publishes_once_at_its_end(server: Server, sample: Workspace):
    partitions = ["quern-dev/2025-02", "quern-dev/2025-04"]
    write_mails(sample, "quern-dev.2025-04", 8000, "lock keepers")
    published, messages = made(server, "search_index"), made(server, "messages")
    backfill = server.backfill(MAIL.tables, partitions)
    answered(lambda: made(server, "search_index") > published, "a published index")
    server.rest()
    assert {run["status"] for run in server.runs(dagster__backfill=backfill)} == {"SUCCESS"}
    assert made(server, "messages") == messages + len(partitions)
    assert made(server, "search_index") == published + 1


def test_a_tick_makes_what_changed_repairs_a_cancelled_run_and_the_next_has_nothing_to_do(
    server: Server, sample: Workspace
):
    write_mails(sample, "quern-dev.2025-04", 9100, "mill races")
    (sample.folder / "notes" / "Sluice.md").write_text(
        "# Sluice\n\nThe gate at the sluice was mended.\n"
    )
    seen = {run["runId"] for run in server.runs()}
    with server.ticking(HOURLY) as tick:
        with lake_lock(sample.settings.root, exclusive=True):
            first = tick()
            assert first["status"] == "SUCCESS"
            begun = first["runIds"][0]
            going = {"status": "STARTED", "jobName": "mail_partitions"}
            waits = lambda: [r for r in server.of_refresh(begun) if going.items() <= r.items()]  # noqa: E731
            run = answered(waits, "a run that waits for the lake")[0]["runId"]
            server.terminate(run)
            assert server.ended(run) == "CANCELED"
        until(lambda: count(sample, "mill races") == 3, "the mails of a cancelled run", pause=0.5)
    server.rest()
    is_first = lambda look: look["skipReason"] != HAS_BEGUN and look  # noqa: E731
    after = until(lambda: is_first(server.next_tick(HOURLY)), "another period", pause=0.5)
    assert after["skipReason"] == NOTHING and not after["runRequests"]
    assert sample.plan().is_empty
    runs = [run for run in server.runs() if run["runId"] not in seen]
    assert [found["runId"] for found in runs if found["status"] != "SUCCESS"] == [run]
    assert {found["jobName"] for found in runs} >= {"mail_partitions", "whole_lake"}
    assets = [found["assets"] for found in runs]
    for tables in (
        {"messages"},
        {"documents"},
        {"embeddings"},
        {"search_index"},
        {*CONTEXT.tables},
    ):
        assert any(tables <= found for found in assets), (tables, assets)


def test_a_person_refreshes_now_and_a_source_that_is_missing_fails_alone(
    server: Server, sample: Workspace
):
    docs, aside = sample.folder / "docs", sample.folder / "docs.aside"
    write_mails(sample, "quern-dev.2025-04", 9200, "weir boards")
    docs.rename(aside)
    try:
        begun = server.launch("refresh_now")
        until(lambda: count(sample, "weir boards") == 3, "the mails of the other source", pause=0.5)
        server.rest()
    finally:
        aside.rename(docs)
    (failed,) = [run for run in server.of_refresh(begun) if run["status"] != "SUCCESS"]
    assert failed["status"] == "FAILURE" and failed["assets"] <= set(DOCUMENTS.tables)
    said = server.fault(failed["runId"])
    assert str(docs) in said and "mend" in said
    assert sample.sql("SELECT count(*) > 0 FROM documents WHERE source = 'docs'") == [(True,)]
    assert sample.plan().is_empty, "the source is back as it was"


def test_runs_of_weft_build_are_listed_as_the_others(server: Server, sample: Workspace):
    write_mails(sample, "quern-dev.2025-04", 9300, "otter holts")
    seen = {run["runId"] for run in server.runs()}
    assert weft(sample.folder, "build", "--config", sample.config).code == 0
    own = [run for run in server.runs() if run["runId"] not in seen]
    assert {run["jobName"] for run in own} >= {"mail_partitions", "whole_lake"}
    assert "__ASSET_JOB" not in {run["jobName"] for run in own}
    assert {run["repositoryOrigin"]["repositoryLocationName"] for run in own} == {"weft"}
    assert len({run["tags"]["weft/refresh"] for run in own}) == 1
    server.rest()
    assert len(server.runs()) == len(seen) + len(own)


PICTURES = {"graph": ("/asset-groups", "sources")}
"""By name the pages that the documentation shows, and what each of them shows at last."""


@pytest.mark.parametrize("name", PICTURES)
def test_a_page_is_drawn_for_its_picture(browser: Any, server: Server, name: str):
    path, shown = PICTURES[name]
    browser.goto(at(server, path))
    browser.get_by_text(shown).first.wait_for()
    browser.wait_for_load_state("networkidle")
    assert shoot(browser, name).stat().st_size < 200_000
