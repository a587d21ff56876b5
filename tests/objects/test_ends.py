"""A program ends although a request of its hangs: no thread of ours is waited for."""

import base64
import select
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from servers import Bucket, ProxiedBucket, Request
from servers.ports import HOST
from servers.stalling import Stalling
from support.blocked_program import IN_A_THREAD, NEVER, end_of, line_of, start_program
from support.stores import open_store

_READS = {
    "get": "store.get('key')",
    "get_range": "store.get_range('key', 2, 9)",
    "get_ranges": "store.get_ranges('key', [ByteRange(n << 20, (n << 20) + 9)"
    " for n in range(4)])",
    "head": "store.head('key')",
}
_VERBS = _READS | {
    "put": "store.put('put', b'content', overwrite=True)",
    "exclusive put": "store.put('first', b'content', overwrite=False)",
    "put_file": "store.put_file('file', Path(sys.executable), overwrite=True)",
    "copy": "store.copy('key', 'copied')",
    "list": "list(store.list())",
    "delete": "store.delete(str(n) for n in range(3000))",
}
_UPLOAD = {"upload": "store.put('large', bytes(65 << 20), overwrite=True)"}
_TRIAL = {"probe_capabilities": "store.probe_capabilities()"}

VERBS = {
    "s3": _VERBS | _UPLOAD | _TRIAL | {"abort_uploads": "store.abort_uploads()"},
    "gcs": _VERBS | _UPLOAD | _TRIAL,
    "azure": _VERBS | _UPLOAD,
    "webhdfs": _VERBS,
    "sftp": _VERBS,
    "http": _READS,
}
"""The verbs that ask something of each kind of store."""

_SOON_SECONDS: Final = 30.0

EVERY_VERB = """
import gc
from pathlib import Path
gc.disable()  # Python loses a Ctrl-C that arrives in a __del__
for call in sys.stdin:
    code = compile(call, "call", "exec")  # of text, Python takes Ctrl-C for unhandled
    gc.collect()
    try:
        print("called")
        exec(code)
        print("it returned")
    except KeyboardInterrupt:
        print("interrupted")
"""


def _place(kind: str, host: str, port: int) -> Bucket:
    """Return a place of a kind on a server that never answers."""
    endpoint = f"http://{host}:{port}"
    options: dict[str, Any] = {}
    match kind:
        case "s3":
            keys = {"key": "key", "secret": "secret"}
            options = {**keys, "endpoint_url": endpoint}
            return Bucket("s3://bucket/root", options)
        case "gcs":
            options = {"project": "p", "token": "anon", "endpoint_url": endpoint}
            return Bucket("gs://bucket/root", options)
        case "azure":
            secret = base64.b64encode(b"secret").decode()
            parts = f"BlobEndpoint={endpoint}/me;AccountName=me;AccountKey={secret}"
            return Bucket("abfs://bucket/root", {"connection_string": parts})
        case "webhdfs":
            options = {"host": host, "port": port, "user": "tests"}
            return Bucket(f"webhdfs://{host}:{port}/root", options)
        case "sftp":
            options = {"username": "tests", "password": "none", "known_hosts": None}
            return Bucket(f"sftp://{host}:{port}/root", options)
    return Bucket(f"{endpoint}/root", options)


@contextmanager
def _hanging(program: str, place: Bucket) -> Iterator[Any]:
    """Run a program until the block ends, at the latest."""
    process = start_program(program, place.url, place.storage_options)
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("kind", VERBS)
def test_ctrl_c_ends_every_verb_and_the_process_while_the_store_hangs(
    kind: str,
) -> None:
    _end_every_verb(kind, EVERY_VERB)


def _end_every_verb(kind: str, program: str) -> None:
    with (
        Stalling(speaks_first=kind == "sftp") as server,
        _hanging(program, _place(kind, HOST, server.port)) as process,
    ):
        for call in VERBS[kind].values():
            server.forget()
            process.stdin.write(f"{call}\n")
            process.stdin.flush()
            assert line_of(process) == "called"
            assert server.asked.acquire(timeout=60), call
            process.send_signal(signal.SIGINT)
            if not _answers(process):  # lost in a __del__ after all: press it again
                process.send_signal(signal.SIGINT)
            assert line_of(process) == "interrupted", call
        process.stdin.close()
        assert end_of(process)[0] == 0


def _answers(process: subprocess.Popen[str]) -> bool:
    """Return whether a program prints something soon."""
    assert process.stdout is not None
    return bool(select.select([process.stdout], [], [], _SOON_SECONDS)[0])


@pytest.mark.parametrize("kind", ["s3", "webhdfs"])
def test_ctrl_c_ends_every_verb_that_does_not_see_it_as_it_begins_to_wait(
    kind: str,
) -> None:
    _end_every_verb(kind, IN_A_THREAD + EVERY_VERB)


PARTS = """
from dataclasses import replace
options = replace(store.options, multipart_threshold_bytes=5 << 20, part_bytes=5 << 20)
store._requests = replace(store._requests, options=options)
try:
    store.put("large", bytes(20 << 20), overwrite=True)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_an_upload_whose_parts_hang(s3_proxied: ProxiedBucket) -> None:
    asked = threading.Semaphore(0)

    def is_part(request: Request) -> bool:
        if "partNumber" not in request.target:
            return False
        asked.release()
        return True

    s3_proxied.proxy.add("PUT", when=is_part, hang=NEVER)
    place = Bucket(s3_proxied.url, s3_proxied.storage_options)
    with _hanging(PARTS, place) as process:
        assert asked.acquire(timeout=60)
        process.send_signal(signal.SIGINT)
        assert line_of(process) == "interrupted"
        assert end_of(process)[0] == 0


FAILURE = """
from tieredfs import PermissionDeniedError
try:
    store.get_ranges("key", [ByteRange(n << 20, (n << 20) + 9) for n in range(4)])
except PermissionDeniedError:
    print("refused")
"""


def test_a_process_ends_after_an_error_while_the_other_ranges_hang(
    s3_proxied: ProxiedBucket,
) -> None:
    place = Bucket(s3_proxied.url, s3_proxied.storage_options)
    open_store(place).put("key", bytes(4 << 20), overwrite=True)
    others = threading.Semaphore(0)

    def is_first(request: Request) -> bool:
        return request.range.startswith("bytes=0-")

    def is_other(_: Request) -> bool:
        others.release()
        return True

    s3_proxied.proxy.add("GET", when=is_first, delay=0.2, status=403)
    s3_proxied.proxy.add("GET", when=is_other, hang=NEVER)
    with _hanging(FAILURE, place) as process:
        assert line_of(process) == "refused"
        assert end_of(process)[0] == 0
    assert others.acquire(blocking=False), "no other range was under way"


RESOLVER = """
import socket, threading
sys.modules["aiodns"] = None  # where it is installed, aiohttp asks name servers itself
def resolve(*place, **how):
    print("resolving")
    threading.Event().wait(deadline)
socket.getaddrinfo = resolve
try:
    store.get("key")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("kind", VERBS)
def test_ctrl_c_ends_a_process_while_a_name_server_hangs(kind: str) -> None:
    with _hanging(RESOLVER, _place(kind, "store.invalid", 80)) as process:
        assert line_of(process) == "resolving"
        process.send_signal(signal.SIGINT)
        assert line_of(process) == "interrupted"
        assert end_of(process)[0] == 0
