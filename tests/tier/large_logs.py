"""Topics whose segments take several requests."""

from collections.abc import Sequence
from hashlib import shake_128
from pathlib import Path
from typing import Literal

import pyarrow as pa

from support.log_directories import push_all, source_of, topic_of, write_log
from support.wire import WireRecord, encode_batch
from tieredfs import ObjectStore, Tier, Topic
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject

__all__ = ["batches", "pushed", "write_large"]


def write_large(
    store: ObjectStore,
    compression: Literal["zstd"] | None = None,
    *,
    partitions: int = 1,
) -> None:
    """Write segments of 14 MB."""
    tier = Tier(SingleObject(store, compression=compression))
    topic = tier.create_topic("t", partitions=partitions)
    for number in range(partitions):
        values = [shake_128(b"%d" % n).digest(50_000) for n in range(280)]
        topic.append(pa.table({"value": values}), number)


def batches(sizes: Sequence[int]) -> bytes:
    """Write batches of one record each, with values of these sizes."""
    values = (shake_128(b"%d" % n).digest(size) for n, size in enumerate(sizes))
    return b"".join(
        encode_batch([WireRecord(n, 1, None, value)]) for n, value in enumerate(values)
    )


def pushed(
    tmp_path: Path,
    store: ObjectStore,
    sizes: Sequence[int],
    layout: type[SingleObject | KafkaLocal] = SingleObject,
) -> Topic:
    """Push a segment of such batches, and open the topic."""
    logs = {0: batches(sizes), len(sizes): b""}
    push_all(source_of(write_log(tmp_path, logs).parent), layout(store))
    return topic_of(layout(ObjectStore(store.url)))
