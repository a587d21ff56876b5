"""Give a target its inputs, one after the other, and watch what they cost."""

import faulthandler
import mmap
import re
import resource
import struct
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pyarrow as pa

from fuzzing.codec_targets import CODEC_TARGETS
from fuzzing.index_targets import INDEX_TARGETS
from fuzzing.log_targets import LOG_TARGETS
from fuzzing.object_targets import OBJECT_TARGETS
from fuzzing.target import Target
from support.child_process import child_environment

__all__ = ["TARGETS", "Tally", "attack", "attack_apart", "input_of", "run_apart"]

TARGETS: Final = {
    target.name: target
    for target in (*LOG_TARGETS, *CODEC_TARGETS, *INDEX_TARGETS, *OBJECT_TARGETS)
}
"""All targets by their names."""

_TRACED: Final = 50  # every so many inputs Python's own memory is traced, which is slow
_WARM: Final = 100
_SLACK: Final = 64 << 20  # of the interpreter, its threads, and a decompressor's state
_NUMBER: Final = struct.Struct("=q")
_SHOWN: Final = 1000  # bytes of an input; its number gives all
_SAID: Final = 8000  # characters
_POOLS: Final[list[pa.MemoryPool]] = []  # memory goes back to the pool it came from


class Tally(NamedTuple):
    """What became of some inputs."""

    tried: int
    read: int


def input_of(target: Target, number: int, rng: Random) -> bytes:
    """Make an input; it follows from the target and the number alone.

    Args:
        target: Whose input it is.
        number: Which.
        rng: Is seeded here; the target's judge goes on with it.
    """
    rng.seed(zlib.crc32(target.name.encode()) << 40 | number)
    return target.make(rng)


def attack(
    target: Target, numbers: Iterable[int], progress: "Progress | None" = None
) -> Tally:
    """Try some inputs of a target.

    Args:
        target: What is attacked.
        numbers: Which of its inputs.
        progress: Is told of each number before it is tried.

    Raises:
        AssertionError: An answer was not right, an error not typed, or too much memory
            was taken. It says how to try that one again.
    """
    rng = Random()  # noqa: S311 - to be repeated, not to be secret
    account = _Account()
    tried = read = 0
    for number in range(_WARM):  # reads the sample data, which is not on the account
        input_of(target, number, rng)
    for number in numbers:
        if progress:
            progress.tell(number)
        data = input_of(target, number, rng)
        tried += 1
        try:
            with account.opened(traced=tried % _TRACED == 0):
                read += target.check(data, rng)
            assert account.most <= target.memory, f"{account.most} bytes held at once"
        except Exception as error:
            msg = f"{type(error).__name__}: {error}\n{_again(target, number, data)}"
            raise AssertionError(msg) from error
    return Tally(tried, read)


class _Account:
    """What is held at once, at most, by Arrow and, where it is traced, by Python."""

    def __init__(self) -> None:
        self._default = pa.default_memory_pool()
        self._pool = pa.proxy_memory_pool(self._default)
        _POOLS.append(self._pool)
        self._peak = 0

    @property
    def most(self) -> int:
        """Bytes."""
        return self._peak + int(self._pool.max_memory() or 0)

    @contextmanager
    def opened(self, *, traced: bool) -> Iterator[None]:
        """Count what is allocated here."""
        pa.set_memory_pool(self._pool)
        if traced:
            tracemalloc.start()
        try:
            yield
            if traced:
                self._peak = max(self._peak, tracemalloc.get_traced_memory()[1])
        finally:
            if traced:
                tracemalloc.stop()
            pa.set_memory_pool(self._default)


def attack_apart(target: Target, first: int, count: int, folder: Path) -> Tally:
    """Try inputs in a process of their own, which can get no more memory than allowed.

    Args:
        target: What is attacked.
        first: Number of the first input.
        count: How many inputs.
        folder: Where the process says which input it is at.

    Raises:
        AssertionError: As for ``attack``, or the process did not survive an input.
    """
    place = folder / f"{target.name}-{first}"
    place.write_bytes(_NUMBER.pack(first))
    told = (target.name, str(first), str(count), str(place))
    # Arrow's own pools keep what they once had; malloc can be held to a limit.
    settings = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "fuzzing", *told],
        env=child_environment(settings),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        (number,) = _NUMBER.unpack(place.read_bytes())
        data = input_of(target, number, Random())  # noqa: S311 - as above
        said = f"{done.stdout}{done.stderr}"[-_SAID:]
        msg = f"exit status {done.returncode}\n{said}\n{_again(target, number, data)}"
        raise AssertionError(msg)
    tried, read = done.stdout.split()
    return Tally(int(tried), int(read))


class Progress:
    """The number of an input, in a file that outlives the process."""

    def __init__(self, place: Path) -> None:
        with place.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _NUMBER.size)

    def tell(self, number: int) -> None:
        """Write a number."""
        _NUMBER.pack_into(self._map, 0, number)


def run_apart(target: Target, first: int, count: int, place: Path) -> Tally:
    """Do the work of ``attack_apart``, in its process."""
    faulthandler.enable()
    progress = Progress(place)
    attack(target, range(first, first + min(count, 200)))  # what stays comes now
    _hold_to(target.memory + _SLACK)
    return attack(target, range(first, first + count), progress)


def _hold_to(more: int) -> None:
    """Let the process have no more than so many bytes beside those it has."""
    status = Path("/proc/self/status")
    if not status.exists():
        return
    found = re.search(r"VmData:\s+(\d+) kB", status.read_text())
    assert found, "no VmData"
    most = int(found[1]) * 1024 + more
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _again(target: Target, number: int, data: bytes) -> str:
    shown = data.hex() if len(data) <= _SHOWN else f"{data[:_SHOWN].hex()}..."
    return (
        f"target {target.name}, input {number}, {len(data)} bytes: {shown}\n"
        f"again: PYTHONPATH=tests python -m fuzzing {target.name} {number}"
    )
