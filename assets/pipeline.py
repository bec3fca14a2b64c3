"""All stages of a build, in the order in which text flows through them."""

from assets import conversations, documents, mail, relations
from assets.partitions import CONVERSATIONS, DOCUMENTS, MAIL
from assets.protocols.models import TokenCounter
from assets.protocols.settings import PipelineSettings
from assets.readiness import readiness_stage
from assets.stages.declaration import Stage, terms_stage
from transforms.mail.chunks.long_texts import AtOnce


def source_stages(settings: PipelineSettings, tokens: TokenCounter, at_once: AtOnce) -> list[Stage]:
    """The stages that make the tables of each partition of a source, from its files alone.

    A partition leaves more very long texts than `at_once` for later.
    """
    pictures = settings.documents.picture_reading
    return [
        mail.mail_stage(settings.mail, pictures),
        mail.message_blocks_stage(settings.blocks),
        mail.chunk_messages_stage(settings.chunks, at_once),
        terms_stage(MAIL, "message_terms", "message_chunks", settings.terms),
        mail.message_references_stage(),
        documents.read_documents_stage(settings.documents),
        documents.document_nodes_stage(),
        documents.document_references_stage(),
        documents.chunk_documents_stage(settings.chunkers()),
        terms_stage(DOCUMENTS, "document_terms", "document_chunks", settings.terms),
        conversations.read_conversations_stage(settings.conversations, pictures),
        conversations.consolidate_conversations_stage(),
        conversations.cut_query_chunks_stage(settings.conversations, tokens),
        conversations.chunk_conversations_stage(settings.conversations, tokens),
        terms_stage(CONVERSATIONS, "conversation_terms", "conversation_chunks", settings.terms),
    ]


def relation_stages(settings: PipelineSettings) -> list[Stage]:
    """The stages over the whole lake, before vectors (`embeddings`) and the published index."""
    return [
        relations.memberships_stage(),
        relations.mail_buckets_stage(settings.threads),
        relations.build_threads_stage(settings.threads),
        relations.message_links_stage(),
        relations.document_links_stage(),
        relations.patch_series_stage(),
        relations.people_stage(settings.people),
        relations.inferred_quotes_stage(),
        relations.chunk_context_stage(
            settings.terms, settings.sentences, settings.safety, settings.sentence_kinds()
        ),
        relations.measure_counts_stage(),
        relations.corpus_measures_stage(),
    ]


def index_stages(settings: PipelineSettings, tokens: TokenCounter) -> list[Stage]:
    """The stages that ask the published index (`search_index`), before those of extras."""
    return [
        readiness_stage(),
        conversations.candidates_stage(settings.context),
        conversations.documents_stage(settings.context),
        conversations.context_stage(settings.context, tokens),
    ]
