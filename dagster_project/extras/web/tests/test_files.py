"""Files as their sources hold them, and who wrote them: what is shown, what is to save, and what
nobody is given.
"""

import asyncio
import io
import mailbox
import re
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from selectolax.lexbor import LexborHTMLParser
from starlette.requests import Request
from starlette.testclient import TestClient

from dagster_project.extras.web.app import web_app
from dagster_project.extras.web.files import attached, media_type
from dagster_project.extras.web.html_mail import html_mail
from dagster_project.extras.web.question import file_of, page_of
from dagster_project.extras.web.site import Site
from dagster_project.extras.web.unpacked import MOST_UNPACKED
from dagster_project.index.search.index_pool import AllBusyError
from tests.archives import Workspace
from tests.cases import examples
from tests.dagster_project.sources.test_chat_exports import written
from tests.format_files import Text, pdf, zipped
from tests.pages import PageClient
from transforms.settings.models import SafetySettings
from transforms.settings.search import LensSettings

BASE = "http://127.0.0.1:8320"
SCRIPT = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
NOTE = """---
status: draft
by: ['[[Glaze]]', <b>, javascript:x]
---
# Kiln

![[glow.png|300]] ![far](https://far.example/x.png) ![[../secret.png]] ![[drawn.svg]] [[Nobody]]
"""
EMBEDS = "\n![[Glaze#Coat]] ![[Glaze#^end]] ![[Kiln]]\n"


def picture() -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(data, format="png")
    return data.getvalue()


PLAN = pdf([[Text("The kiln is fired at dawn")], [Text("The glaze runs at noon", size=40)]])
FILES = {
    "glow.png": picture(),
    "odd.jpg": SCRIPT,
    "drawn.svg": SCRIPT,
    "plan.pdf": PLAN,
    "gone.png": b"",
    "film.ogg": b"OggS" + bytes(1 << 20),
}
DIFF = "Glaze.\n---\ndiff --git a/k.c b/k.c\n--- a/k.c\n+++ b/k.c\n@@ -1 +1 @@\n-kiln\n+glaze\n"
CHAT = "".join(
    f"27.03.25, 18:0{n} - Ada: {name} (file attached)\n" for n, name in enumerate(FILES)
).encode()


def mail(number: int, text: str, **files: bytes) -> bytes:
    """A mail by Ada that answers the one before; files by their names, `_` for the dot."""
    message = EmailMessage()
    message["From"], message["To"] = "Ada Lovelace <ada@example.org>", "Bob <bob@example.org>"
    message["Cc"] = "list@example.org"
    message["Date"] = f"Mon, {number + 1} Jan 2024 10:00:00 +0000"
    message["Subject"], message["Message-ID"] = "Kiln", f"<k{number}@example.org>"
    if number:
        message["In-Reply-To"] = f"<k{number - 1}@example.org>"
    message.set_content(text)
    for name, data in files.items():
        message.add_attachment(data, "application", "octet-stream", filename=name.replace("_", "."))
    return message.as_bytes()


