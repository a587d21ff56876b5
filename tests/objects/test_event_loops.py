"""Stores that are called by coroutines."""

import asyncio
import gc
import time
from collections.abc import Callable

import fsspec.asyn
import pytest

from servers import Bucket
from support.stores import open_store
from tieredfs import (
    ByteRange,
    ObjectStore,
    UnsupportedOperationError,
)

Call = Callable[[ObjectStore], object]

CALLS: dict[str, Call] = {
    "get": lambda store: store.get("key"),
    "get_range": lambda store: store.get_range("key", 0, 1),
    "get_ranges": lambda store: store.get_ranges(
        "key", [ByteRange(0, 1), ByteRange(2_000_000, 2_000_001)]
    ),
    "head": lambda store: store.head("key"),
    "list": lambda store: list(store.list()),
    "put": lambda store: store.put("new", b"1", overwrite=True),
    "create": lambda store: store.put("created", b"1", overwrite=False),
    "delete": lambda store: store.delete(["a", "b"]),
    "probe_capabilities": lambda store: store.probe_capabilities(),
    "abort_uploads": lambda store: store.abort_uploads(),
}


def on_loop_of_fsspec(
    call: Callable[[ObjectStore], object], store: ObjectStore
) -> None:
    """Make a call in a coroutine that runs where fsspec's clients do."""

    async def coroutine() -> object:
        return call(store)

    fsspec.asyn.sync(fsspec.asyn.get_loop(), coroutine, timeout=60)


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_call_on_the_loop_that_its_client_needs_is_refused_immediately(
    place: Bucket, is_connected: bool
) -> None:
    store = open_store(place)
    store.put("key", bytes(3_000_000), overwrite=True)
    if not is_connected:
        store = open_store(place)
    begun = time.monotonic()
    for call in CALLS.values():
        if store.is_local:
            on_loop_of_fsspec(call, store)
            continue
        with pytest.raises(UnsupportedOperationError, match="by asyncio"):
            on_loop_of_fsspec(call, store)
    assert time.monotonic() - begun < 20  # a call that waits takes a minute
    assert store.get_range("key", 0, 1) == b"\0"


def test_the_identity_is_not_wrong_on_that_loop(
    place: Bucket,
) -> None:
    store = open_store(place)
    if not store.is_local:
        with pytest.raises(UnsupportedOperationError, match="by asyncio"):
            on_loop_of_fsspec(lambda store: store.identity, store)
    assert store.identity == open_store(place).identity


def test_a_coroutine_of_any_other_loop_may_call(store: ObjectStore) -> None:
    async def coroutine() -> bytes:
        store.put("key", b"1", overwrite=True)
        return bytes(await asyncio.to_thread(store.get, "key"))

    assert asyncio.run(coroutine()) == b"1"


def test_a_store_that_a_coroutine_drops_is_closed_on_its_own_loop(
    place: Bucket,
) -> None:
    reported: list[dict[str, object]] = []

    async def coroutine() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: reported.append(context)
        )
        open_store(place).put("key", b"1", overwrite=True)
        for _ in range(3):
            gc.collect()
            await asyncio.sleep(0)

    gc.collect()  # of clients that others have dropped
    asyncio.run(coroutine())
    assert reported == []
