"""Which folders of a directory change, as the system reports it, or by looking.

What counts is that files come and go: a segment is closed when the next one begins.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

__all__ = ["FolderChanges", "changed_folders", "folder_times"]

_POLL_SECONDS: Final = 1.0
_MAX_SHARE: Final = 0.02
"""The share of a core that looking at the folders may take."""

_SETTLED_NS: Final = 2_000_000_000
"""Nanoseconds after which a folder's time shows each later change: twice the step of a
coarse clock."""

_DEBOUNCE_MS: Final = 200
_STEP_MS: Final = 20
_STOP_SECONDS: Final = 5.0


class FolderChanges:
    """Report the folders of a directory in which files have come or gone.

    With ``watchfiles``, which is an extra, the system reports them within milliseconds;
    otherwise they are looked at each second. A folder may be reported without a change.
    """

    def __init__(self, root: Path, report: Callable[[frozenset[str]], object]) -> None:
        """Prepare to watch, without looking yet.

        Args:
            root: The directory.
            report: Called with the names of the folders, and of files of the directory
                itself, from a thread of this object.
        """
        self._root = root
        self._report = report
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="tieredfs-folders", daemon=True
        )
        self.is_polling = find_spec("watchfiles") is None
        """Whether the folders are looked at, because the system does not report."""

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._stop.set()
        self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        if not self.is_polling:
            try:
                self._wait_for_reports()
            except OSError:  # such as no more watches: fs.inotify.max_user_watches
                self.is_polling = True
        if self.is_polling:
            self._look()

    def _wait_for_reports(self) -> None:
        from watchfiles import Change, watch  # noqa: PLC0415 - an extra

        found = watch(
            self._root,
            watch_filter=lambda change, _: change is not Change.modified,
            debounce=_DEBOUNCE_MS,
            step=_STEP_MS,
            stop_event=self._stop,
            ignore_permission_denied=True,
        )
        for changes in found:
            names = {self._name_of(path) for _, path in changes}
            self._report(frozenset(names - {""}))

    def _name_of(self, path: str) -> str:
        try:
            parts = Path(path).relative_to(self._root).parts
        except ValueError:
            return ""
        return parts[0] if parts else ""

    def _look(self) -> None:
        known, looked_ns, wait = folder_times(self._root), time.time_ns(), _POLL_SECONDS
        while not self._stop.wait(wait):
            begun, begun_ns = time.monotonic(), time.time_ns()
            found = folder_times(self._root)
            names = changed_folders(known, found, looked_ns)
            known, looked_ns = found, begun_ns
            wait = max(_POLL_SECONDS, (time.monotonic() - begun) / _MAX_SHARE)
            if names:
                self._report(names)


def folder_times(root: Path) -> dict[str, int]:
    """Return when each folder of a directory has changed, in nanoseconds since 1970.

    A directory that cannot be listed, as while it is not mounted, has no folders.
    """
    try:
        return dict(_times(root))
    except OSError:
        return {}


def changed_folders(
    before: dict[str, int], now: dict[str, int], before_ns: int
) -> frozenset[str]:
    """Return the folders that have changed, or may have: which is said once more.

    Args:
        before: When each folder had changed when they were looked at.
        now: When each folder has changed.
        before_ns: When they were looked at, in nanoseconds since 1970.
    """
    return frozenset(
        name
        for name in before.keys() | now.keys()
        if before.get(name) != now.get(name) or now[name] > before_ns - _SETTLED_NS
    )


def _times(root: Path) -> Iterable[tuple[str, int]]:
    with os.scandir(root) as entries:
        for entry in entries:
            with suppress(OSError):  # gone just now
                if entry.is_dir():
                    yield entry.name, entry.stat().st_mtime_ns
