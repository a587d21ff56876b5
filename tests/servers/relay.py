"""A TCP relay, in a thread, that counts bytes and makes connections fail.

For protocols that the HTTP proxy does not understand, such as SFTP.
"""

import asyncio
import threading
from contextlib import suppress
from typing import Self

from servers.ports import HOST


class Relay:
    """Stands before a server on loopback; a context manager.

    Attributes:
        moved: Bytes that came from the server.
        stall: Let new connections be accepted and hear nothing.
    """

    def __init__(self, upstream_port: int) -> None:
        self.port = 0
        self.moved = 0
        self.connections = 0
        self.stall = False
        self._upstream_port = upstream_port
        self._open: list[_Link] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._up = threading.Event()

    @property
    def url(self) -> str:
        """The endpoint to give to clients."""
        return f"tcp://{HOST}:{self.port}"

    def hang(self) -> None:
        """Let nothing more through the connections that are open now."""
        for link in list(self._open):
            link.passing = False

    def drop(self) -> None:
        """Reset the connections that are open now."""

        def drop() -> None:
            for link in self._open:
                link.abort()
            self._open.clear()

        self._loop.call_soon_threadsafe(drop)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._up.wait(5):
            raise TimeoutError("the relay did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, HOST, 0)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._up.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connections += 1
        link = _Link([writer])
        self._open.append(link)
        link.passing = not self.stall
        with suppress(OSError):
            back, forth = await asyncio.open_connection(HOST, self._upstream_port)
            link.writers.append(forth)
            await asyncio.gather(
                self._pass(link, reader, forth, counts=False),
                self._pass(link, back, writer, counts=True),
            )
        link.abort()

    async def _pass(
        self,
        link: "_Link",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        counts: bool,
    ) -> None:
        while data := await reader.read(1 << 16):
            self.moved += len(data) if counts else 0
            if link.passing:
                writer.write(data)
                await writer.drain()
        if link.passing:
            writer.close()


class _Link:
    """Both sides of one connection."""

    def __init__(self, writers: list[asyncio.StreamWriter]) -> None:
        self.writers = writers
        self.passing = True

    def abort(self) -> None:
        for writer in self.writers:
            writer.transport.abort()
