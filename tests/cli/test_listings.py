"""Each partition is listed once a command, of which a proxy keeps the requests."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

from cli.commands import Run
from servers import ProxiedBucket
from support.stores import files_of, fill
from tieredfs import ObjectStore, open_storage
from tieredfs.tier import Tier

COMMANDS = (
    ("ls",),
    ("ls", "--segments"),
    ("cat",),
    ("cat", "--from", "-5"),
    ("cat", "--from", "-5", "--to", "3"),
    ("cat", "--from", "-5", "--committed"),
    ("cat", "--from", "latest"),
    ("cat", "--from", "2000-01-01"),
    ("explain", "--from", "-5"),
    ("explain", "--from", "latest"),
)


def listings(place: ProxiedBucket, folder: str) -> dict[str, int]:
    """Return how often each folder whose name is like this was listed."""
    queries = (
        parse_qs(urlsplit(request.target).query)
        for request in place.proxy.requests("GET", r"list-type=2")
    )
    prefixes = (query.get("prefix", [""])[0] for query in queries)
    return Counter(prefix for prefix in prefixes if re.search(folder, prefix))


@pytest.fixture
def native(s3_proxied: ProxiedBucket) -> ProxiedBucket:
    """A topic of two partitions with three segments each, in the native layout."""
    with ObjectStore(s3_proxied.url, s3_proxied.storage_options) as store:
        storage = open_storage(store, "single-object")
        topic = Tier(storage).create_topic("orders", partitions=2)
        for number in (*topic.partitions, *topic.partitions, *topic.partitions):
            topic.append(pa.table({"value": [b"one"] * 4}), number)
    return s3_proxied


@pytest.fixture
def kafka_local(s3_proxied: ProxiedBucket, three: str) -> ProxiedBucket:
    """A topic as a broker has tiered it."""
    with ObjectStore(s3_proxied.url, s3_proxied.storage_options) as store:
        fill(store, files_of(Path(three)))
    return s3_proxied


def asked(
    run: Run, place: ProxiedBucket, topic: str, folder: str, *command: str
) -> Sequence[int]:
    """Return how often each partition is listed by a command."""
    place.proxy.clear()
    options = ("--storage-options", json.dumps(place.storage_options), "--no-cache")
    done = run(command[0], place.url, topic, *command[1:], *options)
    assert done.code == 0
    return list(listings(place, folder).values())


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_partition_of_the_native_layout_is_listed_once(
    run: Run, native: ProxiedBucket, command: tuple[str, ...]
) -> None:
    assert asked(run, native, "orders", r"/\d+/$", *command) == [1, 1]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_partition_of_a_broker_is_listed_once(
    run: Run, kafka_local: ProxiedBucket, command: tuple[str, ...]
) -> None:
    folder = r"two-partitions-\d-[^/]{22}/$"
    assert asked(run, kafka_local, "two-partitions", folder, *command) == [1, 1, 1]
