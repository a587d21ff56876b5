"""The public API: a tier of topics, at the URL of a store."""

import os
import warnings
from collections.abc import Iterable, Mapping
from copy import copy
from pathlib import Path
from types import EllipsisType, TracebackType
from typing import Self, SupportsIndex
from uuid import uuid4

from tieredfs.arguments import to_text
from tieredfs.cache import default_directory, with_index_cache
from tieredfs.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    TieredFSWarning,
)
from tieredfs.integers import to_integer
from tieredfs.log.journal.heartbeat import unique_owner
from tieredfs.log.partitions import (
    holds_segments,
    missing_topic_error,
    topic_partitions,
    without_internal,
)
from tieredfs.log.planning.catalog import Known, SegmentCatalog
from tieredfs.log.retention.delete import deletable_partitions, delete_partitions
from tieredfs.model import TopicIdPartition, Uuid, check_topic_name
from tieredfs.objects import ObjectStore, RequestPolicy
from tieredfs.options import DEFAULTS, Options
from tieredfs.storage import RemoteStorageManager, StorageAddress, open_storage
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.local_first import LocalFirst
from tieredfs.topic import Topic

__all__ = ["Tier", "cached", "open_tier"]


def open_tier(  # noqa: PLR0913 - its options, by keyword
    url: str | os.PathLike[str],
    *,
    plugin: str | None = None,
    plugin_options: Mapping[str, object] | None = None,
    storage_options: Mapping[str, object] | None = None,
    local: str | os.PathLike[str] | None = None,
    cache_dir: str | os.PathLike[str] | EllipsisType | None = ...,
    options: Options = DEFAULTS,
) -> "Tier":
    """Open the tier at a URL, in any layout.

    Args:
        url: Any fsspec URL or local path; a prefix ``name+`` names the plugin.
        plugin: The layout, by its name or as ``module:Class``; None to detect it.
        plugin_options: Options of the plugin.
        storage_options: Options of fsspec for the filesystem of the URL. One is ours,
            for callers that can pass only these: ``tieredfs={"plugin": name}``.
        local: The log directory of a broker that tiers to the URL. What it holds is
            read there, the segment that is being written included, and the rest from
            the URL, also what the broker deletes from the directory meanwhile. The tier
            is then read only.
        cache_dir: Where indexes are cached across restarts, those of an encrypted tier
            in plaintext; None or "" to cache none. By default the value of the
            environment variable TIEREDFS_CACHE_DIR, else the user's cache directory. A
            tier on this machine is not cached.
        options: The sizes and limits of reads and writes.

    Raises:
        NotFoundError: The URL has no objects, or ``local`` is not a directory.
        UnsupportedFormatError: No plugin recognises the objects.
        UnknownPluginError: No plugin has the name.
        PluginNotInstalledError: The plugin's package or the filesystem's is missing.
        PluginError: The plugin cannot be used, or two plugins recognise the objects.
        InvalidArgumentError: The URL or an option is invalid, or the URL is a level
            off.
    """
    address = StorageAddress.of(
        url,
        storage_options=storage_options,
        plugin=plugin,
        plugin_options=plugin_options,
    )
    store = ObjectStore(address.url, address.storage_options, options=options)
    storage = open_storage(store, address.plugin, address.plugin_options)
    found = cached(storage, cache_dir)
    if local is None:
        return Tier(found)
    if not Path(local).is_dir():
        raise NotFoundError(f"not found: log directory {os.fspath(local)}")
    log_directory = KafkaLog(ObjectStore(os.fspath(local), options=options))
    return Tier(LocalFirst(found, log_directory))


def cached(
    storage: RemoteStorageManager,
    cache_dir: str | os.PathLike[str] | EllipsisType | None = ...,
) -> RemoteStorageManager:
    """Wrap a storage that is not on this machine in a cache of indexes.

    Args:
        storage: The storage to wrap.
        cache_dir: As ``open_tier`` takes it.
    """
    if isinstance(cache_dir, EllipsisType):
        cache_dir = default_directory()
    if not cache_dir or storage.store.is_local:
        return storage
    return with_index_cache(storage, cache_dir)


