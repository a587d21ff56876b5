"""A crowd of processes that share one cache directory, and are killed at any moment.

    PYTHONPATH=tests python -m cache.crowd FOLDER SECONDS PROCESSES SEED

Each gets, removes, resizes, clears and opens at random, and flips bits of files on
disk. Every byte that one gets is compared with what it has to be. The answer is a line
of JSON; any failure ends all of them, and is printed on stderr.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from cache.made import (
    bytes_of,
    content_of,
    entry_size,
    made_segment,
    open_cache,
)
from support.child_process import child_environment
from support.damage import flipped
from tieredfs.cache import CacheDirectory

__all__ = ["run_crowd"]

_SEGMENTS: Final = 40
_LARGEST: Final = 25  # entries that there is room for, at most
_PATIENCE: Final = 60.0  # seconds after which something is stuck


def run_crowd(folder: Path, seconds: float, processes: int, seed: int) -> Any:  # noqa: ANN401 - JSON
    """Run a crowd in a process of its own.

    It has no threads when it forks but those that numpy starts and no child uses, of
    which Python 3.12 and later warn.
    """
    arguments = [str(folder), str(seconds), str(processes), str(seed)]
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [
            *(sys.executable, "-W", "ignore:This process:DeprecationWarning"),
            *("-m", "cache.crowd", *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=seconds + 2 * _PATIENCE,
        check=False,
        env=child_environment(),
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


class _Visitor:
    """One process of the crowd."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._draw = random.Random(seed)  # noqa: S311 - no secret
        self._size = entry_size()
        self._open = open_cache
        self._cache = self._opened()

    def act(self) -> None:
        """Do one thing of those that are done."""
        chance = self._draw.random()
        if chance < 0.8:
            self._get()
        elif chance < 0.86:
            self._flip()
        elif chance < 0.91:
            self._cache.remove([self._segment() for _ in range(2)])
        elif chance < 0.94:
            self._cache.resize(self._bound())
        elif chance < 0.95:
            self._cache.clear()
        else:
            self._cache.close()
            self._cache = self._opened()

    def _opened(self) -> Any:  # noqa: ANN401 - a RemoteIndexCache
        return self._open(self._folder, max_bytes=self._bound())[1]

    def _bound(self) -> int:
        return self._draw.randint(2, _LARGEST) * self._size

    def _segment(self) -> Any:  # noqa: ANN401 - a SegmentMetadata
        # Some are wanted much more often than others.
        return made_segment(int(_SEGMENTS * self._draw.random() ** 2))

    def _get(self) -> None:
        segment = self._segment()
        found = self._cache.get(segment, timeout=_PATIENCE)
        assert bytes_of(found.indexes) == content_of(segment), f"wrong bytes: {segment}"
        offset = segment.start_offset + self._draw.randrange(1000)
        assert found.lookup_offset(offset)[0] <= offset

    def _flip(self) -> None:
        """Flip a bit of a file as disks do: existing mappings do not change."""
        directory = self._cache._directory
        scratch = self._folder / f"flipped-{os.getpid()}"
        # Under the lock no process removes it meanwhile.
        with directory._locked("tieredfs-lock", _PATIENCE):
            files = sorted(self._folder.glob("cache/*.indexes"))
            if not files:
                return
            file = self._draw.choice(files)
            data = file.read_bytes()
            where = self._draw.randrange(len(data))
            scratch.write_bytes(flipped(data, where, 1 << self._draw.randrange(8)))
            shutil.copystat(file, scratch)
            scratch.replace(file)


def _visit(folder: Path, seed: int) -> None:
    """Act until killed; report any failure."""
    code = 1
    try:
        warnings.simplefilter("error")
        visitor = _Visitor(folder, seed)
        with (folder / "acts").open("ab", buffering=0) as acts:
            while True:
                visitor.act()
                acts.write(b".")
    except BaseException:  # noqa: BLE001 - every failure is reported
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _watch(folder: Path) -> int:
    """Check the bound while no process changes anything; return the total bytes."""
    directory = CacheDirectory.existing(folder / "cache")
    if directory is None:
        return 0
    with directory._locked("tieredfs-lock", _PATIENCE):
        balance = directory._ledger.read()
        _, size, _ = directory.usage()
    assert balance is None or size <= balance.max_bytes, f"{size} bytes of {balance}"
    return size


def _main(folder: Path, seconds: float, processes: int, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - no secret
    running: list[int] = []
    end = time.monotonic() + seconds
    kills = largest = 0
    try:
        while time.monotonic() < end:
            while len(running) < processes:
                number = draw.getrandbits(32)
                child = os.fork()
                if not child:
                    _visit(folder, number)
                running.append(child)
            time.sleep(draw.uniform(0, 0.1))  # of whatever they are doing
            largest = max(largest, _watch(folder))
            victim = running.pop(draw.randrange(len(running)))
            os.kill(victim, signal.SIGKILL)
            _, status = os.waitpid(victim, 0)
            assert os.WIFSIGNALED(status), "a process ended by itself"
            kills += 1
    finally:
        for child in running:
            os.kill(child, signal.SIGKILL)
        statuses = [os.waitpid(child, 0)[1] for child in running]
    assert all(map(os.WIFSIGNALED, statuses)), "a process ended by itself"
    # After all that, the next process finds nothing wrong, and does not wait.
    made, cache = open_cache(folder, max_bytes=_LARGEST * entry_size())
    for number in range(_SEGMENTS):
        segment = made_segment(number)
        found = cache.get(segment, timeout=_PATIENCE)
        assert bytes_of(found.indexes) == content_of(segment)
    assert not list(cache.directory.glob("*.tmp"))
    _watch(folder)
    acts = (folder / "acts").stat().st_size
    report = {"acts": acts, "kills": kills, "fetches": made.fetches, "largest": largest}
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        _main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
