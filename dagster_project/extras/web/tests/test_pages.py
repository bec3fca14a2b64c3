"""The pages of `weft serve` over a small index: search, reading, JSON, feed, and who may ask."""

import base64
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import duckdb
import jsonschema
import pytest
from starlette.testclient import TestClient

from dagster_project.composition.stores import make_ledger
from dagster_project.evaluation.evaluator import write_report
from dagster_project.extras.web.app import web_app
from dagster_project.extras.web.facets import histogram
from dagster_project.extras.web.question import page_of, question_of
from dagster_project.extras.web.results import WARNINGS
from dagster_project.extras.web.site import Site
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.ledger.ledger import Row
from dagster_project.outgoing.receipts import Receipts
from dagster_project.system.locks import only_build
from tests.archives import Workspace
from tests.pages import BROWSED, PageClient, pages
from tests.timing import HUNG
from transforms.errors import SettingsError
from transforms.evaluation.quality import MAIN
from transforms.evaluation.report import FORMAT
from transforms.retrieval.query_language import CONDITIONS
from transforms.settings.search import LensSettings

LISTS = ["threads", "unanswered", "files", "folders", "days", "notes", "today"]
BASE = "http://127.0.0.1:8320"
TOKEN = "a-token-of-some-length"
SEARCH_TOOL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "search", "arguments": {"query": "compactor"}},
}


@pytest.fixture(scope="module")
def web(built_once: Workspace) -> Iterator[TestClient]:
    with pages(built_once.settings) as opened:
        yield opened


def links(html: str, pattern: str) -> list[str]:
    return [
        a.replace("&amp;", "&")
        for a in re.findall(r'href="([^"]*)"', html)
        if re.search(pattern, a)
    ]


@pytest.mark.exhaustive
def test_hits_stand_in_threads_with_marks_and_lead_to_their_bytes(
    web: TestClient, built_once: Workspace
):
    page = web.get("/", params={"q": "compactor pace"})
    assert "<mark>compactor</mark>" in page.text and "Whole thread (6)" in page.text
    assert page.text.count('class="group"') < page.text.count(
        "data-item"
    )  # several hits in one thread
    address = links(page.text, r"^/m/.*bytes=")[0]
    mail = web.get(address.partition("#")[0])
    cited = "".join(re.findall(r"<mark[^>]*>(.*?)</mark>", mail.text, re.DOTALL))
    start, end = map(int, re.findall(r"bytes=(\d+)-(\d+)", address)[0])
    message_id = re.findall(r"^/m/([^?]*)", address)[0].replace("%40", "@")
    (body,) = built_once.column(f"SELECT body FROM messages WHERE message_id = '{message_id}'")
    assert cited == body.encode()[start:end].decode().rstrip() and 'id="cited"' in mail.text


def test_programs_rank_as_the_command_does_and_are_refused_what_is_not_given(web: TestClient):
    def threads(**options: str) -> list[str]:
        answer = web.get("/api/search", params={"q": "compactor pace", **options})
        return [hit["thread_id"] for hit in answer.json()["hits"]]

    as_set, once = threads(), threads(threads="1")
    assert len(as_set) > len(set(as_set)) and len(once) == len(set(once))
    refused = [
        ("search?q=a&diversity=2", "diversity"),
        ("search?q=a&sinse=2004", "/api/search has no parameter 'sinse'; it takes "),
        ("sources?lens=x", "/api/sources has no parameter 'lens'; it takes none"),
        ("search?q=a&profile=nobodys", "nobodys"),
        ("search?q=compactor&limit=51", "limit is 51, and this server gives 50"),
        ("get?id=m0@example.org&max_characters=100001", "max_characters is 100001"),
        ("thread?id=m0@example.org&limit=501", "limit is 501, and this server gives 500"),
    ]
    for address, name in refused:
        answer = web.get(f"/api/{address}")
        assert answer.status_code == 400 and name in answer.json()["error"], address


