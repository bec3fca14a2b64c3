"""Mail: archives to messages, blocks, chunks and terms, each partition by itself."""

from __future__ import annotations

import dagster as dg

from assets.partitions import MAIL, SLOW
from assets.stages import Stage, reading_asset, stage_asset, terms_asset
from transforms.mail import messages
from transforms.mail.blocks import table as blocks
from transforms.mail.chunks import oversize
from transforms.mail.chunks import table as chunks
from transforms.mail.threads import references
from transforms.schemas.chunks import CHUNKS, EXCLUSIONS, SLOW_QUEUE
from transforms.schemas.mail import ATTACHMENTS, MESSAGE_BLOCKS, MESSAGE_REFERENCES, MESSAGES
from transforms.schemas.operations import QUARANTINE
from transforms.settings.mail import BlockSettings, ChunkSettings, MailSettings
from transforms.settings.search import TermSettings


def mail_assets(
    settings: MailSettings,
    block_settings: BlockSettings,
    chunk_settings: ChunkSettings,
    term_settings: TermSettings,
) -> list[dg.AssetsDefinition]:
    """The partitioned assets of mail, in order."""
    return [
        reading_asset(
            MAIL,
            "mail",
            {"messages": MESSAGES, "attachments": ATTACHMENTS, "quarantine": QUARANTINE},
            f"{messages.VERSION}-{settings.digest()}",
            lambda sources, partition: messages.read_mail(
                sources.mails(partition),
                source=partition.source,
                partition=partition.key,
                list_id=partition.list_id,
                settings=settings,
            ),
        ),
        stage_asset(
            MAIL,
            Stage(
                "message_blocks",
                {"message_blocks": MESSAGE_BLOCKS},
                ["messages"],
                f"{blocks.VERSION}-{block_settings.digest()}",
                lambda partition, mails: (blocks.message_blocks(mails, block_settings),),
            ),
        ),
        stage_asset(
            MAIL,
            Stage(
                "chunk_messages",
                {"message_chunks": CHUNKS, "message_exclusions": EXCLUSIONS, "slow_queue": SLOW_QUEUE},
                ["messages", "message_blocks", "attachments"],
                f"{chunks.VERSION}.{oversize.VERSION}-{chunk_settings.digest()}",
                lambda partition, mails, runs, parts: oversize.fast_chunks(
                    mails, runs, parts, chunk_settings
                ),
            ),
        ),
        terms_asset(MAIL, "message_terms", "message_chunks", term_settings),
        stage_asset(
            MAIL,
            Stage(
                "message_references",
                {"message_references": MESSAGE_REFERENCES},
                ["messages"],
                references.VERSION,
                lambda partition, mails: (references.message_references(mails),),
            ),
        ),
    ]


def slow_assets(chunk_settings: ChunkSettings, term_settings: TermSettings) -> list[dg.AssetsDefinition]:
    """The partitioned assets of the slow lane, in order."""
    return [
        stage_asset(
            SLOW,
            Stage(
                "chunk_slow_messages",
                {"slow_chunks": CHUNKS, "slow_exclusions": EXCLUSIONS},
                ["slow_queue", "messages", "message_blocks", "attachments"],
                f"{chunks.VERSION}.{oversize.VERSION}-{chunk_settings.digest()}",
                lambda partition, queue, mails, runs, parts: oversize.slow_chunks(
                    queue, mails, runs, parts, chunk_settings
                ),
            ),
        ),
        terms_asset(SLOW, "slow_terms", "slow_chunks", term_settings),
    ]
