"""What crosses partitions: memberships, threads, links, the context of short replies, over the whole lake."""

from collections.abc import Mapping, Sequence
from dataclasses import fields

import ibis
import pyarrow as pa
import pyarrow.compute as pc

from assets.context import ContextTables, joined_context, placed_chunks, told_context
from assets.protocols.models import AnswerCache, LanguageModel
from assets.sentences import chunk_sentences
from assets.stages.buckets import OfBucket, Reads
from assets.stages.declaration import Made, Stage
from transforms.documents import links
from transforms.embedding import context_sentences
from transforms.embedding import embedded_text as context_transforms
from transforms.mail import people
from transforms.mail.threads import buckets, references
from transforms.mail.threads import inferred_quotes as quotes
from transforms.mail.threads import patch_series as patch_series_transforms
from transforms.mail.threads import threads as threads_transforms
from transforms.schemas.chunks import CHUNK_CONTEXT, TERMS
from transforms.schemas.relations import (
    COMPARED_REPLIES,
    INFERRED_QUOTES,
    LINKS,
    MAIL_BUCKETS,
    MEMBERSHIPS,
    PATCH_SERIES,
    PEOPLE,
    THREAD_TREE,
    THREADS,
)
from transforms.settings.mail import PeopleSettings, ThreadSettings
from transforms.settings.models import WRITTEN_KINDS, SafetySettings, SentenceSettings
from transforms.settings.search import TermSettings
from transforms.text import terms

_MAILS = ("messages", "memberships")
_THREADED = ("in_reply_to", "refs", "subject", "effective_at")


def relation_stages(settings: ThreadSettings, persons: PeopleSettings) -> list[Stage]:
    """The stages of what crosses partitions, up to what embedded texts are made of, in order."""
    return [*_thread_stages(settings), *_link_stages(), _people_stage(persons), _quote_stage()]


def _people_stage(settings: PeopleSettings) -> Stage:
    """The stage of the people behind the addresses of all mails."""

    def make(address_uses: ibis.Table) -> pa.Table:
        return people.people(address_uses.to_pyarrow(), settings.aliases)

    return Stage(
        "people",
        {"people": PEOPLE},
        make,
        f"{people.VERSION}-{settings.digest()}",
        "Joins the addresses that are one person's by what mails say, or an alias.",
        inputs=("address_uses",),
        kinds=("ibis", "polars"),
        code=people.people,
        lineage={"addr": ("address_uses.addr",), "names": ("address_uses.name",)},
    )


def _thread_stages(settings: ThreadSettings) -> list[Stage]:
    """The stages of mails that belong together."""
    return [
        Stage(
            "memberships",
            {"memberships": MEMBERSHIPS},
            threads_transforms.memberships,
            threads_transforms.VERSION,
            "Finds the copies of each mail in all lists, and picks the one that is published.",
            inputs=("messages",),
            kinds=("ibis",),
        ),
        Stage(
            "mail_buckets",
            {"mail_buckets": MAIL_BUCKETS},
            _mail_buckets,
            f"{buckets.VERSION}-{threads_transforms.VERSION}",
            "Deals mails into buckets, so that what can belong together is in one, and what comes changes few of them.",
            inputs=_MAILS,
            settings=settings,
            code=buckets.mail_buckets,
        ),
        Stage(
            "build_threads",
            {"threads": THREADS, "thread_tree": THREAD_TREE},
            threads_transforms.build_threads,
            threads_transforms.VERSION,
            "Joins mails to threads by what they answer, or by their subject.",
            inputs=_MAILS,
            settings=settings,
            in_buckets={
                "messages": Reads(("message_id", *_THREADED, "from_addr")),
                "memberships": Reads(("message_id", "list_id")),
            },
            kinds=(),
            lineage={"parent_id": ("messages.in_reply_to", "messages.refs", "messages.subject")},
        ),
    ]