def test_facets_count_and_lead_to_filters_and_back(web: TestClient):
    page = web.get("/", params={"q": "d:2004"}).text
    counted = dict(
        re.findall(r"<span>(dev|users)</span> <span class=\"number\">(\d+)</span>", page)
    )
    assert set(counted) == {"dev", "users"}
    (chosen,) = links(page, r"source=users")
    narrowed = web.get(chosen).text
    for name, value in (("list", "dev"), ("from", "ada@example.org")):
        assert f"{name}: {value}" in web.get("/", params={"q": "compactor", name: value}).text
    assert links(narrowed, r"^/\?q=d%3A2004$") and 'class="is-chosen"' in narrowed


@pytest.mark.parametrize(
    ("last", "count", "label", "address"),
    [
        (
            datetime(2019, 5, 9, tzinfo=UTC),
            3,
            "7 May 2019",
            "/?q=wal&since=2019-05-07&until=2019-05-07",
        ),
        (
            datetime(2020, 5, 9, tzinfo=UTC),
            13,
            "May 2019",
            "/?q=wal&since=2019-05-01&until=2019-05-31",
        ),
        (datetime(2026, 1, 1, tzinfo=UTC), 8, "2019", "/?q=wal&since=2019-01-01&until=2019-12-31"),
    ],
)
def test_a_histogram_leads_to_spans_of_time(last: datetime, count: int, label: str, address: str):
    first = datetime(2019, 5, 7, 23, tzinfo=UTC)
    bars = histogram({first.date(): 2, last.date(): 1}, question_of({"q": "wal"}))
    assert len(bars) == count
    assert (bars[0].label, bars[0].count, bars[0].share, bars[0].address) == (
        label,
        2,
        1.0,
        address,
    )
    assert bars[-1].count == 1


@pytest.mark.parametrize("query", ["d:2025-05..", "torn+WAL+records"])
def test_pages_are_full_and_show_as_many_threads_as_they_say(shipped: Workspace, query: str):
    page, boxes, sizes = f"/?q={query}", list[str](), list[int]()
    with pages(shipped.settings) as web:
        while page:
            shown = web.get(page).text
            count = re.search(
                r'class="soft count">(?:about )?([\d,]+)(?: in ([\d,]+) thread)?', shown
            )
            of_page = re.findall(r'<h2>\s*<a data-item href="([^"]*)"', shown)
            boxes += of_page
            sizes.append(len(of_page))
            assert ('rel="prev"' in shown) == (len(sizes) > 1)
            (page,) = links(shown, rf"start={len(boxes)}$") if 'rel="next"' in shown else [""]
    assert count is not None
    assert len(boxes) == len(set(boxes)) == int((count[2] or count[1]).replace(",", ""))
    assert set(sizes[:-1]) <= {15} and 0 < sizes[-1] <= 15


def test_hits_are_sorted_by_date(web: TestClient):
    by_date, by_score = (
        re.findall(
            r'<time datetime="([^"]*T[^"]*)">',
            web.get(f"/?q=compactor{more}").text.partition("<footer")[0],
        )
        for more in ("&by_date=1", "")
    )
    assert len(by_date) > 3 and by_date == sorted(by_score, reverse=True) != by_score


@pytest.mark.parametrize(
    ("address", "status", "state"),
    [
        ('/?q="open', 400, "QUERY"),
        ("/?q=f", 200, None),
        ("/?kind=horse", 400, "QUERY"),
        ("/?since=yesterday", 400, "QUERY"),
        ("/?l=x&q=l:nowhere", 400, "QUERY"),
        ("/m/none@example.org", 404, "UNKNOWN_ID"),
        ("/t/none", 404, "UNKNOWN_ID"),
        ("/a/none", 404, "UNKNOWN_ID"),
        ("/d/none", 404, "UNKNOWN_ID"),
        ("/c/none", 404, "UNKNOWN_ID"),
        ("/series/none", 404, "UNKNOWN_ID"),
        ("/diff?from=a&to=b", 404, "UNKNOWN_ID"),
        ("/nowhere", 404, "UNKNOWN_ID"),
        ("/m/m0@example.org?bytes=x", 400, "QUERY"),
        ("/why", 400, "QUERY"),
        ("/feed", 400, "QUERY"),
        ("/?q=%00%EF%BF%BF%F0%9F%98%80&start=99999999", 200, None),
        ("/?q=" + "a" * 20_001, 400, "QUERY"),
        ("/m/m0@example.org?bytes=5-99999", 200, None),
        ("/m/m0@example.org?bytes=99998-99999", 200, None),
        ("/open", 400, "QUERY"),
        ("/verify?id=", 200, None),
        ("/t/" + "%2e%2e%2f" * 5 + "etc/passwd", 404, "UNKNOWN_ID"),
        ("/static/../app.py", 404, "UNKNOWN_ID"),
        ("/browse?view=x", 400, "QUERY"),
        *(
            (f"{path}{asked}", 200, None)
            for path in BROWSED
            for asked in ("", "&q=kiln", "&source=dev&page=1")
        ),
    ],
)
def test_every_address_has_an_answer(web: TestClient, address: str, status: int, state: str | None):
    page = web.get(address)
    assert page.status_code == status
    assert (f'data-state="{state}"' in page.text) == (state is not None)
    # Words that are syntax can be asked for plainly; another fault would stay.
    assert ("Search for it as plain text" in page.text) == (
        address in ('/?q="open', "/?l=x&q=l:nowhere")
    )


