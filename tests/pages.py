"""The pages of an index, for tests that look at them beside other interfaces; such a test is skipped without that extra."""

from typing import Any
from uuid import uuid4

import pytest
from starlette.testclient import TestClient

from dagster_project.config.settings import Settings

PLACE = "dagster_project.extras.web.app"
_LISTS = "threads unanswered files folders days notes today"
BROWSED = [f"/browse?view={name}" for name in _LISTS.split()]


def pages(settings: Settings, lens: str | None = None, **options: Any) -> TestClient:
    """A client of the pages under the name that a browser on this machine uses; the lens comes by a person's token."""
    app = pytest.importorskip(PLACE, reason="the extra `web` is not there").web_app(settings, **options)
    tokens = pytest.importorskip("dagster_project.extras.web.tokens").Tokens(settings)
    is_asked = lens or tokens.folder.exists()
    headers = {"Authorization": f"Bearer {tokens.new(uuid4().hex, lens, None)}"} if is_asked else {}
    return TestClient(app, base_url="http://127.0.0.1:8320", headers=headers)
