"""Tokens counted by the tokenizer of the static model, which is read from the installed package."""

from __future__ import annotations

from collections.abc import Sequence

from dagster_project.resources.models.static import TOKENIZER, load_tokenizer


class PackagedTokenCounter:
    """Counts tokens with the Llama 2 tokenizer inside the wordllama package."""

    name = TOKENIZER.removesuffix("_tokenizer_config.json")

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without those that a model adds at its ends."""
        encoded = load_tokenizer().encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(e.ids) for e in encoded]
