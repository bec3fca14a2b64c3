"""Scores of passages by a cross-encoder of sentence-transformers that runs on this machine."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from assets.protocols.models import RerankScores
from transforms.errors import SettingsError, not_installed
from transforms.settings.models import FOLDERS
from transforms.settings.search import RerankSettings

_BATCH = 4
"""Passages between two looks at the clock."""
_PASSAGE_CHARS = 4000
"""Far more than the models read; they cut by tokens."""


def _probability() -> Any:
    """A function that makes a probability of a model's logit."""
    from torch.nn import Sigmoid

    return Sigmoid()


class CrossEncoderScorer:
    """Reads query and passage together; any model with one score, by folder or name on the Hugging Face hub.

    Passages are scored in their order until `seconds` are over, the first few always; a score is ten times the
    model's probability. The model is opened when it is first asked; that time does not count.
    """

    def __init__(self, settings: RerankSettings, clock: Callable[[], float] = time.monotonic):
        self.settings, self.name, self._clock = settings, str(settings.name), clock
        self._loaded: Any = None

    def scores(self, query: str, titles: Sequence[str], texts: Sequence[str]) -> RerankScores:
        """The scores of the passages that there was time for; SettingsError if the model cannot be opened."""
        model = self._load()
        pairs = [
            (query, f"{title}\n{text[:_PASSAGE_CHARS]}") for title, text in zip(titles, texts, strict=True)
        ]
        end = self._clock() + self.settings.seconds
        scores: list[float] = []
        while len(scores) < len(pairs) and (not scores or self._clock() < end):
            batch = pairs[len(scores) : len(scores) + _BATCH]
            part = model.predict(
                batch, batch_size=_BATCH, show_progress_bar=False, activation_fn=_probability()
            )
            scores += (10 * part.astype(float)).tolist()
        return RerankScores(np.nan_to_num(np.array(scores, dtype=np.float64), nan=-np.inf))

    def _load(self) -> Any:
        if self._loaded is None:
            self._loaded = self._open()
        return self._loaded

    def _open(self) -> Any:
        is_folder = self.name.startswith(FOLDERS)
        name, _, commit = (self.name, "", "") if is_folder else self.name.partition("@")
        try:
            from sentence_transformers import CrossEncoder
            from transformers.utils import logging
        except ImportError as error:
            raise not_installed(error, "transformer") from error
        logging.disable_progress_bar()
        try:
            model = CrossEncoder(name, device="cpu", revision=commit or None, local_files_only=is_folder)
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"rerank.name = {self.name!r} cannot be opened as a cross-encoder ({str(error).splitlines()[0]})"
            ) from error
        if model.num_labels != 1:
            raise SettingsError(
                f"rerank.name = {self.name!r} gives {model.num_labels} numbers for a passage; a cross-encoder "
                "with one score is needed"
            )
        return model
