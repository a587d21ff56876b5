"""Restore the segments of a tier as files, as a broker stores them in its directory.

Every file is byte for byte what was stored, unless segments overlap: if a segment
serves only some of its offsets, these become their own segment, whose indexes are built
from its log. A log is written last of its segment's files, so a directory that has all
logs is whole.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import (
    AlreadyExistsError,
    CorruptIndexError,
    InvalidArgumentError,
    NotFoundError,
    PluginError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from tieredfs.format.buffers import Buffer
from tieredfs.format.index.leader_epochs import (
    format_leader_epochs,
    parse_leader_epochs,
)
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.planning.tiles import lineage_of
from tieredfs.log.pull.cut import cut_segment
from tieredfs.log.read.reader import TieredReader, bounds_of
from tieredfs.model import (
    UNKNOWN_TOPIC_ID,
    IndexType,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.objects import ObjectStore
from tieredfs.storage import RemoteStorageManager, open_storage
from tieredfs.storage.changed_segment import changed_error
from tieredfs.storage.early_end import check_early_end
from tieredfs.storage.layouts.kafka_files import (
    CLEANER_CHECKPOINT,
    LOG_SUFFIX,
    broker_file,
)
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.segment_log.inspection import PriorState, prior_state
from tieredfs.storage.segment_log.source import LogContent, LogSource, open_log
from tieredfs.storage.segment_log.spool import MAX_MEMORY_BYTES
from tieredfs.storage.spool_log import last_offset, spool_log

__all__ = ["PulledSegment", "pull"]

_LOG: Final = re.compile(r"(\d{20})\.log", re.ASCII)


@dataclass(frozen=True, slots=True)
class PulledSegment:
    """One segment of a pull.

    Attributes:
        segment: The written segment, as the tier describes it, with the offsets and
            size of the written part.
        written: Number of files that were written; 0 if all existed already.
        is_cut: Whether it is a part of a stored segment.
    """

    segment: SegmentMetadata
    written: int
    is_cut: bool = False


def pull(
    source: RemoteStorageManager,
    target: ObjectStore,
    partitions: Sequence[TopicIdPartition],
    *,
    progress: Callable[[PulledSegment], object] = lambda _: None,
) -> list[PulledSegment]:
    """Write the log directory from which a tier was created.

    Files that already exist with the same content are left unchanged, so an interrupted
    pull is continued by running it again, and two pulls may run concurrently.

    Args:
        source: The tier.
        target: Where the folders of the partitions go.
        partitions: The partitions to pull.
        progress: Called with each segment when it is done.

    Returns:
        The segments, by partition and offset.

    Raises:
        AlreadyExistsError: The target has a file with other content, a log that is not
            pulled, or segments in another layout; it is left unchanged.
        UnsupportedOperationError: A topic exists several times, or a batch of an old
            message format would have to be cut.
        CorruptDataError: The tier is corrupt, offsets are missing between segments, or
            the segments are not one state of the log.
    """
    _check_names(partitions)
    _check_no_other_layout(target)
    done: list[PulledSegment] = []
    for partition in partitions:
        for one in _pull_partition(source, target, partition):
            progress(one)
            done.append(one)
    return done


def _pull_partition(
    source: RemoteStorageManager, target: ObjectStore, partition: TopicIdPartition
) -> Iterator[PulledSegment]:
    reader = TieredReader(source, SegmentCatalog(source), partition)
    try:
        segments = reader.segments()
    except NotFoundError:  # removed since it was listed, or only foreign objects
        return
    held = bounds_of(segments)
    tiles = reader.tiles(segments, held.beginning, held.end)
    if not tiles:
        return
    if partition.topic_id != UNKNOWN_TOPIC_ID:
        # Written first, so that the folder of another topic is rejected.
        metadata_text = f"version: 0\ntopic_id: {partition.topic_id}"
        _write(target, f"{partition}/partition.metadata", metadata_text.encode())
    _check_no_other_log(target, partition, {first for _, first, _ in tiles})
    lead = PriorState()
    for segment, first, end in tiles:
        if (first, end - 1) == (segment.start_offset, segment.end_offset):
            written, indexes = _write_whole(source, target, segment)
            yield PulledSegment(segment, written)
        else:
            with cut_segment(source, segment, first, end, lead) as cut:
                indexes = cut.indexes
                written = _write_segment(target, cut.metadata, indexes, cut.log)
            yield PulledSegment(cut.metadata, written, is_cut=True)
        lead = prior_state(indexes)
    _write_epochs(target, partition, lineage_of([source.describe(tiles[-1][0])]))


def _check_no_other_layout(target: ObjectStore) -> None:
    """Check that the target is not an archive, which a log directory would hide.

    Raises:
        AlreadyExistsError: It is an archive.
    """
    try:
        there = open_storage(target)
    except (NotFoundError, UnsupportedFormatError, InvalidArgumentError):
        return  # empty, or no layout begins here
    except PluginError as error:
        raise AlreadyExistsError(
            f"already exists: {target.url} holds more than a log directory: pull into "
            "another directory"
        ) from error
    if not isinstance(there, KafkaLog):
        raise AlreadyExistsError(
            f"already exists: {there!r} is an archive: pull into another directory"
        )


def _check_no_other_log(
    target: ObjectStore, partition: TopicIdPartition, starts: Collection[int]
) -> None:
    """Check that the folder has no log besides those to be written.

    Raises:
        AlreadyExistsError: It has one, which would make the folder another log.
    """
    folder = f"{partition}/"
    for entry in target.list(folder, delimiter="/"):
        match = _LOG.fullmatch(entry.key[len(folder) :])
        if match is not None and int(match[1]) not in starts:
            raise AlreadyExistsError(
                f"already exists: {target.url}/{entry.key}, which is not part of what "
                "is pulled: pull into an empty directory, or remove it"
            )


def _write_cleaned(target: ObjectStore, segment: SegmentMetadata) -> None:
    """Record in the cleaner's checkpoint that the cleaner has shortened a log.

    Raises:
        AlreadyExistsError: The file is not a checkpoint; it is left unchanged.
    """
    partition = segment.partition
    mine = f"{partition.topic} {partition.partition} "
    try:
        lines = (
            bytes(target.get(CLEANER_CHECKPOINT))
            .decode("ascii", "replace")
            .splitlines()
        )
    except NotFoundError:
        lines = ["0", "0"]
    if lines[:1] != ["0"] or lines[1:2] != [str(len(lines) - 2)]:
        raise AlreadyExistsError(
            f"already exists: {target.url}/{CLEANER_CHECKPOINT}, not a checkpoint: "
            "remove it, or pull into an empty directory"
        )
    if not any(line.startswith(mine) for line in lines[2:]):
        entries = sorted([*lines[2:], f"{mine}{(segment.end_offset or 0) + 1}"])
        text = "\n".join(["0", str(len(entries)), *entries, ""])
        target.put(CLEANER_CHECKPOINT, text.encode(), overwrite=True)


def _write_epochs(
    target: ObjectStore, partition: TopicIdPartition, epochs: LeaderEpochs
) -> None:
    """Write the checkpoint, unless the existing one has the same entries or more."""
    if not epochs.entries:
        return
    key = f"{partition}/leader-epoch-checkpoint"
    try:
        _write(target, key, format_leader_epochs(epochs))
    except AlreadyExistsError as error:
        try:
            there = parse_leader_epochs(target.get(key)).entries
        except (CorruptIndexError, UnsupportedFormatError):
            raise error from None
        common = min(len(there), len(epochs.entries))
        if there[:common] != epochs.entries[:common]:
            raise
        if common == len(there):  # the log has grown since
            target.put(key, format_leader_epochs(epochs), overwrite=True)


def _write_whole(
    source: RemoteStorageManager, target: ObjectStore, segment: SegmentMetadata
) -> tuple[int, Mapping[IndexType, Buffer]]:
    """Write a segment's files unchanged; return their number and its indexes."""
    indexes: Mapping[IndexType, Buffer] = source.fetch_all_indexes(segment)
    with spool_log(source, segment) as log:
        last = last_offset(segment, log)
        if not source.is_current(segment, last):
            raise changed_error(source, segment)
        if last < (segment.end_offset or 0):
            check_early_end(source, segment, last + 1)
        return _write_segment(target, segment, indexes, log), indexes


