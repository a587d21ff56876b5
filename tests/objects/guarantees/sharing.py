"""Threads and processes."""

import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

from objects.forking import forked, soon
from objects.guarantees.model import guarantee
from objects.subject import Subject
from support.stores import PLACES

THREADS = 16
FILES = {f"{number:02d}": os.urandom(50) * 400 for number in range(THREADS)}
IN_PROCESS = ("memory", "chained")


@guarantee("sixteen threads share a store", given=FILES)
def threads(subject: Subject) -> None:
    """One store serves sixteen threads, from the first connection on."""
    again = pickle.loads(pickle.dumps(subject.store))  # noqa: S301 - our own
    start = threading.Barrier(THREADS)

    def work(key: str) -> bool:
        start.wait()  # all of them want the first connection
        content = FILES[key]
        return all(
            again.get_range(key, at, at + 1000) == content[at : at + 1000]
            and again.get(key) == content
            for at in (0, 1, 5000)
        )

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(work, FILES))


@guarantee("a store can be pickled", given=FILES)
def pickled(subject: Subject) -> None:
    """The pickle contains the URL, the options and the policy, and opens the same
    place.
    """
    again = pickle.loads(pickle.dumps(subject.store))  # noqa: S301 - our own
    assert (again.url, again.policy) == (subject.store.url, subject.store.policy)
    assert again.get("00") == FILES["00"]


@guarantee(
    "a fork makes its own connections",
    places=tuple(kind for kind in PLACES if kind not in IN_PROCESS),
    given=FILES,
)
def forks(subject: Subject) -> None:
    """A forked child can use the inherited store, and neither it nor its parent waits
    for the other.
    """
    store = subject.store
    assert store.get("00") == FILES["00"]
    assert forked(lambda: bytes(store.get("01"))) == FILES["01"]
    assert soon(lambda: bytes(store.get("02"))) == FILES["02"]
