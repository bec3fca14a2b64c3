"""A server's answers to the commands of its user on the same machine, over a Unix socket."""

import asyncio
import json
import secrets
import socket
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
from dagster_project.servers.context_reading import read_context
from dagster_project.servers.readings import READERS
from transforms.errors import IndexUnavailableError, WeftError


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
    _remove_left(file)
    place = folder / f"{local.socket_name(file)}-{secrets.token_hex(4)}"
    over = asyncio.Event()
    with (
        asyncio.Runner() as runner,
        closing(_Answers(file)) as answers,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        listener.bind(str(place))
        listener.listen()
        loop = runner.get_loop()
        thread = threading.Thread(target=runner.run, args=(_serve(answers, listener, over),))
        thread.start()
        try:
            yield
        finally:
            loop.call_soon_threadsafe(over.set)
            thread.join()
            place.unlink(missing_ok=True)


def _remove_left(config: Path) -> None:
    """Remove the sockets of servers with this settings file that were killed."""
    for place in local.sockets(config):
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(place))
            except ConnectionRefusedError:
                place.unlink(missing_ok=True)


async def _serve(answers: "_Answers", listener: socket.socket, over: asyncio.Event) -> None:
    limit = local.MOST_BYTES
    async with await asyncio.start_unix_server(answers.converse, sock=listener, limit=limit):
        await over.wait()


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
            answer = asyncio.ensure_future(self._answer(question))
            hangup = asyncio.ensure_future(reader.read())
            await asyncio.wait((answer, hangup), return_when=asyncio.FIRST_COMPLETED)
            hangup.cancel()
            if answer.done():
                writer.write(answer.result())
                async with asyncio.timeout(local.ANSWER_SECONDS):
                    await writer.drain()
            answer.cancel()

    async def _answer(self, question: Mapping[str, Any]) -> bytes:
        work = partial(self._line, question)
        return await self._pool(question.get("lens")).ask(work, local.ANSWER_SECONDS)

    def _line(self, question: Mapping[str, Any], index: SearchIndex) -> bytes:
        """The answer in a line; IndexUnavailableError if another version is current: the command
        would read that.
        """
        if index.published != current_version(self.settings.root / "index"):
            raise IndexUnavailableError(f"{index.published} is not the current version any more")
        read = {**READERS, "context": read_context}[question["command"]]
        answer = read(self.settings, index, question)
        return json.dumps(answer).encode() + b"\n"

    def _pool(self, lens: str | None) -> IndexPool:
        if lens not in self._pools:
            require_lens(self.settings, lens)
            folder = self.settings.root / "index"
            self._pools[lens] = IndexPool(folder, partial(open_index, self.settings, lens=lens))
        return self._pools[lens]
