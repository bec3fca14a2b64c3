"""The content hashes."""

from hypothesis import given
from hypothesis import strategies as st

from transforms.hashing import bytes_sha256, parts_hash, text_hash


def test_hashes_are_those_of_the_standards():
    assert text_hash("") == "cae66941d9efbd404e4d88758ea67670"
    assert bytes_sha256(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@given(st.lists(st.text()), st.lists(st.text()))
def test_the_boundaries_of_parts_count(one: list[str], other: list[str]):
    assert (parts_hash(one) == parts_hash(other)) is (one == other)


@given(st.text())
def test_a_text_and_its_bytes_are_the_same_part(text: str):
    assert parts_hash([text]) == parts_hash([text.encode()])
