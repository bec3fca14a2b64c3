"""Additions to chunks before they are embedded: the text of a parent, separate quotes, sentences
that a model may write.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import ibis
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from assets.protocols.models import AnswerCache, LanguageModel
from transforms.embedding import context_sentences, embedded_text
from transforms.mail.threads.threads import canonical
from transforms.schemas.chunks import CHUNK_CONTEXT, PICTURE
from transforms.settings.models import WRITTEN_KINDS


@dataclass(frozen=True)
class ContextTables:
    """The tables of the lake that it is made of; a field has the name of its table."""

    message_chunks: ibis.Table
    document_chunks: ibis.Table
    conversation_chunks: ibis.Table
    documents: ibis.Table
    memberships: ibis.Table
    messages: ibis.Table
    thread_tree: ibis.Table
    threads: ibis.Table
    inferred_quotes: ibis.Table

    def chunks(self) -> ibis.Table:
        """The chunks of all source types that are published."""
        return embedded_text.published_chunks(
            self.message_chunks, self.document_chunks, self.conversation_chunks, self.memberships
        )


def joined_context(tables: ContextTables) -> tuple[pa.Table, pa.Table]:
    """The `chunk_context` table without sentences, and the result of `context.quotes_moved`."""
    bodies = tables.messages.select("source", "partition", "message_id", "body")
    return embedded_text.parent_context(
        canonical(tables.message_chunks, tables.memberships, "doc_id"),
        canonical(bodies, tables.memberships),
        tables.thread_tree,
        tables.inferred_quotes,
    )


def placed_chunks(tables: ContextTables, sources: Iterable[str] | None = None) -> pa.Table:
    """The published chunks with where they stand (`sentences.chunk_facts`), of all sources or those
    named.
    """
    chunks = tables.chunks()
    chunks = chunks.filter((chunks.text_embed != "") & (chunks.chunk_kind != PICTURE))
    if sources is not None:
        chunks = chunks.filter(chunks.source.isin(list(sources)))
    mails = canonical(tables.messages, tables.memberships)
    facts = context_sentences.FactTables(
        mails, tables.thread_tree, tables.threads, tables.documents
    )
    return context_sentences.chunk_facts(chunks, facts).to_pyarrow()


def told_context(tables: ContextTables, joined: pa.Table, sentences: pa.Table) -> pa.Table:
    """`joined` with `sentences` (chunk_id, sentence, sentence_kind), the `chunk_context` table."""
    chunks = tables.chunks()
    rows = chunks.filter(
        chunks.chunk_id.isin(ibis.memtable(sentences.select(["chunk_id"])).chunk_id)
    )
    texts = rows.select("chunk_id", "text_embed").to_pyarrow()
    return CHUNK_CONTEXT.conform(context_sentences.with_sentences(joined, texts, sentences))


@dataclass
class SentenceReport:
    """The result of a run: sentences by kind, chunks asked about now and refused, the cost of that,
    finds by kind.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    requested: int = 0
    refused: int = 0
    unusable: int = 0
    calls: int = 0
    tokens: int = 0
    dollars: float = 0.0
    finds: Counter[str] = field(default_factory=Counter)

    def metadata(self) -> dict[str, int | float]:
        """The figures that are shown with the asset."""
        return {
            **{f"sentences_{kind}": count for kind, count in sorted(self.kinds.items())},
            "chunks_asked_about": self.requested,
            "chunks_refused": self.refused,
            "sentences_not_usable": self.unusable,
            "calls": self.calls,
            "tokens": self.tokens,
            "estimated_cost_usd": round(self.dollars, 6),
            **{f"screened_{kind}": count for kind, count in sorted(self.finds.items())},
        }


@dataclass(frozen=True)
class SentenceEstimate:
    """The cost of requests for sentences: chunks that want one, those to ask about, calls, most
    tokens and dollars.
    """

    chunks: int = 0
    missing: int = 0
    calls: int = 0
    tokens: int = 0
    dollars: float = 0.0


def estimate_sentences(
    placed: pa.Table, asking: context_sentences.Asking, model: LanguageModel, cache: AnswerCache
) -> tuple[SentenceEstimate, pa.Table]:
    """The cost of `chunk_sentences` now, and the table that it would return if no model answered."""
    base, pending, _ = _requests(placed, asking)
    answers = cache.known(sorted({r.key for r in pending}))
    prompts = [
        context_sentences.sentence_prompt(part)
        for part in _batches(_unanswered(pending, answers), context_sentences.BATCH_CHUNKS)
    ]
    tokens, dollars = model.most(prompts, context_sentences.SENTENCES)
    missing = sum(r.key not in answers for r in pending)
    by_model = {r.chunk_id: answers[r.key] for r in pending if answers.get(r.key)}
    return SentenceEstimate(len(pending), missing, len(prompts), tokens, dollars), _table(
        base, by_model
    )


