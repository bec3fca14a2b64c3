"""The pages of an index, for tests that look at them beside other interfaces; such a test is skipped without that extra."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from dagster_project.config.settings import Settings

PLACE = "dagster_project.extras.web.app"


def pages(settings: Settings, **options: Any) -> TestClient:
    """A client of the pages under the name that a browser on this machine uses."""
    app = pytest.importorskip(PLACE, reason="the extra `web` is not there").web_app(settings, **options)
    return TestClient(app, base_url="http://127.0.0.1:8320")
