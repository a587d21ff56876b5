"""Test cases that try any calls in any order; hypothesis is imported with the first.

Importing this module imports no hypothesis, so that the checks beside it need none.
"""

import unittest
from collections.abc import Callable, Sequence
from typing import Protocol

from tieredfs.cache import RemoteIndexCache
from tieredfs.errors import InvalidArgumentError
from tieredfs.objects import ObjectStore
from tieredfs.storage import RemoteStorageManager
from tieredfs.testing.cache_machine.setup import OpenCache
from tieredfs.testing.object_store_machine.samples import KEYS
from tieredfs.testing.plugin_machine.pool import CROWD
from tieredfs.testing.stores import OpenStore, scratch_store

__all__ = [
    "PluginCase",
    "cache_machine_test",
    "state_machine_test",
    "store_machine_test",
]


class PluginCase(Protocol):
    """What is tested: a class that makes the storages of a plugin."""

    def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
        """Return a new storage over a store, on each call."""


def state_machine_test(
    case: Callable[[], PluginCase],
    *,
    open_store: OpenStore = scratch_store,
    examples: int | None = None,
    steps: int = 30,
    crowd: int = CROWD,
) -> type[unittest.TestCase]:
    """Return a test case that tries any calls of a plugin in any order.

    Each sequence of calls is made over a store of its own. A failure is printed as the
    shortest sequence that hypothesis has found.

    Args:
        case: Makes the storages of the plugin, such as a class ``TestMine`` with the
            method ``make_storage(self, store)``.
        open_store: Opens a store without objects, and removes it afterwards; by
            default one in memory.
        examples: How many sequences are tried; None for as many as the profile of
            hypothesis says.
        steps: Maximum calls of each.
        crowd: Segments of the largest partition. By default they do not fit on one page
            of a listing; fewer are quicker where a request takes long.

    Raises:
        InvalidArgumentError: ``case`` is a class without the method ``make_storage``.
    """
    from tieredfs.testing.machine_case import machine_case  # noqa: PLC0415 - see above
    from tieredfs.testing.plugin_machine.machine import plugin_machine  # noqa: PLC0415 - see above

    if isinstance(case, type) and not hasattr(case, "make_storage"):
        raise InvalidArgumentError(
            f"{case!r} has no method make_storage: give a class whose "
            "make_storage(self, store) returns a storage of the plugin"
        )
    machine = plugin_machine(case().make_storage, open_store=open_store, crowd=crowd)
    machine.__name__ = f"{getattr(case, '__name__', 'Plugin')}Machine"
    return machine_case(machine, examples, steps)


def store_machine_test(
    open_store: OpenStore = scratch_store,
    *,
    keys: Sequence[str] = KEYS,
    examples: int | None = None,
    steps: int = 30,
) -> type[unittest.TestCase]:
    """Return a test case that tries any calls of an object store in any order.

    Args:
        open_store: Opens a store without objects, and removes it afterwards; one that
            is read only has some.
        keys: The keys to draw from; plainer ones for a server that is known to list
            some in a wrong order, or to take one key for another.
        examples: As in ``state_machine_test``.
        steps: As in ``state_machine_test``.
    """
    from tieredfs.testing.machine_case import machine_case  # noqa: PLC0415 - see above
    from tieredfs.testing.object_store_machine.machine import object_store_machine  # noqa: PLC0415 - see above

    return machine_case(object_store_machine(open_store, keys), examples, steps)


def cache_machine_test(
    open_cache: OpenCache = RemoteIndexCache,
    *,
    ttl: float | None = None,
    examples: int | None = None,
    steps: int = 30,
) -> type[unittest.TestCase]:
    """Return a test case that tries any calls of a cache of indexes in any order.

    Each sequence of calls is made in a directory of its own, by several handles. Entry
    files, the ledger and the directory are damaged meanwhile, and the storage fails.

    Args:
        open_cache: Opens a cache as ``RemoteIndexCache`` does, with the storage, the
            directory, which may exist, and ``max_bytes``, None for the current limit.
        ttl: Seconds without use after which an entry is no longer served;
            ``open_cache`` is given it and a ``clock``. None for no limit: then it is
            given neither.
        examples: As in ``state_machine_test``.
        steps: As in ``state_machine_test``.
    """
    from tieredfs.testing.cache_machine.machine import cache_machine  # noqa: PLC0415 - see above
    from tieredfs.testing.machine_case import machine_case  # noqa: PLC0415 - see above

    return machine_case(cache_machine(open_cache, ttl), examples, steps)
