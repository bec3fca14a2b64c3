"""Files beside the settings file (models, synonyms), and messages for settings that are valid TOML
and wrong.
"""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from dagster_project.config.layers import variable_of
from dagster_project.config.places import SYNONYMS
from dagster_project.config.source_settings import REMOTES
from transforms.errors import SettingsError
from transforms.settings.models import EmbeddingSettings
from transforms.text.synonyms import rules
from transforms.toml_file import toml_file

_UNKNOWN = "unknown setting; "
_FORMER = toml_file(__name__, "former_keys.toml")
"""The replacement of a former key, by its end."""


def refused_keys(
    path: Path,
    raw: dict[str, object],
    internal: Collection[str],
    variables: Mapping[str, str],
) -> list[str]:
    """One line per key of the file or of a variable that is `internal`."""
    there = (
        (where, _former(key) or "its value is fixed")
        for where, key in _keys(raw)
        if key in internal
    )
    return [f"{_place(path, raw, position, variables)}: {_UNKNOWN}{why}" for position, why in there]


def _place(
    path: Path,
    raw: Any,
    position: str,
    variables: Mapping[str, str],
    *,
    is_missing: bool = False,
) -> str:
    """The file, the line of a key (of its table, if the key is missing), the name of its source,
    and its position; or the variable that sets it, and its position.
    """
    if variable := variable_of(position, variables):
        return f"{variable}: {position}"
    lines, at = path.read_text(encoding="utf-8-sig").splitlines(), 0
    steps = [(part[1], int(part[2] or 0)) for part in re.finditer(r"([^.]+)(?:\.(\d+))?", position)]
    for key, number in steps[: -1 if is_missing else None]:
        head = re.compile(rf'\s*(?:\[+(?:[\w-]+\.)*)?"?{re.escape(key)}"?\s*[=\]]')
        at = (
            [n for n, line in enumerate(lines, 1) if n > at and head.match(line)][number:] or [at]
        )[0]
    source = raw["sources"][steps[0][1]] if position.startswith("sources.") else None
    named = source.get("name") if isinstance(source, dict) else None
    return f"{path}{f':{at}' * bool(at)}: {f'source {named}: ' * bool(named)}{position}"


def _former(key: str) -> str | None:
    return next((place for end, place in _FORMER.items() if key.endswith(end)), None)


def dotted_keys(settings: type[BaseModel], *, internal: bool) -> set[str]:
    """The dotted keys that a file may set; with `internal` those that it cannot."""
    return {key for key, is_internal in _fields(settings) if is_internal == internal}


def _fields(annotation: Any, above: str = "") -> list[tuple[str, bool]]:
    """The dotted keys of a model of settings, or of the models among the types of a value, and
    whether each is internal.
    """
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return [field for inner in get_args(annotation) for field in _fields(inner, above)]
    return [
        key
        for name, field in annotation.model_fields.items()
        for key in _fields(field.annotation, f"{above}{name}.")
        or [(above + name, "internal" in field.metadata)]
    ]


def _keys(value: object, position: str = "", key: str = "") -> Iterator[tuple[str, str]]:
    """Every key below `value`: its position in the file, and its name without positions and names
    of profiles.
    """
    if isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _keys(inner, f"{position}.{number}", key)
    elif isinstance(value, dict):
        for name, inner in value.items():
            here, dotted = f"{position}.{name}".lstrip("."), f"{key}.{name}".lstrip(".")
            # A profile changes keys of [search].
            yield here, re.sub(r"^profiles\.[^.]+\.", "search.", dotted)
            yield from _keys(inner, here, dotted)


def explain(
    path: Path,
    raw: object,
    error: ValidationError,
    kinds: Collection[str],
    settings: type[BaseModel],
    variables: Mapping[str, str],
) -> str:
    """A line per fault: file, line (or the variable), source (of `kinds`), entry, fault and, for unknown names, the
    nearest of `settings`.
    """
    lines = []
    for fault in error.errors():
        # Behind the number of a source, the library names the kind that it took it for.
        steps = [
            p for i, p in enumerate(fault["loc"]) if not (i == 2 and fault["loc"][0] == "sources")
        ]
        steps += ["kind"] if (is_of_kind := fault["type"].startswith("union_tag")) else []
        is_missing, position = (
            fault["type"] in ("missing", "union_tag_not_found"),
            ".".join(map(str, steps)),
        )
        place = f"{path}: file"
        if steps:
            place = _place(path, raw, position, variables, is_missing=is_missing)
        if is_of_kind:
            known = REMOTES if "fetch" in steps else kinds
            lines.append(f"{place}: must be one of {', '.join(sorted(known))}")
        elif fault["type"] == "extra_forbidden":
            key = ".".join(step for step in steps if isinstance(step, str) and step not in REMOTES)
            keys = dotted_keys(settings, internal=False)
            nearest = get_close_matches(key, keys | {k.partition(".")[0] for k in keys}, 1, 0.8)
            instead = (
                "".join(f"is it `{name}`? " for name in nearest) + "`weft help settings` lists all"
            )
            lines.append(f"{place}: {_UNKNOWN}{_former(key) or instead}")
        else:
            lines.append(f"{place}: {'is missing' if is_missing else fault['msg']}")
    return "\n".join(lines)


_WEIGHTS = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model", "*.py", "*.onnx", "*.onnx_data")


def with_folder(embedding: EmbeddingSettings, base: Path) -> EmbeddingSettings:
    """The settings with a folder, relative to `base`, in full and with its revision; others as they
    are.
    """
    if not embedding.names_folder:
        return embedding
    folder = (base / Path(embedding.name or "").expanduser()).resolve()
    revision = embedding.revision or folder_revision(folder)
    return embedding.model_copy(update={"name": str(folder), "revision": revision})


def folder_revision(folder: Path) -> str:
    """Hash of a model's files, 12 hex digits: other weights are another model. SettingsError
    without any.
    """
    files = sorted({p for pattern in _WEIGHTS for p in folder.rglob(pattern) if p.is_file()})
    if not files:
        raise SettingsError(
            f"{folder} holds no model: embedding.name must name a folder with its files"
        )
    digest = hashlib.blake2b(digest_size=6)
    for path in files:
        digest.update(str(path.relative_to(folder)).encode() + b"\0")
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "blake2b").digest())
    return digest.hexdigest()


def synonyms_in(folder: Path) -> str:
    """The text of the file of synonyms in a folder, empty if there is none; SettingsError for a
    line that is not a rule.
    """
    path = folder / SYNONYMS
    try:
        text = path.read_text(encoding="utf-8-sig") if path.is_file() else ""
        rules(text)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: {error}") from error
    return text
