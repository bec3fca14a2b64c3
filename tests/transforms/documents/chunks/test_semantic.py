"""When a heading or a line ends a semantic chunk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from tests.documents import chunks_of, exclusions_of


def words(tokens: int) -> str:
    """Lines of ten words, 13 tokens each."""
    assert tokens % 13 == 0
    return ("one two three four five six seven eight nine ten\n" * (tokens // 13)) + "\n"


def heads(text: str, **settings: bool) -> list[str]:
    return [
        c["text_display"].split("\n")[0] for c in chunks_of(text, chunker="semantic", **settings)
    ]


@pytest.mark.parametrize(
    "text, expected",
    [
        (f"# T\n\n## A\n\n{words(13)}## B\n\n{words(260)}", ["# T", "## B"]),
        (f"# T\n\n{words(13)}## A\n\n{words(260)}", ["# T"]),
        (f"## A\n\n{words(260)}## B\n\n{words(260)}", ["## A", "## B"]),
        (f"## A\n\n{words(234)}## B\n\n{words(260)}", ["## A"]),
        (f"## A\n\n{words(481)}### B\n\n{words(260)}", ["## A"]),
        (f"## A\n\n{words(507)}### B\n\n{words(260)}", ["## A", "### B"]),
        (f"## A\n\n{words(104)}### B\n\n{words(156)}### C\n\n{words(260)}", ["## A", "### C"]),
        (f"### A\n\n{words(13)}## B\n\n{words(260)}### C\n\n{words(260)}", ["### A", "### C"]),
        (f"# A\n\n{words(52)}### B\n\n{words(65)}## C\n\n{words(260)}", ["# A"]),
        (
            f"# A\n\n{words(52)}### B\n\n{words(65)}## C\n\n{words(65)}## D\n\n{words(260)}",
            ["# A", "## D"],
        ),
        (f"## A\n{words(1001)}", ["## A", "one two three four five six seven eight nine ten"]),
    ],
    ids=[
        "a second h2 under an h1",
        "the first h2 under an h1",
        "its level, from 250",
        "its level, below 250",
        "deeper, below 500",
        "deeper, from 500",
        "a level already reached",
        "higher than its start, then reached",
        "no h2 under an h1 yet",
        "an h2 behind an h3 under an h1",
        "a line that would pass 750",
    ],
)
def test_what_ends_a_chunk(text: str, expected: list[str]):
    assert heads(text) == expected
    assert heads(text, strict=True) == expected


def by_the_rule(lines: list[str]) -> list[list[str]]:
    """The chunks of lines, walked one by one as the design's rule says; a short rest joins the
    chunk before it.
    """
    chunks: list[list[str]] = [[]]
    tokens = start = deepest = here = 0
    has_h2 = False
    for line in lines:
        level = len(line) - len(line.lstrip("#")) if line.startswith("#") else 0
        own = int(len(line.split()) * 1.3)
        if level and tokens:
            least = 250 if level <= start or level <= deepest else 500
            if (start == 1 and level == 2 and has_h2) or tokens >= least:
                chunks.append([])
                tokens, has_h2 = 0, False
        elif tokens and tokens + own > 750:
            chunks.append([])
            tokens, start, deepest, has_h2 = 0, here, here, False
        if level:
            if not tokens:
                start = deepest = level
            here, deepest, has_h2 = level, max(deepest, level), has_h2 or level == 2
        chunks[-1].append(line)
        tokens += own
    if len(chunks) > 1 and tokens < 250:
        last = chunks.pop()
        chunks[-1] += last
    return chunks


LINES = st.one_of(
    st.integers(1, 4).map(lambda level: f"{'#' * level} Heading"),
    st.integers(20, 200).map(lambda n: "word " * n),
)


@given(st.lists(LINES, min_size=1, max_size=40))
@examples(150)
def test_chunks_are_those_of_the_rule(lines: list[str]):
    # A heading without text of its own begins no section.
    lines = [
        part
        for line, behind in zip(lines, [*lines[1:], "#"], strict=True)
        for part in (
            (line, "Some words.") if line.startswith("#") and behind.startswith("#") else (line,)
        )
    ]
    made = chunks_of("\n\n".join(lines) + "\n", chunker="semantic")
    found = [
        [line.strip() for line in chunk["text_display"].split("\n") if line.strip()]
        for chunk in made
    ]
    assert found == [[line.strip() for line in chunk] for chunk in by_the_rule(lines)]


def test_no_chunk_but_the_last_passes_750_tokens():
    made = chunks_of(words(13 * 300), chunker="semantic")
    assert [len(chunk["text_display"].splitlines()) for chunk in made] == [57, 57, 57, 57, 72]


TRIMMING = (
    f"# Trimming\n\n## Overview\n\n{words(26)}## Syntax\n\n```bash\n# Publish\ndotnet publish\n```\n\n{words(260)}"
    f"### Library\n\n{words(13)}## Gotchas\n\n{words(260)}## See Also\n\n{words(26)}"
)


def test_strict_repeats_the_faults_of_the_original():
    chunks = chunks_of(TRIMMING, chunker="semantic", strict=True)
    assert [chunk["text_embed"].splitlines()[:2] for chunk in chunks] == [
        ["# Trimming", ""],
        ["# Publish", "## Syntax"],
        ["# Publish", "## Gotchas"],
    ]
    assert exclusions_of(TRIMMING, chunker="semantic", strict=True) == [
        ("lost_rest", f"## See Also\n\n{words(26)}")
    ]


def test_headings_are_those_above_the_start_and_the_rest_is_kept():
    chunks = chunks_of(TRIMMING, chunker="semantic")
    assert [chunk["heading_path"] for chunk in chunks] == [
        ["Trimming"],
        ["Trimming", "Syntax"],
        ["Trimming", "Gotchas"],
    ]
    assert chunks[-1]["text_display"].endswith(f"## See Also\n\n{words(26)}".rstrip())
    assert chunks[-1]["parent_id"] == "s:note.md#trimming"
    assert exclusions_of(TRIMMING, chunker="semantic") == []


def test_a_line_longer_than_a_chunk_is_split():
    (line,) = {"word " * 5000}
    sizes = [chunk["char_count"] for chunk in chunks_of(line, chunker="semantic")]
    assert len(sizes) > 5 and max(sizes) <= 750 / 1.3 * 5 + 1000
    assert heads(line, strict=True) == [line.strip()]
