"""The account of a command under a lens: the bounds of the lens, and a receipt."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

from dagster_project.config.settings import Settings
from dagster_project.index.search.lookup import document_bytes
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.models.static import PackagedTokenCounter
from dagster_project.outgoing.receipts import Disclosed, Receipts, Seen
from dagster_project.outgoing.screen import Disclosure, Disclosures


class Account:
    """The account of one command, which sees `index` under the lens of that name; `before` is what its session was shown."""

    def __init__(self, settings: Settings, lens: str, index: SearchIndex, before: Iterable[Disclosure] = ()):
        self.settings, self.lens, self.index = settings, lens, index
        self.disclosures = Disclosures(lens, settings.lenses[lens], before)

    def note(
        self, tool: str, question: str, passages: Sequence[Disclosed], masked: Counter[str]
    ) -> Sequence[Disclosure]:
        """The additions of an answer to the session, after its receipt is written; DisclosureLimitError beyond bounds."""
        sizes = partial(document_bytes, self.index.ask)
        entries = self.disclosures.add(passages, PackagedTokenCounter().counts, sizes)
        if self.settings.mcp.receipts:
            view = Seen(self.index.version, self.lens)
            Receipts(self.settings.root).add(tool, question, view, passages, masked)
        return entries
