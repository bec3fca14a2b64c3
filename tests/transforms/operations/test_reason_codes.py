"""Every reason that the source gives begins with a code that is known."""

import ast
import re
from pathlib import Path

from transforms.operations.reason_codes import REASON_CODES

ROOT = Path(__file__).parents[3]
MADE_IN = (
    "transforms/mail",
    "transforms/documents",
    "transforms/formats",
    "transforms/conversations",
    "dagster_project/sources",
    "dagster_project/extras/chats/transforms",
)
DEFECTS = {
    "frontmatter_malformed",
    "frontmatter_not_a_mapping",
    "frontmatter_too_large",
    "missing_chapter",
    "needs_program",
    "nesting_too_deep",
    "time_unreadable",
    "unreadable_chapter",
}
"""Codes of defects, of texts that are read all the same."""


def test_every_reason_in_the_source_has_a_code():
    trees = [
        ast.parse(f.read_text("utf-8")) for folder in MADE_IN for f in (ROOT / folder).rglob("*.py")
    ]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    codes = {
        found[1] for text in texts if (found := re.match(r"([a-z]+(?:_[a-z]+)*): \S", text))
    } - DEFECTS
    calls = (
        n
        for n in nodes
        if isinstance(n, ast.Call) and re.search("exclude$|Omission$", ast.unparse(n.func))
    )
    parts = [
        part for call in calls for part in ast.walk(call.args[-1]) if isinstance(part, ast.Constant)
    ]
    left_out = {part.value for part in parts if isinstance(part.value, str)}
    assert len(codes) > 40 and len(left_out) > 8
    assert (
        not {code for code in codes | left_out if not code.startswith("no_")} - REASON_CODES.keys()
    )
