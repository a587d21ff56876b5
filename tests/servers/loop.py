"""A server in a thread that has an event loop of its own."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, Self

_PATIENCE = 10.0
"""Seconds that starting, ending and anything between may take."""


class LoopServer(ABC):
    """Listens on loopback while it runs; a context manager that starts and ends it.

    Attributes:
        port: Where it listens, once it was started.
    """

    def __init__(self, name: str) -> None:
        self.port = 0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._up = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event

    @abstractmethod
    async def _listen(self) -> None:
        """Begin to take connections, and set `port`."""

    @abstractmethod
    async def _close(self) -> None:
        """Take none any more, and end those that there are."""

    def start(self) -> Self:
        """Start the thread, and return when it listens."""
        self._thread.start()
        if not self._up.wait(_PATIENCE):
            raise TimeoutError(f"{self._thread.name} did not start")
        return self

    def kill(self) -> None:
        """End every connection, and the thread."""
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            raise TimeoutError(f"{self._thread.name} did not end")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _do(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Let the loop do something, and wait for it."""
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_PATIENCE)

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        await self._listen()
        self._up.set()
        await self._end.wait()
        await self._close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # closed transports end in the loop's next rounds
