"""Cells of Markdown tables: whatever they hold, a page shows it and does nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.cases import examples
from transforms.text.visible import table_text

PAGE = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
TOKENS = [
    "![x](http://evil/p)",
    "[a](b)",
    "<img src=x>",
    "</td>",
    "|",
    "\\",
    "`",
    "*",
    "_",
    "\n",
    "\r",
    "\u2028",
    "&lt;",
    "~~",
    "a",
    " ",
]


@given(st.lists(st.sampled_from(TOKENS), max_size=12).map("".join))
@examples(200)
def test_a_cell_is_shown_as_it_is_and_is_no_markup(text: str):
    tokens = PAGE.parse(table_text(["one", "two"], [[text, "last"]]))
    cells = [token for token in tokens if token.type == "inline"]
    assert len(cells) == 4 and not [token for token in tokens if token.type == "html_block"]
    kinds = {child.type for cell in cells for child in cell.children or ()}
    assert kinds <= {"text", "text_special"}
    content = "".join(child.content for child in cells[2].children or ())
    assert content == " ".join(text.split())


@pytest.mark.parametrize("sign", ["\x1b", "\u202e", "\u200b"])
def test_signs_that_steer_are_shown(sign: str):
    assert sign not in table_text(["a"], [[f"x{sign}y"]])
