"""Files that belong to the settings file: folders of models, and the file of synonyms."""

from __future__ import annotations

import hashlib
from pathlib import Path

from transforms.errors import SettingsError
from transforms.settings.models import EmbeddingSettings
from transforms.text.synonyms import rules

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
