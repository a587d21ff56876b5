"""Topics whose names a case-insensitive disk cannot distinguish."""

from collections.abc import Iterator
from contextlib import contextmanager

from fsspec.utils import get_protocol

from tieredfs.errors import AlreadyExistsError
from tieredfs.objects import ObjectStore

__all__ = ["CaseCheck"]


class CaseCheck:
    """Check that a local disk does not confuse a topic with another one.

    Once the topic has its folder, no other topic can get it: then the check is skipped.
    """

    def __init__(self) -> None:
        """Start without any checked topic."""
        self._checked: set[str] = set()

    @contextmanager
    def writing(self, store: ObjectStore, folder: str) -> Iterator[None]:
        """Reject a topic that the disk confuses with another one, before it is written.

        If the write fails, the folder may not exist, and the next write checks again.

        Args:
            store: Where the topic's folder is.
            folder: The folder of the topic that is written in the with block, with a
                slash at its end.

        Raises:
            AlreadyExistsError: The disk has a topic whose name differs only in case.
        """
        if get_protocol(store.url) not in {"file", "local"}:
            yield
            return
        # No lock: threads that begin together check several times, and none waits for
        # the listing of another.
        if folder not in self._checked:
            _check_distinguishable(store, folder)
            self._checked.add(folder)
        try:
            yield
        except BaseException:
            self._checked.discard(folder)
            raise


def _check_distinguishable(store: ObjectStore, folder: str) -> None:
    parent = folder[: folder.rstrip("/").rfind("/") + 1]
    entries = store.list(parent, delimiter="/")
    folders = {entry.key for entry in entries if entry.is_prefix}
    twins = [name for name in folders if name.casefold() == folder.casefold()]
    if folder in folders or not twins:
        return
    if next(store.list(folder, delimiter="/"), None) is not None:
        name, twin = folder.rstrip("/"), twins[0].rstrip("/")
        msg = (
            f"{store.url}: the disk cannot distinguish topic folder {name!r} from "
            f"{twin!r}"
        )
        raise AlreadyExistsError(msg)
