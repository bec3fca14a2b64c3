"""Where documents are cut into sections of about one size."""

import pytest

from tests.documents import chunks_of
from transforms.documents.chunks.sections import splits

SENTENCE = "Ten words stand in this sentence and it ends here. "


def shown(text: str, **settings: int) -> list[str]:
    return [chunk["text_display"] for chunk in chunks_of(text, **{"overlap_chars": 0, **settings})]


def test_headings_bound_sections():
    text = "# One\n\n" + SENTENCE * 4 + "\n\n# Two\n\n" + SENTENCE * 4
    assert [chunk["heading_path"] for chunk in chunks_of(text)] == [["One"], ["Two"]]


def test_a_heading_of_a_whole_text_is_not_repeated_in_each_chunk():
    title = "word " * 20_000
    chunks = chunks_of(f"{title}\n===\n\n{f'{SENTENCE * 20}{chr(10) * 2}' * 100}")
    assert len(chunks) > 200
    assert max(len("".join(chunk["heading_path"])) for chunk in chunks) == 200
    assert max(len(chunk["title"]) for chunk in chunks) < 500


@pytest.mark.parametrize(
    "block",
    [
        "- " + "\n- ".join(["an item of some words"] * 20),
        "```\n" + "code = 1\n\n" * 40 + "```",
        "1. " + "\n\n1. ".join(["an item of some words"] * 15),
    ],
    ids=["list", "fence", "loose list"],
)
def test_lists_and_code_stay_whole_where_they_fit(block: str):
    assert len(block) < 700
    made = shown(SENTENCE * 6 + f"\n\n{block}\n\n" + SENTENCE * 10)
    assert any(block in text for text in made)


def test_short_paragraphs_are_gathered_until_the_target():
    made = shown("\n\n".join(["A short paragraph of some forty characters."] * 40))
    assert all(600 < len(text) <= 700 for text in made[:-1])


@pytest.mark.parametrize(
    "text, settings, expected",
    [
        ("aaaa bbbb\n\ncccc dddd", {"target_chars": 14}, ["aaaa bbbb", "cccc dddd"]),
        ("- aaaa\n- bbbb\n- cccc", {"target_chars": 14}, ["- aaaa", "- bbbb\n- cccc"]),
        ("aaaa bbbb\ncccc dddd", {"target_chars": 14}, ["aaaa bbbb", "cccc dddd"]),
        ("Aaaa bb. Cccc dd ee", {"target_chars": 14}, ["Aaaa bb.", "Cccc dd ee"]),
        ("aaaa bbbb cccc dddd", {"target_chars": 14}, ["aaaa bbbb", "cccc dddd"]),
        ("日本語です。次の文です。", {"target_chars": 8}, ["日本語です。", "次の文です。"]),
        ("abcdefghijklmnop", {"target_chars": 10}, ["abcdefghij", "klmnop"]),
    ],
    ids=["paragraphs", "items", "lines", "sentences", "words", "full stops", "anywhere"],
)
def test_what_is_too_large_is_split_at_the_strongest_break(
    text: str, settings: dict, expected: list[str]
):
    assert shown(text, min_chars=0, **settings) == expected


def test_short_sections_join_their_branch_and_never_vanish():
    text = f"# Top\n\n## Tiny\n\nOne.\n\n## Other\n\n{SENTENCE * 2}\n\n# Next\n\n{SENTENCE * 5}\n\n# Last\n\nEnd."
    first, second = chunks_of(text)
    assert (
        first["text_display"] == f"# Top\n\n## Tiny\n\nOne.\n\n## Other\n\n{SENTENCE * 2}".rstrip()
    )
    assert (first["parent_id"], first["heading_path"]) == ("s:note.md#other", ["Top", "Other"])
    assert second["text_display"].endswith("# Last\n\nEnd.")
    assert (second["parent_id"], second["heading_path"]) == ("s:note.md#next", ["Next"])


def test_a_chunk_begins_with_the_end_of_the_one_before_but_not_across_headings():
    text = "# One\n\n" + SENTENCE * 30 + "\n\n# Two\n\n" + SENTENCE * 5
    made = [chunk["spans"] for chunk in chunks_of(text, overlap_chars=100)]
    overlaps = [
        sum(s["byte_end"] - s["byte_start"] for s in spans if s["role"] == "overlap")
        for spans in made
    ]
    assert overlaps[0] == overlaps[-1] == 0
    assert all(0 < size <= 100 for size in overlaps[1:-1])


def test_the_lexical_text_reads_on_around_the_chunk():
    made = chunks_of(
        "\n\n".join(f"Paragraph {n} says little. " * 20 for n in range(5)), context_chars=100
    )
    middle = made[2]
    assert middle["text_display"] in middle["text_lex"]
    assert "Paragraph 1" in middle["text_lex"] and "Paragraph 3" in middle["text_lex"]
    assert "Paragraph 1" not in middle["text_embed"]


@pytest.mark.parametrize("target", [1, 2, 3, 7])
@pytest.mark.parametrize(
    "text", ["aaaa", "a b c d", "\n\n\n\n\n", ". . . . .", "\r\n\r\n\r\n\r\n", "- a\n- b\n- c"]
)
def test_splits_advance_and_leave_no_more_than_the_target(target: int, text: str):
    cuts = [0, *splits(text, 0, len(text), target), len(text)]
    assert all(0 < b - a <= target for a, b in zip(cuts, cuts[1:], strict=False))
