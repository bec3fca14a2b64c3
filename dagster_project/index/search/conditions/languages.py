"""The language of each mail, window and document of an index, by the function words in its
postings.
"""

import numpy as np

from transforms.languages import LEAST_WORDS, language_names, word_weights
from transforms.retrieval.bm25 import FIELDS
from transforms.retrieval.postings import Postings
from transforms.settings.search import TermSettings
from transforms.text.terms import stems


def document_languages(
    postings: Postings, document: np.ndarray, settings: TermSettings
) -> np.ndarray:
    """The language of each document, by number, as Snowball names it; empty where its own words do
    not tell.

    `document` has the number of the document of each chunk. As `transforms.languages.language_of`
    finds it, but that of words which stemming makes one, one counts. Some thousand terms are looked
    up: a second for a million chunks.
    """
    names = sorted({*language_names().values()})
    count = int(document.max(initial=-1)) + 1
    sums, counts = (
        np.zeros((len(names), count), np.float32),
        np.zeros((len(names), count), np.uint16),
    )
    of_slot = np.full(postings.slots.count, count, dtype=np.int64)
    of_slot[postings.slots.of(np.arange(len(document)))] = document
    has_text = postings.counts[:, FIELDS.index("text")] > 0
    of_stem: dict[str, dict[str, float]] = {}
    for (_, shares), stem in zip(
        word_weights().items(), stems(list(word_weights()), settings), strict=True
    ):
        for language, share in shares.items():
            of_stem.setdefault(stem, {})[language] = max(
                share, of_stem.get(stem, {}).get(language, 0)
            )
    for stem, shares in of_stem.items():
        holds = np.zeros(count + 1, dtype=bool)
        for part in postings.parts(stem):
            holds[of_slot[part.slots[has_text[part.codes]]]] = True
        for language, share in shares.items():
            row = names.index(language)
            sums[row] += share * holds[:-1]
            counts[row] += holds[:-1]
    best = sums.argmax(axis=0) if count else np.zeros(0, dtype=np.int64)
    known = counts[best, np.arange(count)] >= LEAST_WORDS
    return np.where(known, np.array(names)[best], "")