def test_nothing_found_says_so_and_what_is_not_near_is_shown_when_asked_for(web: TestClient):
    page = web.get("/", params={"q": '"no such words at all"', "source": "dev"}).text
    assert "Nothing found" in page and "Search without source: dev" in page
    page = web.get("/", params={"q": "compactr xylophone"}).text
    assert (
        "No text is near to this query" in page
        and 'class="group"' not in page
        and "Time</h2>" not in page
    )
    assert "Did you mean" not in page
    (weaker,) = links(page, "weak=1")
    shown = web.get(weaker).text
    assert 'class="group"' in shown and "Nothing is near to this query" in shown
    page = web.get("/", params={"q": "garbagx colector"}).text
    assert "garbage collector</a>?" in re.findall(r"Did you mean(.*?)</p>", page, re.S)[0]


@pytest.mark.parametrize("query", ["compactor pace", "compactor xylophone", "xqzt wvvb kkpl"])
def test_the_page_warns_as_the_label_for_programs_says(web: TestClient, query: str):
    asked = (web.get("/api/search", params={"q": query, "limit": n}).json() for n in (1, 3, 10, 50))
    (label,) = {answer["label"] for answer in asked}
    page = web.get("/", params={"q": query, "weak": "1"}).text
    warned = {name for name, warning in WARNINGS.items() if warning in page}
    assert warned == {label} - {"PASS"}


def test_a_search_ranks_once(web: TestClient, monkeypatch: pytest.MonkeyPatch):
    rank, ranked = SearchIndex.of_batch, list[str]()

    def noted(self: SearchIndex, batch: Any, *options: Any) -> Any:
        ranked.extend(batch.queries)
        return rank(self, batch, *options)

    monkeypatch.setattr(SearchIndex, "of_batch", noted)
    assert "Whole thread" in web.get("/", params={"q": "compactor pace"}).text
    assert ranked.count("compactor pace") == 1


def test_each_thread_of_the_sample_has_its_page(shipped: Workspace):
    with pages(shipped.settings) as web:
        threads = shipped.column("SELECT thread_id FROM threads")
        assert [t for t in threads if web.get(f"/t/{t}").status_code != 200] == []


def test_a_thread_is_read_flat_and_as_a_tree(web: TestClient, built_once: Workspace):
    (thread,) = built_once.column(
        "SELECT thread_id FROM thread_tree WHERE message_id = 'm0@example.org'"
    )
    flat, tree = web.get(f"/t/{thread}").text, web.get(f"/t/{thread}?view=tree").text
    assert flat.count('class="mail in-thread"') == tree.count("data-item") == 6
    assert "How does the compactor behave" in flat and "How does the compactor behave" not in tree
    whole = web.get(f"/t/{thread}?view=open").text
    assert flat.count('<details class="whole" open') == 1
    assert whole.count('<details class="whole" open') == whole.count('<details class="whole"') == 6
    mail = web.get("/m/m3@example.org").text
    assert links(mail, r"^/m/m2%40example.org$") and links(mail, r"^/m/m4%40example.org$")
    assert 'aria-current="true"' in mail
    raw = web.get("/raw/m3@example.org")
    assert raw.text == "The compactor was measured in run 3; it keeps its pace.\n"
    assert raw.text.strip() in tree
    for address in ("/raw/m3@example.org", f"/mbox/{thread}"):
        known = {"If-None-Match": web.get(address).headers["etag"]}
        assert (again := web.get(address, headers=known)).status_code == 304 and not again.content
        assert web.get(address, headers={"If-None-Match": '"other"'}).status_code == 200


