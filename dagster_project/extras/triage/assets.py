"""Triage of issues: summaries, finds, gaps and repeats of new ones; without a source of issues it
has no stage.
"""

import json
from functools import partial

import dagster as dg
import ibis
import numpy as np
import polars as pl

from assets.context import SentenceReport, written_sentences
from assets.protocols.lake import Lake
from assets.protocols.models import AnswerCache, LanguageModel
from assets.stages.declaration import Display, Made, Needs, Stage
from dagster_project.config.settings import Settings
from dagster_project.extras.triage.transforms import duplicates, items
from dagster_project.extras.triage.transforms.table import (
    ISSUE_TRIAGE,
    TriageSettings,
    author_vectors,
    issue_triage,
)
from dagster_project.extras.triage.under_lens import triage_settings
from transforms.embedding.context_sentences import Request
from transforms.embedding.embedded_text import embedded_chunks
from transforms.embedding.vectors import matrix
from transforms.hashing import parts_hash, text_hash
from transforms.settings.models import WRITTEN_KINDS
from transforms.text.redaction import screened

TRIAGED = "issue_triage"
_CHECK = "what_is_shown_is_screened"
_INSTRUCTION = (
    "You summarise reports to an issue tracker for somebody who decides who looks into them. `place` is the title of a "
    "report, `text` what its author wrote. Say in one sentence of at most 40 words, plain text, in the language of the "
    "report, what is wrong or wanted, where and since when. Write one sentence per report, in their order."
)
_PROMPT = "1"
"""Number of the prompt in the keys of answers, which are paid for: raised if `_INSTRUCTION` changes."""
_TEXT_CHARS = 4000
"""Characters of an issue that a model reads."""


def triage_stage(settings: TriageSettings) -> Stage:
    """The stage of `issue_triage`."""
    return Stage(
        TRIAGED,
        partial(_triage, settings),
        Display(
            "Sums up each issue, counts its secrets and personal data, and names its gaps and likely repeats.",
            group="triage",
            code=duplicates.repeats,
            lineage={
                "title": ("documents.title",),
                "duplicates": ("documents.text", "embeddings.vector"),
            },
        ),
        inputs=("documents", "document_chunks", "chunk_context", "embeddings"),
        needs=Needs(resources=("lake", "language_model", "answer_cache"), code_version=True),
        variant=settings.version(),
        declared={TRIAGED: ISSUE_TRIAGE},
    )


def _triage(
    settings: TriageSettings,
    *read: ibis.Table,
    lake: Lake,
    language_model: LanguageModel,
    answer_cache: AnswerCache,
    code_version: str,
) -> Made:
    documents, *chunked = read
    rows = documents.filter(documents.source.isin(list(settings.needs)))
    inputs, before = _inputs(rows, lake), lake.footer(TRIAGED)
    state = (before.code_version, before.inputs.get("issues")) if before else None
    if (
        state == (code_version, inputs["issues"])
        and (stored := lake.stored(TRIAGED, ISSUE_TRIAGE.names)) is not None
    ):
        return Made((stored,), {"issues_looked_at": 0}, inputs)
    issues = items.issue_items(rows.select(items.DOCUMENT_COLUMNS).to_pyarrow())
    report = SentenceReport()
    by_model = written_summaries(issues, settings, language_model, answer_cache, report)
    table = issue_triage(issues, _vectors(issues, *chunked), settings, by_model)
    return Made((table,), {"issues_looked_at": len(issues), **report.metadata()}, inputs)


def _inputs(rows: ibis.Table, lake: Lake) -> dict[str, str]:
    """The inputs of the table: the texts of the issues, and the code that made the vectors of their
    chunks.
    """
    texts = rows.select("doc_id", "content_hash").order_by("doc_id").to_pyarrow()
    vectors = lake.footer("embeddings")
    codes = [*lake.code_versions("document_chunks"), vectors.code_version if vectors else ""]
    columns = (texts.column(name).to_pylist() for name in texts.column_names)
    return {"issues": parts_hash([*codes, *(part for column in columns for part in column)])}


def checks(settings: Settings) -> list[dg.AssetChecksDefinition]:
    """The check of `issue_triage`: its texts have been screened, and it names issues that are
    there.
    """

    @dg.asset_check(
        asset=TRIAGED,
        name=_CHECK,
        description="No text of the table holds a secret or an address of a person, and the repeated issues are in it.",
    )
    def check(lake: dg.ResourceParam[Lake]) -> dg.AssetCheckResult:
        stored = lake.stored(TRIAGED, ISSUE_TRIAGE.names)
        rows = stored.to_pylist() if stored else []
        ids = {row["doc_id"] for row in rows}
        # The names of finds, as "password", would be finds themselves.
        texts = [
            json.dumps({n: value for n, value in row.items() if n != "found"}, default=str)
            for row in rows
        ]
        finds = screened(texts, items.SCREEN).finds
        lost = sum(one["doc_id"] not in ids for row in rows for one in row["duplicates"])
        facts, warning = {"finds": dict(finds), "not_there": lost}, dg.AssetCheckSeverity.WARN
        return dg.AssetCheckResult(passed=not finds and not lost, severity=warning, metadata=facts)

    return [check] if triage_settings(settings).needs else []


def _vectors(
    issues: pl.DataFrame, chunks: ibis.Table, context: ibis.Table, embeddings: ibis.Table
) -> np.ndarray:
    """For each issue the mean of the vectors of its author's text, of unit length; zeros without
    one.
    """
    own = chunks.semi_join(ibis.memtable(issues.select("doc_id").to_arrow()), "doc_id")
    places = pl.DataFrame(own.select("chunk_id", "spans").to_pyarrow()).with_columns(
        at=pl.col("spans").list.eval(pl.element().struct.field("byte_start")).list.min()
    )
    embedded = embedded_chunks(own, context, embeddings).to_pyarrow()
    rows = pl.DataFrame(embedded.select(["chunk_id", "doc_id"])).join(
        places, on="chunk_id", maintain_order="left"
    )
    return author_vectors(
        issues, rows, matrix(embedded.column("vector")) if len(rows) else np.zeros((0, 1))
    )


def written_summaries(
    issues: pl.DataFrame,
    settings: TriageSettings,
    model: LanguageModel,
    cache: AnswerCache,
    report: SentenceReport,
) -> dict[str, str]:
    """A language model's summaries by document, of the sources that want them.

    Each issue is asked about by itself, so that nothing in it speaks on another one.
    """
    requests = []
    for doc_id, source, title, text in issues.select(
        "doc_id", "source", "title", "text"
    ).iter_rows():
        if settings.kinds.get(source) in WRITTEN_KINDS and text.strip():
            data = {"place": title, "text": text[:_TEXT_CHARS]}
            key = f"{model.model}/triage{_PROMPT}/{text_hash(json.dumps(data, sort_keys=True))}"
            requests.append(Request(doc_id, key, data))
    return written_sentences(requests, _INSTRUCTION, 1, model, cache, report) if requests else {}


def stages(settings: Settings) -> list[Stage]:
    """The stage of `issue_triage`."""
    chosen = triage_settings(settings)
    return [triage_stage(chosen)] if chosen.needs else []
