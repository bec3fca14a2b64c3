"""The tokens that a run may still ask services for."""

from __future__ import annotations


class RunBudget:
    """Tokens that are left; the embedder and the language model of a run share one."""

    def __init__(self, tokens: int):
        self.left = tokens

    def spend(self, tokens: int) -> None:
        """Take what was used."""
        self.left -= tokens
