"""The cells of the fault matrix: one fault in the way of one verb on one cloud.

Cells are tried in lanes, each with a proxy and a store of its own. What is asked of
every cell: the right answer or the right typed error, by the deadline, no wrong byte
under any key, and a store that works when the fault has passed.
"""

import math
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from servers import Bucket, FaultProxy
from servers.faults import Faults
from tieredfs import (
    ByteRange,
    DeadlineExceededError,
    NotFoundError,
    ObjectStore,
    RequestPolicy,
    StorageUnavailableError,
    TieredFSError,
)

__all__ = ["CELLS", "DEADLINE", "FAULTS", "VERBS", "Cell", "Lane", "Result"]

DEADLINE = 2.5
CONTENT = bytes(range(256)) * 256
NEW = CONTENT[::-1]
SPANS = [ByteRange(10, 20), ByteRange(30_000, 65_000), ByteRange(5, 5)]

FAULTS: Mapping[str, Faults | None] = {
    "hang": {"hang": 600},
    "hang in the body": {"hang_after": 40},
    "reset": {"cut_before": True},
    "refuse": None,
    "500": {"status": 500},
    "503": {"status": 503},
    "429": {"status": 429, "headers": {"Retry-After": "1"}},
    "cut body": {"cut_after": 40},
    "lost reply": {"lose_reply": True},
}
"""The rule of the proxy for each fault; a refused connection has no rule."""

_HANGS = ("hang", "hang in the body")
_DONE = ("hang in the body", "cut body", "lost reply")
"""Faults after which it is unknown whether the server has performed the request."""

VERBS: Mapping[str, Callable[[ObjectStore, str], Any]] = {
    "get_range": lambda store, at: bytes(store.get_range(f"{at}/key", 7, 65_000)),
    "get_ranges": lambda store, at: [
        bytes(found) for found in store.get_ranges(f"{at}/key", SPANS)
    ],
    "put": lambda store, at: store.put(f"{at}/key", NEW, overwrite=True),
    "create": lambda store, at: store.put(f"{at}/new", NEW, overwrite=False),
    "list": lambda store, at: [
        (entry.key.removeprefix(f"{at}/"), entry.size)
        for entry in store.list(f"{at}/k")
    ],
    "delete": lambda store, at: store.delete([f"{at}/key", f"{at}/key2"]),
}
"""What is asked, of a store and a folder in it."""

_ANSWERS: Mapping[str, Any] = {
    "get_range": CONTENT[7:65_000],
    "get_ranges": [CONTENT[span.start : span.end] for span in SPANS],
    "list": [("key", len(CONTENT)), ("key2", 1)],
}


@dataclass(frozen=True)
class Cell:
    """One of them.

    Attributes:
        fault: One of `FAULTS`.
        verb: One of `VERBS`.
        passes: Whether the fault occurs once, or always.
    """

    fault: str
    verb: str
    passes: bool

    def __str__(self) -> str:
        return f"{self.fault}, {'once' if self.passes else 'always'}: {self.verb}"


CELLS = [Cell(*each) for each in product(FAULTS, VERBS, (True, False))]


@dataclass
class Result:
    """How a cell ended.

    Attributes:
        seconds: What the call took.
        wrong: What was not as it should be; empty when all was.
        late: Whether what was wrong may be for want of time alone.
    """

    seconds: float
    wrong: list[str]
    late: bool


class Lane:
    """A proxy and a store, in which cells are tried one after the other."""

    def __init__(self, proxy: FaultProxy, place: Bucket) -> None:
        """Connect."""
        self.proxy = proxy
        self.calm = ObjectStore(place.url, place.storage_options)
        assert self.calm.probe_capabilities()

    def attempt(self, cell: Cell) -> Result:
        """Try one cell."""
        at = uuid.uuid4().hex
        self.calm.put(f"{at}/key", CONTENT, overwrite=True)
        self.calm.put(f"{at}/key2", b"2", overwrite=True)
        self.proxy.clear()
        seconds, answer = self._call(cell, at)
        wrong = _judge(cell, answer)
        late = isinstance(answer, DeadlineExceededError) and bool(wrong)
        if FAULTS[cell.fault] and not self.proxy.rules[0].hits:
            wrong.append("the fault affected no request")
        if seconds > DEADLINE * 1.1:
            wrong.append(f"it took {seconds:.2f} s")
            late = True
        self.proxy.accept()
        self.proxy.clear()
        bad = _look(cell, self.calm, at, answer)
        return Result(seconds, wrong + bad, late and not bad)

    def _call(self, cell: Cell, at: str) -> tuple[float, Any]:
        """Make the call with the fault in its way; an error is an answer too."""
        fault, attempts = FAULTS[cell.fault], 4
        if fault is not None:
            times = 1 if cell.passes else math.inf
            self.proxy.add(times=times, **fault)  # type: ignore[misc] # not twice
        else:
            self.proxy.refuse()
            if cell.passes:
                attempts = 1000
                threading.Timer(0.2, self.proxy.accept).start()
        policy = RequestPolicy(attempts, 0.01, 0.02, DEADLINE)
        store = self.calm.with_policy(policy)
        begun = time.monotonic()
        try:
            answer = VERBS[cell.verb](store, at)
        except TieredFSError as error:
            answer = error
        return time.monotonic() - begun, answer


def _judge(cell: Cell, answer: Any) -> list[str]:  # noqa: ANN401 - an answer
    """Return what is wrong with an answer."""
    expected: type[Exception] | None = StorageUnavailableError
    if cell.passes:
        expected = None
    elif cell.fault in _HANGS:
        expected = DeadlineExceededError
    wrong = []
    if expected is None and answer != _ANSWERS.get(cell.verb):
        wrong.append(f"it answered {answer!r}"[:200])
    if expected is not None and type(answer) is not expected:
        wrong.append(f"it answered {answer!r} and not {expected.__name__}"[:300])
    return wrong


def _look(cell: Cell, store: ObjectStore, at: str, answer: Any) -> list[str]:  # noqa: ANN401 - an answer
    """Return what is wrong with the store afterwards."""
    wrong = []
    try:
        for key, before, after in _contents(cell.verb):
            found = _content(store, f"{at}/{key}")
            allowed = {after}
            if isinstance(answer, TieredFSError):
                allowed = {before, after} if cell.fault in _DONE else {before}
                if cell.verb == "delete":  # some may be gone; the error lists them
                    allowed = (
                        {before, after} if f"{at}/{key}" in answer.keys else {after}
                    )
            if found not in allowed:
                wrong.append(f"{key} is {found and found[:10]!r} afterwards")
        again = uuid.uuid4().bytes
        store.put(f"{at}/again", again, overwrite=True)
        if store.get(f"{at}/again") != again:
            wrong.append("the store does not work afterwards")
    except TieredFSError as error:
        wrong.append(f"the store fails afterwards: {error!r}"[:300])
    return wrong


def _contents(verb: str) -> list[tuple[str, bytes | None, bytes | None]]:
    """Return the objects under keys before a verb and after it."""
    return [
        (
            "key",
            CONTENT,
            {"put": NEW, "delete": None}.get(verb, CONTENT),
        ),
        ("key2", b"2", None if verb == "delete" else b"2"),
        ("new", None, NEW if verb == "create" else None),
    ]


def _content(store: ObjectStore, key: str) -> bytes | None:
    try:
        return bytes(store.get(key))
    except NotFoundError:
        return None
