"""Rules of ra for files that want context: its sources, further words of its queries, and documents
to show always.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dagster_project.config.settings import Settings
from dagster_project.index.search.lookup import resolved_name
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.sources.trees import matcher
from transforms.errors import QueryError, UnknownIdError
from transforms.settings.conversations import ContextSettings

_CHUNKS = """
SELECT chunk_id FROM chunks
WHERE $id IN (chunk_id, doc_id, parent_id, attachment_id) AND doc_id NOT IN (SELECT unnest($own::VARCHAR[]))
ORDER BY doc_id, chunk_index, chunk_id
"""


@dataclass(frozen=True)
class Rules:
    """The sum of all rules that match a file: the sources, words beside its own, and documents to
    show before all.
    """

    sources: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    include: tuple[str, ...] = ()

    def narrowed(self, settings: ContextSettings) -> ContextSettings:
        """The settings with the sources of the rules beside their own conditions."""
        if not self.sources:
            return settings
        condition = " OR ".join(f"source:{name}" for name in self.sources)
        where = f"({settings.where}) ({condition})" if settings.where.strip() else condition
        return settings.model_copy(update={"where": where})


def context_rules(settings: Settings, file: Path | None) -> Rules:
    """The rules of [[context.rules]] that match a file, by its path below the settings file or else
    by its name.
    """
    if file is None:
        return Rules()
    place, base = file.resolve(), settings.base.resolve()
    name = place.relative_to(base).as_posix() if place.is_relative_to(base) else place.name
    rules = [rule for rule in settings.context.rules if matcher(rule.match)(name)]
    return Rules(
        tuple(dict.fromkeys(source for rule in rules for source in rule.sources)),
        tuple(dict.fromkeys(term for rule in rules for term in rule.terms)),
        tuple(dict.fromkeys(ident for rule in rules for ident in rule.include)),
    )


def included_chunks(
    index: SearchIndex, names: Sequence[str], own: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The chunks of the things that `names` mean, in order, without those of documents `own`; and
    unknown names.
    """
    chunks: list[str] = []
    unknown: list[str] = []
    for name in names:
        try:
            _, ident = resolved_name(index.ask, name)
        except (UnknownIdError, QueryError):
            unknown.append(name)
            continue
        chunks += index.ask(_CHUNKS, {"id": ident, "own": list(own)}).column(0).to_pylist()
    return list(dict.fromkeys(chunks)), unknown
