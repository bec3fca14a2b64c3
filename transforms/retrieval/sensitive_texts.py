"""Texts that somebody labelled as sensitive, and others that are like them by their vectors."""

from collections.abc import Mapping

import numpy as np

from transforms.errors import SettingsError

PUBLIC = "public"
"""The label of a text that is not sensitive, and an example of these."""
LEAST_EXAMPLES = 10
"""Labelled texts, sensitive and public, from which others are judged by them."""
FOUND = 0.95
"""Share of the sensitive examples, each judged by the others, that the threshold finds."""
_FOLDS, _RIDGE = 10, 1.0


def read_labels(text: str, name: str) -> dict[str, str]:
    """The label of each id of a file: a line has an id, a tab and a label; other columns, empty lines and # are left out.

    SettingsError names the line that is not so.
    """
    labels: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            key, *label = (part.strip() for part in line.split("\t"))
            if not key or not label or not label[0]:
                raise SettingsError(
                    f"{name}, line {number}: write an id, a tab and a label, as `<a@b.c>\tsecret`"
                )
            labels[key.removeprefix("<").removesuffix(">")] = label[0].lower()
    return labels


def alike(
    count: int, texts: np.ndarray, vectors: np.ndarray, is_sensitive: Mapping[int, bool]
) -> np.ndarray:
    """Which of `count` texts are like the sensitive examples, bool by number of the text.

    `texts` has the number of the text of each vector (rows, dimensions). The score of a text is the highest of its vectors
    by ridge regression on the examples' labels, both kinds of the same weight (Hastie, Tibshirani, Friedman: The Elements
    of Statistical Learning, 3.4.1 and 4.2). The threshold finds FOUND of the sensitive examples or more, if each tenth of
    all is judged by the rest. An example has its label, a text without a vector is sensitive.
    SettingsError if there are too few examples of a kind.
    """
    examples = sorted(is_sensitive)
    labels = np.array([is_sensitive[n] for n in examples])
    if min(labels.sum(), (~labels).sum()) < LEAST_EXAMPLES:
        raise SettingsError(
            f"sensitivity:alike needs {LEAST_EXAMPLES} sensitive and {LEAST_EXAMPLES} public texts of this index; "
            f"the file of labels names {labels.sum()} and {(~labels).sum()}"
        )
    label_of, fold_of = np.full(count, np.nan), np.full(count, -1)
    label_of[examples] = labels
    for of_kind in (np.array(examples)[labels], np.array(examples)[~labels]):
        fold_of[of_kind] = np.arange(len(of_kind)) % _FOLDS

    def scores(fold: int) -> np.ndarray:
        """The score of each text by the examples outside a fold: the highest of its vectors, -inf without one."""
        rows = (fold_of[texts] >= 0) & (fold_of[texts] != fold)
        weights = _weights(vectors[rows], label_of[texts[rows]])
        highest = np.full(count, -np.inf)
        np.maximum.at(highest, texts, np.round(vectors @ weights[:-1] + weights[-1], 6))
        return highest

    held_out = np.choose(fold_of.clip(0), [scores(fold) for fold in range(_FOLDS)])
    by_kind = [np.sort(held_out[(label_of == kind) & np.isfinite(held_out)]) for kind in (0, 1)]
    score = scores(_FOLDS)
    result = (score >= _threshold(*by_kind)) | ~np.isfinite(score)
    result[examples] = labels
    return result


def _threshold(public: np.ndarray, sensitive: np.ndarray) -> float:
    """The score that parts sorted scores best (Youden 1950), among those that find FOUND of the sensitive."""
    candidates = sensitive[: int((1 - FOUND) * len(sensitive)) + 1]
    parted = np.searchsorted(public, candidates) / len(public) - np.arange(len(candidates)) / len(
        sensitive
    )
    best = candidates[parted.argmax()]
    below = public[public < best]
    return float((best + below[-1]) / 2 if len(below) else best)


def _weights(vectors: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The weights of the dimensions, and last the constant."""
    rows = np.column_stack([vectors.astype(np.float64), np.ones(len(vectors))])
    share = np.where(
        labels > 0, 0.5 / max(1, (labels > 0).sum()), 0.5 / max(1, (labels <= 0).sum())
    )
    weighed = rows * share[:, None] * len(rows)
    ridge = _RIDGE * np.eye(rows.shape[1])
    ridge[-1, -1] = 0.0
    return np.linalg.solve(rows.T @ weighed + ridge, weighed.T @ np.where(labels > 0, 1.0, -1.0))