def test_a_thread_that_a_search_leads_to_shows_the_passages_for_it(web: TestClient):
    page = web.get("/", params={"q": "compactor pace"}).text
    address = next(a for a in links(page, "^/t/") if "q=compactor" in a)
    thread = web.get(address).text
    (card,) = re.findall(r'<section class="card".*?</section>', thread, re.DOTALL)
    assert 1 <= card.count("<li>") <= 3 and "<mark>compactor</mark>" in card
    shown = [web.get(a.partition("#")[0]) for a in links(card, "bytes=")]
    assert shown and all('id="cited"' in mail.text for mail in shown)
    answer = web.get("/api/thread", params={"id": "m0@example.org", "q": "compactor pace"}).json()
    assert len(answer["evidence"]) == card.count("<li>")
    for question in ("", "d:2004", '"unfinished', "no such word anywhere"):
        assert (
            'class="card"' not in web.get(address.partition("?")[0], params={"q": question}).text
        ), question


def test_a_long_thread_has_pages(web: TestClient):
    def page(**parameters: int) -> tuple[list[str], int | None]:
        answer = web.get("/api/thread", params={"id": "m0@example.org", **parameters}).json()
        return [mail["message_id"] for mail in answer["messages"]], answer["next"]

    every, end = page()
    assert len(every) == 6 and end is None
    assert page(limit=4) == (every[:4], 4) and page(start=4, limit=4) == (every[4:], None)
    assert page(limit=6) == (every, None) and page(start=6) == ([], None)
    assert web.get("/api/thread?id=m0@example.org&start=x").status_code == 400


def test_a_citation_opens_its_page_and_an_id_may_have_odd_letters(web: TestClient):
    citation = web.get("/api/search", params={"q": "compactor"}).json()["hits"][0]["citation"]
    answer = web.get("/open", params={"id": citation}, follow_redirects=False)
    assert answer.status_code == 302
    assert answer.headers["location"].endswith(f"?bytes={citation.rpartition(' ')[2]}#cited")
    odd = 'a/b?c=d#e%2F&"<>@x'
    assert page_of("message", odd) == "/m/" + quote(odd, safe="")
    assert "There is no page at this address" not in web.get("/d/notes%3Aa%0Ab.md").text


def test_a_citation_is_verified_in_its_source(web: TestClient, built_once: Workspace):
    pytest.importorskip(
        "dagster_project.extras.proof.command", reason="the extra `proof` is not there"
    )
    way = links(web.get("/", params={"q": "compactor"}).text, "^/verify")[0]
    page = web.get(way).text
    assert all(f"<td>{state}</td>" in page for state in ("proved", "unchanged since read"))
    assert "<td>differs</td>" in web.get(way[:-1] + ("1" if way[-1] == "0" else "0")).text


def test_why_shows_every_stage_and_the_way_of_one_id(web: TestClient):
    asked, lifted = (
        {"q": "the compactor on 5 January 2004"},
        "5 January 2004 counts more, as you named it.",
    )
    page = web.get("/why", params=asked | {"id": "m0@example.org"}).text
    assert (
        lifted in page
        and lifted in web.get("/", params=asked).text
        and re.search("hit [123]", page)
    )
    for stage in ("lexical", "vector", "fused", "documents", "final"):
        assert f'<th scope="row">{stage}</th>' in page
    found = web.get("/", params={"q": '"compactor', "plain": "1"}).text
    assert 'class="bar"' in page and web.get(links(found, "/why")[0]).status_code == 200


def test_the_start_page_says_what_there_is_and_the_corpus_has_plots_and_sources(web: TestClient):
    page = web.get("/").text
    assert "<strong>21</strong> mails" in page and links(page, "^/t/")
    page = web.get("/corpus").text
    assert "January 2004: 21 mails" in page
    assert page.count('class="column"') == len(links(page.partition("Sources")[0], "since="))
    assert ">users</a></th><td>message</td>" in page
    assert "ada@example.org" in page and "last evaluation" not in page


