"""The machine passes on the cache, and finds what is wrong with broken ones."""

import re
from unittest.mock import patch

import pytest
from hypothesis.errors import FlakyFailure

from testing.broken_caches import BROKEN, PATCHED, unlocked
from testing.running import run_once
from tieredfs.cache import RemoteIndexCache
from tieredfs.cache.directory import _DirectoryChange
from tieredfs.testing import cache_machine_test
from tieredfs.testing.cache_machine.damage import folder
from tieredfs.testing.cache_machine.machine import CacheMachine
from tieredfs.testing.cache_machine.setup import Setup

TestCache = cache_machine_test(examples=15)
TestCacheThatExpires = cache_machine_test(ttl=100.0, examples=10)


@pytest.mark.parametrize(
    "broken", BROKEN, ids=lambda one: getattr(one, "__name__", one)
)
def test_a_broken_cache_is_found(broken: type[RemoteIndexCache] | str) -> None:
    opened = RemoteIndexCache if isinstance(broken, str) else broken
    patched = PATCHED[broken]() if isinstance(broken, str) else unlocked()
    with patched, pytest.raises((AssertionError, FlakyFailure)) as found:
        run_once(cache_machine_test(opened))
    # A race that is won the second time is Flaky, for what was found the first time.
    texts = [str(found.value), *map(str, getattr(found.value, "exceptions", ()))]
    assert re.search(BROKEN[broken], "\n".join(texts))


def test_a_cache_that_makes_room_of_what_it_never_counted_is_found() -> None:
    """By the step itself: few of the examples put a folder into a full directory."""

    class Machine(CacheMachine):
        setup = Setup(RemoteIndexCache, None)

    uncounted = patch.object(_DirectoryChange, "discard", _DirectoryChange.remove)
    machine = Machine()
    machine.begin(1 << 20)
    with uncounted, pytest.raises(AssertionError, match="the size on disk keeps to"):
        machine.damage([0, 1], 0, [folder], "before", is_full=True)
    machine.teardown()
