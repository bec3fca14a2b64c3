"""Token ids by pieces are those of the tokenizer."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.models.static import (
    PieceTokenizer,
    load_tokenizer,
    new_tokenizer,
    read_tokenizer,
    text_pieces,
)
from tests.cases import examples
from tests.timing import growth
from transforms.settings.models import MULTILINGUAL

WHOLE = load_tokenizer()
OWN, MANY = read_tokenizer("weft"), read_tokenizer(MULTILINGUAL)
PAIRS = (
    (WHOLE, PieceTokenizer(read_tokenizer)),
    (OWN, new_tokenizer("weft")),
    (MANY, new_tokenizer(MULTILINGUAL)),
)


def assert_same_ids(texts: list[str]) -> None:
    for whole, by_pieces in PAIRS:
        ids, edges = by_pieces.encode(texts)
        expected = [e.ids for e in whole.encode_batch(texts, add_special_tokens=False)]
        assert [part.tolist() for part in np.split(ids, edges[1:-1])] == expected


def test_no_token_reaches_over_the_end_of_a_piece():
    words = [
        t.replace("\u2581", " ")
        for t in WHOLE.get_vocab()
        if not re.fullmatch("<0x..>|</?s>|<unk>", t)
    ]
    assert len(words) > 30_000 and text_pieces(words)[0].to_pylist() == words


@pytest.mark.parametrize(
    "texts",
    [
        ["", "a", " a", "  \n", "\t1 23  456 a1b2", "don't x86_64 A\u0301 \x01b\x0cc !\u0301"],
        ["diff --git a/x.c b/x.c\n@@ -1,2 +3,4 @@ int f(void)\n-\treturn 0;\r\n+\treturn  -1;\n"],
        [
            "na\u00efve \u0436\u0443\u043a \u65e5\u672c\u8a9e \U0001f600 \u00b2. e\u0301 \x00 \xa0\xa0"
        ],
        ["plain", "<s>struck</s> out", "", "a \u2581 block", "<unk>", "\x02"],
        [""],
    ],
)
def test_ids_are_those_of_the_tokenizer(texts: list[str]):
    assert_same_ids(texts)


@examples(60)
@given(
    st.lists(
        st.text(max_size=60) | st.text("aZ1 \n\t(;\u00e9\u65e5<s>", max_size=60),
        min_size=1,
        max_size=4,
    )
)
def test_ids_of_any_text_are_those_of_the_tokenizer(texts: list[str]):
    assert_same_ids(texts)


def test_a_word_of_any_length_takes_time_by_its_length():
    for _, by_pieces in PAIRS:

        def of(letters: int, by_pieces: PieceTokenizer = by_pieces) -> Callable[[], object]:
            words = ["x" * letters + str(n) for n in range(4)]
            return lambda: (by_pieces.encode(words), by_pieces.forget())

        assert growth(of(5_000), of(50_000), 40) < 40
