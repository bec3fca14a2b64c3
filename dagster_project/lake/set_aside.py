"""Files and mails that a stage failed on, in files of the lake: the next reading of their partition
puts them into quarantine.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ValidationError
from upath import UPath

from assets.protocols.sources import SourcePartition
from dagster_project.lake.parquet_files import is_local
from dagster_project.system.durable import write_durably
from transforms.hashing import parts_hash

_FOLDER = ".set-aside"
_SHORT = 12
"""Characters of a hash that is a tag of runs."""


class _Places(BaseModel):
    """Reasons by place, of a partition whose files have this fingerprint, under this version of the
    code.
    """

    partition: str
    fingerprint: str
    reasons: dict[str, str]


class SetAside:
    """By partition the places of files and mails that a stage failed on, each with the reason.

    They count as long as no file of the partition changes. The folder may be deleted: a stage that
    fails on them again says so again.
    """

    def __init__(self, base: UPath):
        self._folder = base / _FOLDER

    def of(self, partition: SourcePartition) -> dict[str, str]:
        """The reasons by place in a partition with the fingerprint of its files."""
        noted = self._read(self._file(partition.key))
        is_of_now = noted is not None and noted.fingerprint == partition.fingerprint
        return noted.reasons if noted and is_of_now else {}

    def marked(self, partition: SourcePartition) -> SourcePartition:
        """The partition with a fingerprint that says what is left out of it, too."""
        if not (reasons := self.of(partition)):
            return partition
        texts = (text for place in sorted(reasons.items()) for text in place)
        return replace(partition, fingerprint=parts_hash([partition.fingerprint, *texts]))

    def add(self, partition: SourcePartition, reasons: Mapping[str, str]) -> None:
        """Note more places of a partition with the fingerprint of its files."""
        file = self._file(partition.key)
        text = _Places(
            partition=partition.key,
            fingerprint=partition.fingerprint,
            reasons={**self.of(partition), **reasons},
        ).model_dump_json()
        if is_local(file):
            place = Path(str(file))
            write_durably(place, text, place.with_suffix(f".tmp-{os.getpid()}"))
        else:
            file.write_text(text)

    def all(self) -> dict[str, dict[str, str]]:
        """The reasons by place of each partition that has some, whatever its files are now."""
        if not self._folder.exists():
            return {}
        noted = map(self._read, sorted(self._folder.glob("*.json")))
        return {one.partition: one.reasons for one in noted if one}

    def state(self) -> str:
        """A short hash of all places and reasons; empty if there are none."""
        reasons = self.all()
        return parts_hash([json.dumps(reasons)])[:_SHORT] if reasons else ""

    def _file(self, partition: str) -> UPath:
        return self._folder / f"{parts_hash([partition])}.json"

    def _read(self, file: UPath) -> _Places | None:
        try:
            return _Places.model_validate_json(file.read_text())
        except (OSError, ValidationError, json.JSONDecodeError):
            return None
