"""A lens shows so many passages, tokens and so much of a document in a session, and not one more."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.outgoing.receipts import Disclosed
from dagster_project.outgoing.screen import Disclosures
from transforms.errors import DisclosureLimitError
from transforms.settings.search import LensSettings


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def sizes(ids: Sequence[str]) -> dict[str, int]:
    """A thread has no size."""
    return {name: 10_000 for name in ids if name != "thread"}


def passage(number: int, doc_id: str = "long", text: str = "words") -> Disclosed:
    return Disclosed(f"{doc_id}:{number}", f"{text} {number}", doc_id)


@given(
    st.integers(1, 9),
    st.lists(st.lists(st.integers(0, 12), max_size=5), max_size=8),
    st.sampled_from(["passages", "tokens"]),
)
def test_what_was_shown_never_passes_a_bound(limit: int, answers: list[list[int]], bound: str):
    session = Disclosures("x", LensSettings.model_validate({"where": "source:a", bound: limit}))
    shown: set[int] = set()
    for numbers in answers:
        try:
            session.add([passage(n) for n in numbers], words, sizes)
        except DisclosureLimitError:
            cost = len(shown | set(numbers)) * (1 if bound == "passages" else 2)
            assert cost > limit
        else:
            shown |= set(numbers)
    assert len(shown) * (1 if bound == "passages" else 2) <= limit


def test_of_a_long_document_a_share_is_shown_and_a_short_one_whole():
    session = Disclosures("x", LensSettings(where="source:a", share=0.5))
    session.add([passage(1, text="x" * 4_000)], words, sizes)
    session.add([passage(1, text="x" * 4_000)], words, sizes)
    with pytest.raises(
        DisclosureLimitError,
        match="50% of a document in a session, which this answer would pass for long",
    ):
        session.add([passage(2, text="y" * 4_000)], words, sizes)
    session.add([passage(2, "short", "y" * 4_000)], words, lambda ids: dict.fromkeys(ids, 4_000))
    with pytest.raises(DisclosureLimitError, match="thread"):
        session.add([passage(3, "thread")], words, sizes)


def test_a_session_goes_on_from_what_it_was_shown():
    lens = LensSettings(where="source:a", passages=2)
    first = Disclosures("x", lens).add([passage(1)], words, sizes)
    session = Disclosures("x", lens, first)
    assert session.add([passage(1), passage(2)], words, sizes)[0].sha256 != first[0].sha256
    with pytest.raises(
        DisclosureLimitError, match="2 passages in a session, 0 are left and this answer has 1 new"
    ):
        session.add([passage(3)], words, sizes)


def test_without_bounds_nothing_is_counted():
    session = Disclosures("x", LensSettings.model_validate("source:a"))
    assert session.add([passage(n) for n in range(1_000)], words, sizes) == []