def _write_segment(
    target: ObjectStore,
    segment: SegmentMetadata,
    indexes: Mapping[IndexType, Buffer],
    log: LogSource,
) -> int:
    """Write a segment's files, its log last; return the number of new files."""
    folder = f"{segment.partition}"
    written = 0
    for name, data in _files(segment, indexes):
        written += _write(target, f"{folder}/{name}", data)
    if last_offset(segment, log) < (segment.end_offset or 0):
        _write_cleaned(target, segment)
    key = f"{folder}/{segment.start_offset:020d}.{LOG_SUFFIX}"
    return written + _write_log(target, key, log)


def _files(
    segment: SegmentMetadata, indexes: Mapping[IndexType, Buffer]
) -> Iterator[tuple[str, Buffer]]:
    """Yield the names and bytes of the files beside a log."""
    for kind, data in indexes.items():
        name = broker_file(segment, kind)
        if name is not None:
            yield name, data


def _write(target: ObjectStore, key: str, data: Buffer) -> int:
    """Write a file if it does not exist; return whether it was written.

    Raises:
        AlreadyExistsError: It exists with other content; the message has the position.
    """
    with open_log(data, key) as content:
        return _write_log(target, key, content)


def _write_log(target: ObjectStore, key: str, log: LogSource) -> int:
    """Write a log if it does not exist, as ``_write`` does."""
    size = _size(target, key)
    if size is None:
        content = LogContent(log)
        try:
            if log.size <= MAX_MEMORY_BYTES:
                target.put(key, content.read(0, log.size), overwrite=False)
            else:
                target.put_file(key, content, overwrite=False)
        except AlreadyExistsError:
            size = _size(target, key)  # another pull has written it meanwhile
            if size is None:  # something other than a file is in the way
                raise
        else:
            return 1
    difference = _difference(target, key, size, log)
    if difference is not None:
        raise AlreadyExistsError(
            f"already exists: {target.url}/{key}, and {difference}: remove it, or pull "
            "into an empty directory"
        )
    return 0