def _link_stages() -> list[Stage]:
    """The stages of where references lead, and of the patch series that they join."""
    return [
        Stage(
            "message_links",
            {"message_links": LINKS},
            _message_links,
            references.VERSION,
            "Finds the mails to which the references of mails lead.",
            inputs=("message_references", *_MAILS),
            code=references.message_links,
            lineage={"from_id": ("message_references.message_id",), "to_id": ("messages.message_id",)},
        ),
        Stage(
            "document_links",
            {"document_links": LINKS},
            _document_links,
            links.VERSION,
            "Finds the documents, sections and mails to which the links of documents lead.",
            inputs=("document_references", "documents", "document_nodes", "memberships"),
            code=links.document_links,
            lineage={
                "from_id": ("document_references.doc_id",),
                "to_id": ("documents.doc_id", "document_nodes.node_id", "memberships.message_id"),
            },
        ),
        Stage(
            "patch_series",
            {"patch_series": PATCH_SERIES},
            _patch_series,
            patch_series_transforms.VERSION,
            "Joins the mails of a patch series, and a series to its revisions.",
            inputs=(*_MAILS, "thread_tree", "message_links"),
            code=patch_series_transforms.patch_series,
        ),
    ]


_CONTEXT_READS = {
    "message_chunks": Reads(
        (
            *("source", "partition", "doc_id", "chunk_id", "attachment_id", "needs_parent", "chunk_index"),
            *("title", "text_lex", "quote_lex", "text_embed", "spans"),
        ),
        ("doc_id", "chunk_id", "attachment_id", "needs_parent", "chunk_index", "title", "spans", "checksum"),
    ),
    "messages": Reads(("message_id", "body"), ("message_id", "content_hash", "raw_bytes")),
    "thread_tree": Reads(("message_id", "parent_id")),
    "inferred_quotes": Reads(INFERRED_QUOTES.names),
}
"""What the context of chunks is made of; the id of a chunk stands for its text."""


def _quote_stage() -> Stage:
    """The stage of quotes that are not marked as such."""
    return Stage(
        "inferred_quotes",
        {"inferred_quotes": INFERRED_QUOTES, "compared_replies": COMPARED_REPLIES},
        _inferred_quotes,
        quotes.VERSION,
        "Finds lines that a mail repeats of the one it answers without marking them as a quote. Only pairs that "
        "were not compared before are.",
        inputs=(*_MAILS, "message_chunks", "thread_tree"),
        in_buckets={
            "messages": Reads((*quotes.COMPARED, "body"), quotes.COMPARED),
            "message_chunks": Reads(
                ("doc_id", "chunk_id", "attachment_id", "spans", "has_patch_markers"), ("doc_id", "chunk_id")
            ),
            "thread_tree": Reads(("message_id", "parent_id")),
        },
        deps=("slow_chunks",),
        resources=("lake",),
        code=quotes.inferred_quotes,
        lineage={"parent_id": ("thread_tree.parent_id",)},
    )


def chunk_context_stage(
    term_settings: TermSettings,
    sentence_settings: SentenceSettings,
    safety: SafetySettings,
    kinds: Mapping[str, str],
) -> Stage:
    """The stage of `chunk_context`, `context_terms`; `kinds` says by source which sentence its chunks get."""
    version = f"{context_transforms.VERSION}-{term_settings.digest()}"
    told = {source: kind for source, kind in sorted(kinds.items()) if kind != "off"}
    chunks = ("message_chunks", "document_chunks", "conversation_chunks") if told else ("message_chunks",)
    if told:
        used = safety.digest() if set(WRITTEN_KINDS) & set(told.values()) else ""
        versions = f"{context_sentences.VERSION}{context_sentences.PROMPT_VERSION}"
        version += f"-{versions}-{sentence_settings.digest()}-{used}-{told}"

    def make(*read: ibis.Table, language_model: LanguageModel, answer_cache: AnswerCache) -> Made:
        tables = ContextTables(*read)
        joined, restated = joined_context(tables)
        placed = placed_chunks(tables, told)
        sentences, report = chunk_sentences(placed, told, safety, language_model, answer_cache)
        added = told_context(tables, joined, sentences)
        words = terms.context_terms(added, restated, term_settings, sentence_settings.lexical)
        return Made((added, words), report.metadata())

    def make_bucket(
        chunks: pa.Table, messages: pa.Table, tree: pa.Table, inferred: pa.Table, lake: OfBucket
    ) -> Sequence[pa.Table]:
        parents = lake.evaluated(context_transforms.parent_texts, chunks, tree)
        bodies = lake.evaluated(context_transforms.quoting_bodies, messages, inferred)
        quoting = lake.evaluated(context_transforms.chunks_with_quotes, chunks, inferred)
        restated = context_transforms.quotes_moved(quoting, bodies)
        added = context_transforms.chunk_context(parents, restated)
        return added, terms.context_terms(added, restated, term_settings)

    return Stage(
        "build_chunk_context",
        {"chunk_context": CHUNK_CONTEXT, "context_terms": TERMS},
        make if told else make_bucket,
        version,
        "Adds to short replies the text they answer, takes inferred quotes out of chunks, and puts a sentence before "
        "those of the sources that want one.",
        inputs=[field.name for field in fields(ContextTables)] if told else [*_CONTEXT_READS, "memberships"],
        in_buckets=None if told else _CONTEXT_READS,
        deps=("slow_chunks",),
        resources=("language_model", "answer_cache") if told else ("lake",),
        kinds=("ibis",),
        code=joined_context,
        lineage={
            "context": ("message_chunks.text_display", "inferred_quotes.byte_start"),
            "text_embed": tuple(f"{table}.text_embed" for table in chunks),
            "chunk_id": tuple(f"{table}.chunk_id" for table in chunks),
        },
    )


