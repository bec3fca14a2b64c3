"""Saved searches: what is saved of whom, what is new in it, and who may not."""

import re
import shutil

from starlette.testclient import TestClient

from dagster_project.extras.web.app import web_app
from tests.archives import Mail, Workspace
from tests.pages import PageClient, pages
from transforms.settings.search import LensSettings

BASE = "http://127.0.0.1:8320"
ASKED = "/?q=compactor&source=dev"


def save(web: TestClient, name: str, address: str = ASKED, **more: str) -> str:
    """The page that saving leads to."""
    form = {"name": name, "address": address, **more}
    return web.post("/searches", data=form, headers={"Origin": BASE}).text


def names(page: str) -> list[str]:
    return re.findall(r"<h2><a data-item [^>]*>([^<]*)", page)


def test_a_search_is_saved_renamed_and_deleted_and_says_what_is_new(built: Workspace):
    with pages(built.settings) as web:
        assert (
            'action="/searches"' in web.get(ASKED).text and "none yet" in web.get("/searches").text
        )
        page = save(web, " The  <pace> ", f"{ASKED}&start=15")
        assert (
            names(page) == ["The &lt;pace&gt;"]
            and 'href="/feed?q=compactor&amp;source=dev"' in page
        )
        assert "Saved as" in web.get(ASKED).text and "Saved as" not in web.get("/?q=compactor").text
        assert names(save(web, "b", before="The <pace>", do="rename")) == ["b"]
        assert names(save(web, "a", "/?q=shell")) == ["a", "b"]
    built.write("dev/dev.2004-03.mbox", [Mail(90, "The compactor has another pace.", "Compactor")])
    built.build()
    with pages(built.settings) as web:
        new = r'source=dev">b</a> <span class="soft">1 new<'
        assert re.search(new, web.get("/").text) and re.search(new, web.get("/").text)
        page = web.get("/searches").text
        assert 'id="new-2"><span class="badge">1 new' in page and 'oob="#new-1,#new-2"' in page
        assert web.get(ASKED).is_success and not re.search(new, web.get("/").text)
        assert names(save(web, "", before="b", do="delete")) == ["a"]
        file = built.settings.base / "searches" / "own.json"
        assert file.parent.stat().st_mode & 0o077 == file.stat().st_mode & 0o077 == 0
        file.write_text("{")
        assert web.get("/").status_code == web.get(ASKED).status_code == 200
        assert "own.json" in web.get("/searches").text
        shutil.rmtree(file.parent)
        file.parent.touch()  # which is no folder
        assert "right to write" in save(web, "a") and web.get(ASKED).is_success


def test_what_cannot_be_saved_says_why(built: Workspace):
    forms = [
        ("x", "/?q=", "nothing to save"),
        ("", ASKED, "name of a saved search"),
        ("x" * 81, ASKED, "name of a saved"),
        ("y", ASKED, "take another name"),
        ("x", "/?q=" + "a" * 4_000, "address of a saved"),
    ]
    with pages(built.settings) as web:
        assert names(save(web, "y")) == ["y"]
        for name, address, reason in forms:
            assert reason in save(web, name, address), reason
        assert "not a form" in save(web, "x", **{f"n{n}": "1" for n in range(9)})


def test_each_person_has_searches_under_their_lens_and_pages_of_others_save_none(built: Workspace):
    lenses = {name: LensSettings(where=f"source:{name}") for name in ("dev", "users")}
    settings = built.settings.model_copy(update={"lenses": lenses})
    with PageClient(web_app(settings, lens="dev"), base_url=BASE) as shared:
        assert "one: ask whoever runs" in shared.get(ASKED).text + shared.get("/searches").text
        assert shared.post("/searches", data={"name": "x", "address": ASKED}).status_code == 403
    with pages(settings, "dev") as ann, pages(settings, "users") as bob:
        assert len(names([save(ann, f"n{number}") for number in range(50)][-1])) == 50
        assert "as many as can be" in save(ann, "more")
        assert not names(bob.get("/searches").text) and names(save(bob, "n1")) == ["n1"]
        gone = {"before": "n1", "do": "delete"}
        linked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        for headers in ({"Origin": "null"}, {"Origin": "http://x.example"}, linked):
            assert bob.post("/searches", data=gone, headers=headers).status_code == 403
        assert bob.get("/", headers={"Host": "x.example:8320"}).status_code == 421
        assert names(bob.get("/searches").text) == ["n1"]
