"""A store that fails while a log is read: a typed error in time, and nothing lost."""

import re
import time
from collections.abc import Iterable
from itertools import islice

import pyarrow as pa
import pytest

from servers import ProxiedBucket
from support.log_directories import topic_of
from tier.large_logs import write_large
from tieredfs import (
    DeadlineExceededError,
    ObjectStore,
    RequestPolicy,
    StorageUnavailableError,
    Topic,
)
from tieredfs.storage.layouts.single_object.layout import SingleObject

DEADLINE_SECONDS = 3.0
SLACK_SECONDS = 5.0
_RECORDS = 280


def _opened(place: ProxiedBucket) -> Topic:
    policy = RequestPolicy(deadline=DEADLINE_SECONDS)
    store = ObjectStore(place.url, place.storage_options, policy=policy)
    return topic_of(SingleObject(store))


def _read(batches: Iterable[pa.RecordBatch], found: list[int]) -> None:
    """Add the offsets of records to those that were found."""
    for batch in batches:
        found += batch["offset"].to_pylist()


@pytest.mark.parametrize("fault", ["refuses", "hangs", "is throttled"])
def test_a_scan_ends_by_its_deadline_and_says_where_to_go_on(
    s3_proxied: ProxiedBucket, fault: str
) -> None:
    proxy = s3_proxied.proxy
    write_large(ObjectStore(s3_proxied.url, s3_proxied.storage_options))
    topic = _opened(s3_proxied)
    proxy.bandwidth = 4e6
    scan = topic.scan()
    batches = iter(scan)
    found: list[int] = []
    _read(islice(batches, 1), found)
    match fault:
        case "refuses":
            proxy.refuse()
        case "hangs":
            proxy.add(hang=60)
            proxy.drop_connections()
        case _:
            proxy.add(status=503)
            proxy.drop_connections()
    begun = time.monotonic()
    with pytest.raises((StorageUnavailableError, DeadlineExceededError)) as failed:
        _read(batches, found)
    assert time.monotonic() - begun < DEADLINE_SECONDS + SLACK_SECONDS
    message = str(failed.value)
    assert ".segment" in message
    (reached,) = re.findall(r"t-0 was read up to offset (\d+)", message)
    assert found == list(range(int(reached)))
    assert len(found) < _RECORDS
    if fault == "is throttled":
        assert scan.stats.retries > 0
    proxy.clear()
    rest = _opened(s3_proxied).scan(start=int(reached)).to_table()
    assert found + rest["offset"].to_pylist() == list(range(_RECORDS))
