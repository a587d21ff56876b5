"""An HTTP/1.1 proxy, in a thread, that counts requests and makes them fail.

    with FaultProxy(server.port) as proxy:
        proxy.latency = 0.030                           # before each answer
        proxy.bandwidth = 10e6                          # bytes/s per connection
        proxy.link = Pace(30e6)                         # bytes/s of all of them
        proxy.add("GET", status=503, times=3)           # throttled
        proxy.add("GET", cut_after=65_536, times=1)     # part of a body, then FIN
        proxy.add("GET", cut_after=65_536, reset=True)  # part of a body, then RST
        proxy.add("PUT", cut_before=True, times=1)      # RST: the server never hears
        proxy.add("PUT", lose_reply=True, times=1)      # done, but we never hear
        proxy.add("GET", hang=30, times=1)              # no byte for 30 s
        proxy.add("GET", hang_after=65_536)             # part of a body, then none
        proxy.add("PUT", hold=Hold(), times=1)          # passed on when released
        proxy.add("GET", when=lambda asked: asked.range, status=500)
        proxy.add("GET", flip_byte=100)                 # one byte of the body wrong
        proxy.silent = True                             # accepts, and never answers
        proxy.refuse()                                  # not listening until clear()
        ...
        assert len(proxy.requests("GET", "/orders-")) == 1

Signatures stay valid through it: the head of a request is passed on unchanged. A
redirect to the server is replaced by one to the proxy.
"""

import asyncio
import re
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Unpack

from typing_extensions import override

from servers.bodies import (
    Kept,
    Pace,
    ResetError,
    Sink,
    Stream,
    copy_reply_body,
    copy_request_body,
    headers_of,
)
from servers.faults import Faults, Hold, Request, Rule, refusal
from servers.loop import LoopServer
from servers.ports import HOST, free_ports

_BUFFER = 1 << 20
_NO_BODY = frozenset({204, 304})


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    if connection is not None:
        linger = struct.pack("ii", 1, 0)
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


