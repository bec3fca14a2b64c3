"""Stages declared as data: what makes tables of the lake, from which inputs, by which version of the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assets.partitions import SourceType
from assets.stages.buckets import Reads
from transforms.schemas.chunks import TERMS
from transforms.schemas.table import Table
from transforms.settings.base import StageSettings, digest_of
from transforms.settings.search import TermSettings
from transforms.text import terms

Settings = StageSettings | Mapping[str, StageSettings]
"""The settings of a stage: one for all its partitions, or one for each source, by its name."""


@dataclass(frozen=True)
class Made:
    """The tables that a stage made, with figures that Dagster shows beside the first of them.

    `inputs` say what a table over the whole lake was made of, if its stage wants to know the next time.
    """

    tables: Sequence[Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """A step that makes the tables `outputs`, of each partition of `source_type`, or of the whole lake if that is None.

    `make` takes the `inputs` (of a partition: Arrow tables of the same partition; else Ibis tables), then the
    `settings`, and the `resources` by name. It returns a table, one for each of `outputs`, or `Made`. A stage without
    inputs reads sources: its `make` takes the sources and a `SourcePartition`. Its code version is `version` and a digest
    of the settings.

    With `in_buckets`, what the stage reads of its inputs by their names, the tables are stored in parts, one for each bucket
    of mails; `make` takes the rows of one bucket as Arrow tables, and a part is rebuilt only if these changed. The
    resource `lake` is then an `OfBucket`.

    `deps` are tables that are read through the inputs. If the stage `asks_index`, `make` takes the published index as
    `index`, one version for all partitions of a run, and this version is compared like an input. If `columns` are named,
    only these of the inputs are read. `code` is the function that Dagster links to, `make` by default. `lineage` names the
    columns (`table.column`) that a column is made of; a column that is declared the same in an input comes from there.
    """

    name: str
    outputs: Mapping[str, Table]
    make: Callable[..., Any]
    version: str
    does: str
    inputs: Sequence[str] = ()
    settings: Settings | None = None
    source_type: SourceType | None = None
    group: str = "relations"
    digest: Callable[[Any], str] | None = None
    in_buckets: Mapping[str, Reads] | None = None
    deps: Sequence[str] = ()
    columns: Sequence[str] | None = None
    resources: Sequence[str] = ()
    asks_index: bool = False
    pool: str | None = None
    kinds: Sequence[str] = ("polars",)
    code: Callable[..., Any] | None = None
    lineage: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def code_version(self, settings: Settings | None) -> str:
        """The version of the code with a digest of `settings`, by which stored tables are compared."""
        version = f"{self.version}b" if self.in_buckets else self.version
        if settings is None:
            return version
        if self.digest:
            return f"{version}-{self.digest(settings)}"
        return (
            f"{version}-{settings.digest() if isinstance(settings, StageSettings) else digest_of(settings)}"
        )

    @property
    def reads_sources(self) -> bool:
        """True if the stage reads sources and no tables."""
        return self.source_type is not None and not self.inputs

    @property
    def is_task(self) -> bool:
        """True if a partition needs the sources or the same partition of other tables, and nothing else of the world."""
        return self.source_type is not None and not (self.resources or self.asks_index)

    def compared_inputs(self) -> list[str]:
        """The inputs whose content decides whether the tables of a partition are up to date."""
        return [] if self.source_type is None else self.source_type.compared_inputs(self.inputs)


def terms_stage(source_type: SourceType, name: str, chunk_table: str, settings: TermSettings) -> Stage:
    """The stage of the table `name`: the terms of the chunks in `chunk_table`."""
    return Stage(
        name,
        {name: TERMS},
        terms.chunk_terms,
        terms.VERSION,
        f"Counts the terms of each chunk in `{chunk_table}`, field by field, for the lexical index.",
        inputs=(chunk_table,),
        settings=settings,
        source_type=source_type,
        columns=terms.CHUNK_COLUMNS,
        lineage={"chunk_id": (f"{chunk_table}.chunk_id",)},
    )