def test_browse_opens_on_the_first_list_with_anything_and_hides_the_others(
    web: TestClient, workspace: Workspace
):
    page = web.get("/browse").text
    assert "<h1>Threads</h1>" in page
    assert {name for name in LISTS if f"view={name}" in page} == {"threads"}
    assert "There is nothing of this kind" in web.get("/browse?view=notes").text
    workspace.put("notes/Kiln.md", "# Kiln\n\nGlows at night, see [[Glaze]].\n")
    workspace.configure({"name": "notes", "kind": "vault", "path": "notes"}).build()
    with pages(workspace.settings) as vault:
        page = vault.get("/browse").text
        assert "<h1>By folder</h1>" in page and "view=threads" not in page
        start = vault.get("/").text
        assert "<strong>1</strong> document." in start and "author" not in start
        examples = links(start, r"^/\?q=")
        assert "/?q=s%3A%22Kiln%22" in examples
        for address in examples:
            assert "Nothing found" not in vault.get(address).text, address


def test_a_lens_that_bounds_sessions_is_refused(built_once: Workspace):
    few = LensSettings(where="source:dev", passages=2, tokens=60, share=0.5)
    changed = built_once.settings.model_copy(update={"lenses": {"few": few}})
    with pytest.raises(SettingsError, match="pages have no sessions"):
        web_app(changed, lens="few")


def test_the_corpus_shows_the_last_evaluation_but_under_no_lens(built: Workspace):
    main_row = dict(zip(("stage", "level"), MAIN, strict=True)) | {
        "tag": None,
        "profile": "default",
    }
    report = {
        "format": FORMAT,
        "order": ["default"],
        "queries": [{}, {}, {}],
        "index": {"version": "an-old-one"},
        "timing": {"made_at": "2026-01-02T03:04:05+00:00"},
        "summary": [main_row | {"measure": "MRR@10", "mean": 0.875, "low": 0.75, "high": 1.0}],
    }
    write_report(report, built.settings.root / "eval", "first", page=False)
    with pages(built.settings) as opened:
        page = opened.get("/corpus").text
        write_report(report | {"format": -1}, built.settings.root / "eval", "newer", page=False)
        assert "last evaluation" not in opened.get("/corpus").text
    found = re.search(r"MRR@10</th><td>.*0\.875</td>", page)
    assert found and "3 queries" in page and "of version an-old-one" in page
    built.config.write_text(built.config.read_text() + '\n[lenses.some]\nwhere = "source:dev"\n')
    assert Site(built.settings, lens="some").reports is None


def test_help_lists_all_fields_with_examples_of_the_index_that_find_something(web: TestClient):
    page = web.get("/help").text
    names = set(
        re.findall(r"([a-z_]+):", " ".join(re.findall(r"<tr><td><code>([^<]*)</code>", page)))
    )
    assert set(CONDITIONS) <= names
    for address in links(page, r"^/\?q=(?:from|to|list|d|tag|type|path|source|kind)%3A"):
        assert "Nothing found" not in web.get(address).text, address
    assert len(links(page, r"^/\?q=(?:from|list|d|source|kind)%3A")) == 5


def test_a_feed_has_the_newest_first(web: TestClient):
    answer = web.get("/feed", params={"q": "d:2004 compactor"})
    assert answer.headers["content-type"].startswith("application/atom+xml")
    root, atom = ElementTree.fromstring(answer.content), "{http://www.w3.org/2005/Atom}"
    updated = [entry.findtext(f"{atom}updated") for entry in root.iter(f"{atom}entry")]
    assert updated == sorted(updated, reverse=True) and len(updated) > 3
    for entry in root.iter(f"{atom}entry"):
        author, link = entry.find(f"{atom}author/{atom}name"), entry.find(f"{atom}link")
        assert None not in (author, link) and link.get("href", "").startswith(f"{BASE}/m/")  # type: ignore[union-attr]


