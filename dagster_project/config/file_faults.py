"""Messages for settings files that are valid TOML and wrong settings: replaced keys, and faults of values."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from pydantic import BaseModel, ValidationError

from dagster_project.config.source_settings import REMOTES
from transforms.settings.base import StageSettings

_UNKNOWN = "unknown setting; `weft help settings` lists the known ones"
REPLACED = {
    "chunks.embed_subject": "is always on now",
    "document_chunks.overlap_chars": "is part of `document_chunks.profile` now (recommended: 0; seed: 100)",
    "document_chunks.min_chars": "is part of `document_chunks.profile` now (100 characters in both)",
    "document_chunks.context_chars": "is part of `document_chunks.profile` now (recommended: 400; seed: 0)",
    "document_chunks.embed_headings": "is always on now",
    "sources.exclude_defaults": 'is gone: a pattern of `exclude` takes back what is usual, as exclude = ["!All Tasks.md"]',
    "embedding.offline": "is gone: set HF_HUB_OFFLINE=1 in the environment",
    "gemini.price_per_million_tokens": "is gone: `weft cost` knows the list prices of Google's models",
    "gemini.timeout_seconds": "`gemini.time_limit_seconds` bounds a run",
    "search.normalise_sources": 'is part of `search.aggregation` = "before_elbow" now',
    "search.aggregation_siblings": "is part of `search.aggregation` now (after_elbow: 1; before_elbow: 2)",
    "search.aggregation_score": "is part of `search.aggregation` now (the best, or the root of the sum of squares)",
    "search.label_similarity": "is gone: `search.label_weak` and `search.label_pass` count words and cosine together",
    "search.label_high_similarity": "is gone: `search.label_weak` and `search.label_pass` count words and cosine together",
    "search.feedback_weight": "is gone: `search.mail_weight` finds more of what is said in several places",
    "search.weak_share": "is gone: `search.label_weak` says from which evidence there is a result",
    "search.gate_lexical": "is gone: what the words of a query found passes `search.similarity_threshold`",
    "conversations.query_tokens": "is always 1,800 now, a ceiling: each part of a text is asked",
    "conversations.max_chat_bytes": "is gone: of an export at most 256 MiB are read",
    "queries.name": "is `sentences.name` now",
    "context.ask_with": "is part of `context.profile` now (recommended: said; seed: markdown)",
    "context.lexical_weight": "is part of `context.profile` now (recommended: 0.5; seed: 0)",
    "context.pick": "is part of `context.profile` now (recommended: coverage; seed: score)",
    "context.expand": "is always on now; `context.budget_tokens` bounds it",
    "mail.max_attachment_bytes": "is gone: of a compressed attachment at most 64 MiB are read",
    "operations.batch_bytes": "is gone: a run of a backfill makes at most 32 neighbouring partitions",
    "operations.batch_partitions": "is gone: a run of a backfill makes at most 32 neighbouring partitions",
    "operations.slow_at_once_share": "is part of `operations.slow_at_once_bytes` now: a fiftieth of the index if unset",
    "operations.slow_at_first_share": "is part of `operations.slow_at_once_bytes` now: half of the sources if it is not set",
    "operations.side_by_side_bytes": "is part of `engine.tasks` now: 64 MiB if it is not set",
    "operations.processes": "is `engine.tasks` now",
    "operations.fresh_hours": "is three times `operations.max_lag_minutes` now",
    "operations.max_slow_lag_minutes": "is twelve times `operations.max_lag_minutes` now",
    "index.ann_min_vectors": "is `index.ann_max_vectors` now: vectors up to which an HNSW index is built",
    "search.label_rerank": "is always 5, half of a model's scale",
    "storage.sources": "is always `sources/` below storage.root, which may be a link",
    "sources.windows.gap_hours": "is always 8 now; `sources.windows.messages` ends a window sooner",
    "sources.fetch.region": "is AWS_REGION in the environment",
    "rerank.offline": "is gone: set HF_HUB_OFFLINE=1 in the environment",
}
"""Keys that a file may no longer have, each with what took its place; those of [profiles.NAME] are those of [search]."""


def refused_keys(path: Path, raw: dict[str, object], internal: Collection[str]) -> list[str]:
    """One line per key that a settings file may no longer have, or that is `internal`."""
    refused = {**dict.fromkeys(internal, _UNKNOWN), **REPLACED}
    return [f"{path}: {position}: {refused[key]}" for position, key in _keys(raw) if key in refused]


def internal_keys(model: type[BaseModel]) -> set[str]:
    """The dotted keys of sections of the settings that a file cannot set."""
    sections = {name: field.annotation for name, field in model.model_fields.items()}
    return {
        f"{name}.{key}"
        for name, section in sections.items()
        if isinstance(section, type) and issubclass(section, StageSettings)
        for key in section.internal()
    }


def _keys(value: object, position: str = "", key: str = "") -> Iterator[tuple[str, str]]:
    """Every key below `value`: its position in the file, and its name without positions and names of profiles."""
    if isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _keys(inner, f"{position}.{number}", key)
    elif isinstance(value, dict):
        for name, inner in value.items():
            here, dotted = f"{position}.{name}".lstrip("."), f"{key}.{name}".lstrip(".")
            # A profile changes keys of [search].
            yield here, re.sub(r"^profiles\.[^.]+\.", "search.", dotted)
            yield from _keys(inner, here, dotted)


def explain(path: Path, error: ValidationError, kinds: Collection[str]) -> str:
    """One line per fault: the file, the entry, the fault and, for unknown names, the known ones.

    `kinds` are the kinds of source.
    """
    lines = []
    for fault in error.errors():
        # Behind the number of a source, the library names the kind that it took it for.
        steps = [p for i, p in enumerate(fault["loc"]) if not (i == 2 and fault["loc"][0] == "sources")]
        position = ".".join(str(p) for p in steps) or "file"
        if fault["type"].startswith("union_tag") and fault["loc"][-1] == "fetch":
            lines.append(f"{path}: {position}.kind: must be one of {', '.join(sorted(REMOTES))}")
        elif fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
            lines.append(f"{path}: {position}.kind: must be one of {', '.join(sorted(kinds))}")
        elif fault["type"] == "extra_forbidden":
            lines.append(f"{path}: {position}: {_UNKNOWN}")
        else:
            lines.append(f"{path}: {position}: {fault['msg']}")
    return "\n".join(lines)
