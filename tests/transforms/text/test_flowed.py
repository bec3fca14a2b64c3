"""Flowed text, after the rules and examples of RFC 3676."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.text.spans import flowed_text, span_text


def unwrapped(body: str, *, del_sp: bool = False) -> str:
    return flowed_text(body, 0, len(body), del_sp=del_sp)


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        pytest.param("one \ntwo\nthree\n", "one two\nthree\n", id="4.2 a soft break joins"),
        pytest.param("one\ntwo\n", "one\ntwo\n", id="4.2 a hard break stays"),
        pytest.param(" From me\n  two\n", "From me\n two\n", id="4.4 one stuffed blank goes"),
        pytest.param("> From \n> me\n", "> From me\n", id="4.5 stuffed behind a mark"),
        pytest.param(">a \n>b\n", "> a b\n", id="4.5 marks without a blank"),
        pytest.param(">> a \n>> b\n> c\nd\n", ">> a b\n> c\nd\n", id="4.5 depths"),
        pytest.param("> > a \n>> b\n", "> > a b\n", id="blanks between marks count for nothing"),
        pytest.param(
            "> a \nb\n", "> a \nb\n", id="4.5 a soft break before another depth is a hard one"
        ),
        pytest.param("a \n> b \n> c\n", "a \n> b c\n", id="4.5 and so before a quote"),
        pytest.param(
            "end \n-- \nname\n", "end \n-- \nname\n", id="4.3 the signature separator stays alone"
        ),
        pytest.param(
            "> end \n> -- \n> name\n", "> end \n> -- \n> name\n", id="4.3 a quoted separator"
        ),
        pytest.param("--\u0020\u0020\nx\n", "--  x\n", id="4.3 two blanks are no separator"),
        pytest.param("a \n\nb\n", "a \nb\n", id="an empty line ends its paragraph"),
        pytest.param(">\n> a\n", ">\n> a\n", id="an empty quoted line"),
        pytest.param(" > pasted\n", "> pasted\n", id="a stuffed mark counts as a mark"),
        pytest.param(" \na\n", "\na\n", id="a stuffed empty line is hard"),
        pytest.param(
            "> \n>  \n> +x\n", ">\n>  \n> +x\n", id="blank lines of a quoted diff stay lines"
        ),
        pytest.param("a \n", "a \n", id="the last line has nothing to join"),
        pytest.param("a ", "a ", id="no line end"),
        pytest.param(
            "@@ -1,2 +1,2 @@ struct \nfoo *bar,\n  \tint a;\n",
            "@@ -1,2 +1,2 @@ struct foo *bar,\n \tint a;\n",
            id="a wrapped hunk header",
        ),
        pytest.param(
            ">>>Take some tea.\n>> I've had none.\n> You can't \n> take LESS, it's easy to take \n> MORE.\n",
            ">>> Take some tea.\n>> I've had none.\n> You can't take LESS, it's easy to take MORE.\n",
            id="5 the example",
        ),
        pytest.param("", "", id="nothing"),
    ],
)
def test_what_was_written(stored: str, text: str):
    assert unwrapped(stored) == text


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ("日本 \n語\n", "日本語\n"),
        ("two  \nwords\n", "two words\n"),
        ("> 日 \n> 本\n", "> 日本\n"),
        ("a \n-- \n", "a\n-- \n"),
    ],
)
def test_del_sp_takes_the_last_blank(stored: str, text: str):
    assert unwrapped(stored, del_sp=True) == text


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (0, 13, "> one two\n"),
        (3, 13, "ne two\n"),
        (2, 13, "one two\n"),
        (0, 11, "> one tw"),
        (7, 13, "> two\n"),
        (9, 13, "two\n"),
        (0, 7, "> one \n"),
        (14, 20, "free\n"),
        (15, 20, "free\n"),
        (16, 99, "ree\n"),
        (3, 3, ""),
    ],
)
def test_spans_that_begin_or_end_inside_a_line(start: int, end: int, text: str):
    assert flowed_text("> one \n> two\n\n free\n", start, end) == text


@pytest.mark.parametrize(
    ("body_format", "text"),
    [("plain", "a \nb"), ("html", "a \nb"), ("flowed", "a b"), ("flowed_delsp", "ab")],
)
def test_the_format_of_the_body_decides(body_format: str, text: str):
    assert span_text("a \nb\n", 0, 4, body_format) == text


LINES = st.lists(
    st.text(st.sampled_from(["a", " ", ">", "-", "é"]), max_size=6).map(lambda line: line + "\n"),
    max_size=12,
)


@given(LINES, st.booleans())
def test_no_word_is_lost_and_no_line_is_added(lines: list[str], del_sp: bool):
    stored = "".join(lines)
    text = unwrapped(stored, del_sp=del_sp)
    assert text.count("\n") <= stored.count("\n")
    for sign in "aé-":
        assert text.count(sign) == stored.count(sign)


@given(LINES, st.data())
def test_spans_that_end_at_hard_breaks_add_up(lines: list[str], data: st.DataObject):
    stored = "".join(lines)
    hard = [n for n, line in enumerate(lines) if not line.endswith(" \n")]
    cut = sum(map(len, lines[: data.draw(st.sampled_from(hard)) + 1])) if hard else 0
    assert flowed_text(stored, 0, cut) + flowed_text(stored, cut, len(stored)) == unwrapped(stored)
