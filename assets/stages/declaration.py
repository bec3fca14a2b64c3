"""Stages declared as data: the functions that make tables of the lake, their inputs, and the
version of the code.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import FunctionType, MethodType
from typing import Any

from assets.partitions import SourceType
from assets.stages.buckets import Reads
from transforms.schemas.registry import REGISTRY
from transforms.schemas.table import Table
from transforms.settings.base import StageSettings, digest_of
from transforms.settings.search import TermSettings
from transforms.text import terms

SettingsOf = StageSettings | Mapping[str, StageSettings]
"""The settings of a stage: one for all its partitions, or one for each source, by its name."""


class MarkdownFigure(str):
    """A figure that Dagster draws as Markdown."""


@dataclass(frozen=True)
class Made:
    """The tables that a stage made, with figures that Dagster shows beside the first of them.

    `inputs` has the inputs of a table over the whole lake, if its stage wants to know them the next
    time; of a partition, under the name `WAITING_BYTES`, how many bytes of text its tables leave
    out for now.
    """

    tables: Sequence[Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Display:
    """The text, group, kinds, code and lineage that Dagster shows of a stage.

    `code` is the function that it links to, `make` by default. `lineage` names the columns
    (`table.column`) that a column is made of; a column that is declared the same in an input comes
    from there.
    """

    does: str
    group: str = "relations"
    kinds: Sequence[str] = ("polars",)
    code: Callable[..., Any] | None = None
    lineage: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Needs:
    """Needs of a stage beside its inputs: resources by name, and `deps`, assets that are made
    before it.

    The resource `index` is the published index, one version for all partitions of a run, which is
    compared like an input. With `present`, `make` takes the partition's tables in the lake so far
    (`stage_run.Present`), with `code_version` the version of its own code.
    """

    resources: Sequence[str] = ()
    deps: Sequence[str] = ()
    present: bool = False
    code_version: bool = False


@dataclass(frozen=True)
class SameOutput:
    """The code with the fingerprint `now` has the same output as that with `since`, because of the
    reason.

    Tables of `since` stay up to date. It ends with the next change of the code.
    """

    since: str
    now: str
    because: str

    def __post_init__(self) -> None:
        """ValueError without a reason."""
        if not self.because.strip():
            raise ValueError(
                f"code {self.now} has the same output as {self.since}: say because of what"
            )


@dataclass(frozen=True)
class Stage:
    """A step that makes the tables `outputs` (by default that of its name) of a partition of
    `source_type`, or of the lake.

    `make` takes the `inputs` (of a partition: Arrow tables of the same partition; else Ibis
    tables), then the `settings`, and the `resources` by name. It returns a table, one for each of
    `outputs`, or `Made`. A stage without inputs reads sources: its `make` takes the sources and a
    `SourcePartition`.

    Its code version is `code`, the fingerprint that composition takes of `make` (`places`) and of
    the declaration, with `variant`, the facts beside settings that decide about the tables, and a
    digest of the settings.

    With `in_buckets`, the reads of the stage by the names of its inputs, the tables are stored in
    parts, one for each bucket of mails; `make` takes the rows of one bucket as Arrow tables, and a
    part is rebuilt only if these changed. The resource `lake` is then an `OfBucket`. If `columns`
    are named, only these of the inputs are read. `declared` has the outputs that are in no
    registry, since an extra adds them. `same` holds the fingerprint of an earlier code still.
    """

    name: str
    make: Callable[..., Any]
    shown: Display
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    settings: SettingsOf | None = None
    source_type: SourceType | None = None
    digest: Callable[[Any], str] | None = None
    in_buckets: Reads | None = None
    columns: Sequence[str] | None = None
    needs: Needs = Needs()
    declared: Mapping[str, Table] = field(default_factory=dict)
    variant: str = ""
    same: SameOutput | None = None
    code: str = ""

    def __post_init__(self) -> None:
        """Take the name for that of the one table, if no outputs are named."""
        object.__setattr__(self, "outputs", self.outputs or (self.name,))

    @cached_property
    def schemas(self) -> dict[str, Table]:
        """The declaration of each of the outputs."""
        return {name: self.declared.get(name) or REGISTRY[name].schema for name in self.outputs}

    @cached_property
    def declared_version(self) -> str:
        """The code version under the settings that the stage is declared with."""
        return self.code_version(self.settings)

    @property
    def places(self) -> tuple[str, ...]:
        """The functions behind `make`, also those in its arguments, as `module:name`."""
        return tuple(dict.fromkeys(_places(self.make)))

    @property
    def declaration(self) -> str:
        """The facts of the declaration that decide about the tables, as a text."""
        columns = {
            name: [str(column) for column in table.arrow] for name, table in self.schemas.items()
        }
        return repr((self.inputs, columns, self.columns, self.in_buckets))

    def with_code(self, fingerprint: str) -> "Stage":
        """The stage with the fingerprint of its code, or with the one that has the same output."""
        is_same = self.same and self.same.now == fingerprint
        return replace(self, code=self.same.since if self.same and is_same else fingerprint)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the outputs, sorted."""
        return tuple(sorted(self.outputs))

    @property
    def asks_index(self) -> bool:
        """True if the stage asks the published index."""
        return "index" in self.needs.resources

    def code_version(self, settings: SettingsOf | None) -> str:
        """The version of the code with a digest of `settings`, by which stored tables are compared."""
        version = f"{self.code}-{self.variant}" if self.variant else self.code
        if settings is None:
            return version
        if self.digest:
            return f"{version}-{self.digest(settings)}"
        return f"{version}-{settings.digest() if isinstance(settings, StageSettings) else digest_of(settings)}"

    @property
    def reads_sources(self) -> bool:
        """True if the stage reads sources and no tables."""
        return self.source_type is not None and not self.inputs

    @property
    def has_no_effect(self) -> bool:
        """True if its `make` may be tried again and again: it asks no model and writes no files."""
        return {*self.needs.resources} <= {"lake"}

    @property
    def is_task(self) -> bool:
        """True if a partition needs the sources or the same partition of other tables, and nothing
        else of the world.
        """
        return self.source_type is not None and not self.needs.resources

    def compared_inputs(self) -> list[str]:
        """The inputs whose content decides whether the tables of a partition are up to date,
        sorted.
        """
        inputs = [*self.inputs, *(["search_index"] if self.asks_index else [])]
        kind = self.source_type
        return sorted(
            table for table in inputs if kind and (kind.compared is None or table in kind.compared)
        )


def _places(make: Any) -> Iterator[str]:
    """The places of a function, of the functions among arguments that it has, and of the class of a method."""
    if isinstance(make, partial):
        yield from _places(make.func)
        for argument in (*make.args, *make.keywords.values()):
            yield from _places(argument)
    elif isinstance(make, MethodType):
        yield from _places(type(make.__self__))
    elif isinstance(make, FunctionType | type):
        yield f"{make.__module__}:{make.__qualname__}"


def terms_stage(
    source_type: SourceType, name: str, chunk_table: str, settings: TermSettings
) -> Stage:
    """The stage of the table `name`: the terms of the chunks in `chunk_table`."""
    return Stage(
        name,
        terms.chunk_terms,
        Display(
            f"Counts the terms of each chunk in `{chunk_table}`, field by field, for the lexical index.",
            kinds=("numpy", "polars"),
            lineage={"chunk_id": (f"{chunk_table}.chunk_id",)},
        ),
        inputs=(chunk_table,),
        settings=settings,
        source_type=source_type,
        columns=terms.TERM_COLUMNS,
    )
