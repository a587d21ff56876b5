"""Kill a push wherever it writes to a local disk, and keep what is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from support.child_process import child_environment
from support.log_directories import push_all, source_of
from tieredfs import ObjectStore
from tieredfs.storage.layouts.single_object.layout import SingleObject

__all__ = ["kill_at_every_step"]

_STEPS: Final = ("mkdir", "write", "fsync", "replace", "done")
_SECONDS: Final = 60


def kill_at_every_step(source: Path, target: Path) -> list[Path]:
    """Push a log directory many times, each time killed a step later than before.

    A step is one of what a write to a disk is made of: to make the folders, to write
    half of a file, to write the rest, to give it its name, to be done.

    Args:
        source: The log directory.
        target: Where each push gets a folder of its own to push to.

    Returns:
        The folders of the pushes that were killed.
    """
    subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "support.killed_push", str(source), str(target)],
        check=True,
        timeout=_SECONDS,
        env=child_environment(),
    )
    return [folder for folder in sorted(target.iterdir()) if folder.is_dir()]


def _push_and_die(source: Path, target: Path, step: str, number: int) -> None:
    """Push until a step is taken for the given time."""
    from tieredfs.objects.backends.local import backend as local  # noqa: PLC0415 - to be changed

    left = number

    def reach(name: str) -> None:
        nonlocal left
        if name == step:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    publish = local.LocalBackend._publish
    replace = os.replace

    def half(
        self: local.LocalBackend,
        key: str,
        write: Callable[..., object],
        *,
        overwrite: bool,
    ) -> None:
        def write_half(file: object) -> None:
            write(_Half(file, reach))

        reach("mkdir")
        publish(self, key, write_half, overwrite=overwrite)
        reach("done")

    def synced(descriptor: int) -> None:
        del descriptor  # what a killed process wrote is there without it
        reach("fsync")

    def replaced(source: str, target: str, **folders: int) -> None:
        reach("replace")
        replace(source, target, **folders)

    local.LocalBackend._publish = half  # type: ignore[method-assign] # it dies in it
    os.fsync = synced  # type: ignore[assignment] # likewise
    os.replace = replaced  # type: ignore[assignment] # likewise
    push_all(source_of(source), SingleObject(ObjectStore(str(target))))


class _Half:
    """A file of which half is written, and a step is taken before the rest is."""

    def __init__(self, file: object, reach: Callable[[str], None]) -> None:
        self._file = file
        self._reach = reach

    def writelines(self, pieces: Iterable[bytes]) -> None:
        """Write one piece after the other."""
        for piece in pieces:
            self.write(piece)

    def write(self, data: bytes) -> None:
        """Write in two halves."""
        file = self._file
        middle = len(data) // 2
        file.write(data[:middle])  # type: ignore[attr-defined] # a file
        file.flush()  # type: ignore[attr-defined] # a file
        self._reach("write")
        file.write(data[middle:])  # type: ignore[attr-defined] # a file


def _main(source: Path, target: Path) -> None:
    for step in _STEPS:
        number, killed = 0, True
        while killed:
            number += 1
            child = os.fork()
            if not child:
                try:
                    folder = target / f"{step}-{number}"
                    folder.mkdir(parents=True)
                    _push_and_die(source, folder, step, number)
                finally:
                    os._exit(0)
            _, status = os.waitpid(child, 0)
            killed = os.WIFSIGNALED(status)
        last = target / f"{step}-{number}"  # this push came to its end
        last.rename(target.parent / f"whole-{step}-{number}")


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
