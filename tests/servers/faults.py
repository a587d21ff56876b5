"""What can go wrong with a request, and which requests it happens to."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from typing_extensions import TypedDict


@dataclass
class Request:
    """One request that went through the proxy; status 0 while there is no answer.

    Attributes:
        at: When, by the monotonic clock.
        method: GET, PUT, …
        target: Path and query.
        headers: By their names in lower case.
        status: Of the answer.
        injected: Whether a rule took it.
        moved: Bytes of the answer's body that were passed on.
    """

    at: float
    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    status: int = 0
    injected: bool = False
    moved: int = 0

    @property
    def range(self) -> str:
        """The range it asks for; empty when it asks for the whole object."""
        return self.headers.get("x-ms-range", self.headers.get("range", ""))


class Faults(TypedDict, total=False):
    """What `FaultProxy.add` takes: the fields of `Rule`."""

    when: Callable[[Request], object]
    times: float
    skip: int
    probability: float
    status: int
    headers: Mapping[str, str]
    body: str
    cut_before: bool
    cut_after: int
    reset: bool
    hang_after: int
    lose_reply: bool
    hang: float
    delay: float
    flip_byte: int


@dataclass
class Rule:
    """Which requests fail, and how.

    Attributes:
        method: Only this one; empty for any.
        path: Only targets in which this regular expression is found.
        when: Only requests of which this is true: ``lambda request: request.range``.
        times: How many requests fail.
        skip: How many pass first.
        probability: Of each of the others to fail.
        status: Answer this at once, without asking the server.
        headers: Of that answer, such as Retry-After.
        body: Of that answer; empty for what the store that was asked would say.
        cut_before: Reset the connection before the server hears.
        cut_after: End the connection after so many bytes of the reply's body; in the
            middle of its head if there is no body.
        reset: Make that end a reset.
        hang_after: Silence for ever after so many bytes of the reply's body, or in the
            middle of its head.
        lose_reply: Reset the connection when the server has answered.
        hang: Seconds of silence before the request is passed on.
        delay: Seconds before the answer.
        flip_byte: Position of a byte of the reply's body to be inverted.
        hits: How many requests failed so far.
    """

    method: str = ""
    path: str = ""
    when: Callable[[Request], object] = lambda _: True
    times: float = float("inf")
    skip: int = 0
    probability: float = 1.0
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    cut_before: bool = False
    cut_after: int | None = None
    reset: bool = False
    hang_after: int | None = None
    lose_reply: bool = False
    hang: float = 0.0
    delay: float = 0.0
    flip_byte: int | None = None
    hits: int = 0

    def takes(self, request: Request, random: Random) -> bool:
        """Tell whether this request is to fail, and count it."""
        if self.hits >= self.times or self.method not in {"", request.method}:
            return False
        if not re.search(self.path, request.target) or not self.when(request):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.probability < 1 and random.random() >= self.probability:
            return False
        self.hits += 1
        return True


@dataclass
class Request:
    """One request that went through the proxy.

    Attributes:
        at: When it arrived, on the monotonic clock.
        method: GET, PUT …
        target: Path and query.
        range: The header of that name.
        status: Of the answer; 0 while there is none.
        injected: Whether a rule made it fail.
        moved: Bytes of the answer's body that were passed on by now.
    """

    at: float
    method: str
    target: str
    range: str
    status: int = 0
    injected: bool = False
    moved: int = 0


_FOR_EVER = 3600.0
"""Seconds; a proxy that stops ends it."""


class _ResetError(Exception):
    """End the client's connection with a RST."""


