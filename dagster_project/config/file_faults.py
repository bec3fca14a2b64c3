"""Files beside the settings file (models, synonyms), and messages for settings that are valid TOML and wrong."""

import hashlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from pydantic import BaseModel, ValidationError

from dagster_project.config.source_settings import REMOTES
from transforms.errors import SettingsError
from transforms.settings.base import StageSettings
from transforms.settings.models import EmbeddingSettings
from transforms.text.synonyms import rules

_UNKNOWN = "unknown setting; `weft help settings` lists the known ones"
REPLACED = {
    "chunks.embed_subject": "is always on now",
    "document_chunks.embed_headings": "is always on now",
    "sources.exclude_defaults": 'is gone: a pattern of `exclude` takes back what is usual, as exclude = ["!All Tasks.md"]',
    "index.spare_min_bytes": "is gone: each publish changes a copy of the current version",
    "embedding.offline": "is gone: set HF_HUB_OFFLINE=1 in the environment",
    "gemini.price_per_million_tokens": "is gone: `weft plan --cost` knows the list prices of Google's models",
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
    "context.ask_with": "is gone: what was said asks, without headings, which outweigh words in a table of vectors",
    "context.lexical_weight": "is part of `context.profile` now (recommended: 0.5; seed: 0)",
    "context.pick": "is part of `context.profile` now (recommended: coverage; seed: score)",
    "context.expand": "is always on now; `context.budget_tokens` bounds it",
    "mail.max_attachment_bytes": "is gone: of a compressed attachment at most 64 MiB are read",
    "operations.batch_bytes": "is gone: a run of a backfill makes at most 32 neighbouring partitions",
    "operations.batch_partitions": "is gone: a run of a backfill makes at most 32 neighbouring partitions",
    "operations.slow_at_once_share": "is part of `operations.slow_at_once_bytes` now: a fiftieth of the index if unset",
    "operations.slow_at_first_share": "is part of `operations.slow_at_once_bytes` now: half of the sources if it is not set",
    "operations.side_by_side_bytes": "is part of `engine.tasks` now: 64 MiB if it is not set",
    "operations.keep_runs_days": "is always 30 now; a run stays while it is the last that made a partition",
    "operations.processes": "is `engine.tasks` now",
    "operations.fresh_hours": "is three times `operations.max_lag_minutes` now",
    "operations.max_slow_lag_minutes": "is twelve times `operations.max_lag_minutes` now",
    "index.ann_min_vectors": "is `index.ann_max_vectors` now: vectors up to which an HNSW index is built",
    "search.label_rerank": "is always 5, half of a model's scale",
    "storage.sources": "is always `sources/` below storage.root, which may be a link",
    "sources.windows.gap_hours": "is always 8 now; `sources.windows.messages` ends a window sooner",
    "sources.fetch.recheck_days": "is always 30 now; a month that has not changed is not sent again",
    "sources.fetch.region": "is AWS_REGION in the environment",
    "sentences.lexical": "is gone: the vector of a chunk has its sentence; its words found nothing under a lens",
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


_WEIGHTS = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model", "*.py", "*.onnx", "*.onnx_data")


def with_folder(embedding: EmbeddingSettings, base: Path) -> EmbeddingSettings:
    """The settings with a folder, relative to `base`, in full and with its revision; others as they are."""
    if not embedding.names_folder:
        return embedding
    folder = (base / Path(embedding.name or "").expanduser()).resolve()
    revision = embedding.revision or folder_revision(folder)
    return embedding.model_copy(update={"name": str(folder), "revision": revision})


def folder_revision(folder: Path) -> str:
    """Hash of a model's files, 12 hex digits: other weights are another model. SettingsError without any."""
    files = sorted({p for pattern in _WEIGHTS for p in folder.rglob(pattern) if p.is_file()})
    if not files:
        raise SettingsError(f"{folder} holds no model: embedding.name must name a folder with its files")
    digest = hashlib.blake2b(digest_size=6)
    for path in files:
        digest.update(str(path.relative_to(folder)).encode() + b"\0")
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "blake2b").digest())
    return digest.hexdigest()


_NAME = "synonyms.txt"


def synonyms_in(folder: Path) -> str:
    """The text of the file of synonyms in a folder, empty if there is none; SettingsError for a line that is not a rule."""
    path = folder / _NAME
    try:
        text = path.read_text(encoding="utf-8-sig") if path.is_file() else ""
        rules(text)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: {error}") from error
    return text
