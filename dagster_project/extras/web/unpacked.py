"""Files inside a mail or a zip: unpacked onto the disk, where they have no name, and sent from
there.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import file_digest
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO
from weakref import WeakSet

from starlette.responses import FileResponse

from dagster_project.index.search.index_pool import AllBusyError
from dagster_project.system.disk_space import may_be_made
from dagster_project.system.disk_watch import translate_disk_faults

MOST_UNPACKED = 64
"""Unpacked files at once: each takes its bytes of the disk until its reader, who may be slow, has
them.
"""


class Unpacker:
    """Unpacks one after the other: a mail takes seven times its size of memory, which each thread
    would keep for itself.
    """

    def __init__(self, root: Path):
        self._folder = root if may_be_made(root / "x") else Path(gettempdir())
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="weft-unpacking")
        self._files = WeakSet[IO[bytes]]()

    def file(self, pieces: Iterable[bytes]) -> IO[bytes]:
        """A file of these pieces, at its start; AllBusyError if there are as many as may be,
        DiskFullError.
        """
        if len(self._files) >= MOST_UNPACKED:
            raise AllBusyError(f"{MOST_UNPACKED} files are being sent")
        with translate_disk_faults(self._folder):
            file = TemporaryFile(dir=self._folder)  # noqa: SIM115  # the answer closes it
            self._files.add(file)
            self._thread.submit(file.writelines, pieces).result()
        file.seek(0)
        return file


class UnpackedResponse(FileResponse):
    """An unpacked file as an answer, with a tag of its bytes: a download that broke off goes on
    (RFC 9110, 13.1.5).
    """

    chunk_size = 1 << 18

    def __init__(self, file: IO[bytes], name: str, kind: str, disposition: str = "attachment"):
        self._file = file
        tag = file_digest(file, "sha256").hexdigest()  # pyrefly: ignore[bad-argument-type]
        file.seek(0)
        place, headers = f"/dev/fd/{file.fileno()}", {"ETag": f'"{tag}"'}
        super().__init__(
            place, 200, headers, kind, filename=name, content_disposition_type=disposition
        )

    def __del__(self) -> None:
        self._file.close()
