"""Files beside the settings file (models, synonyms), and messages for settings that are valid TOML and wrong."""

import hashlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from dagster_project.config.source_settings import REMOTES
from transforms.errors import SettingsError
from transforms.settings.models import EmbeddingSettings
from transforms.text.synonyms import rules

_UNKNOWN = "unknown setting; `weft help settings` lists the known ones"


def refused_keys(path: Path, raw: dict[str, object], internal: Collection[str]) -> list[str]:
    """One line per key that is `internal`."""
    return [f"{path}: {position}: {_UNKNOWN}" for position, key in _keys(raw) if key in internal]


def internal_keys(annotation: Any, above: str = "") -> set[str]:
    """The dotted keys of a model of settings, or of the models among the types of a value, that a file cannot set."""
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return {key for inner in get_args(annotation) for key in internal_keys(inner, above)}
    fields = annotation.model_fields.items()
    own = {above + name for name, field in fields if "internal" in field.metadata and not field.exclude}
    return own.union(*(internal_keys(field.annotation, f"{above}{name}.") for name, field in fields))


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
