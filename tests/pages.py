"""The pages of an index, for tests that look at them beside other interfaces; such a test is
skipped without that extra.

Pictures of pages are stored in `.screenshots/` of the repository, or where WEFT_SCREENSHOTS says;
those of the documentation are made again by `make pictures`.
"""

import io
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import uvicorn
from PIL import Image
from starlette.testclient import TestClient

from dagster_project.config.settings import Settings
from tests.timing import HUNG, until

PLACE = "dagster_project.extras.web.app"
_LISTS = "threads unanswered files folders days notes today"
SCREENSHOTS = Path(os.environ.get("WEFT_SCREENSHOTS") or Path(__file__).parents[1] / ".screenshots")
BROWSED = [f"/browse?view={name}" for name in _LISTS.split()]

PREFORMATTED = re.compile(rb"(<pre\b.*?</pre>)", re.DOTALL)
TAG = re.compile(rb"<[a-zA-Z][^<>]*>")
BLOCKS = rb"""html|head|title|meta|link|script|body|header|footer|nav|main|section|article|aside|div|p|h[1-6]
|ul|ol|li|dl|dt|dd|table|caption|thead|tbody|tr|th|td|form|figure|figcaption|details|summary|svg|rect
|blockquote""".replace(b"\n", b"")
AROUND_BLOCKS = re.compile(rb" ?(</?(?:" + BLOCKS + rb")\b[^<>]*>) ?")


def without_layout(html: bytes) -> bytes:
    """A page without the blanks that nobody sees: at the edges of its blocks, within its tags and
    beside each other.
    """
    parts = PREFORMATTED.split(html)
    parts[::2] = [AROUND_BLOCKS.sub(rb"\1", _single_blanks(part)) for part in parts[::2]]
    return b"".join(parts)


def _single_blanks(html: bytes) -> bytes:
    return TAG.sub(lambda tag: re.sub(rb" (/?>)$", rb"\1", tag[0]), re.sub(rb"\s+", b" ", html))


class PageClient(TestClient):
    """A client whose HTML has no layout, so that tests compare what people see."""

    def request(self, *args: Any, **options: Any) -> Any:
        """The answer of the app; a page without its layout."""
        response = super().request(*args, **options)
        if response.headers.get("content-type", "").startswith("text/html"):
            response._content = without_layout(response.content)
        return response


def pages(settings: Settings, lens: str | None = None, **options: Any) -> PageClient:
    """A client of the pages under the name that a browser on this machine uses; the lens comes by a
    person's token.
    """
    app = pytest.importorskip(PLACE, reason="the extra `web` is not there").web_app(
        settings, **options
    )
    tokens = pytest.importorskip("dagster_project.extras.web.tokens").Tokens(settings)
    is_asked = lens or tokens.folder.exists()
    headers = {"Authorization": f"Bearer {tokens.new(uuid4().hex, lens, None)}"} if is_asked else {}
    return PageClient(app, base_url="http://127.0.0.1:8320", headers=headers)


@contextmanager
def served(app: Any) -> Iterator[int]:
    """The port at which a thread of this process serves an app."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started or not thread.is_alive(), "a server that has started")
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(HUNG)


def shoot(page: Any, name: str) -> Path:
    """The file of a new picture of a page in Chromium, in few colours."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    # Rare colours stay what they are; the default makes brown of the orange of the mark.
    shown.quantize(128, Image.Quantize.MAXCOVERAGE).save(SCREENSHOTS / f"{name}.png", optimize=True)
    return SCREENSHOTS / f"{name}.png"
