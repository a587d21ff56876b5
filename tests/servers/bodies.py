"""The parts of HTTP/1.1 messages, on their way through the proxy."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from typing_extensions import override

from servers.faults import Request, Rule

_LATE = 0.02
"""Seconds that a timer may be late."""


class ResetError(Exception):
    """End the client's connection with a RST."""


@dataclass(eq=False)
class Stream:
    """One side's connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def head(self) -> bytes:
        """Read up to the empty line, and that too."""
        return await self.reader.readuntil(b"\r\n\r\n")


class Pace:
    """Lets no more than so many bytes a second pass, whoever brings them."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free_at = 0.0

    def passed(self, count: int, now: float) -> float:
        """Return when so many bytes that begin to pass now have passed."""
        if not self._rate:
            return now
        # A sender that woke up late may catch up.
        self._free_at = max(self._free_at, now - _LATE) + count / self._rate
        return self._free_at


class Sink:
    """Where a body goes: nowhere without a writer; damaged as the rule says."""

    def __init__(
        self,
        writer: asyncio.StreamWriter | None,
        rule: Rule | None = None,
        paces: Sequence[Pace] = (),
        request: Request | None = None,
    ) -> None:
        self._writer = writer
        self._rule = rule or Rule()
        self._paces = paces
        self._request = request
        self.sent = 0

    async def payload(self, data: bytes) -> None:
        """Take bytes of the body."""
        start, end = self.sent, self.sent + len(data)
        flip, stop = self._rule.flip_byte, self.stop_at
        if flip is not None and start <= flip < end:
            at = flip - start
            data = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        if stop is not None and end >= stop:
            await self.stop(data[: stop - start])
        self.sent = end
        if self._request is not None:
            self._request.moved = end  # before the client knows
        await self.framing(data)
        now = time.monotonic()
        passed = [pace.passed(len(data), now) for pace in self._paces]
        await asyncio.sleep(max(passed, default=now) - now)

    @property
    def stop_at(self) -> int | None:
        """After how many bytes of the body no more come; None for all of them."""
        rule = self._rule
        return rule.cut_after if rule.hang_after is None else rule.hang_after

    async def stop(self, last: bytes) -> NoReturn:
        """Send the last bytes, and fall silent or end as the rule says."""
        await self.framing(last)
        silent = self._rule.hang_after is not None
        # At least until these bytes have arrived.
        await asyncio.sleep(float("inf") if silent else 0.02)
        raise ResetError if self._rule.reset else ConnectionError("cut")

    async def framing(self, data: bytes) -> None:
        """Take bytes that stand around the body."""
        if self._writer is not None:
            self._writer.write(data)
            await self._writer.drain()


class Kept(Sink):
    """Where a body is kept, with what stands around it."""

    def __init__(self) -> None:
        super().__init__(None)
        self.body = bytearray()

    @override
    async def framing(self, data: bytes) -> None:
        self.body += data


def headers_of(head: bytes) -> dict[str, str]:
    """Return the headers, names in lower case."""
    lines = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    return {
        name.strip().decode("latin1").lower(): value.strip().decode("latin1")
        for name, _, value in lines
    }


async def copy_request_body(
    headers: Mapping[str, str], reader: asyncio.StreamReader, sink: Sink
) -> None:
    """Copy a body that says where it ends."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        await _copy_chunks(reader, sink)
    else:
        await _copy_length(reader, sink, int(headers.get("content-length", 0)))


async def copy_reply_body(
    headers: Mapping[str, str], reader: asyncio.StreamReader, sink: Sink
) -> None:
    """Copy a body that may also end with the connection."""
    if "content-length" in headers or "transfer-encoding" in headers:
        await copy_request_body(headers, reader, sink)
        return
    while data := await reader.read(65_536):
        await sink.payload(data)
    raise ConnectionError("the body ends with the connection")


async def _copy_chunks(reader: asyncio.StreamReader, sink: Sink) -> None:
    size = -1
    while size:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        await sink.framing(line)
        if size:
            await sink.payload(await reader.readexactly(size))
            await sink.framing(await reader.readexactly(2))
    trailer = b""
    while trailer != b"\r\n":
        trailer = await reader.readuntil(b"\r\n")
        await sink.framing(trailer)


async def _copy_length(reader: asyncio.StreamReader, sink: Sink, left: int) -> None:
    while left:
        data = await reader.read(min(left, 65_536))
        if not data:
            raise ConnectionError("short body")
        left -= len(data)
        await sink.payload(data)