@dataclass
class _Stream:
    """One side's connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")


class _Sink:
    """Where a body goes: nowhere without a writer; damaged as the rule says."""

    def __init__(
        self,
        writer: asyncio.StreamWriter | None,
        rule: Rule | None = None,
        bandwidth: float = 0.0,
        request: Request | None = None,
    ) -> None:
        self._writer = writer
        self._rule = rule or Rule()
        self._bandwidth = bandwidth
        self._request = request
        self._sent = 0

    async def payload(self, data: bytes) -> None:
        start, end = self._sent, self._sent + len(data)
        flip, stop = self._rule.flip_byte, self._rule.stop
        if flip is not None and start <= flip < end:
            at = flip - start
            data = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        if stop is not None and end >= stop:
            await self.stop(data[: stop - start])
        self._sent = end
        if self._request is not None:  # before the client has it, and looks
            self._request.moved = end
        await self.framing(data)
        if self._bandwidth:
            await asyncio.sleep(len(data) / self._bandwidth)

    async def stop(self, last: bytes) -> NoReturn:
        """Send the last bytes, and end or fall silent as the rule says."""
        await self.framing(last)
        silence = _FOR_EVER if self._rule.hang_after is not None else 0.02
        await asyncio.sleep(silence)  # at least until these bytes have arrived
        raise _ResetError if self._rule.reset else ConnectionError("cut")

    async def framing(self, data: bytes) -> None:
        if self._writer is not None:
            self._writer.write(data)
            await self._writer.drain()


def _headers(head: bytes) -> dict[str, str]:
    lines = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    return {
        name.strip().decode("latin1").lower(): value.strip().decode("latin1")
        for name, _, value in lines
    }


async def _copy_chunks(reader: asyncio.StreamReader, sink: _Sink) -> None:
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


async def _copy_length(reader: asyncio.StreamReader, sink: _Sink, left: int) -> None:
    while left:
        data = await reader.read(min(left, 65_536))
        if not data:
            raise ConnectionError("short body")
        left -= len(data)
        await sink.payload(data)


async def _copy_request_body(
    headers: Mapping[str, str], reader: asyncio.StreamReader, sink: _Sink
) -> None:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        await _copy_chunks(reader, sink)
    else:
        await _copy_length(reader, sink, int(headers.get("content-length", 0)))


async def _copy_reply_body(
    headers: Mapping[str, str], reader: asyncio.StreamReader, sink: _Sink
) -> None:
    if "content-length" in headers or "transfer-encoding" in headers:
        await _copy_request_body(headers, reader, sink)
        return
    while data := await reader.read(65_536):
        await sink.payload(data)
    raise ConnectionError("the body ends with the connection")


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    if connection is not None:
        linger = struct.pack("ii", 1, 0)
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


class FaultProxy:
    """Stands before a server on loopback; a context manager.

    Attributes:
        latency: Seconds before each answer.
        bandwidth: Bytes per second of a reply's body; 0 for no limit.
        rules: What is to fail; the first rule that takes a request decides.
        log: Every request, in order of arrival.
    """

    def __init__(self, upstream_port: int, seed: int = 0) -> None:
        self.port = 0
        self.latency = 0.0
        self.bandwidth = 0.0
        self.rules: list[Rule] = []
        self.log: list[Request] = []
        self._upstream_port = upstream_port
        self._random = Random(seed)  # noqa: S311 -- repeatable, not secret
        self._clients: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="faults", daemon=True)
        self._up = threading.Event()

    @property
    def url(self) -> str:
        """The endpoint to give to clients."""
        return f"http://{HOST}:{self.port}"

    def add(self, method: str = "", path: str = "", **faults: Unpack[Faults]) -> Rule:
        """Add a rule, and return it so that its hits can be counted."""
        rule = Rule(method, path, **faults)
        self.rules.append(rule)
        return rule

    def requests(self, method: str = "", path: str = "") -> list[Request]:
        """List what went through: this method, this expression in the target."""
        return [
            request
            for request in self.log
            if method in {"", request.method} and re.search(path, request.target)
        ]

    def clear(self) -> None:
        """Forget all rules, limits and requests."""
        self.rules.clear()
        self.log.clear()
        self.latency = self.bandwidth = 0.0

    def drop_connections(self) -> None:
        """Reset every open connection, as a restarted load balancer does."""

        def drop() -> None:
            for writer in list(self._clients):
                _reset(writer)

        self._loop.call_soon_threadsafe(drop)

    def refuse(self) -> None:
        """Reset every open connection and listen no more, as a server that ended."""

        async def close() -> None:
            self._server.close()
            for writer in list(self._clients):
                _reset(writer)

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(5)

    def accept(self) -> None:
        """Listen again, on the same port, unless it does."""
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(5)

    def start(self) -> Self:
        """Start the thread, and return when it listens."""
        self._thread.start()
        if not self._up.wait(5):
            raise TimeoutError("the proxy did not start")
        return self

    def stop(self) -> None:
        """End every connection, and the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        # Bound for as long as the proxy lives: nobody else gets the port meanwhile.
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind((HOST, 0))
            self.port = held.getsockname()[1]
            self._server = self._loop.run_until_complete(self._start())
            self._up.set()
            self._loop.run_forever()
            self._server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        # Closed transports end in the loop's next rounds.
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _listen(self) -> None:
        if not self._server.is_serving():
            self._server = await self._start()

    async def _start(self) -> asyncio.Server:
        return await asyncio.start_server(
            self._serve, HOST, self.port, limit=_BUFFER, reuse_port=True
        )

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._clients.add(writer)
        upstream: asyncio.StreamWriter | None = None
        try:
            server = _Stream(
                *await asyncio.open_connection(HOST, self._upstream_port, limit=_BUFFER)
            )
            upstream = server.writer
            while await self._exchange(_Stream(reader, writer), server):
                pass
        except _ResetError:
            _reset(writer)
        except (asyncio.IncompleteReadError, OSError):
            pass  # one side is gone, and so is the connection
        except asyncio.CancelledError:
            pass  # the proxy is stopping
        finally:
            self._clients.discard(writer)
            writer.close()
            if upstream is not None:
                upstream.close()

    async def _exchange(self, client: _Stream, server: _Stream) -> bool:
        """Pass one request and its answer on; tell whether more may follow."""
        head = await client.head()
        method, target = head.decode("latin1").split(" ", 2)[:2]
        headers = _headers(head)
        request = Request(time.monotonic(), method, target, headers.get("range", ""))
        self.log.append(request)
        rule = next(
            (r for r in self.rules if r.takes(method, target, self._random)), None
        )
        request.injected = rule is not None
        rule = rule or Rule()
        if rule.cut_before:
            raise _ResetError
        await asyncio.sleep(rule.hang)
        if rule.status:
            await self._refuse(client, headers, request, rule)
            return False
        server.writer.write(head)
        upload = asyncio.ensure_future(
            _copy_request_body(headers, client.reader, _Sink(server.writer))
        )
        try:
            reply = await self._answer(client, server, request, rule)
            if not upload.done():  # answered before the whole body was read
                return False
            upload.result()
        finally:
            upload.add_done_callback(lambda done: done.cancelled() or done.exception())
            upload.cancel()
        return "close" not in {
            headers.get("connection", "").lower(),
            reply.get("connection", "").lower(),
        }

    async def _refuse(
        self, client: _Stream, headers: Mapping[str, str], request: Request, rule: Rule
    ) -> None:
        if headers.get("expect", "").lower() != "100-continue":
            await _copy_request_body(headers, client.reader, _Sink(None))
        await asyncio.sleep(rule.delay + self.latency)
        body = _BODIES.get(rule.status, "injected")
        kind = "application/json" if body.startswith("{") else "application/xml"
        lines = [
            f"HTTP/1.1 {rule.status} Injected",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Connection: close",
            *(f"{name}: {value}" for name, value in rule.headers.items()),
        ]
        answer = "\r\n".join([*lines, "", "" if request.method == "HEAD" else body])
        client.writer.write(answer.encode("latin1"))
        request.status = rule.status
        await client.writer.drain()

    async def _answer(
        self, client: _Stream, server: _Stream, request: Request, rule: Rule
    ) -> dict[str, str]:
        """Pass the server's answer on; return its headers."""
        status = 100
        while status < 200:
            head = await server.head()
            status = int(head.split(b" ", 2)[1])
            if status < 200:
                client.writer.write(head)
        request.status = status
        headers = _headers(head)
        bodiless = request.method == "HEAD" or status in _NO_BODY
        if rule.lose_reply:
            if not bodiless:
                await _copy_reply_body(headers, server.reader, _Sink(None))
            raise _ResetError
        await asyncio.sleep(rule.delay + self.latency)
        sink = _Sink(client.writer, rule, self.bandwidth, request)
        empty = bodiless or headers.get("content-length") == "0"
        if empty and rule.stop is not None:
            await sink.stop(head[: len(head) // 2])
        client.writer.write(head)
        if not bodiless:
            await _copy_reply_body(headers, server.reader, sink)
        return headers
