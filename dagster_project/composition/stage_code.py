"""The fingerprints of stages: of their functions, their declaration, and the code behind the
resources that they ask for content.
"""

from collections.abc import Iterable, Mapping, Sequence

from assets.stages.declaration import Stage
from dagster_project.system.code import code_hashes
from transforms.hashing import parts_hash

_BEHIND: Mapping[str, tuple[str, ...]] = {
    "sources": ("dagster_project.sources.remembered_sources:RememberedSources",),
    "index": ("dagster_project.context.context_index:IndexForContext",),
    "evaluator": ("dagster_project.evaluation.evaluator:IndexEvaluator",),
    "publisher": ("dagster_project.index.publish.partition_publisher:readiness_of",),
}
"""The code behind a resource whose results become content.

Resources that are not here store and transport (`lake`), or remember paid results by their inputs
(models and their caches), so that another code pays for none again.
"""


_OF_VECTORS = (
    "transforms.embedding.vectors:embeddings",
    "transforms.embedding.vectors:unit_length",
)
_OF_SENT_TEXTS = "transforms.text.redaction:screened"


def vectors_code(*, is_remote: bool) -> str:
    """The fingerprint of the code that decides about stored vectors, beside the id of the model; of
    a remote one it masks the texts, too.
    """
    (code,) = code_hashes([(*_OF_VECTORS, *((_OF_SENT_TEXTS,) if is_remote else ()))])
    return code


def places_of(stage: Stage) -> tuple[str, ...]:
    """The places whose code decides about the tables of a stage."""
    resources = (*stage.needs.resources, *(["sources"] if stage.reads_sources else []))
    behind = (place for name in resources for place in _BEHIND.get(name, ()))
    return (*stage.places, *behind)


def with_code(stages: Iterable[Stage]) -> list[Stage]:
    """The stages with the fingerprints of the code that is installed."""
    declared: Sequence[Stage] = list(stages)
    codes = code_hashes([places_of(stage) for stage in declared])
    return [
        stage.with_code(parts_hash([code, stage.declaration])[: len(code)])
        for stage, code in zip(declared, codes, strict=True)
    ]
