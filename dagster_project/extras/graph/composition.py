"""Settings in, the stages and the exporter of the graph out."""

from collections.abc import Callable
from typing import Any

import ibis

from assets.stages.declaration import Stage
from dagster_project.config.settings import Settings
from dagster_project.extras.graph import EXTRA
from dagster_project.extras.graph.assets import graph_stages, question_lists
from dagster_project.extras.graph.exporter import FileGraphExporter
from dagster_project.extras.graph.transforms.prompt_hashes import document_questions
from dagster_project.extras.graph.transforms.settings import GraphSettings


def stages(settings: Settings) -> list[Stage]:
    """The stages in order."""
    return graph_stages(settings.section(GraphSettings), settings.terms)


def resources(settings: Settings) -> dict[str, Any]:
    """The exporter."""
    return {"graph_exporter": FileGraphExporter(settings.root / EXTRA.folder)}


def queries(table: Callable[[str], ibis.Table]) -> list[str]:
    """The questions that `prompt_hashes` embeds."""
    return document_questions(question_lists(table("documents"))).column("question").to_pylist()
