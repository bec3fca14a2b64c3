"""Issues under a lens: triaged again as if there were no others, so that nothing else is compared,
counted or named.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from dagster_project.config.settings import DocumentSourceSettings, Settings
from dagster_project.extras.triage.transforms import items
from dagster_project.extras.triage.transforms.table import (
    TriageSettings,
    author_vectors,
    issue_triage,
)
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.outgoing.receipts import Disclosed
from transforms.retrieval.citations import cited

_DOCUMENTS = f"""
SELECT {", ".join(items.DOCUMENT_COLUMNS)} FROM documents WHERE source IN (SELECT unnest($names::VARCHAR[]))
"""
_VECTORS = """
SELECT c.doc_id, list_min([s.byte_start FOR s IN c.spans]) AS at, e.vector
FROM chunks c JOIN embeddings e USING (chunk_no) WHERE c.source IN (SELECT unnest($names::VARCHAR[]))
ORDER BY c.doc_id, c.chunk_index, c.chunk_id
"""


def triage_settings(settings: Settings) -> TriageSettings:
    """The settings of the triage of issues; `needs` is empty without a source of issues."""
    needs = {
        s.name: s.needs
        for s in settings.sources
        if isinstance(s, DocumentSourceSettings) and s.kind == "issues"
    }
    return TriageSettings(needs, settings.sentence_kinds(), settings.terms, settings.safety)


def shown_issues(settings: Settings, index: SearchIndex, stored: pa.Table | None) -> pa.Table:
    """The table `issue_triage` of the issues in an opened version; summaries of a language model
    are those of `stored`.
    """
    chosen = triage_settings(settings)
    names = {"names": list(chosen.needs)}
    issues = items.issue_items(index.connection.execute(_DOCUMENTS, names).to_arrow_table())
    chunks = pl.DataFrame(index.connection.execute(_VECTORS, names).to_arrow_table())
    by_model = {
        row["doc_id"]: row["summary"]
        for row in (stored.to_pylist() if stored else [])
        if row["summary_kind"] != "extractive"
    }
    vectors = chunks["vector"].to_numpy() if len(chunks) else np.zeros((0, 1), np.float32)
    return issue_triage(issues, author_vectors(issues, chunks, vectors), chosen, by_model)


def disclosed(rows: Sequence[Mapping[str, Any]]) -> list[Disclosed]:
    """The passages that rows of `issue_triage` show: titles and summaries, and the passages that
    agree.
    """
    passages = []
    for row in rows:
        doc_id = row["doc_id"]
        passages.append(Disclosed(doc_id, f"{row['title']}\n{row['summary']}", doc_id))
        for one in row["duplicates"]:
            passages.append(Disclosed(one["doc_id"], one["title"], one["doc_id"]))
            if one["passage"]:
                place = cited(doc_id, one["byte_start"], one["byte_end"])
                passages.append(Disclosed(place, one["passage"], doc_id))
                place = cited(one["doc_id"], one["earlier_start"], one["earlier_end"])
                passages.append(Disclosed(place, one["earlier_passage"], one["doc_id"]))
    return passages


def find_counts(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """The finds in the issues of rows of `issue_triage`, by kind."""
    return sum(
        (Counter({one["kind"]: one["count"]}) for row in rows for one in row["found"]),
        Counter[str](),
    )
