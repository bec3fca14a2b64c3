"""People search and read in Chromium: on a desk and on a phone, with and without JavaScript;
hostile mails stay inert.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dagster_project.extras.web.app import web_app
from dagster_project.extras.web.tests.test_files import TRACKED, picture, sent
from dagster_project.extras.web.tests.test_texts import HOSTILE
from tests.archives import Mail, Workspace, mbox
from tests.format_files import page_of, pdf
from tests.pages import BROWSED, served, shoot
from tests.timing import HUNG

# What the pages show is built before Chromium starts, whose event loop would be met by that of a
# build.
pytestmark = [pytest.mark.exhaustive, pytest.mark.usefixtures("base")]

DESK, PHONE = {"width": 1400, "height": 950}, {"width": 390, "height": 844}
LONGEST = "SELECT thread_id FROM threads ORDER BY message_count DESC, thread_id LIMIT 3"
QUERY = "torn WAL records after a power cut"
NEW = """\
A gauge that loses power between two records leaves a torn one behind.
Recovery then ends at it, and a day of rain is gone.

Write the checksum of each record before its length, and flush both.

Signed-off-by: Ada <ada@example.org>
---
diff --git a/src/wal.c b/src/wal.c
--- a/src/wal.c
+++ b/src/wal.c
@@ -41,6 +41,9 @@ int append(struct wal *wal, struct record *record)
 {
    if (wal->is_full)
        return -ENOSPC;
+    record->sum = crc32(record->bytes, record->count);
+    write_all(wal->file, &record->sum, sizeof(record->sum));
     write_all(wal->file, &record->count, sizeof(record->count));
-    return write_all(wal->file, record->bytes, record->count);
+    write_all(wal->file, record->bytes, record->count);
+    return flush(wal->file);
 }
"""
MANUAL = pdf(
    [
        page_of("Quern gauges: a manual", "A gauge writes one record each minute.", number=1),
        page_of(
            "After a power cut",
            "Recovery reads the log up to the first torn record,",
            "and cuts the rest off.",
            number=2,
        ),
    ]
)


@pytest.fixture(scope="module")
def sample(shipped: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The sample with mails and a document of somebody who means harm, a patch in two versions, and
    a PDF.
    """
    work = shipped.copied(tmp_path_factory.mktemp("web") / "work")
    folder = work.folder
    hostile = [
        Mail(
            600 + n,
            f"zebra {text}\n\n> quoted {text}\n> second\n> third\n\n{text}",
            f"zebra {text}".split("\n")[0],
        )
        for n, text in enumerate(HOSTILE)
    ]
    first, title = (
        NEW.replace("flush(", "fsync(").replace(", and flush both", ""),
        "wal: find torn records by a checksum",
    )
    review = "This mends my gauge.\n\nReviewed-by: Bo <bo@example.org>\n"
    given = Mail(503, review, f"Re: [PATCH] {title}", reply_to=501)
    patches = [Mail(501, first, f"[PATCH] {title}"), given, Mail(502, NEW, f"[PATCH v2] {title}")]
    with next(folder.glob("quern-dev/quern-dev.2025-05*")).open("ab") as archive:
        archive.write(b"\n" + mbox([*hostile, *patches]))
        archive.write(b"From eve@example.org Mon Apr  1 10:00:00 2024\n" + sent() + b"\n")
    work.put("docs/manual.pdf", "").write_bytes(MANUAL)
    work.put("docs/zebra.md", "# Zebra\n\n" + "\n\n".join(HOSTILE))
    work.build()
    return work


@pytest.fixture(scope="module")
def base(sample: Workspace) -> Iterator[str]:
    with served(web_app(sample.settings)) as port:
        yield f"http://127.0.0.1:{port}"


# Words of htmx on a request that it ends, since another one came.
_GIVEN_UP = ("htmx:afterRequest", "htmx:sendAbort")


