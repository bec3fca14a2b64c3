"""The page of an evaluation: one HTML file that needs nothing beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

_PLACE = "/*REPORT*/"


def page(report: Mapping[str, Any]) -> str:
    """The page of a report of `transforms.evaluation.report`, its data inside; it loads nothing from anywhere."""
    template = resources.files("dagster_project").joinpath("evaluation_page.html").read_text(encoding="utf-8")
    data = json.dumps(report, ensure_ascii=False, sort_keys=True)
    # Inside a script element only these could end it; both mean the same in JSON when escaped.
    for sign in "<", ">", "&", "\u2028", "\u2029":
        data = data.replace(sign, f"\\u{ord(sign):04x}")
    return template.replace(_PLACE, data)
