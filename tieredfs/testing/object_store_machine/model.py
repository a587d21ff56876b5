"""What an object store has to hold after any calls: a pure model, its machine's oracle.

Every check raises AssertionError with one sentence: the promise that is broken, and how
it was seen.
"""

from collections.abc import Collection, Iterable, Mapping

from tieredfs.objects import ObjectInfo
from tieredfs.testing.rule import require

__all__ = ["ObjectModel"]


class ObjectModel:
    """The objects of a store.

    Attributes:
        objects: The content of each, by key.
    """

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        """Begin with some objects."""
        self.objects = dict(objects)
        self._earlier: dict[str, set[bytes]] = {}
        self._folders = {folder for key in objects for folder in _folders(key)}
        self._versions: dict[str, tuple[bytes, str]] = {}

    def put(self, key: str, content: bytes) -> None:
        """Hold an object, in place of one that is there."""
        self._forget(key)
        self.objects[key] = content
        self._folders.update(_folders(key))

    def delete(self, keys: Iterable[str]) -> None:
        """Hold some objects no longer; those that are missing stay so."""
        for key in keys:
            self._forget(key)

    def was_deleted(self, key: str) -> bool:
        """Return whether an object was there, and is there no more."""
        return key in self._earlier and key not in self.objects

    def may_refuse(self, key: str) -> bool:
        """Return whether a store with folders may refuse to write under a key.

        There a name is that of a folder or of an object, not of both; and a folder may
        outlive the objects in it.
        """
        return key in self._folders or any(
            folder in self.objects for folder in _folders(key)
        )

    def check_content(self, said: str, key: str, found: bytes | memoryview) -> None:
        """Require that the whole content of an object is what was put.

        Args:
            said: What was called.
            key: The object.
            found: The result.
        """
        earlier = self._earlier.get(key, set())
        _check_bytes(said, key, found, self.objects[key], earlier)
        is_writable = isinstance(found, memoryview) and not found.readonly
        require(not is_writable, f"what is read is read-only: {said} can be written to")

    def check_part(
        self, said: str, key: str, found: bytes | memoryview, start: int, end: int
    ) -> None:
        """Require that the bytes ``[start, end)`` of an object are what was put.

        Args:
            said: What was called.
            key: The object.
            found: The result.
            start: First byte that was asked for.
            end: Byte after the last.
        """
        earlier = {content[start:end] for content in self._earlier.get(key, ())}
        _check_bytes(said, key, found, self.objects[key][start:end], earlier)

    def check_info(self, said: str, info: ObjectInfo) -> None:
        """Require that an object is described as it is.

        A new content has a new version.
        """
        key, content = info.key, self.objects[info.key]
        require(
            info.size == len(content),
            f"a size is that of the object: {said} has {info.size} bytes for {key!r}, "
            f"it has {len(content)}",
        )
        require(bool(info.version), f"an object has a version: {said} has none")
        before, version = self._versions.get(key, (content, ""))
        require(
            content == before or info.version != version,
            f"a new content has a new version: {said} has {version!r} for {key!r} as "
            "before it was replaced",
        )
        self._versions[key] = content, info.version

    def check_listing(
        self,
        said: str,
        found: Iterable[ObjectInfo],
        *,
        prefix: str = "",
        start_after: str = "",
        delimiter: str = "",
    ) -> None:
        """Require that a listing is complete, sorted and current.

        A store may list the folder of objects that are all deleted by now.

        Args:
            said: What was called.
            found: The result.
            prefix: Prefix of the keys.
            start_after: Only keys after this one were asked for.
            delimiter: Where the keys are folded.
        """
        listed = list(found)
        keys = [info.key for info in listed]
        require(
            keys == sorted(keys),
            f"a listing is sorted: {said} yielded the keys {keys}",
        )
        require(
            len(keys) == len(set(keys)),
            f"a listing has each object once: {said} yielded the keys {keys}",
        )
        wanted = self._listed(prefix, start_after, delimiter)
        missing = sorted(wanted - set(keys))
        require(
            not missing,
            f"a listing is complete: {said} lacks {missing}, which are stored",
        )
        empty = {f"{folder}/" for folder in self._folders} if delimiter else set()
        more = sorted(set(keys) - wanted - empty)
        gone = [key for key in more if self.was_deleted(key)]
        require(
            not gone, f"a listing is never stale: {said} has {gone}, deleted before"
        )
        require(
            not more,
            f"a listing has nothing else: {said} has {more}, which it was not to list",
        )
        for info in listed:
            if info.key in self.objects:
                self.check_info(said, info)
            else:
                require(
                    info.size is None,
                    f"a folder has no size: {said} has {info.size} for {info.key!r}",
                )

    def _listed(self, prefix: str, start_after: str, delimiter: str) -> set[str]:
        """Return the keys of a listing, and the folders that keys are folded into."""
        keys = set()
        for key in self.objects:
            if key.startswith(prefix):
                head, slash, _ = key.removeprefix(prefix).partition("/")
                keys.add(f"{prefix}{head}{slash}" if delimiter and slash else key)
        return {key for key in keys if key > start_after}

    def _forget(self, key: str) -> None:
        content = self.objects.pop(key, None)
        if content is not None:
            self._earlier.setdefault(key, set()).add(content)


def _check_bytes(
    said: str,
    key: str,
    found: bytes | memoryview,
    wanted: bytes,
    earlier: Collection[bytes],
) -> None:
    """Require that bytes are what was put; say so if they were put earlier."""
    if found == wanted:
        return
    require(
        bytes(found) not in earlier,
        f"a read is never stale: {said} returned an earlier content of {key!r}",
    )
    require(
        len(found) == len(wanted),
        f"a read is exact: {said} returned {len(found)} bytes, not {len(wanted)}",
    )
    raise AssertionError(f"a read is exact: {said} returned other bytes")


def _folders(key: str) -> list[str]:
    """Return the names of the folders that a key is in."""
    return [key[:at] for at, letter in enumerate(key) if letter == "/"]