def test_json_is_as_its_description_says(web: TestClient, built_once: Workspace):
    description = web.get("/openapi.json").json()
    questions = {
        "/api/search": {
            "q": "compactor",
            "limit": "3",
            "source": "dev",
            "expand": "parent",
            "strict": "1",
        },
        "/api/ask": {"q": "compactor", "source": "dev"},
        "/api/get": {"id": "m0@example.org", "byte_start": "4", "max_characters": "10"},
        "/api/context": {"text": "How fast is the compactor?"},
        "/api/thread": {"id": "<m2@example.org>", "q": "compactor"},
        "/api/sources": {},
    }
    assert set(description["paths"]) == set(questions)
    for path, parameters in questions.items():
        operation = description["paths"][path]["get"]
        assert set(parameters) <= {p["name"] for p in operation["parameters"]}
        answer = web.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        fault = web.get(path, params={"limit": "x", "byte_start": "x", "id": ""}).json()
        contents = {"200": answer.json()} | ({} if path == "/api/sources" else {"default": fault})
        for name, content in contents.items():
            schema = operation["responses"][name]["content"]["application/json"]["schema"]
            jsonschema.validate(content, {**schema, "components": description["components"]})
    posted = web.post("/api/context", json={"text": "compactor " * 5_000, "budget_tokens": 100})
    assert posted.json()["tokens"] <= 100
    assert web.get("/api/get", params=questions["/api/get"]).json()["text"] == "does the c"


def test_a_client_is_generated_from_the_description(web: TestClient, tmp_path: Path):
    (tmp_path / "openapi.json").write_text(web.get("/openapi.json").text)
    (tmp_path / "config.yaml").write_text("post_hooks: []\n")
    generator = Path(sys.executable).with_name("openapi-python-client")
    options = "generate --path openapi.json --output-path made --config config.yaml --meta none --fail-on-warning"
    subprocess.run([generator, *options.split()], cwd=tmp_path, check=True)
    calls = {file.stem for file in (tmp_path / "made" / "api" / "default").glob("[a-z]*.py")}
    assert calls == {"search", "ask", "get", "context", "post_context", "thread", "sources"}


def test_nothing_is_written_and_a_long_request_is_refused(web: TestClient):
    assert {
        web.request(method, "/").status_code for method in ("PUT", "DELETE", "PATCH", "POST")
    } == {405}
    assert web.post("/api/context", content=b"x" * 4_000_001).status_code == 413


def test_pages_let_a_browser_run_nothing_but_their_own_files(web: TestClient):
    mails = (f"/{page}/m0@example.org" for page in ("m", "raw", "original"))
    for address in ("/", "/?q=compactor", "/help", "/corpus", "/nowhere", *mails):
        page = web.get(address)
        policy = page.headers["content-security-policy"]
        assert all(f"{part} 'none'" in policy for part in ("default-src", "frame-ancestors"))
        assert "unsafe" not in policy and page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "same-origin"
        assert not re.search(r"\sstyle=|<style|\son[a-z]+=|<script(?! src=\"/static/)", page.text)
        assert not re.search(r'(?:src|href)="(?:https?:)?//', page.text)


def test_a_token_opens_the_pages(built_once: Workspace):
    with pages(built_once.settings, token=TOKEN, hosts={"search.example.org"}) as web:
        refused = web.get("/", headers={"Host": "search.example.org"})
        assert refused.status_code == 401 and refused.headers["www-authenticate"].startswith(
            "Basic"
        )
        for value in (
            f"Bearer {TOKEN}",
            f"Basic {base64.b64encode(f'me:{TOKEN}'.encode()).decode()}",
        ):
            assert web.get("/", headers={"Authorization": value}).status_code == 200
        for value in ("Bearer x", "Bearer", "Basic !", "Basic bWU6", "Digest x"):
            for path in ("/", "/static/weft.css", "/api/sources"):
                assert web.get(path, headers={"Authorization": value}).status_code == 401


