"""Raw mail to messages, attachments and quarantine: the first stage, one partition per unit of a source."""

from typing import Any

import dagster as dg
import pyarrow as pa

from assets.partitions import BACKFILL, UNITS, stage_partitions, table_metadata
from assets.protocols import Lake, Progress, Sources
from transforms import mail, schemas
from transforms.settings import MailSettings

TABLES = {
    "messages": schemas.MESSAGES,
    "attachments": schemas.ATTACHMENTS,
    "quarantine": schemas.QUARANTINE,
}


def mail_assets(settings: MailSettings) -> dg.AssetsDefinition:
    """The multi-asset `messages`, `attachments`, `quarantine`."""
    version = f"{mail.VERSION}-{settings.digest()}"

    @dg.multi_asset(
        name="mail",
        partitions_def=UNITS,
        backfill_policy=BACKFILL,
        group_name="mail",
        outs={
            name: dg.AssetOut(
                description=table.comment,
                code_version=version,
                metadata=table_metadata(table),
                kinds={"parquet"},
            )
            for name, table in TABLES.items()
        },
    )
    def read_mail(
        context: dg.AssetExecutionContext,
        sources: dg.ResourceParam[Sources],
        lake: dg.ResourceParam[Lake],
        progress: dg.ResourceParam[Progress],
    ) -> tuple[Any, Any, Any]:
        def make(partition: str) -> tuple[pa.Table, ...]:
            unit = sources.unit(partition)
            return mail.read_mail(
                sources.mails(unit),
                source=unit.source,
                unit=unit.unit,
                list_id=unit.list_id,
                settings=settings,
            )

        return stage_partitions(
            context, lake, progress, list(TABLES), [], make, fingerprint=lambda p: sources.unit(p).fingerprint
        )

    return read_mail
