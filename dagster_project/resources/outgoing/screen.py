"""Secrets and personal data in what answers show: masked or held back as `safety.outputs` says, and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from transforms.context.block import Passage
from transforms.settings.models import SafetySettings
from transforms.text.redaction import masked_in_place

_NAMES = {
    "citation",
    "source",
    "source_kind",
    "chunk_kind",
    "kind",
    "reason",
    "stands_for",
    "reranker",
    "label",
}
"""Columns of hits that name things, beside those that end with _id."""


@dataclass
class Screen:
    """What texts of one answer pass; `finds` counts by kind what it masked or held back."""

    settings: SafetySettings
    for_assistant: bool = False
    finds: Counter[str] = field(default_factory=Counter)

    def text(self, text: str) -> str:
        """The text as it may be shown: of the same number of bytes, unless it is held back as a whole."""
        if self.is_open:
            return text
        masked, finds = masked_in_place(text, self.settings)
        self.finds += finds
        is_held = finds and self.settings.outputs == "hold"
        return f"[held back: {', '.join(sorted(finds))}]" if is_held else masked

    @property
    def is_open(self) -> bool:
        """True if all texts are shown as they are."""
        action = self.settings.outputs
        return action == "send" or (action == "assistants" and not self.for_assistant)

    def hits(self, hits: pa.Table) -> pa.Table:
        """A table of hits with what is shown of their texts; names of things stay, since they open them."""
        if self.is_open:
            return hits
        rows = [{name: self._shown(name, value) for name, value in row.items()} for row in hits.to_pylist()]
        return pa.Table.from_pylist(rows, schema=hits.schema)

    def _shown(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return value if name in _NAMES or name.endswith("_id") else self.text(value)
        if isinstance(value, list):
            return [self._shown(name, item) for item in value]
        if isinstance(value, dict):
            return {key: self._shown(key, item) for key, item in value.items()}
        return value

    def optional(self, text: str | None) -> str | None:
        """As `text`; None stays None."""
        return None if text is None else self.text(text)

    def passages(self, passages: Mapping[str, Passage]) -> dict[str, Passage]:
        """Passages with what is shown of them."""
        return {
            chunk: replace(
                passage,
                text=self.text(passage.text),
                title=self.text(passage.title),
                around=self.optional(passage.around),
            )
            for chunk, passage in passages.items()
        }
