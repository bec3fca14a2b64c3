"""A server's answers to the commands of its user on the same machine, over a Unix socket."""

import asyncio
import json
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from dagster_project.config.places import chosen_config
from dagster_project.config.settings import load_settings
from dagster_project.index.publish.versions import current_version
from dagster_project.index.search.index_pool import IndexPool
from dagster_project.index.search.opened_index import open_index, require_lens
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.servers import local
from dagster_project.servers.readings import reader_of
from transforms.errors import IndexUnavailableError, WeftError

_MOST_BYTES = 16 << 20
"""Bytes of a question; the text of a longer one is read faster where it is."""


@contextmanager
def answering(config: Path | None) -> Iterator[None]:
    """While this lasts, this process answers commands of its user that name the settings file;
    none where no folder can belong to the user alone.
    """
    file = chosen_config(config).resolve()
    folder = next(local.folders(), None)
    if folder is None:
        yield
        return
    place = folder / f"{local.socket_name(file)}-{secrets.token_hex(4)}"
    with closing(_Answers(file)) as answers, asyncio.Runner() as runner:
        listening = asyncio.start_unix_server(answers.converse, place, limit=_MOST_BYTES)
        with closing(runner.run(listening)):
            loop = runner.get_loop()
            thread = threading.Thread(target=loop.run_forever)
            thread.start()
            try:
                yield
            finally:
                loop.call_soon_threadsafe(loop.stop)
                thread.join()
                place.unlink(missing_ok=True)


class _Answers:
    """Answers by the code and the settings of now, from an index for each lens that is named."""

    def __init__(self, config: Path):
        # The stamp is taken first: of settings that change meanwhile it is another one.
        self.stamp, self.settings = local.stamp(config), load_settings(config)
        self._pools: dict[str | None, IndexPool] = {}

    def close(self) -> None:
        """Close the indexes."""
        for pool in self._pools.values():
            pool.close()

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One question and its answer; none to a fault, which the command meets itself and
        explains.
        """
        with closing(writer), suppress(WeftError, OSError, ValueError):
            if not local.is_own(writer.get_extra_info("socket")):
                return
            writer.write(self.stamp)
            async with asyncio.timeout(local.PATIENCE):
                question = json.loads(await reader.readline())
            work, pool = partial(self._line, question), self._pool(question.get("lens"))
            answer = asyncio.ensure_future(pool.ask(work, local.ANSWER_SECONDS))
            hangup = asyncio.ensure_future(reader.read())
            await asyncio.wait((answer, hangup), return_when=asyncio.FIRST_COMPLETED)
            hangup.cancel()
            if answer.done():
                writer.write(answer.result())
            answer.cancel()

    def _line(self, question: Mapping[str, Any], index: SearchIndex) -> bytes:
        """The answer in a line; IndexUnavailableError if another version is current: the command
        would read that.
        """
        if index.published != current_version(self.settings.root / "index"):
            raise IndexUnavailableError(f"{index.published} is not the current version any more")
        answer = reader_of(question["command"])(self.settings, index, question)
        return json.dumps(answer).encode() + b"\n"

    def _pool(self, lens: str | None) -> IndexPool:
        if lens not in self._pools:
            require_lens(self.settings, lens)
            folder = self.settings.root / "index"
            self._pools[lens] = IndexPool(folder, partial(open_index, self.settings, lens=lens))
        return self._pools[lens]
