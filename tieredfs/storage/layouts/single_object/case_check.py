"""Topics whose names a case-insensitive disk cannot distinguish."""

from collections.abc import Iterator
from contextlib import contextmanager

from fsspec.utils import get_protocol

from tieredfs.errors import AlreadyExistsError
from tieredfs.format.segment.key import topic_folder
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
    def writing(self, store: ObjectStore, topic: str) -> Iterator[None]:
        """Reject a topic that the disk confuses with another one, before it is written.

        If the write fails, the folder may not exist, and the next write checks again.

        Args:
            store: Where the topic's folder is.
            topic: The topic that is written in the with block.

        Raises:
            AlreadyExistsError: The disk has a topic whose name differs only in case.
        """
        if get_protocol(store.url) not in {"file", "local"}:
            yield
            return
        folder = topic_folder(topic)
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
    entries = store.list(delimiter="/")
    folders = {entry.key.rstrip("/") for entry in entries if entry.is_prefix}
    twins = [name for name in folders if name.casefold() == folder.casefold()]
    if folder in folders or not twins:
        return
    if next(store.list(f"{folder}/", delimiter="/"), None) is not None:
        msg = (
            f"{store.url}: the disk cannot distinguish topic folder {folder!r} from "
            f"{twins[0]!r}"
        )
        raise AlreadyExistsError(msg)