def test_each_token_shows_what_its_lens_does_until_it_is_revoked_or_ends(built: Workspace):
    lenses = '\n[lenses]\ndev.where = "source:dev"\nnone.where = "f:nobody"\n'
    built.config.write_text(built.config.read_text() + lenses)

    def tokens(*arguments: str) -> str:
        return built.weft("serve", "tokens", *arguments).output

    with pages(built.settings) as web:
        assert web.get("/api/sources").is_success
        secrets = {
            n: tokens("new", n, "--lens", n, "--until", "2999-01-01").strip()
            for n in ("dev", "none")
        }
        asked = [("dev", True), ("none", False), ("dev", True), ("lost", None)]
        for name, found in asked:
            bearer = {"Authorization": f"Bearer {secrets.get(name)}"}
            said = web.get("/api/search?q=compactor", headers=bearer)
            assert (bool(said.json()["hits"]) if said.is_success else None) is found
            headers = bearer | {"Accept": "application/json, text/event-stream"}
            tool = web.post("/mcp", json=SEARCH_TOOL, headers=headers)
            hits = tool.json()["result"]["structuredContent"]["hits"] if tool.is_success else None
            assert (hits if hits is None else bool(hits)) is found
        assert web.post("/mcp", json=SEARCH_TOOL).status_code == 401
        assert web.get("/api/sources").status_code == 401
        receipts = [r for r in Receipts(built.settings.root).read() if "asker" in r]
        assert [(r["asker"], r["lens"]) for r in receipts] == [
            (n, n) for n, _ in asked[:3] for _ in "12"
        ]
        assert not any(secret in tokens() for secret in secrets.values())
        assert "dev  lens: dev  until 2999" in tokens() and tokens().count("  used 2") == 2
        for header, peer, names, status in (
            ("X-Person", "127.0.0.1", "dev", 200),
            ("X-Person=10.0.0.7", "10.0.0.7", "dev", 200),
            ("X-Person", "127.0.0.1", "lost", 401),
            ("X-Person", "10.0.0.7", "dev", 401),
            ("", "127.0.0.1", "dev", 401),
            ("X-Person=10.0.0.7", "127.0.0.1", "dev", 401),
            ("X-Person", "127.0.0.1", ("dev", "none"), 401),
        ):
            by_proxy = PageClient(
                web_app(built.settings, person_header=header), BASE, client=(peer, 1)
            )
            sent = [("X-Person", name) for name in ([names] if isinstance(names, str) else names)]
            assert by_proxy.get("/api/sources", headers=sent).status_code == status, (
                header,
                peer,
                names,
            )
        for file in (built.settings.root / "tokens").iterdir():
            text = file.read_text()
            assert file.stat().st_mode & 0o077 == 0 and not any(s in text for s in secrets.values())
            file.write_text(text.replace("2999", "1999" if "none" in text else "2999"))
        tokens("revoke", "dev")
        for secret in secrets.values():
            refused = web.get("/", headers={"Authorization": f"Bearer {secret}"})
            assert refused.status_code == 401 and "weft serve tokens new" in refused.text
    assert all("is not a name" in tokens("new", name) for name in (".", "..", "@.+", "a b"))
    assert "has a token" in tokens("new", "none") and "nobody named" in tokens("revoke", "dev")


@pytest.mark.parametrize(
    ("arguments", "token", "message"),
    [
        (["--host", "0.0.0.0"], None, "set a token in WEFT_SERVE_TOKEN"),
        ([], "short", "at least 16 are needed"),
        (["--name", "search.example.org"], None, "set a token in WEFT_SERVE_TOKEN"),
    ],
)
def test_hosts_need_a_token(
    built_once: Workspace, arguments: list[str], token: str | None, message: str
):
    with socket.create_server(("127.0.0.1", 0)) as taken:  # which ends the command, should it go on
        port = str(taken.getsockname()[1])
        said = built_once.weft("serve", "--port", port, *arguments, env={"WEFT_SERVE_TOKEN": token})
    assert said.exit_code == 2 and message in said.output


def test_a_raw_mail_is_saved_as_its_source_holds_it_if_that_is_there(built_once: Workspace):
    with pages(built_once.settings) as web:
        assert "/original/m3%40example.org" in web.get("/m/m3@example.org").text
        raw = web.get("/original/m3%40example.org")
        assert raw.headers["content-type"].startswith("text/plain")
        assert (
            raw.headers["content-disposition"]
            == "attachment; filename*=utf-8''m3%40example.org.eml"
        )
        assert "Message-ID: <m3@example.org>" in raw.text and "measured in run 3" in raw.text
        assert web.get("/original/nobody@example.org").status_code == 404
    with PageClient(
        web_app(built_once.settings.model_copy(update={"sources": ()})), base_url=BASE
    ) as web:
        page = web.get("/original/m3@example.org")
        assert page.status_code == 404 and 'data-state="NOT_AT_SOURCE"' in page.text