class FaultProxy(LoopServer):
    """Stands before a server on loopback; a context manager.

    Attributes:
        latency: Seconds before each answer.
        bandwidth: Bytes per second of a reply's body; 0 for no limit.
        link: What the bodies of all replies share.
        silent: Accept new connections, and never read from them.
        rules: What is to fail; the first rule that takes a request decides.
        log: Every request, in order of arrival.
    """

    def __init__(self, upstream_port: int, seed: int = 0) -> None:
        super().__init__("faults")
        self.latency = 0.0
        self.bandwidth = 0.0
        self.link = Pace(0)
        self.silent = False
        self.rules: list[Rule] = []
        self.log: list[Request] = []
        self._upstream_port = upstream_port
        self._random = Random(seed)  # noqa: S311 -- repeatable, not secret
        self._clients: set[Stream] = set()
        self._servers: set[Stream] = set()
        self._listener: asyncio.Server | None = None

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
        """Forget all rules, limits and requests, and listen again."""
        self.rules.clear()
        self.log.clear()
        self.latency = self.bandwidth = 0.0
        self.link = Pace(0)
        self.silent = False
        self.accept()

    def refuse(self) -> None:
        """Reset every open connection, and refuse new ones until `accept`."""
        self._do(self._close())

    def accept(self) -> None:
        """Listen again, on the same port, unless it does."""
        if self._listener is None:
            self._do(self._listen())

    def drop_connections(self) -> None:
        """Reset every open connection, as a restarted load balancer does."""
        self._do(self._drop(self._clients))

    @override
    async def _listen(self) -> None:
        # No port that the kernel would give to a client while this does not listen.
        self.port = self.port or free_ports(1)[0]
        self._listener = await asyncio.start_server(
            self._serve, HOST, self.port, limit=_BUFFER
        )

    @override
    async def _close(self) -> None:
        if self._listener is not None:
            # A connection of this moment gets its stream first: asyncio leaves it open
            # when the listener closes in between.
            await asyncio.sleep(0.01)
            self._listener.close()
            self._listener = None
        await self._drop(self._clients)
        await self._drop(self._servers)

    async def _drop(self, streams: set[Stream]) -> None:
        for stream in streams:
            _reset(stream.writer)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        client = Stream(reader, writer)
        server: Stream | None = None
        self._clients.add(client)
        try:
            if self.silent:
                await asyncio.sleep(float("inf"))
            again = True
            while again:
                head = await client.head()
                if server is None or server.reader.at_eof():
                    # Servers end connections that are idle; the client did not see it.
                    self._hang_up(server)
                    server = await self._connect()
                again = await self._exchange(client, server, head)
        except ResetError:
            _reset(writer)
        except (asyncio.IncompleteReadError, OSError):
            pass  # one side is gone, and so is the connection
        except asyncio.CancelledError:
            pass  # the proxy is stopping
        finally:
            self._clients.discard(client)
            writer.close()
            self._hang_up(server)

    async def _connect(self) -> Stream:
        server = Stream(
            *await asyncio.open_connection(HOST, self._upstream_port, limit=_BUFFER)
        )
        self._servers.add(server)
        return server

    def _hang_up(self, server: Stream | None) -> None:
        if server is not None:
            self._servers.discard(server)
            server.writer.close()

    async def _exchange(self, client: Stream, server: Stream, head: bytes) -> bool:
        """Pass one request and its answer on; return whether more may follow."""
        method, target = head.decode("latin1").split(" ", 2)[:2]
        headers = headers_of(head)
        request = Request(time.monotonic(), method, target, headers)
        self.log.append(request)
        rule = next((r for r in self.rules if r.takes(request, self._random)), None)
        request.injected = rule is not None
        rule = rule or Rule()
        if rule.cut_before:
            raise ResetError
        await asyncio.sleep(rule.hang)
        if rule.status:
            await self._turn_down(client, request, rule)
            return False
        sent = headers
        if rule.hold is not None:
            head += await self._held_body(client, headers, rule.hold)
            sent = {}  # its body is in it
        server.writer.write(head)
        body = copy_request_body(sent, client.reader, Sink(server.writer))
        upload = asyncio.ensure_future(body)
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

    async def _held_body(
        self, client: Stream, headers: Mapping[str, str], hold: Hold
    ) -> bytes:
        """Take a whole body, and return it when it is to be passed on."""
        if headers.get("expect", "").lower() == "100-continue":
            client.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        kept = Kept()
        await copy_request_body(headers, client.reader, kept)
        while not hold.release.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.01)
        return bytes(kept.body)

    async def _turn_down(self, client: Stream, request: Request, rule: Rule) -> None:
        if request.headers.get("expect", "").lower() != "100-continue":
            await copy_request_body(request.headers, client.reader, Sink(None))
        await asyncio.sleep(rule.delay + self.latency)
        headers, said = refusal(rule.status, request)
        body = said if rule.body is None else rule.body
        headers |= {"Content-Length": str(len(body)), "Connection": "close"}
        lines = [
            f"HTTP/1.1 {rule.status} Injected",
            *(
                f"{name}: {value}"
                for name, value in {**headers, **rule.headers}.items()
            ),
        ]
        answer = "\r\n".join([*lines, "", "" if request.method == "HEAD" else body])
        client.writer.write(answer.encode("latin1"))
        request.status = rule.status
        await client.writer.drain()

    async def _answer(
        self, client: Stream, server: Stream, request: Request, rule: Rule
    ) -> Mapping[str, str]:
        """Pass the server's answer on; return its headers."""
        status = 100
        while status < 200:
            head = await server.head()
            status = int(head.split(b" ", 2)[1])
            if status < 200:
                client.writer.write(head)
        request.status = status
        if rule.hold is not None:
            rule.hold.landed.set()
        headers = headers_of(head)
        bodiless = request.method == "HEAD" or status in _NO_BODY
        if rule.lose_reply:
            if not bodiless:
                await copy_reply_body(headers, server.reader, Sink(None))
            raise ResetError
        await asyncio.sleep(rule.delay + self.latency)
        paces = (Pace(self.bandwidth), self.link)
        sink = Sink(client.writer, rule, paces, request)
        empty = bodiless or headers.get("content-length") == "0"
        if empty and sink.stop_at is not None:
            await sink.stop(head[: len(head) // 2])
        upstream = f"http://{HOST}:{self._upstream_port}/".encode()
        client.writer.write(head.replace(upstream, f"{self.url}/".encode()))
        if not bodiless:
            await copy_reply_body(headers, server.reader, sink)
        return headers
