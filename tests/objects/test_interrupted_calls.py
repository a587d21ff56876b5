"""Ctrl-C may come at any moment of a call; the store can be used afterwards."""

import dis
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING

import pytest

from servers import RangeHTTP
from tieredfs import ByteRange, ObjectStore, RequestPolicy

if TYPE_CHECKING:
    from _typeshed import TraceFunction

_CONTENT = bytes(4 << 20)
_WAITING = (
    "tieredfs/objects/concurrency",
    "tieredfs/objects/connection",
    "asyncio/base_events",
    "/threading.py",
)
"""Where a thread waits for another: parts of the paths of such code."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    """A store of one object, which is connected."""
    (tmp_path / "key").write_bytes(_CONTENT)
    with RangeHTTP(tmp_path) as server:
        place = server.bucket("")
        policy = RequestPolicy(deadline=20)
        with ObjectStore(place.url, place.storage_options, policy=policy) as opened:
            opened.get("key")
            yield opened


def _get_range(store: ObjectStore) -> None:
    assert store.get_range("key", 2, 9) == bytes(7)


def _get_ranges(store: ObjectStore) -> None:
    wanted = [ByteRange(n << 20, (n << 20) + 9) for n in range(4)]
    assert store.get_ranges("key", wanted) == [bytes(9)] * 4


@cache
def _after_calls(code: CodeType) -> frozenset[int]:
    """Return where code looks for signals: the instructions after calls."""
    found = list(dis.get_instructions(code))
    calls = ("CALL", "RESUME")
    return frozenset(
        after.offset for one, after in pairwise(found) if one.opname.startswith(calls)
    )


@contextmanager
def _interrupted_at(step: int) -> Iterator[list[int]]:
    """Raise KeyboardInterrupt at a step of the waiting code; yield the steps so far."""
    steps = [0]

    def trace(frame: FrameType, event: str, _: object) -> "TraceFunction | None":
        if event == "call":
            path = frame.f_code.co_filename
            if not any(part in path for part in _WAITING):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return trace
        if event == "opcode" and frame.f_lasti in _after_calls(frame.f_code):
            steps[0] += 1
            if steps[0] == step:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield steps
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("call", [_get_range, _get_ranges])
def test_after_ctrl_c_at_any_step_of_a_call_the_next_one_is_answered(
    store: ObjectStore, call: Callable[[ObjectStore], None]
) -> None:
    step, is_over = 0, False
    while not is_over:
        step += 1
        try:
            with _interrupted_at(step) as steps:
                call(store)
            is_over = steps[0] < step
        except (KeyboardInterrupt, RuntimeError):
            pass  # an interrupted wait of Python makes the one the other
        call(store)
    assert step > 15


def test_after_ctrl_c_at_any_step_of_a_connection_another_thread_can_connect(
    tmp_path: Path,
) -> None:
    (tmp_path / "key").write_bytes(b"content")
    policy = RequestPolicy(deadline=10)
    step, is_over = 0, False
    while not is_over:
        step += 1
        store = ObjectStore(str(tmp_path), policy=policy)
        try:
            with _interrupted_at(step) as steps:
                store.get("key")
            is_over = steps[0] < step
        except KeyboardInterrupt:
            pass
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(store.get, "key").result() == b"content"
    assert step > 10
