"""Two topics that a case-insensitive disk cannot tell apart."""

from collections.abc import Iterator
from contextlib import contextmanager

from fsspec.utils import get_protocol

from tieredfs.errors import AlreadyExistsError
from tieredfs.format.segment.key import topic_folder
from tieredfs.objects import ObjectStore

__all__ = ["CaseCheck"]


class CaseCheck:
    """Ask a local disk whether it takes a topic for another one.

    Once the topic has its folder, no other one can get it: then it is asked no more.
    """

    def __init__(self) -> None:
        """Know of no topic yet."""
        self._told_apart: set[str] = set()

    @contextmanager
    def writing(self, store: ObjectStore, topic: str) -> Iterator[None]:
        """Refuse a topic that the disk takes for another one, before it is written.

        If writing fails, and so may not have made the folder, it is asked again.

        Args:
            store: Where the topic's folder is.
            topic: The topic that is written in the with block.

        Raises:
            AlreadyExistsError: It does; their names differ in capitals only.
        """
        if get_protocol(store.url) not in {"file", "local"}:
            yield
            return
        folder = topic_folder(topic)
        # No lock: threads that begin together ask several times, and none waits for a
        # listing of another.
        if folder not in self._told_apart:
            _tell_apart(store, folder)
            self._told_apart.add(folder)
        try:
            yield
        except BaseException:
            self._told_apart.discard(folder)
            raise


def _tell_apart(store: ObjectStore, folder: str) -> None:
    entries = store.list(delimiter="/")
    folders = {entry.key.rstrip("/") for entry in entries if entry.is_prefix}
    twins = [name for name in folders if name.casefold() == folder.casefold()]
    if folder in folders or not twins:
        return
    if next(store.list(f"{folder}/", delimiter="/"), None) is not None:
        msg = (
            f"{store.url}: the disk cannot tell topic folder {folder!r} from "
            f"{twins[0]!r}"
        )
        raise AlreadyExistsError(msg)
