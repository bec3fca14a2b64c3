"""The pages of an index, for tests that look at them beside other interfaces; such a test is skipped without that extra.

Pictures of pages are stored in `.screenshots/` of the repository, or where WEFT_SCREENSHOTS says; those of the
documentation are made again by `make pictures`.
"""

import io
import os
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


def pages(settings: Settings, lens: str | None = None, **options: Any) -> TestClient:
    """A client of the pages under the name that a browser on this machine uses; the lens comes by a person's token."""
    app = pytest.importorskip(PLACE, reason="the extra `web` is not there").web_app(
        settings, **options
    )
    tokens = pytest.importorskip("dagster_project.extras.web.tokens").Tokens(settings)
    is_asked = lens or tokens.folder.exists()
    headers = {"Authorization": f"Bearer {tokens.new(uuid4().hex, lens, None)}"} if is_asked else {}
    return TestClient(app, base_url="http://127.0.0.1:8320", headers=headers)


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
