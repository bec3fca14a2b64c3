"""The resources that Dagster's UI shows with what the settings say of them; assets get the working objects behind them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import dagster as dg
from pydantic import Field

from transforms.errors import SettingsError


@dataclass(frozen=True)
class WorkingObject:
    """An object for assets, and the values under which the settings made it."""

    instance: Any
    values: Mapping[str, Any]


class ConfiguredResource(dg.ConfigurableResource[Any]):
    """A resource whose values a run cannot change: plan, searches and other runs go by the settings.

    A secret is shown as `{"env": NAME}`, which Dagster takes for a variable of the environment. It is not a `dg.EnvVar`:
    that puts the value into the run, and ends a run that would have sent nothing where the variable is not set.
    """

    # Dagster knows this annotation only where it is not a string, so this module does not import `annotations`.
    working: dg.ResourceDependency[WorkingObject]

    @classmethod
    def around(cls, instance: object, **values: Any) -> Self:
        """The resource that hands out `instance` and shows `values`."""
        return cls(working=WorkingObject(instance, values), **values)

    def create_resource(self, context: dg.InitResourceContext) -> Any:
        """The working object; SettingsError where the configuration of the run says other than the settings."""
        if other := [name for name, value in self.working.values.items() if getattr(self, name) != value]:
            raise SettingsError(
                f"the run's configuration changes {', '.join(other)} of {type(self).__name__}, which other runs and "
                "searches would not know of: take it out and change the settings file"
            )
        return self.working.instance


class Lake(ConfiguredResource):
    """The Parquet files of every table; storage.lake and storage.root in the settings say where."""

    uri: str = Field(description="folder or address of the files")


class Index(ConfiguredResource):
    """The published DuckDB file; storage.root and [index] in the settings say where and how."""

    folder: str = Field(description="folder of the versions; CURRENT in it names the one that is searched")
    keep_versions: int = Field(description="versions that stay when a new one is published")


class EmbeddingModel(ConfiguredResource):
    """The model that makes vectors of texts; see [embedding] in the settings."""

    model: str = Field(description="name that vectors, cache and index carry")
    dimensions: int = Field(description="width of the vectors")
    api_key: dict[str, str] | None = Field(description="variable with the key; none: nothing is sent")


class SentenceModel(ConfiguredResource):
    """The language model that writes sentences about chunks; see [sentences] in the settings."""

    model: str = Field(description="name of the model; none: no source asks for sentences")
    api_key: dict[str, str] | None = Field(description="variable with the key; none: nothing is sent")


class Remotes(ConfiguredResource):
    """Where sources are fetched from; see [sources.fetch] in the settings."""

    sources: dict[str, str] = Field(
        description="each source's kind of remote and the variables with its credentials"
    )