@contextmanager
def opened(
    chromium: Any,
    base: str,
    *,
    size: dict[str, int] = DESK,
    script: bool = True,
    dark: bool = False,
) -> Iterator[Any]:
    """A page that asks no other host, shows no dialog, and whose console stays empty."""
    context = chromium.new_context(
        viewport=size,
        java_script_enabled=script,
        color_scheme="dark" if dark else "light",
        base_url=base,
    )
    page = context.new_page()
    page.set_default_timeout(HUNG * 1000)
    asked, said, dialogs = [], [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    yield page
    context.close()
    assert [url for url in asked if not url.startswith(base)] == []
    assert [text for text in said if not text.startswith(_GIVEN_UP)] == []
    assert dialogs == []


def fits(page: Any) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_search_filter_open_and_fold(chromium: Any, base: str, size: dict[str, int], script: bool):
    with opened(chromium, base, size=size, script=script) as page:
        page.goto("/")
        page.fill("#q", QUERY)
        page.press("#q", "Enter")
        page.wait_for_url("**/?q=torn**")
        assert page.locator(".group").count() >= 3
        assert page.locator(".snippet mark").count() > 3
        page.locator(".facet a", has_text="quern-users").first.click()
        page.wait_for_url("**source=quern-users**")
        assert page.locator(".chip").inner_text().startswith("source: quern-users")
        page.locator(".why summary").first.click()
        assert page.locator(".why table .bar").first.is_visible()
        page.locator(".group h2 a").first.click()
        page.wait_for_url("**bytes=**")
        assert page.locator("mark#cited").is_visible()
        page.locator("aside h2 a").click()
        page.wait_for_url("**/t/**")
        # Of a longer thread only the cited mail is open.
        page.goto(f"{page.url.partition('#')[0].partition('?')[0]}?view=open")
        quotes = page.locator("details.quote")
        quote = quotes.nth(quotes.evaluate_all("quotes => quotes.findIndex(quote => !quote.open)"))
        assert not quote.locator("blockquote").is_visible()
        quote.locator("summary").click()
        assert quote.locator("blockquote").is_visible()
        quote.locator(".origin").click()
        page.wait_for_url("**/m/**")
        if script:
            assert fits(page)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_every_page_fits_its_window(chromium: Any, base: str, size: dict[str, int]):
    with opened(chromium, base, size=size) as page:
        for address in PAGES:
            page.goto(address)
            assert fits(page), address


PAGES = (
    "/",
    f"/?q={QUERY}",
    "/?q=has:patch",
    "/corpus",
    "/help",
    "/d/docs%3Afaq.md",
    "/d/docs%3Azebra.md",
    "/why?q=torn&id=docs:faq.md",
    "/c/chat%3AWithy%20Brook%20gauges%400001",
    "/m/m502@example.org",
    "/series/m502@example.org",
    "/diff?from=m501@example.org&to=m502@example.org",
    "/m/m600@example.org",
    "/?q=zebra",
    "/p/marta@quern.example",
    "/quarantine",
    "/searches",
    "/m/h0@example.org?view=html",
    "/verify?id=m502@example.org",
    "/ask",
    f"/ask?q={QUERY}",
    "/contents/docs",
    "/d/docs%3Amanual.pdf",
    *BROWSED,
)


@pytest.mark.parametrize("size", [{"width": 1280, "height": 900}, PHONE], ids=["desk", "phone"])
def test_pages_open_on_something_and_back_returns_to_the_place(
    chromium: Any, base: str, sample: Workspace, size: dict[str, int]
):
    """The start page, Browse, a page of results and a long thread, as somebody walks through them."""
    with opened(chromium, base, size=size) as page:
        page.goto("/")
        page.locator(".examples a").first.click()
        page.locator(".group").first.wait_for()
        page.goto("/browse")
        addresses = [a.get_attribute("href") for a in page.locator("nav.tabs a").all()]
        for address in ("/browse", *addresses):
            page.goto(address)
            assert page.locator("[data-item]").count() and fits(page), address
        page.goto("/?q=wal")
        groups = page.locator(".group").count()
        assert groups == 15 or page.locator("a[rel=next]").count() == 0
        last = page.locator(".group h2 a").last
        last.scroll_into_view_if_needed()
        at = page.evaluate("window.scrollY")
        last.click()
        page.wait_for_url(lambda url: "/?q=" not in url)
        page.go_back()
        page.locator(".group").first.wait_for()
        page.wait_for_function(f"Math.abs(window.scrollY - {at}) < 40")
        thread = sample.column(LONGEST)[0]
        page.goto(f"/t/{thread}")
        folded = page.locator("details.whole:not([open])")
        count = folded.count()
        assert count and fits(page)
        folded.first.locator("summary").first.click()
        assert page.locator("details.whole:not([open])").count() == count - 1


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [{"width": 1280, "height": 900}, PHONE], ids=["desk", "phone"])
def test_pages_have_no_fault_of_accessibility(
    chromium: Any, base: str, sample: Workspace, size: dict[str, int], dark: bool
):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed"
    ).Axe()
    with chromium.new_context(
        base_url=base, viewport=size, bypass_csp=True, color_scheme="dark" if dark else "light"
    ) as context:
        page = context.new_page()
        for address in (*PAGES, *(f"/t/{thread}" for thread in sample.column(LONGEST))):
            page.goto(address)
            violations = axe.run(page).response["violations"]
            faults = [(v["id"], [n["html"][:160] for n in v["nodes"]][:3]) for v in violations]
            assert faults == [], address