@pytest.fixture(scope="module")
def files(once: object, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A list whose mails have files, and a vault with pictures in it, beside it and behind a link."""
    work = Workspace(tmp_path_factory.mktemp("files") / "work").configure(
        {"name": "dev", "kind": "eml", "path": "mail", "list_id": "dev"},
        {"name": "notes", "kind": "vault", "path": "notes", "exclude": ["private/"]},
        {"name": "veiled", "kind": "conversation", "path": "veiled"},
        {"name": "open", "kind": "conversation", "path": "open", "pseudonyms": False},
    )
    for name in ("veiled", "open"):
        chat = {"_chat.txt": CHAT} | {file: data for file, data in FILES.items() if data}
        written(work.folder / name / "trip", chat)
    written(work.folder / "open", {"packed.zip": zipped(chat)})
    own = {
        "glow_png": picture(),
        "drawn_svg": SCRIPT,
        "odd_png": b"GIF? no",
        "plan_pdf": PLAN,
        "film_ogg": FILES["film.ogg"],
    }
    work.write("0.eml", mail(0, "From here on\n", **own))
    work.write("1.eml", mail(1, "> From here on\nYes.\n"))
    work.write("2.eml", sent())
    patch = (
        mail(0, DIFF)
        .replace(b"Ada Lovelace <ada", b"Bob <bob")
        .replace(b"Subject: ", b"Subject: [PATCH] ")
    )
    review = mail(1, "Reviewed-by: Ada <ada@example.org>\n").replace(b"From: Ada", b"From: A.")
    work.write("3.eml", patch.replace(b"<k", b"<p"))
    work.write("4.eml", review.replace(b"<k", b"<p"))
    work.put("notes/kiln/Kiln.md", NOTE + EMBEDS)
    work.put(
        "notes/art/Glaze.md",
        "# Glaze\n\nWhat the kiln does to a glaze.\n\nTo end <i>. ^end\n\n## Coat\n\nOf ash. [[Kiln]]\n",
    )
    for name in ("notes/art/Glow.png", "notes/private/p.png", "notes/.hidden/h.png", "secret.png"):
        work.put(name, "").write_bytes(picture())
    work.put("notes/art/drawn.svg", SCRIPT.decode())
    work.put("notes/art/plan.pdf", "").write_bytes(PLAN)
    (work.folder / "notes" / "art" / "link.png").symlink_to("../../secret.png")
    return once(work)  # type: ignore[operator, no-any-return]


@pytest.fixture(scope="module")
def web(files: Workspace) -> Iterator[TestClient]:
    with PageClient(web_app(files.settings), base_url=BASE) as opened:
        yield opened


def test_a_picture_is_shown_and_what_may_run_something_is_to_save(
    web: TestClient, files: Workspace
):
    ids = dict(files.sql("SELECT filename, attachment_id FROM attachments WHERE source = 'dev'"))
    page = web.get("/m/k0@example.org").text
    shown = web.get(file_of("attachment", ids["glow.png"]))
    assert (
        f'<img class="thumbnail" loading="lazy" src="{file_of("attachment", ids["glow.png"])}"'
        in page
    )
    assert (shown.content, shown.headers["content-type"]) == (picture(), "image/png")
    assert shown.headers["content-disposition"].startswith("inline")
    for name in ("drawn.svg", "odd.png"):
        saved = web.get(file_of("attachment", ids[name]))
        assert saved.headers["content-disposition"] == f'attachment; filename="{name}"'
        assert saved.headers["content-type"] == "application/octet-stream"
        assert saved.headers["x-content-type-options"] == "nosniff"
    assert web.get(file_of("attachment", "nothing")).status_code == 404


def test_files_that_are_sent_side_by_side_take_no_memory_and_are_bounded(
    web: TestClient, files: Workspace
):
    inside = "filename = 'film.ogg' AND source <> 'veiled' AND partition NOT LIKE '%trip%'"
    ids = files.column(f"SELECT attachment_id FROM attachments WHERE {inside}")
    for address in (file_of("attachment", ident) for ident in ids):
        rest = {"Range": "bytes=1000-", "If-Range": web.get(address).headers["etag"]}
        assert web.get(address, headers=rest).content == FILES["film.ogg"][1000:]
    site, answers = Site(files.settings), list[Any]()
    tracemalloc.start()
    with pytest.raises(AllBusyError, match="are being sent"):
        while len(answers) <= MOST_UNPACKED:
            ident = {"id": ids[len(answers) % len(ids)]}
            request = Request(
                {"type": "http", "path_params": ident, "query_string": b"", "headers": []}
            )
            answers.append(
                asyncio.run(site.pool.ask(partial(attached, site, request), site.seconds))
            )
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(ids) == 2 and held < len(answers) * len(FILES["film.ogg"]) / 8
    answers.clear()
    assert site.unpacker.file([b"kiln"]).read() == b"kiln"
    site.pool.close()


def test_a_note_shows_its_own_pictures_alone(web: TestClient):
    page = web.get("/d/notes%3Akiln%2FKiln.md").text
    own = file_of("document", "notes:kiln/Kiln.md", "glow.png")
    assert f'src="{own}"' in page and 'src="http' not in page
    assert web.get(own).content == picture()
    assert web.get(file_of("document", "notes:kiln/Kiln.md")).text == NOTE + EMBEDS
    for name in [
        "../secret.png",
        "../../secret.png",
        "p.png",
        "h.png",
        "link.png",
        "drawn.svg",
        "/etc/x.png",
        "a\x00.png",
    ]:
        assert web.get(file_of("document", "notes:kiln/Kiln.md", name)).status_code == 404, name


def test_a_note_shows_its_properties_what_it_embeds_and_which_links_lead_nowhere(
    web: TestClient, files: Workspace
):
    page = web.get("/d/notes%3Akiln%2FKiln.md").text
    glaze = '<a href="/d/notes%3Aart%2FGlaze.md">Glaze</a>'
    assert f"<dt>by</dt><dd>{glaze}" in page and "&lt;b&gt;</a>, " in page and "<b>" not in page
    assert re.findall('<section class="embed">(?:<h3>)?([^<]*)', page) == ["Coat", ""]
    assert (
        "<p>To end" in page
        and "What the kiln does" not in page
        and ">Kiln</a></p></section>" in page
    )
    assert '<span class="missing">Nobody</span>' in page and 'href="javascript' not in page
    assert (
        f'rel="prev" href="{page_of("document", "notes:art/plan.pdf")}"' in page
        and 'rel="next"' not in page
    )
    assert (
        "Kiln.md" in web.get("/browse?view=folders&source=notes").text
        and 'href="/contents/notes"' in page
    )
    titles = re.findall("data-item [^>]*>([^<]*)", web.get("/contents/notes").text)
    assert titles[-1] == "Kiln" and len(titles) == 3 and web.get("/contents/x").status_code == 404
    (draft,) = re.findall(r'href="(/\?q=meta\.status[^"]*)"', page)
    assert (
        "Kiln.md" in web.get(draft).text
        and 'class="is-chosen"' in web.get(f"{draft}+kind:document").text
    )
    lenses = {"kiln": LensSettings(where="path:Kiln")}
    settings = files.settings.model_copy(update={"lenses": lenses})
    with PageClient(web_app(settings, lens="kiln"), base_url=BASE) as under:
        page = under.get("/d/notes%3Akiln%2FKiln.md").text
    assert (
        "Of ash" not in page
        and "To end" not in page
        and "Glaze.md" not in page
        and ">draft</a>" in page
    )


def test_a_pdf_is_shown_page_by_page_beside_its_text(web: TestClient, files: Workspace):
    ids = dict(files.sql("SELECT filename, attachment_id FROM attachments WHERE source = 'dev'"))
    for kind, id_ in (("document", "notes:art/plan.pdf"), ("attachment", ids["plan.pdf"])):
        page = web.get(page_of(kind, id_, 4, 8)).text
        assert '<mark id="cited">kiln</mark>' in page and "glaze runs" in page
        shown = [
            web.get(source).content
            for source in re.findall(r'<img loading="lazy" src="([^"]*)"', page)
        ]
        sizes = [Image.open(io.BytesIO(data), formats=["JPEG"]).size for data in shown]
        assert sizes == [(1200, 1553)] * 2 and shown[0] != shown[1]
        for number, status in (
            ("0", 404),
            ("3", 404),
            ("-1", 400),
            ("²", 400),
            ("9" * 9, 400),
            ("", 400),
        ):
            assert web.get(f"{file_of(kind, id_)}?page={number}").status_code == status
    others = (file_of("attachment", ids["drawn.svg"]), file_of("document", "notes:kiln/Kiln.md"))
    assert [web.get(f"{file}?page=1").status_code for file in others] == [404, 404]


def test_files_of_a_chat_are_shown_where_they_were_sent(web: TestClient, files: Workspace):
    rows = files.sql(
        "SELECT message_id, filename, attachment_id FROM attachments WHERE source <> 'dev'"
    )
    assert len(rows) == 3 * len(FILES)
    for window, name, ident in rows:
        is_veiled, answer = window.startswith("veiled"), web.get(file_of("attachment", ident))
        given = {"glow.png", "film.ogg"} | (
            set() if is_veiled else {"odd.jpg", "drawn.svg", "plan.pdf"}
        )
        assert answer.status_code == (200 if name in given else 404), name
        is_shown = answer.headers.get("content-disposition", "").startswith("inline")
        assert is_shown == (name in given & {"glow.png", "film.ogg", "plan.pdf"})
        assert name not in given or answer.content == FILES[name]
        page = web.get(page_of("conversation", window)).text
        assert (f'src="{file_of("attachment", ident)}"' in page) == (
            name in ("glow.png", "film.ogg", "odd.jpg")
        )
        assert (f"{name}, which the export does not hold" in page) == (name == "gone.png")
        assert f"· {len(PLAN):,} B" in page or is_veiled
        assert "Ada, 27 Mar 2025" in web.get(page_of("attachment", ident)).text or is_veiled
        if name == "plan.pdf":
            assert ('class="leaf"' in web.get(page_of("attachment", ident)).text) != is_veiled
            assert web.get(file_of("attachment", ident, "", 1)).status_code == (
                404 if is_veiled else 200
            )
    export = files.folder / "open" / "trip" / "_chat.txt"
    export.write_bytes(CHAT + CHAT)
    answers = [
        web.get(file_of("attachment", ident)).text for window, name, ident in rows if "glow" in name
    ]
    assert sum("build again" in answer for answer in answers) == 1
    export.write_bytes(CHAT)


def test_a_thread_is_saved_as_mbox(web: TestClient, files: Workspace, tmp_path: Path):
    (thread,) = set(
        files.column("SELECT thread_id FROM thread_tree WHERE message_id = 'k0@example.org'")
    )
    assert f"/mbox/{thread}" in web.get(f"/t/{thread}").text
    (tmp_path / "t.mbox").write_bytes(web.get(f"/mbox/{thread}").content)
    assert b"\n>From here on\n" in (tmp_path / "t.mbox").read_bytes()
    with closing(mailbox.mbox(tmp_path / "t.mbox")) as box:
        assert [m["Message-ID"] for m in box] == ["<k0@example.org>", "<k1@example.org>"]


def test_a_mail_names_its_readers_and_is_answered_to_all(web: TestClient):
    page = web.get("/m/k1@example.org").text
    assert all(f'href="/p/{name}%40example.org"' in page for name in ("ada", "bob", "list"))
    address = urlsplit(page.partition('href="mailto:')[2].partition('"')[0].replace("&amp;", "&"))
    fields = parse_qs(address.query)
    assert address.path == "ada@example.org"
    assert fields["Cc"] == ["bob@example.org,list@example.org"] and fields["Subject"] == [
        "Re: Kiln"
    ]
    assert fields["In-Reply-To"] == ["<k1@example.org>"] and "> Yes." in fields["body"][0]


def test_a_person_has_addresses_threads_files_and_reviews_and_is_one_facet(web: TestClient):
    page = web.get("/p/ADA@example.org")
    assert page.status_code == 200
    assert "Ada Lovelace" in page.text and "2 of 2 mails" in page.text and "glow.png" in page.text
    assert web.get("/p/nobody@example.org").status_code == 404
    for address, title, other in (
        ("ada", "Reviews patches of", "bob"),
        ("bob", "Is reviewed by", "ada"),
    ):
        section = web.get(f"/p/{address}@example.org").text.partition(f"<h2>{title}</h2>")[2]
        assert f'href="/p/{other}%40example.org"' in section.partition("</table>")[0]
    facet = web.get("/?kind=message").text.partition("Author</h2>")[2]
    assert re.search(r'from=ada%40example.org"><span>Ada Lovelace<', facet)
    assert len(re.findall("from=", facet)) == 3


def test_folders_are_facets_and_what_was_set_aside_has_a_page(web: TestClient):
    page = web.get("/", params={"q": "kiln", "kind": "document"}).text
    assert "Folder" in page and "kind=document&amp;path=art" in page
    assert "Glaze" in web.get("/", params={"q": "kiln", "path": "art"}).text
    aside = web.get("/quarantine").text
    assert "<h2>outside_root</h2>" in aside and "art/link.png" in aside
    assert 'href="/quarantine"' in web.get("/corpus").text


def test_nothing_of_a_file_is_shown_where_answers_are_masked(files: Workspace):
    masked = files.settings.model_copy(update={"safety": SafetySettings(outputs="mask")})
    (thread,) = files.column(
        "SELECT thread_id FROM thread_tree WHERE message_id = 'k0@example.org'"
    )
    first, *_ = files.column("SELECT attachment_id FROM attachments WHERE filename = 'glow.png'")
    own = file_of("document", "notes:kiln/Kiln.md")
    with PageClient(web_app(masked), base_url=BASE) as web:
        chat = page_of(
            "conversation", files.column("SELECT min(doc_id) FROM conversation_windows")[0]
        )
        own_files = (own, f"{own}?embeds=glow.png", f"{own}?page=1", file_of("attachment", first))
        for address in (
            f"/mbox/{thread}",
            "/html/h0@example.org",
            "/original/k0@example.org",
            *own_files,
        ):
            assert web.get(address).status_code == 403
        mails = ("/m/k0@example.org", "/m/h0@example.org", f"/t/{thread}")
        for page in (*mails, "/d/notes%3Akiln%2FKiln.md", f"/a/{first}", chat):
            assert not re.search(
                "/mbox/|/original/|/file/|-file/|view=html|mailto:", web.get(page).text
            )


TRACKED = "https://tracker.example/"
SENT = f"""<!DOCTYPE html><html><head><base href="{TRACKED}"><meta http-equiv=refresh content="0;url={TRACKED}m">
<link rel=stylesheet href="{TRACKED}l"><link rel=dns-prefetch href="//dns.example"><script>top.location='{TRACKED}s'</script>
<style>@import "{TRACKED}i"; p {{ background: url({TRACKED}c) }} </style><style></style ><script>1</script></style></head>
<body onload="fetch('{TRACKED}o')" background="{TRACKED}b"><p style="color:red">Kiln <b onclick=1>glows</b></p>
<img src="cid:glow@k" alt="glow"><img src="{TRACKED}p.png"><img src=cid:drawn><svg onload=alert(1)><image href="{TRACKED}v"/>
</svg><form action="{TRACKED}f"><input autofocus onfocus=1><button>Send</button></form><iframe src="{TRACKED}fr"></iframe>
<a href="javascript:alert(1)" ping="{TRACKED}g">run</a><a href="https://far.example/x">far</a>
<video poster="{TRACKED}w"></video><object data="{TRACKED}d"></object><x onmouseover=1>free</x></body></html>"""


def sent(ident: str = "h0@example.org") -> bytes:
    """A mail as text and as hostile HTML, with a picture and a drawing of its own."""
    message = EmailMessage()
    message["From"], message["Message-ID"], message["Subject"] = (
        "eve@example.org",
        f"<{ident}>",
        "Glow",
    )
    message["Date"] = "Mon, 1 Apr 2024 10:00:00 +0000"
    message.set_content("Kiln glows\n")
    message.add_alternative(SENT, subtype="html")
    (_, html) = message.iter_parts()
    html.add_related(picture(), "image", "png", cid="<glow@k>")
    html.add_related(SCRIPT, "image", "svg+xml", cid="<drawn>")
    return message.as_bytes()


def test_the_html_of_a_mail_is_shown_with_nothing_that_runs_or_asks_anybody(web: TestClient):
    assert 'href="?view=html"' not in web.get("/m/k0@example.org").text
    assert web.get("/html/k0@example.org").status_code == 404
    assert 'href="?view=html"' in web.get("/m/h0@example.org").text
    page = web.get("/m/h0@example.org?view=html").text
    assert (
        'sandbox="allow-popups allow-popups-to-escape-sandbox"' in page
        and "tells tracker.example" in page
    )
    for query, policy in (
        ("", "img-src data:; "),
        ("?pictures=1", "img-src data: https:; upgrade-insecure"),
    ):
        shown = web.get(f"/html/h0@example.org{query}")
        assert policy in shown.headers["content-security-policy"]
        assert shown.headers["content-security-policy"].startswith("sandbox allow-popups")
        assert "allow-scripts" not in page + shown.headers["content-security-policy"]
        elements = set(re.findall(r"<([a-z][a-z0-9:]*)", shown.text))
        allowed = {
            "html",
            "head",
            "meta",
            "title",
            "style",
            "body",
            "p",
            "b",
            "img",
            "a",
            "form",
            "x",
        }
        assert elements <= allowed
        attributes = set(re.findall(r'\s([a-z-]+)="', shown.text))
        assert attributes <= {
            "charset",
            "style",
            "alt",
            "src",
            "href",
            "target",
            "rel",
            "background",
        }
        pictures = re.findall(r'(?:src|background)="([^"]*)"', shown.text)
        remote = [f"{TRACKED}b", f"{TRACKED}p.png"] if query else []
        own = f"data:image/png;base64,{b64encode(picture()).decode()}"
        assert sorted(pictures) == sorted([own, *remote])
        assert (
            'href="https://far.example/x" target="_blank" rel="noreferrer noopener"' in shown.text
        )
        assert "javascript:" not in shown.text and "glows" in shown.text and "free" in shown.text


@given(st.text("<>/\"'= \nabsxcriptyle!-&;:#", max_size=60), st.sampled_from(["", "<style>"]))
@examples(200)
def test_no_html_of_a_mail_keeps_what_runs(text: str, before: str):
    data = b"Content-Type: text/html\n\n" + f"{before}{text}".encode()
    shown = html_mail(data, media_type, remote=True)
    nodes = LexborHTMLParser(shown.html if shown else "").css("*")
    assert not {n.tag for n in nodes} & {"script", "svg", "input", "iframe", "link"}
    assert not [name for node in nodes for name in node.attributes if name.startswith("on")]
