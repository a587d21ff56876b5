"""A call's deadline includes the connection that it needs."""

import threading
from collections.abc import Iterator
from functools import partial
from typing import Final

import pytest
from fsspec import AbstractFileSystem, register_implementation
from fsspec.registry import _registry

from objects.watched import CALLS
from support.deadlines import assert_all_end_by
from tieredfs import DeadlineExceededError, ObjectStore, RequestPolicy

LIMIT: Final = 1.5


@pytest.fixture
def slow() -> Iterator[str]:
    """A store that connects in most of a call's time, and answers nothing."""
    over = threading.Event()

    class Slow(AbstractFileSystem):  # type: ignore[misc] # it has no types
        protocol = "slow"

        def __init__(self, **options: object) -> None:
            super().__init__(**options)
            over.wait(LIMIT * 0.75)

        def _wait(self, *_: object, **__: object) -> None:
            over.wait(60)

        ls = info = cat_file = pipe_file = cp_file = rm_file = _rm = _wait
        _open = open = find = _wait

    register_implementation("slow", Slow)
    yield "slow://root"
    over.set()
    _registry.pop("slow")


def test_no_call_takes_longer_because_it_has_to_connect_first(slow: str) -> None:
    def fail(verb: str) -> None:
        store = ObjectStore(slow, policy=RequestPolicy(attempts=1, deadline=LIMIT))
        with pytest.raises(DeadlineExceededError):
            CALLS[verb](store)

    # An exclusive put is refused: no such filesystem has one.
    verbs = CALLS.keys() - {"create"}
    took = assert_all_end_by(LIMIT, [partial(fail, verb) for verb in sorted(verbs)])
    assert min(took) >= LIMIT