def test_keys_lead_through_the_pages(chromium: Any, base: str):
    with opened(chromium, base) as page:
        page.goto(f"/?q={QUERY}")
        page.keyboard.press("j")
        page.keyboard.press("j")
        second = page.locator("[data-item]").nth(1)
        assert second.evaluate("e => e === document.activeElement")
        page.keyboard.press("k")
        page.keyboard.press("Enter")
        page.wait_for_url("**/m/**")
        page.keyboard.press("u")
        page.wait_for_url("**/?q=**")
        page.keyboard.press("?")
        assert page.locator("dialog#keys").is_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        page.keyboard.type("j")
        page.keyboard.press("Escape")  # leaves the box, and its words in it
        assert page.input_value("#q") == "j"
        page.goto(f"/?q={QUERY}")
        page.locator(".more > a").first.click()
        page.wait_for_url("**/t/**")
        folded = page.locator("details.quote:not([open])")
        assert folded.count() > 0
        page.keyboard.press("o")
        assert folded.count() == 0


def test_a_span_of_the_histogram_is_brushed(chromium: Any, base: str):
    with opened(chromium, base) as page:
        page.goto(f"/?q={QUERY}&since=2025-01-01")
        box = page.locator(".histogram").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 20, steps=5)
        page.mouse.up()
        page.wait_for_url("**since=2025-0**until=2025-0**")


def test_a_search_replaces_what_the_page_shows(chromium: Any, base: str):
    """No page is loaded anew, the focus stays where it is, and the addresses are those of whole
    pages.
    """
    with opened(chromium, base) as page:
        page.goto("/")
        page.evaluate("window.isTheSame = true")
        page.locator("#q").press_sequentially("rain gauge")  # hits come while one types
        page.locator(".group").first.wait_for()
        assert page.evaluate("document.activeElement.value") == "rain gauge"
        page.fill("#q", QUERY)
        page.press("#q", "Enter")
        page.wait_for_url("**/?q=torn**")
        page.locator(".group", has_text="torn").first.wait_for()
        page.get_by_text("Sort by date").click()
        page.wait_for_url("**by_date=1")
        page.get_by_text("Sort by relevance").click()
        page.wait_for_url("**/?q=torn**cut")
        facet = page.locator(".facet a", has_text="quern-users").first
        facet.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**source=quern-users**")
        page.locator(".facet .is-chosen").wait_for()
        assert "quern-users" in page.evaluate("document.activeElement.textContent")
        assert page.evaluate("document.getElementById('said').textContent") == f"{QUERY} · Weft"
        page.locator(".histogram a").first.click()
        page.wait_for_url("**since=**")
        page.locator(".chip", has_text="since").wait_for()
        page.go_back()
        page.locator(".chip", has_text="since").wait_for(state="detached")
        page.locator(".chip", has_text="source").click()
        page.locator(".chip").wait_for(state="detached")
        assert page.input_value("#q") == QUERY
        assert page.evaluate("window.isTheSame")
        whole = page.locator("main").inner_html()
        page.reload()
        assert page.locator("main").inner_html() == whole


def test_hits_for_typed_words_do_not_come_behind_a_page_that_is_asked_for(chromium: Any, base: str):
    """They wait for their answer while Enter asks for another page, and are given up."""
    with opened(chromium, base) as page:
        page.goto("/")
        page.route("**/?q=rain**", lambda route: None)  # no answer
        with page.expect_request("**/?q=rain**"):
            page.locator("#q").press_sequentially("rain gauge")
        with page.expect_event("requestfailed", lambda request: "rain" in request.url):
            page.fill("#q", QUERY)
            page.press("#q", "Enter")
        page.wait_for_url("**/?q=torn**")
        page.locator(".group", has_text="torn").first.wait_for()


