"""Read one segment's object: its log, its tail, and whether it matches its key."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from tieredfs.errors import CorruptObjectError, InvalidArgumentError
from tieredfs.format.segment.key import SegmentFlag, SegmentKey
from tieredfs.format.segment.tail import Manifest, Tail, parse_manifest, parse_tail
from tieredfs.model import TopicIdPartition
from tieredfs.objects import ObjectStore, RequestCounts
from tieredfs.objects.concurrency.nested_calls import NestedCalls
from tieredfs.storage.contract import PlannedFetch
from tieredfs.storage.layouts.single_object.known_objects import KnownObjects
from tieredfs.storage.layouts.single_object.segment_object import check_facts
from tieredfs.storage.layouts.single_object.stored_log import (
    chunk_bounds,
    read_chunks,
    stream_stored,
)

__all__ = ["ObjectReader"]


@dataclass(frozen=True, slots=True)
class ObjectReader:
    """One object, and the requests that read it.

    Attributes:
        store: Where it is.
        partition: The partition of its segment.
        key: The fields of its key.
        stem: The last part of its key, without the suffix.
        path: Its whole key.
        known: Records the objects that match their keys.
    """

    store: ObjectStore
    partition: TopicIdPartition
    key: SegmentKey
    stem: str
    path: str
    known: KnownObjects

    @property
    def name(self) -> str:
        """The object's URL, for error messages."""
        return f"{self.store.url}/{self.path}"

    def log(self, start: int, end: int | None, layout: bytes) -> memoryview:
        """Return the bytes ``[start, end)`` of the log.

        It is one request, and two where the log is stored in chunks and ``layout`` is
        not given. Before the first byte of a log is returned, the object is checked
        against its key. That needs the end of the object, which is fetched in the same
        request, or by another one at the same time.

        Args:
            start: First byte.
            end: Byte after the last; None for the end of the log.
            layout: The manifest, as it was cached; empty to fetch it.

        Raises:
            NotFoundError: The object is gone.
            CorruptObjectError: The log is shorter than ``end``, a chunk is not what was
                stored, or the object belongs to another segment.
            InvalidArgumentError: ``start`` is negative or greater than ``end``.
        """
        key = self.key
        if self._is_chunked:
            return self._chunks(start, end, layout, whole=False)
        stop = key.log_length if end is None else end
        _check_range(start, stop, key.log_length, self.name)
        if self.known.is_verified(self.partition, self.stem):
            return self.store.get_range(self.path, start, stop)
        if not layout and stop == key.log_length:
            found = self.store.get_range(self.path, start, key.size)
            self._parsed_manifest(found[stop - start :])
            return found[: stop - start]
        if self._usable(layout) is not None:
            self.manifest(layout)
            return self.store.get_range(self.path, start, stop)
        found, tail = self._get_both((start, stop), (key.log_length, key.size))
        self._parsed_manifest(tail)
        return found

    def log_ahead(self, start: int, end: int, layout: bytes) -> memoryview:
        """Return the bytes ``[start, end)`` of the log, and the rest of its last chunk.

        Args and Raises are those of ``log``.
        """
        if self._is_chunked:
            return self._chunks(start, end, layout, whole=True)
        return self.log(start, end, layout)

    def plan(
        self, start: int, end: int, layout: bytes, after: PlannedFetch | None
    ) -> PlannedFetch:
        """Plan the requests of ``log_ahead``: see ``RemoteStorageManager.plan_fetch``.

        Args:
            start: First byte.
            end: Byte after the last, inside the log.
            layout: The manifest, as it was cached; empty to fetch it.
            after: The plan of the fetch before this one.
        """
        key = self.key
        if self._is_chunked:
            return self._plan_chunks(start, end, layout, after)
        sizes = [end - start] if start < end else []
        if after is None and not self.known.is_verified(self.partition, self.stem):
            tail = key.size - key.log_length
            if not layout and end == key.log_length:
                sizes = [end - start + tail]
            elif self._usable(layout) is None:
                sizes.append(tail)
        return PlannedFetch(
            RequestCounts.of({"get_range": len(sizes)}, sum(sizes)), end
        )

    def _plan_chunks(
        self, start: int, end: int, layout: bytes, after: PlannedFetch | None
    ) -> PlannedFetch:
        sizes = []
        manifest = self._usable(layout)
        if manifest is None:
            sizes.append(self.key.size - self.key.log_length)
            manifest = self.manifest(after.layout if after else b"")
        if start < end:
            stored, end = chunk_bounds(manifest.log, start, end, name=self.name)
            sizes.append(stored)
        requests = RequestCounts.of({"get_range": len(sizes)}, sum(sizes))
        return PlannedFetch(requests, end, manifest.encode())

    def stream(self) -> Iterator[memoryview]:
        """Yield the whole log in order, checked against its manifest at the end.

        Raises:
            NotFoundError: The object is gone.
            CorruptObjectError: The log is not what was stored.
        """
        fetch = partial(self.store.get_range, self.path)
        yield from stream_stored(fetch, self.tail().manifest.log, name=self.name)

    def tail(self) -> Tail:
        """Return the indexes and the manifest, checked: one request.

        Raises:
            NotFoundError: The object is gone.
            CorruptObjectError: The tail is not what was stored.
            CorruptIndexError: An index is not what was stored.
        """
        key = self.key
        tail = parse_tail(self._tail_bytes(), key.log_length, key.flags, name=self.name)
        self._verify(tail.manifest)
        return tail

    def manifest(self, layout: bytes) -> Manifest:
        """Return the manifest, checked against the key: no request if it is cached.

        A cached manifest may be that of an earlier object: of the same segment, which
        was deleted and copied again with another compression.

        Args:
            layout: The manifest, as it was cached; empty to fetch it.

        Raises:
            NotFoundError: The object is gone.
            CorruptObjectError: The manifest is not what was stored.
        """
        cached = self._usable(layout)
        if cached is not None:
            return self._verify(cached)
        return self._parsed_manifest(self._tail_bytes())

    def _usable(self, layout: bytes) -> Manifest | None:
        """Return a cached manifest, unless it is that of an earlier object."""
        if not layout:
            return None
        manifest = Manifest.parse(layout, name=f"{self.name}: manifest")
        log = manifest.log
        is_other_form = (log.length, log.chunks is not None) != (
            self.key.log_length,
            self._is_chunked,
        )
        is_earlier = manifest.segment.id == self.key.id and is_other_form
        return None if is_earlier else manifest

    @property
    def _is_chunked(self) -> bool:
        return bool(self.key.flags & SegmentFlag.TRANSFORMED)

    def _chunks(
        self, start: int, end: int | None, layout: bytes, *, whole: bool
    ) -> memoryview:
        """Return a range of a log that is stored in chunks.

        Args:
            start: First byte.
            end: Byte after the last; None for the end of the log.
            layout: The manifest, as it was cached; empty to fetch it.
            whole: Whether to return all of the last chunk.
        """
        log = self.manifest(layout).log
        stop = log.original_length if end is None else end
        _check_range(start, stop, log.original_length, self.name)
        fetch = partial(self.store.get_range, self.path)
        found = read_chunks(fetch, log, start, stop, name=self.name)
        return found if whole else found[: stop - start]

    def _get_both(self, *spans: tuple[int, int]) -> list[memoryview]:
        """Return two ranges of the object, after one round trip."""
        get = self.store.get_range
        if self.store.is_local:
            return [get(self.path, *span) for span in spans]
        return NestedCalls(len(spans)).map(lambda span: get(self.path, *span), spans)

    def _tail_bytes(self) -> memoryview:
        return self.store.get_range(self.path, self.key.log_length, self.key.size)

    def _parsed_manifest(self, tail: memoryview) -> Manifest:
        key = self.key
        return self._verify(
            parse_manifest(tail, key.log_length, key.flags, name=self.name)
        )

    def _verify(self, manifest: Manifest) -> Manifest:
        """Return the manifest if it matches the object's key, and remember that."""
        check_facts(manifest, self.partition, self.key, self.name)
        self.known.add_verified(self.partition, self.stem)
        return manifest


def _check_range(start: int, end: int, size: int, name: str) -> None:
    if not 0 <= start <= end:
        msg = f"{name}: [{start}, {end}) is not a range of bytes"
        raise InvalidArgumentError(msg)
    if end > size:
        msg = f"{name}: range [{start}, {end}) exceeds its log of {size} bytes"
        raise CorruptObjectError(msg)