class Tier:
    """The topics at one URL.

    It may be shared by threads and pickled to other processes.

    Attributes:
        storage: Where the segments are.
    """

    def __init__(self, storage: RemoteStorageManager) -> None:
        """Create a tier of a storage, without sending a request.

        Its sizes and limits are the options of the storage's store.
        """
        self.storage = storage
        self._catalog = SegmentCatalog(storage)

    def topics(self) -> list[str]:
        """Return the names of the topics, sorted.

        Kafka's internal topics, whose names begin with ``__``, are left out; ``topic``
        opens them.
        """
        found = without_internal(self.storage.list_partitions())
        return sorted({partition.topic for partition in found})

    def topic(self, name: str, *, topic_id: str | None = None) -> Topic:
        """Open one topic.

        Args:
            name: The topic's name.
            topic_id: Which of several topics of this name. By default the one with the
                largest timestamp is used, with a TieredFSWarning.

        Raises:
            NotFoundError: There is no such topic.
            InvalidArgumentError: The name is invalid, or the id is not a text.
        """
        check_topic_name(name)
        found = topic_partitions(self.storage, name)
        if not found:
            raise missing_topic_error(self.storage, name)
        if topic_id is not None:
            topic_id = to_text(topic_id, "topic_id")
            listed = ", ".join(sorted({p.topic_id for p in found}))
            found = [p for p in found if p.topic_id == topic_id]
            if not found:
                msg = f"not found: topic {name!r} with id {topic_id}"
                msg += f" in {self.storage.store.url}; it has {listed}"
                raise NotFoundError(msg)
        ids = sorted({partition.topic_id for partition in found})
        if len(ids) > 1:
            newest = max(ids, key=lambda one: (self._newest(found, one), one))
            listed = ", ".join(ids)
            warnings.warn(
                f"topic {name!r} exists several times ({listed}): reading the "
                f"newest, {newest}; topic_id, or --topic-id, chooses another",
                TieredFSWarning,
                stacklevel=2,
            )
            found = [p for p in found if p.topic_id == newest]
        return Topic(self.storage, self._catalog, found)

    def create_topic(
        self, name: str, *, partitions: SupportsIndex = 1, topic_id: str | None = None
    ) -> Topic:
        """Create a topic to which records can be appended.

        Nothing is written before the first record: until then only the caller sees it.
        Of two writers that create a topic, the first that appends has it. If both
        append at the same moment, both may be refused, and the topic does not exist.

        Args:
            name: A name that no topic of this tier has.
            partitions: Number of its partitions.
            topic_id: Its id; None for a new one.

        Raises:
            AlreadyExistsError: There is a topic of this name.
            InvalidArgumentError: The name or the id is invalid, or ``partitions`` is
                below 1.
        """
        check_topic_name(name)
        partitions = to_integer(partitions, "partitions")
        if partitions < 1:
            msg = f"{name!r}: a topic has at least one partition, not {partitions}"
            raise InvalidArgumentError(msg)
        if holds_segments(self.storage, self.storage.list_partitions(name)):
            msg = f"already exists: topic {name!r} in {self.storage.store.url}"
            raise AlreadyExistsError(msg)
        made = Uuid.from_bytes(uuid4().bytes) if topic_id is None else Uuid(topic_id)
        begun = [TopicIdPartition(name, number, made) for number in range(partitions)]
        self._catalog.begin(begun)
        return Topic(self.storage, self._catalog, begun)

    def delete_topic(
        self, name: str, *, topic_id: str | None = None, single_writer: bool = False
    ) -> None:
        """Delete a topic: all of its segments, and what copies to it have left.

        When it returns, the topic is gone. When it raises, or the process dies, some
        partitions may be left, and nothing is copied to them: call it again.

        Args:
            name: The topic's name.
            topic_id: Its id; None where there is only one topic of the name.
            single_writer: Whether you vouch that no other process changes the topic.

        Raises:
            NotFoundError: There is no such topic.
            InvalidArgumentError: The name is invalid, or there are several topics of
                the name and no id was given; nothing was deleted.
            FencedError: A manager is in charge of a partition.
            UnsupportedOperationError: The layout is read only.
            StorageUnavailableError: The store failed.
        """
        found = deletable_partitions(self.storage, check_topic_name(name), topic_id)
        delete_partitions(
            self.storage, found, owner=unique_owner(), single_writer=single_writer
        )

    def with_policy(self, policy: RequestPolicy) -> Self:
        """Return the same tier, on the same connections, under ``policy``.

        It has the same class, and the attributes of a subclass.

        Raises:
            InvalidArgumentError: ``policy`` is not a RequestPolicy.
        """
        view = copy(self)
        storage = self.storage.with_policy(policy)
        catalog = SegmentCatalog(storage)
        vars(view).update(storage=storage, _catalog=catalog)
        return view

    def close(self) -> None:
        """Release the plugin's resources."""
        self.storage.close()

    def __enter__(self) -> Self:
        """Use the tier in a with block."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the tier."""
        self.close()

    def __getstate__(self) -> dict[str, object]:
        """Return the state without cached descriptions, which are fetched again."""
        return {name: kept for name, kept in vars(self).items() if name != "_catalog"}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore the state, without sending a request."""
        vars(self).update(state)
        self._catalog = SegmentCatalog(self.storage)

    def __repr__(self) -> str:
        """Show the layout and the URL, without secrets."""
        return f"Tier({self.storage!r})"

    def _newest(self, partitions: Iterable[TopicIdPartition], topic_id: Uuid) -> int:
        """Return the largest timestamp of one of several topics of a name."""

        def latest(partition: TopicIdPartition) -> int:
            listed = self._catalog.listed(partition)
            segments = self._catalog.complete(listed, Known.TIMES)
            stamps = (segment.max_timestamp_ms for segment in segments)
            return max((s for s in stamps if s is not None), default=-1)

        own = [one for one in partitions if one.topic_id == topic_id]
        return max(self._catalog.calls.map(latest, own), default=-1)