@pytest.mark.parametrize("address", ["/m/h0@example.org?view=html", "/html/h0@example.org"])
def test_the_html_of_a_mail_asks_nobody_but_for_pictures_on_a_click(
    chromium: Any, base: str, address: str
):
    """Neither in its frame nor on a page of its own; what leaves the browser for another host is
    counted.
    """
    asked: list[str] = []

    def other_host(route: Any) -> None:
        asked.append(route.request.url)
        route.fulfill(body=picture(), content_type="image/png")

    with chromium.new_context(viewport=DESK, base_url=base) as context:
        dialogs = []
        context.route(re.compile(r"^(?!http://127)"), other_host)
        context.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        page = context.new_page()
        page.goto(address)
        page.wait_for_load_state("networkidle")
        frame = page.frames[-1]
        assert frame.locator("p", has_text="Kiln glows").is_visible()
        assert frame.locator("img").first.evaluate("img => img.naturalWidth") == 3
        assert asked == []
        if "/m/" in address:
            shoot(page, "serve-html")
            page.locator("text=Show them").click()
        else:
            page.goto(f"{address}?pictures=1")
        page.wait_for_load_state("networkidle")
        assert sorted(set(asked)) == [f"{TRACKED}{name}" for name in ("b", "c", "p.png")]
        assert dialogs == [] and page.url.startswith(base)
        with context.expect_page() as opened_page:
            page.frames[-1].locator("a", has_text="far").click()
        assert opened_page.value.url == "https://far.example/x"


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_hostile_mails_are_inert(chromium: Any, base: str, sample: Workspace, script: bool):
    with opened(chromium, base, script=script) as page:
        theirs = "WHERE message_id LIKE 'm6%@example.org'"
        ids = sample.column(f"SELECT message_id FROM messages {theirs}")
        assert len(ids) == len(HOSTILE)
        threads = sample.column(f"SELECT DISTINCT thread_id FROM thread_tree {theirs}")
        for address in (
            "/?q=zebra",
            "/?q=<script>alert(1)</script>",
            "/d/docs%3Azebra.md",
            "/corpus",
            "/",
            *(f"/m/{i}" for i in ids),
            *(f"/t/{t}" for t in threads),
            *(f"/raw/{i}" for i in ids),
        ):
            page.goto(address)
            main = page.locator("main")
            if not main.count():
                continue  # plain text
            running = main.locator(
                "script, style, iframe, img, object, base, svg[onload], form[action^=http]"
            )
            assert running.count() == 0, (address, running.first.evaluate("e => e.outerHTML"))
            for link in main.locator("a").all():
                href = link.get_attribute("href") or ""
                assert href.startswith(("/", "#", "?", "http://", "https://", "mailto:")), (
                    address,
                    href,
                )
                assert not href.startswith("//")


def test_a_chat_is_read_by_its_days_and_cited(chromium: Any, base: str):
    with opened(chromium, base) as page:
        page.goto("/?q=kind:conversation rain gauge")
        shown = page.locator(".results").inner_text()
        assert re.search(r"\b[0-9a-f]{8}\b", shown) and not re.search(
            r"\b[0-9a-f]{8}-[0-9a-f]{4}-", shown
        )
        page.locator(".group h2 a").first.click()
        page.wait_for_url("**/c/**")
        assert page.locator("section.day").count() > 5
        assert page.locator("mark#cited").is_visible()


@pytest.mark.parametrize(
    ("name", "address", "size", "dark"),
    [
        ("serve-search", f"/?q={QUERY}", DESK, False),
        ("serve-thread", "/t/THREAD", DESK, False),
        ("serve-document", "/d/docs%3Afaq.md", DESK, True),
        ("serve-phone", f"/?q={QUERY}", PHONE, True),
        ("serve-corpus", "/corpus", DESK, False),
        ("serve-person", "/p/marta@quern.example", DESK, False),
        ("serve-mail", "/m/MAIL", DESK, False),
        ("serve-tree", "/t/THREAD?view=tree", DESK, False),
        ("serve-chat", "/c/chat%3AWithy%20Brook%20gauges%400001", DESK, False),
        ("serve-browse", "/browse", DESK, False),
        ("serve-why", f"/why?q={QUERY}&id=docs:faq.md", DESK, False),
        ("serve-set-aside", "/quarantine", DESK, False),
        ("serve-help", "/help", DESK, False),
        ("serve-saved", "/searches", DESK, False),
    ],
)
def test_a_picture_of_the_pages(
    chromium: Any, shipped: Workspace, name: str, address: str, size: dict[str, int], dark: bool
):
    """The documentation shows the sample as it is shipped."""
    (thread,) = shipped.column(
        "SELECT thread_id FROM threads ORDER BY message_count DESC, thread_id LIMIT 1"
    )
    third = f"thread_id = '{thread}' ORDER BY position OFFSET 2 LIMIT 1"
    (mail,) = shipped.column(f"SELECT message_id FROM thread_tree WHERE {third}")
    with (
        served(web_app(shipped.settings)) as port,
        opened(chromium, f"http://127.0.0.1:{port}", size=size, dark=dark) as page,
    ):
        if name == "serve-saved":
            page.goto(f"/?q={QUERY}")
            page.locator("summary", has_text="Save").click()
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            page.wait_for_url("**/searches")
        page.goto(address.replace("THREAD", thread).replace("MAIL", mail))
        shoot(page, name)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("serve-series", "/series/m502@example.org"),
        ("serve-diff", "/diff?from=m501@example.org&to=m502@example.org"),
        ("serve-pdf", "/d/docs%3Amanual.pdf?bytes=84-158#cited"),
    ],
)
def test_a_picture_of_what_the_sample_lacks(chromium: Any, base: str, name: str, address: str):
    """Two versions of a patch, and a passage of a PDF beside the page that it is on."""
    with opened(chromium, base) as page:
        page.goto(address)
        if name == "serve-pdf":
            page.wait_for_load_state("networkidle")
            assert page.locator("mark#cited").is_visible()
        shoot(page, name)
