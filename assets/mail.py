"""Mail: archives to messages, blocks, chunks and terms, each partition by itself."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from assets.partitions import MAIL
from assets.protocols.lake import WAITING_BYTES
from assets.protocols.sources import SourcePartition, Sources
from assets.stages.declaration import Display, Made, Needs, Stage
from assets.stages.stage_run import Present
from transforms.mail import address_uses, messages, trailers
from transforms.mail.blocks import table as blocks
from transforms.mail.chunks import long_texts
from transforms.mail.threads import references
from transforms.settings.mail import BlockSettings, ChunkSettings, MailSettings

_NAMED_LINEAGE = {
    **dict.fromkeys(("value", "byte_start", "byte_end"), ("messages.body",)),
    "addr": ("messages.from_addr", "messages.to_addrs", "messages.cc_addrs", "messages.body"),
    "name": ("messages.from_name", "messages.to_names", "messages.cc_names", "messages.body"),
}
_CHUNK_LINEAGE = {
    "doc_id": ("messages.message_id",),
    "parent_id": ("messages.in_reply_to",),
    "title": ("messages.subject", "attachments.filename"),
    **dict.fromkeys(
        ("text_display", "text_embed", "text_lex"), ("messages.body", "attachments.text")
    ),
    **dict.fromkeys(("quote_lex", "rest_lex"), ("messages.body",)),
    "quote_depth_max": ("message_blocks.quote_depth",),
}


def mail_stage(settings: MailSettings, pictures: str = "") -> Stage:
    """The stage that parses mails; `pictures` says how attached pictures are read."""
    return Stage(
        "mail",
        _read_mail,
        Display(
            "Parses the mails of a partition; files that are not mails, too large mails and copies go to quarantine.",
            kinds=("python",),
            code=messages.read_mail,
        ),
        outputs=("messages", "attachments", "quarantine"),
        settings=settings,
        source_type=MAIL,
        variant=pictures,
    )


def message_blocks_stage(settings: BlockSettings) -> Stage:
    """The stage that divides bodies into blocks."""
    return Stage(
        "message_blocks",
        blocks.message_blocks,
        Display(
            "Divides each body into own text, quotes, signatures, code, patches and logs.",
            kinds=("numpy",),
            lineage={"byte_start": ("messages.body",), "byte_end": ("messages.body",)},
        ),
        inputs=("messages",),
        settings=settings,
        source_type=MAIL,
    )


def message_references_stage() -> Stage:
    """The stage of what mails name: other mails and people."""
    return Stage(
        "message_references",
        _named_in_mails,
        Display(
            "Finds references of mails: other mails by commits, Message-IDs and addresses of archives, and people by "
            "trailers, recipients and authors.",
            kinds=("numpy", "polars"),
            code=references.message_references,
            lineage=_NAMED_LINEAGE,
        ),
        inputs=("messages",),
        outputs=("message_references", "message_trailers", "address_uses"),
        source_type=MAIL,
        columns=(*address_uses.COLUMNS, "source", "partition", "body"),
    )


def chunk_messages_stage(
    settings: ChunkSettings, at_once: long_texts.AtOnce = long_texts.AT_ONCE
) -> Stage:
    """The stage that cuts mails into chunks.

    A partition leaves more very long texts than `at_once` for later (`long_texts.chunks_in_time`).
    """
    return Stage(
        "chunk_messages",
        partial(_chunks_in_time, at_once),
        Display(
            "Cuts bodies and attachments into chunks; text without a chunk gets a reason. Very long texts wait until the "
            "rest is published.",
            kinds=("numpy", "polars"),
            code=long_texts.chunks_in_time,
            lineage=_CHUNK_LINEAGE,
        ),
        inputs=("messages", "message_blocks", "attachments"),
        outputs=("message_chunks", "message_exclusions"),
        settings=settings,
        source_type=MAIL,
        needs=Needs(present=True),
    )


def _chunks_in_time(at_once: long_texts.AtOnce, *tables: Any, present: Present) -> Made:
    # A second run of current tables leaves nothing out, and texts that a search finds stay in them.
    texts = long_texts.present_texts(
        present.rows("message_chunks", ["doc_id", "attachment_id"]),
        present.rows("message_exclusions", ["doc_id", "attachment_id", "reason"]),
    )
    limit = long_texts.EVERYTHING if present.is_current else at_once
    result = long_texts.chunks_in_time(*tables, present=texts, at_once=limit)
    waits = {WAITING_BYTES: str(result.waiting)} if result.waiting else {}
    return Made([result.chunks, result.exclusions], {"waiting_bytes": result.waiting}, waits)


def _named_in_mails(mails: pa.Table) -> Sequence[pa.Table]:
    trailer_rows = trailers.message_trailers(mails)
    return (
        references.message_references(mails),
        trailer_rows,
        address_uses.address_uses(mails, trailer_rows),
    )


def _read_mail(
    sources: Sources, partition: SourcePartition, settings: MailSettings
) -> Sequence[pa.Table]:
    return messages.read_mail(
        sources.mails(partition),
        source=partition.source,
        partition=partition.key,
        list_id=partition.list_id,
        settings=settings,
        means=messages.Means(convert=sources.converted),
    )
