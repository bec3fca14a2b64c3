"""Tokens counted by the tokenizer of the static model, which is read from the installed package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TOKENIZER = "l2_supercat_tokenizer_config.json"
"""The tokenizer's file; manifests of contexts carry the name."""


class PackagedTokenCounter:
    """Counts tokens with the Llama 2 tokenizer inside the wordllama package."""

    name = TOKENIZER.removesuffix("_tokenizer_config.json")

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        spec = find_spec("wordllama")
        assert spec and spec.origin
        tokenizer = Tokenizer.from_file(str(Path(spec.origin).parent / "tokenizers" / TOKENIZER))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without those that a model adds at its ends."""
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(e.ids) for e in encoded]