def test_states_are_told_apart(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    with pages(workspace.settings) as web:
        assert (web.get("/?q=a").status_code, "There is no index yet" in web.get("/?q=a").text) == (
            503,
            True,
        )
        with only_build(workspace.settings.root):
            page = web.get("/")
            assert (
                page.status_code == 503 and "being built" in page.text and "http-equiv" in page.text
            )
        assert web.get("/help").status_code == 200
        assert web.get("/api/search?q=a").json()["kind"] == "NO_INDEX"


def test_another_model_and_a_running_build_are_said(built: Workspace):
    with pages(built.settings) as web:
        with only_build(built.settings.root):
            assert "A build is running" in web.get("/").text
        changed: dict[Row, Row] = {("dev/2004-01",): ("", "2999-01-01T00:00:00+00:00")}
        make_ledger(built.settings).record("changes", changed)
        assert "does not show that yet" in web.get("/").text
    with duckdb.connect(str((built.index / "CURRENT").resolve())) as connection:
        connection.execute("UPDATE manifest SET value = 'another' WHERE key = 'model'")
    with pages(built.settings) as web:
        assert 'data-state="MODEL_MISMATCH"' in web.get("/").text


def test_a_slow_question_holds_no_other(built_once: Workspace, monkeypatch: pytest.MonkeyPatch):
    plain, asked, let_go = SearchIndex.ranked, threading.Event(), threading.Event()

    def slow(self: SearchIndex, queries: list, *arguments: object, **named: object) -> object:
        if "molasses" in str(queries[0]):
            asked.set()
            let_go.wait(HUNG)
        return plain(self, queries, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(SearchIndex, "ranked", slow)
    with pages(built_once.settings, seconds=HUNG) as web, ThreadPoolExecutor(1) as threads:
        late = threads.submit(web.get, "/?q=molasses")
        assert asked.wait(HUNG)
        assert web.get("/?q=compactor").status_code == 200
        assert not late.done()
        let_go.set()
        assert late.result().status_code == 200
    let_go.clear()
    with pages(built_once.settings, seconds=0.2) as web:
        page = web.get("/?q=molasses")
        assert page.status_code == 504 and 'data-state="TIMED_OUT"' in page.text
        while (busy := web.get("/api/search?q=molasses")).status_code == 504:
            pass
        assert (busy.status_code, busy.json()["kind"]) == (503, "BUSY") and busy.headers[
            "retry-after"
        ] == "5"
        let_go.set()
        while web.get("/?q=compactor").status_code != 200:
            pass


def test_what_a_question_was_read_as_is_undone_with_one_click(web: TestClient):
    page = web.get("/", params={"q": "compactor in January 2004"}).text
    (address,) = links(page, "plain=1")
    assert (
        "January 2004 counts more, as you named it." in page and "Take all of it as words" in page
    )
    assert "counts more" not in web.get(address).text


def test_the_parts_of_an_aggregated_section_can_be_opened_on_the_page(work: Workspace):
    """Two of two sections match, so that their page stands for both (ra, `constituents`)."""
    work.configure({"name": "notes", "kind": "vault", "path": "notes"})
    work.config.write_text(f'design = "ra"\n{work.config.read_text()}')
    work.put(
        "notes/Login.md", "# Login\n\n## Tokens\n\nAn heron token.\n\n## Keys\n\nAn heron key.\n"
    )
    work.put("notes/Other.md", "# Other\n\nNothing of that kind is on this page.\n")
    work.build()
    with pages(work.settings) as client:
        page = client.get("/", params={"q": "heron"}).text
        also = re.findall(r'<span>also</span> ?<a href="([^"]*)">([^<]*)</a>', page)
        assert [title for _, title in also] in (["Login › Keys"], ["Login › Tokens"])
        part = client.get(also[0][0].replace("&amp;", "&"))
        assert part.status_code == 200
        assert ("heron key" if "Keys" in also[0][1] else "heron token") in part.text