def chunk_sentences(
    placed: pa.Table, asking: context_sentences.Asking, model: LanguageModel, cache: AnswerCache
) -> tuple[pa.Table, SentenceReport]:
    """Columns chunk_id, sentence and sentence_kind for every chunk of `chunk_facts`, and the
    report.

    A chunk without a usable sentence of the model, or about which it is not asked, has the sentence
    of the known facts. Requests with an answer in the cache are not repeated. BudgetError and
    ServiceError as the model raises them; answers until then stay in the cache.
    """
    base, pending, finds = _requests(placed, asking)
    report = SentenceReport(finds=finds)
    by_model: dict[str, str] = {}
    if pending:
        by_model = written_sentences(
            pending,
            context_sentences.SENTENCES,
            context_sentences.BATCH_CHUNKS,
            model,
            cache,
            report,
        )
    sentences = _table(base, by_model)
    report.kinds.update(sentences.column("sentence_kind").to_pylist())
    return sentences, report


def _requests(
    placed: pa.Table, asking: context_sentences.Asking
) -> tuple[pa.Table, list[context_sentences.Request], Counter[str]]:
    """The sentences of the known facts, the requests to the model, and finds by kind."""
    base = context_sentences.structural_sentences(placed)
    written = [source for source, kind in asking.kinds.items() if kind in WRITTEN_KINDS]
    mask = pc.is_in(placed.column("source"), pa.array(written, pa.string()))
    return base, *context_sentences.requests(placed.filter(mask), base.filter(mask), asking)


def _table(base: pa.Table, by_model: Mapping[str, str]) -> pa.Table:
    """Columns chunk_id, sentence and sentence_kind: the model's sentence, else that of the known
    facts.
    """
    frame = pl.DataFrame(base).with_columns(
        by_model=pl.col("chunk_id").replace_strict(by_model, default=None, return_dtype=pl.String)
    )
    return frame.select(
        "chunk_id",
        sentence=pl.coalesce("by_model", "sentence"),
        sentence_kind=pl.when(pl.col("by_model").is_null())
        .then(pl.lit("structural"))
        .otherwise(pl.lit("gemini")),
    ).to_arrow()


def _unanswered(
    pending: Sequence[context_sentences.Request], answers: Mapping[str, str]
) -> list[context_sentences.Request]:
    return list({r.key: r for r in pending if r.key not in answers}.values())


def _batches(
    pending: Sequence[context_sentences.Request], size: int
) -> list[Sequence[context_sentences.Request]]:
    """The requests `size` a prompt, the last fewer; those of a prompt read the same document."""
    batches: list[Sequence[context_sentences.Request]] = []
    for _, of_one in groupby(pending, key=lambda request: request.document):
        requests = list(of_one)
        batches += [requests[start : start + size] for start in range(0, len(requests), size)]
    return batches


def written_sentences(
    pending: Sequence[context_sentences.Request],
    instruction: str,
    size: int,
    model: LanguageModel,
    cache: AnswerCache,
    report: SentenceReport,
) -> dict[str, str]:
    """The model's usable sentence on each request that has one, by its chunk, asked `size` at a
    time.

    Requests with an answer in the cache are not repeated.
    """
    answers = cache.known(sorted({r.key for r in pending}))
    missing = _unanswered(pending, answers)
    refused: list[context_sentences.Request] = []
    batches = _batches(missing, size)
    for count in sorted({len(batch) for batch in batches}, reverse=True):
        fitting = [batch for batch in batches if len(batch) == count]
        refused += _ask(fitting, instruction, model, cache, answers, report)
    # The service may refuse a batch for one chunk of it: the others are asked about by themselves.
    report.refused = len(_ask(_batches(refused, 1), instruction, model, cache, answers, report))
    report.requested = len(missing)
    report.unusable = sum(not answers.get(r.key, "x") for r in missing)
    return {r.chunk_id: answers[r.key] for r in pending if answers.get(r.key)}


def _ask(
    batches: Sequence[Sequence[context_sentences.Request]],
    instruction: str,
    model: LanguageModel,
    cache: AnswerCache,
    answers: dict[str, str],
    report: SentenceReport,
) -> list[context_sentences.Request]:
    """Ask about chunks, a batch a prompt; keeps each answer as it comes and returns the refused
    chunks.

    A sentence that is not usable is kept as an empty one, so that it is not asked for again.
    """
    if not batches:
        return []
    refused: list[context_sentences.Request] = []
    prompts = [context_sentences.sentence_prompt(batch) for batch in batches]
    shape = context_sentences.sentences_shape(len(batches[0]))
    for answer in model.answers(prompts, shape, instruction):
        batch = batches[answer.prompt]
        report.calls += answer.calls
        report.tokens += answer.tokens
        report.dollars += answer.dollars
        if answer.value is None:
            refused += batch
            continue
        written = zip(batch, answer.value.sentences, strict=True)
        sentences = {
            r.key: context_sentences.usable(text, r.data["text"]) or "" for r, text in written
        }
        cache.store(sentences)
        answers |= sentences
    return refused
