"""A client that knows only the topmost `index.json` reads documents over HTTP, from another origin."""

import functools
import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest
from pydantic import ValidationError

from dagster_project.extras.graph.command import graph_app
from dagster_project.extras.graph.exporter import FileGraphExporter
from dagster_project.extras.graph.tests.test_hal_export import tables
from dagster_project.extras.graph.transforms.hal_export import graph_folders
from dagster_project.extras.graph.transforms.settings import GraphSettings
from tests.pages import served
from tests.timing import HUNG
from transforms.errors import IndexUnavailableError

MANUAL = "# Manual\n\nAll of it: ä, ö, ü.\n\n" + "\n\n".join(
    f"## Part {n}\n\n{'text ' * n}{n}." for n in range(1, 10)
)
FILES = {"index.md": "# Start\n\nWelcome.", "guide/Über uns.md": MANUAL}
CHUNK = "/s/index.md/_chunks/index-0.md"
FRIEND = "http://friend.example"
CHROMIUM, NODE = shutil.which("chromium"), shutil.which("node")

CLIENT = """
async function read(root, n) {
  const fetched = async (url, headers) => (await fetch(url, {headers})).json();
  let url = new URL("index.json", root), found = null;
  const todo = [url];
  while (todo.length && !found) {
    url = todo.shift();
    const folder = await fetched(url);
    for (const one of folder._embedded.documents || [])
      if (one.title === "Manual") found = new URL(one._links.self.href, url);
    for (const one of folder._embedded.topics) todo.push(new URL(one._links.self.href, url));
  }
  const [chunks] = Object.values((await fetched(found))._embedded.chunks);
  const order = [chunks.baseline_conceptual, ...chunks.stripe_order].slice(0, n);
  const texts = [];
  for (const index of order)
    texts.push(await (await fetch(new URL(chunks.items[index].href, found))).text());
  const last = new URL(chunks.items[order[0]].href, found);
  const part = await fetch(last, {headers: {Range: "bytes=2-7"}});
  return {order, texts, status: part.status, range: part.headers.get("Content-Range"), part: await part.text()};
}
"""
PAGE = """<!doctype html><meta charset="utf-8"><pre id="out">waiting</pre><script>%s
read(%s, 4).then(r => JSON.stringify(r), e => "failed: " + e)
  .then(text => { document.getElementById("out").textContent = "<" + btoa(encodeURIComponent(text)) + ">"; });
</script>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    exporter = FileGraphExporter(tmp_path_factory.mktemp("served") / "graph")
    exporter.export(graph_folders(tables(FILES), GraphSettings()))
    return exporter.folder


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    """The port of a running server of the graph, which pages of one origin may ask."""
    settings = GraphSettings(origins=(FRIEND,), base_url="https://notes.example.org/graph/")
    with served(graph_app(folder, settings)) as found:
        yield found


def get(port: int, path: str, method: str = "GET", **headers: str) -> tuple[HTTPResponse, bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return asked(port, {"Host": "127.0.0.1:PORT", "Origin": FRIEND, **named}, method, path)


def test_a_file_comes_with_what_caches_and_other_origins_need(port: int, folder: Path):
    answer, body = get(port, CHUNK)
    assert (answer.status, body) == (200, (folder / CHUNK[1:]).read_bytes())
    assert answer.headers["Content-Type"] == "text/markdown; charset=utf-8"
    assert answer.headers["Access-Control-Allow-Origin"] == FRIEND
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "ETag" in answer.headers["Access-Control-Expose-Headers"]
    assert answer.headers["Cache-Control"] == "no-cache"
    assert get(port, "/index.json")[0].headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("path", ["/", "/s", "/s/"])
def test_a_folder_answers_with_its_index(port: int, folder: Path, path: str):
    answer, body = get(port, path)
    assert (answer.status, body) == (200, (folder / path.strip("/") / "index.json").read_bytes())
    assert answer.headers["Content-Type"] == "application/json"


def test_an_unchanged_file_is_not_sent_again(port: int):
    tag = get(port, CHUNK)[0].headers["ETag"]
    answer, body = get(port, CHUNK, If_None_Match=tag)
    assert (answer.status, body) == (304, b"")
    assert answer.headers["Cache-Control"] == "no-cache"
    assert get(port, CHUNK, If_None_Match='"other"')[0].status == 200


@pytest.mark.parametrize(
    ("wanted", "status", "part"),
    [
        ("bytes=0-4", 206, slice(0, 5)),
        ("bytes=2-", 206, slice(2, None)),
        ("bytes=-3", 206, slice(-3, None)),
    ],
)
def test_ranges(port: int, folder: Path, wanted: str, status: int, part: slice):
    answer, body = get(port, CHUNK, Range=wanted)
    assert (answer.status, body) == (status, (folder / CHUNK[1:]).read_bytes()[part])


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/nothing.md", "GET", 404),
        ("/s/nothing/", "GET", 404),
        ("/..%2f.graph.lock", "GET", 404),
        ("/../.graph.lock", "GET", 404),
        ("/index.json", "HEAD", 200),
        ("/index.json", "POST", 405),
    ],
)
def test_nothing_but_files_of_the_graph_is_served(port: int, path: str, method: str, status: int):
    assert get(port, path, method)[0].status == status


def test_another_origin_may_ask_for_ranges(port: int):
    asked = {"Access_Control_Request_Method": "GET", "Access_Control_Request_Headers": "range"}
    answer, _ = get(port, CHUNK, "OPTIONS", **asked)
    assert answer.status == 200
    assert "range" in answer.headers["Access-Control-Allow-Headers"].lower()


def test_nothing_exported_is_an_error_with_the_remedy(tmp_path: Path):
    with pytest.raises(IndexUnavailableError, match="run `weft build`"):
        graph_app(tmp_path, GraphSettings())


@pytest.mark.skipif(NODE is None, reason="no node on this machine")
def test_fetch_reads_a_document_progressively(port: int, folder: Path):
    script = f"{CLIENT}\nread({json.dumps(f'http://127.0.0.1:{port}/')}, 4).then(r => console.log(JSON.stringify(r)));"
    done = subprocess.run(
        [str(NODE), "-e", script], capture_output=True, text=True, timeout=HUNG, check=True
    )
    assert json.loads(done.stdout) == expected_read(folder)


FOREIGN = "http://elsewhere.example"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "127.0.0.1:PORT"}, 200),
        ({"Host": "localhost:PORT", "Origin": FRIEND}, 200),
        ({"Host": "[::1]:PORT", "Origin": "http://[::1]:PORT"}, 200),
        ({"Host": "notes.example.org", "Origin": "https://notes.example.org"}, 200),
        ({"Host": "127.0.0.1:PORT", "Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Host": "rebound.example:PORT"}, 421),
        ({"Host": "127.0.0.1.rebound.example:PORT"}, 421),
        ({"Host": "rebound.example"}, 421),
        ({"Host": "localhost"}, 421),
        ({"Host": "localhost:1"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "rebound.example:PORT", "Origin": "http://rebound.example:PORT"}, 421),
        ({"Host": "127.0.0.1:PORT", "Origin": FOREIGN}, 403),
        ({"Host": "127.0.0.1:PORT", "Origin": "null"}, 403),
        ({"Host": "127.0.0.1:PORT", "Origin": "http://localhost:1"}, 403),
        ({"Host": "127.0.0.1:PORT", "Origin": f"{FRIEND}.elsewhere.example"}, 403),
    ],
    ids=str,
)
def test_only_own_names_and_named_origins_are_answered(
    port: int, headers: dict[str, str], status: int
):
    answer, body = asked(port, headers)
    assert answer.status == status
    assert (b"_embedded" in body) == (status == 200)
    allowed = answer.headers["Access-Control-Allow-Origin"]
    assert allowed == (FRIEND if headers.get("Origin") == FRIEND else None)


def asked(
    port: int, headers: dict[str, str], method: str = "GET", path: str = "/index.json"
) -> tuple[HTTPResponse, bytes]:
    """The answer to a request with these headers alone, `PORT` in them filled in."""
    connection = HTTPConnection("127.0.0.1", port, timeout=HUNG)
    connection.putrequest(method, path, skip_host=True)
    for name, value in headers.items():
        connection.putheader(name, value.replace("PORT", str(port)))
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_by_default_no_page_of_another_origin_may_embed_or_read_a_file(folder: Path, site: str):
    with served(graph_app(folder, GraphSettings())) as port:
        own = {"Host": "127.0.0.1:PORT"}
        for more in ({"Origin": FRIEND}, {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}):
            answer, body = asked(port, own | more)
            assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (403, None)
            assert b"_embedded" not in body
        assert asked(port, own)[0].status == 200


@pytest.mark.parametrize(
    "origin", ["notes.example.org", "https://*.example.org", "https://a.example/b", "https://u:p@a"]
)
def test_what_is_no_origin_is_refused(origin: str):
    with pytest.raises(ValidationError, match="not an origin"):
        GraphSettings(origins=(origin,))


def test_origins_make_no_file_of_the_graph_anew():
    assert GraphSettings(origins=("*",)).digest() == GraphSettings().digest()


@pytest.mark.exhaustive
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
@pytest.mark.parametrize("named", [True, False])
def test_a_browser_reads_a_document_from_a_page_of_a_named_origin_alone(
    folder: Path, tmp_path: Path, named: bool
):
    with (
        pages(tmp_path) as origin,
        served(graph_app(folder, GraphSettings(origins=(origin,) if named else ()))) as port,
    ):
        (tmp_path / "page.html").write_text(
            PAGE % (CLIENT, json.dumps(f"http://127.0.0.1:{port}/"))
        )
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
        ]
        command = [
            str(CHROMIUM),
            *options,
            "--virtual-time-budget=10000",
            "--dump-dom",
            f"{origin}/page.html",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HUNG, check=True)
    said = _decoded(done.stdout)
    if named:
        assert json.loads(said) == expected_read(folder)
    else:
        assert said.startswith("failed: ")


def _decoded(page: str) -> str:
    """The text that the page's script left in it."""
    from base64 import b64decode
    from urllib.parse import unquote

    return unquote(b64decode(page.partition("&lt;")[2].partition("&gt;")[0]).decode())


@contextmanager
def pages(folder: Path) -> Iterator[str]:
    """The origin of a server of the files in a folder."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(HUNG)


def expected_read(folder: Path) -> dict[str, object]:
    """What the client reads: the first four chunks of the stripe, and six bytes of the first."""
    document = folder / "s/guide/Über uns.md"
    (chunks,) = json.loads((document / "index.json").read_text())["_embedded"]["chunks"].values()
    order = [0, *chunks["stripe_order"][:3]]
    texts = [(document / f"_chunks/Über uns-{n}.md").read_text() for n in order]
    first = texts[0].encode()
    part = {"status": 206, "part": first[2:8].decode(), "range": f"bytes 2-7/{len(first)}"}
    return {"order": order, "texts": texts, **part}