def _once(messages: ibis.Table, memberships: ibis.Table, *columns: str) -> ibis.Table:
    """Columns of the mails, each mail once."""
    return threads_transforms.canonical(
        messages.select("source", "partition", "message_id", *columns), memberships
    )


def _mail_buckets(messages: ibis.Table, memberships: ibis.Table, settings: ThreadSettings) -> pa.Table:
    mails = _once(messages, memberships, *_THREADED)
    lists = memberships.select("message_id", "list_id")
    return buckets.mail_buckets(mails.to_pyarrow(), lists.to_pyarrow(), settings)


def _patch_series(
    messages: ibis.Table, memberships: ibis.Table, thread_tree: ibis.Table, message_links: ibis.Table
) -> pa.Table:
    mails = _once(messages, memberships, "subject", "from_addr", "from_name", "effective_at")
    return patch_series_transforms.patch_series(
        mails.to_pyarrow(), thread_tree.to_pyarrow(), message_links.to_pyarrow()
    )


def _message_links(message_references: ibis.Table, messages: ibis.Table, memberships: ibis.Table) -> pa.Table:
    mails = _once(messages, memberships, "subject", "effective_at")
    named = threads_transforms.canonical(message_references, memberships)
    return references.message_links(named.to_pyarrow(), mails.to_pyarrow())


def _document_links(
    document_references: ibis.Table,
    documents: ibis.Table,
    document_nodes: ibis.Table,
    memberships: ibis.Table,
) -> Made:
    """The links of documents, with the number of those that lead nowhere."""
    named = documents.select("doc_id", "source", "path", "title", "aliases")
    stored = document_references.to_pyarrow()
    urls = stored.filter(pc.field("kind") == "url").column("target").to_pylist()
    possible = pa.array({name for url in urls for name in links.ids_in_url(url)}, pa.string())
    mails = memberships.semi_join(ibis.memtable(pa.table({"message_id": possible})), "message_id")
    known = set(mails.message_id.to_pyarrow().to_pylist())
    resolved = links.document_links(stored, named.to_pyarrow(), document_nodes.to_pyarrow(), known)
    return Made([resolved], {"broken": resolved.column("to_id").null_count})


def _inferred_quotes(
    messages: pa.Table, message_chunks: pa.Table, thread_tree: pa.Table, lake: OfBucket
) -> Sequence[pa.Table]:
    """The tables `inferred_quotes`, `compared_replies`, of mails that are each present once."""
    chunks = message_chunks.filter(pc.field("attachment_id").is_null())
    pairs = quotes.compared_replies(messages, chunks, thread_tree)
    before = lake.stored("inferred_quotes", INFERRED_QUOTES.names)
    known = lake.stored("compared_replies", COMPARED_REPLIES.names)
    again = quotes.pairs_to_compare(pairs, None if before is None else known)
    found = quoted_in(again, messages, chunks)
    return (found if before is None else quotes.merged_quotes(before, pairs, again, found)), pairs


def quoted_in(pairs: pa.Table, messages: pa.Table, chunks: pa.Table) -> pa.Table:
    """The table `inferred_quotes` of `pairs` (message_id, parent_id); only the mails of these are compared."""
    if not pairs.num_rows:
        return INFERRED_QUOTES.empty()
    ids = pa.chunked_array([*pairs["message_id"].chunks, *pairs["parent_id"].chunks])
    return quotes.inferred_quotes(
        messages.filter(pc.is_in(messages["message_id"], ids)),
        chunks.filter(pc.is_in(chunks["doc_id"], ids)),
        pairs,
    )
