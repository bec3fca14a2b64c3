"""Relations across partitions: memberships, threads, links, the context of short replies, measures,
over the whole lake.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial

import ibis
import pyarrow as pa
import pyarrow.compute as pc

from assets.context import (
    ContextTables,
    chunk_sentences,
    joined_context,
    placed_chunks,
    told_context,
)
from assets.protocols.lake import Lake
from assets.protocols.models import AnswerCache, LanguageModel
from assets.stages.buckets import OfBucket
from assets.stages.declaration import Display, Made, Needs, Stage
from transforms.documents import links
from transforms.embedding import context_sentences
from transforms.embedding import embedded_text as context_transforms
from transforms.mail import people
from transforms.mail.threads import buckets, references
from transforms.mail.threads import corpus_measures as measures
from transforms.mail.threads import inferred_quotes as quotes
from transforms.mail.threads import patch_series as patch_series_transforms
from transforms.mail.threads import threads as threads_transforms
from transforms.schemas.relations import COMPARED_REPLIES, INFERRED_QUOTES
from transforms.settings.mail import PeopleSettings, ThreadSettings
from transforms.settings.models import WRITTEN_KINDS, SafetySettings, SentenceSettings
from transforms.settings.search import TermSettings
from transforms.text import terms

_MAILS = ("messages", "memberships")
_THREADED = ("in_reply_to", "refs", "subject", "effective_at")


def people_stage(settings: PeopleSettings) -> Stage:
    """The stage that joins the addresses of persons."""
    return Stage(
        "people",
        partial(_people, settings),
        Display(
            "Joins the addresses that are one person's by signs in mails, or an alias.",
            kinds=("polars",),
            code=people.people,
            lineage={"addr": ("address_uses.addr",), "names": ("address_uses.name",)},
        ),
        inputs=("address_uses",),
        variant=settings.digest(),
    )


def inferred_quotes_stage() -> Stage:
    """The stage of quotes that nothing marks."""
    return Stage(
        "inferred_quotes",
        _inferred_quotes,
        Display(
            "Finds lines that a mail repeats of the one it answers without marking them as a quote. Only pairs that "
            "were not compared before are.",
            kinds=("numpy", "polars"),
            code=quotes.inferred_quotes,
            lineage={"parent_id": ("thread_tree.parent_id",)},
        ),
        inputs=(*_MAILS, "message_chunks", "thread_tree"),
        outputs=("inferred_quotes", "compared_replies"),
        in_buckets={
            "messages": (*quotes.COMPARED, "body"),
            "message_chunks": (
                "doc_id",
                "chunk_id",
                "attachment_id",
                "spans",
                "has_patch_markers",
            ),
            "thread_tree": ("message_id", "parent_id"),
        },
        needs=Needs(resources=("lake",), code_version=True),
    )


def memberships_stage() -> Stage:
    """The stage of the copies of each mail."""
    return Stage(
        "memberships",
        threads_transforms.memberships,
        Display(
            "Finds the copies of each mail in all lists, and picks the one that is published.",
            kinds=("ibis",),
        ),
        inputs=("messages",),
    )


def mail_buckets_stage(settings: ThreadSettings) -> Stage:
    """The stage that deals mails into buckets."""
    return Stage(
        "mail_buckets",
        _mail_buckets,
        Display(
            "Deals mails into buckets, so that related mails are in one, and new mail changes few of them.",
            kinds=("numpy", "polars"),
            code=buckets.mail_buckets,
        ),
        inputs=_MAILS,
        settings=settings,
    )


def build_threads_stage(settings: ThreadSettings) -> Stage:
    """The stage of threads and their trees."""
    return Stage(
        "build_threads",
        threads_transforms.build_threads,
        Display(
            "Joins mails to threads by the mail that they answer, or by their subject.",
            kinds=("polars",),
            lineage={"parent_id": ("messages.in_reply_to", "messages.refs", "messages.subject")},
        ),
        inputs=_MAILS,
        outputs=("threads", "thread_tree"),
        settings=settings,
        in_buckets={
            "messages": ("message_id", *_THREADED, "from_addr"),
            "memberships": ("message_id", "list_id"),
        },
    )


def message_links_stage() -> Stage:
    """The stage of links from mail to mail."""
    return Stage(
        "message_links",
        _message_links,
        Display(
            "Finds the mails to which the references of mails lead.",
            kinds=("ibis",),
            code=references.message_links,
            lineage={
                "from_id": ("message_references.message_id",),
                "to_id": ("messages.message_id",),
            },
        ),
        inputs=("message_references", *_MAILS),
        needs=Needs(resources=("lake",)),
    )


def document_links_stage() -> Stage:
    """The stage of links of documents, also to mails."""
    return Stage(
        "document_links",
        _document_links,
        Display(
            "Finds the documents, sections and mails to which the links of documents lead.",
            kinds=("python",),
            code=links.document_links,
            lineage={
                "from_id": ("document_references.doc_id",),
                "to_id": (
                    "documents.doc_id",
                    "document_nodes.node_id",
                    "memberships.message_id",
                ),
            },
        ),
        inputs=("document_references", "documents", "document_nodes", "memberships"),
    )


def patch_series_stage() -> Stage:
    """The stage of patch series and their revisions."""
    return Stage(
        "patch_series",
        _patch_series,
        Display(
            "Joins the mails of a patch series, and a series to its revisions.",
            kinds=("numpy", "polars"),
            code=patch_series_transforms.patch_series,
        ),
        inputs=(*_MAILS, "thread_tree", "message_links"),
    )


_CONTEXT_READS = {
    "message_chunks": (
        *(
            "source",
            "partition",
            "doc_id",
            "chunk_id",
            "attachment_id",
            "needs_parent",
            "chunk_index",
        ),
        *("title", "text_lex", "quote_lex", "text_embed", "spans"),
    ),
    "messages": ("message_id", "body"),
    "thread_tree": ("message_id", "parent_id"),
    "inferred_quotes": INFERRED_QUOTES.names,
}


def chunk_context_stage(
    term_settings: TermSettings,
    sentence_settings: SentenceSettings,
    safety: SafetySettings,
    kinds: Mapping[str, str],
) -> Stage:
    """The stage of `chunk_context`, `context_terms`; `kinds` says by source which sentence its
    chunks get.
    """
    variant = term_settings.digest()
    kinds = {source: kind for source, kind in sorted(kinds.items()) if kind != "off"}
    chunks = (
        ("message_chunks", "document_chunks", "conversation_chunks")
        if kinds
        else ("message_chunks",)
    )
    if kinds:
        used = safety.digest() if set(WRITTEN_KINDS) & set(kinds.values()) else ""
        variant += f"-{sentence_settings.digest()}-{used}-{kinds}"
    return Stage(
        "build_chunk_context",
        partial(_context_with_sentences, kinds, safety, term_settings)
        if kinds
        else partial(_context_of_bucket, term_settings),
        Display(
            "Adds to short replies the text they answer, takes inferred quotes out of chunks, and puts a sentence before "
            "those of the sources that want one.",
            kinds=("ibis",),
            code=context_transforms.parent_texts,
            lineage={
                "context": ("message_chunks.text_display", "inferred_quotes.byte_start"),
                **{
                    name: tuple(f"{table}.{name}" for table in chunks)
                    for name in ("text_embed", "chunk_id")
                },
            },
        ),
        inputs=[field.name for field in fields(ContextTables)]
        if kinds
        else [*_CONTEXT_READS, "memberships"],
        outputs=("chunk_context", "context_terms"),
        in_buckets=None if kinds else _CONTEXT_READS,
        needs=Needs(resources=("language_model", "answer_cache") if kinds else ("lake",)),
        variant=variant,
    )


def _context_with_sentences(
    kinds: Mapping[str, str],
    safety: SafetySettings,
    term_settings: TermSettings,
    *inputs: ibis.Table,
    language_model: LanguageModel,
    answer_cache: AnswerCache,
) -> Made:
    tables = ContextTables(*inputs)
    joined, restated = joined_context(tables)
    placed = placed_chunks(tables, kinds)
    asking = context_sentences.Asking(language_model.model, safety, kinds)
    sentences, report = chunk_sentences(placed, asking, language_model, answer_cache)
    context = told_context(tables, joined, sentences)
    return Made((context, terms.context_terms(context, restated, term_settings)), report.metadata())


def _context_of_bucket(
    term_settings: TermSettings, *inputs: pa.Table, lake: OfBucket
) -> Sequence[pa.Table]:
    chunks, messages, tree, inferred = inputs
    parents = lake.evaluated(context_transforms.parent_texts, chunks, tree)
    bodies = lake.evaluated(context_transforms.quoting_bodies, messages, inferred)
    quoting = lake.evaluated(context_transforms.chunks_with_quotes, chunks, inferred)
    restated = context_transforms.quotes_moved(quoting, bodies)
    context = context_transforms.chunk_context(parents, restated)
    return context, terms.context_terms(context, restated, term_settings)


def _people(settings: PeopleSettings, address_uses: ibis.Table) -> pa.Table:
    return people.people(address_uses.to_pyarrow(), settings.aliases)


def _once(messages: ibis.Table, memberships: ibis.Table, *columns: str) -> ibis.Table:
    return threads_transforms.canonical(
        messages.select("source", "partition", "message_id", *columns), memberships
    )


def _mail_buckets(
    messages: ibis.Table, memberships: ibis.Table, settings: ThreadSettings
) -> pa.Table:
    mails = _once(messages, memberships, *_THREADED)
    lists = memberships.select("message_id", "list_id")
    return buckets.mail_buckets(mails.to_pyarrow(), lists.to_pyarrow(), settings)


def _patch_series(
    messages: ibis.Table,
    memberships: ibis.Table,
    thread_tree: ibis.Table,
    message_links: ibis.Table,
) -> pa.Table:
    mails = _once(messages, memberships, "subject", "from_addr", "from_name", "effective_at")
    return patch_series_transforms.patch_series(
        mails.to_pyarrow(), thread_tree.to_pyarrow(), message_links.to_pyarrow()
    )


def _message_links(
    message_references: ibis.Table, messages: ibis.Table, memberships: ibis.Table, lake: Lake
) -> pa.Table:
    mails = _once(messages, memberships, "subject", "effective_at").to_pyarrow()
    rows = threads_transforms.canonical(message_references, memberships).to_pyarrow()
    return lake.evaluated(references.message_links, rows, references.titled_mails(mails))


def _document_links(
    document_references: ibis.Table,
    documents: ibis.Table,
    document_nodes: ibis.Table,
    memberships: ibis.Table,
) -> Made:
    names = documents.select("doc_id", "source", "path", "title", "aliases")
    stored = document_references.to_pyarrow()
    urls = stored.filter(pc.field("kind") == "url").column("target").to_pylist()
    possible = pa.array({name for url in urls for name in links.ids_in_url(url)}, pa.string())
    mails = memberships.semi_join(ibis.memtable(pa.table({"message_id": possible})), "message_id")
    mail_ids = set(mails.message_id.to_pyarrow().to_pylist())
    resolved = links.document_links(
        stored, names.to_pyarrow(), document_nodes.to_pyarrow(), mail_ids
    )
    return Made([resolved], {"broken": resolved.column("to_id").null_count})


def _inferred_quotes(
    messages: pa.Table,
    message_chunks: pa.Table,
    thread_tree: pa.Table,
    lake: OfBucket,
    code_version: str,
) -> Sequence[pa.Table]:
    chunks = message_chunks.filter(pc.field("attachment_id").is_null())
    pairs = quotes.compared_replies(messages, chunks, thread_tree, code_version)
    before = lake.stored("inferred_quotes", INFERRED_QUOTES.names)
    previous = lake.stored("compared_replies", COMPARED_REPLIES.names)
    again = quotes.pairs_to_compare(pairs, None if before is None else previous)
    new_quotes = quoted_in(again, messages, chunks)
    return (
        new_quotes if before is None else quotes.merged_quotes(before, pairs, again, new_quotes)
    ), pairs


def quoted_in(pairs: pa.Table, messages: pa.Table, chunks: pa.Table) -> pa.Table:
    """The table `inferred_quotes` of `pairs` (message_id, parent_id); only the mails of these are
    compared.
    """
    if not pairs.num_rows:
        return INFERRED_QUOTES.empty()
    ids = pa.chunked_array([*pairs["message_id"].chunks, *pairs["parent_id"].chunks])
    return quotes.inferred_quotes(
        messages.filter(pc.is_in(messages["message_id"], ids)),
        chunks.filter(pc.is_in(chunks["doc_id"], ids)),
        pairs,
    )


_MEASURED = {
    "messages": ("message_id", "list_id", "defects", "body"),
    "message_blocks": measures.BLOCK_COLUMNS,
    "message_chunks": measures.CHUNK_COLUMNS,
    "attachments": ("message_id",),
    "thread_tree": ("message_id", "parent_id", "thread_id"),
}


def measure_counts_stage() -> Stage:
    """The stage of the measures of each bucket of mails."""
    return Stage(
        "measure_counts",
        _counts,
        Display(
            "Counts quotes, duplicates, parents, defects and kinds of discussion in each bucket of mails.",
            kinds=("numpy", "polars"),
            code=measures.counts_of_bucket,
        ),
        inputs=(*_MEASURED, "memberships"),
        in_buckets=_MEASURED,
    )


def corpus_measures_stage() -> Stage:
    """The stage of the measures of each list, which a publish shows."""
    return Stage(
        "corpus_measures",
        _corpus_measures,
        Display(
            "Adds up the measures of each list over all buckets, which Dagster draws over time.",
            kinds=("ibis",),
            code=measures.corpus_measures,
        ),
        inputs=("measure_counts",),
    )


def _counts(*tables: pa.Table) -> pa.Table:
    return measures.counts_of_bucket(measures.BucketTables(*tables))


def _corpus_measures(counts: ibis.Table) -> Made:
    measured = measures.corpus_measures(counts).to_pyarrow()
    return Made([measured], measures.as_metadata(measured))
