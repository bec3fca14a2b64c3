"""Messages to blocks, chunks and terms: the partitioned text stages."""

from typing import Any

import dagster as dg

from assets.partitions import BACKFILL, UNITS, stage_partitions, table_metadata
from assets.protocols import Lake, Partitions, Progress
from transforms import blocks, chunks, schemas, terms
from transforms.settings import BlockSettings, ChunkSettings, TermSettings


def message_blocks_asset(settings: BlockSettings) -> dg.AssetsDefinition:
    """The asset `message_blocks`."""

    @dg.asset(
        partitions_def=UNITS,
        backfill_policy=BACKFILL,
        group_name="mail",
        kinds={"parquet", "polars"},
        code_version=f"{blocks.VERSION}-{settings.digest()}",
        description=schemas.MESSAGE_BLOCKS.comment,
        metadata=table_metadata(schemas.MESSAGE_BLOCKS),
    )
    def message_blocks(
        context: dg.AssetExecutionContext,
        messages: Partitions,
        lake: dg.ResourceParam[Lake],
        progress: dg.ResourceParam[Progress],
    ) -> object:
        (staged,) = stage_partitions(
            context,
            lake,
            progress,
            ["message_blocks"],
            [messages],
            lambda partition, mails: (blocks.message_blocks(mails, settings),),
        )
        return staged

    return message_blocks


def message_chunks_asset(settings: ChunkSettings) -> dg.AssetsDefinition:
    """The multi-asset `message_chunks`, `message_exclusions`."""
    version = f"{chunks.VERSION}-{settings.digest()}"
    tables = {"message_chunks": schemas.CHUNKS, "message_exclusions": schemas.EXCLUSIONS}

    @dg.multi_asset(
        name="chunk_messages",
        partitions_def=UNITS,
        backfill_policy=BACKFILL,
        group_name="mail",
        outs={
            name: dg.AssetOut(
                description=table.comment,
                code_version=version,
                metadata=table_metadata(table),
                kinds={"parquet", "polars"},
            )
            for name, table in tables.items()
        },
    )
    def chunk_messages(
        context: dg.AssetExecutionContext,
        messages: Partitions,
        message_blocks: Partitions,
        attachments: Partitions,
        lake: dg.ResourceParam[Lake],
        progress: dg.ResourceParam[Progress],
    ) -> tuple[Any, Any]:
        return stage_partitions(
            context,
            lake,
            progress,
            list(tables),
            [messages, message_blocks, attachments],
            lambda partition, mails, runs, parts: chunks.message_chunks(mails, runs, parts, settings),
        )

    return chunk_messages


def message_terms_asset(settings: TermSettings) -> dg.AssetsDefinition:
    """The asset `message_terms`."""

    @dg.asset(
        partitions_def=UNITS,
        backfill_policy=BACKFILL,
        group_name="mail",
        kinds={"parquet", "polars"},
        code_version=f"{terms.VERSION}-{settings.digest()}",
        description=schemas.TERMS.comment,
        metadata=table_metadata(schemas.TERMS),
    )
    def message_terms(
        context: dg.AssetExecutionContext,
        message_chunks: Partitions,
        lake: dg.ResourceParam[Lake],
        progress: dg.ResourceParam[Progress],
    ) -> object:
        (staged,) = stage_partitions(
            context,
            lake,
            progress,
            ["message_terms"],
            [message_chunks],
            lambda partition, table: (terms.chunk_terms(table, settings),),
        )
        return staged

    return message_terms