def _size(target: ObjectStore, key: str) -> int | None:
    """Return the size of a file; None if it does not exist."""
    try:
        return target.head(key).size or 0
    except NotFoundError:
        return None


def _difference(target: ObjectStore, key: str, size: int, log: LogSource) -> str | None:
    """Describe where an existing file differs from the pulled log; None if nowhere.

    Args:
        target: The store of the file.
        key: The file.
        size: Its bytes.
        log: The pulled log.
    """
    if size != log.size:
        return f"it has {size} bytes, the pulled file {log.size}"
    start = 0
    for wanted in log.pieces():
        there = target.get_range(key, start, start + len(wanted))
        if there != wanted:
            at = start + _first_difference(there, wanted)
            return f"it differs from the pulled file at byte {at}"
        start += len(wanted)
    return None


def _first_difference(one: Buffer, other: Buffer) -> int:
    """Return the first place at which two buffers of one size differ."""
    bytes_of = partial(np.frombuffer, dtype=np.uint8)
    return int(np.argmax(bytes_of(one) != bytes_of(other)))


def _check_names(partitions: Sequence[TopicIdPartition]) -> None:
    """Raise an error for two partitions that would have one folder."""
    folders: dict[str, TopicIdPartition] = {}
    for partition in partitions:
        other = folders.setdefault(str(partition), partition)
        if other != partition:
            raise UnsupportedOperationError(
                f"{partition} exists several times (topic ids {other.topic_id} and "
                f"{partition.topic_id}): choose one with topic_id, or --topic-id; "
                "where several topics have two ids, pull each of them alone"
            )
