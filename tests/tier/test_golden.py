"""What is read equals what Kafka's own consumer got from the broker."""

import hashlib
import json
import pickle
from functools import partial
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest

import tieredfs
from support.kafka_data import KAFKA, LOCAL, REMOTE
from tieredfs.log.read.scan import Isolation

FOLDERS = [
    "txn/kafka-tiered-storage",
    "two-partitions/kafka-tiered-storage",
    "epochs/raw-log-dir",
    "compacted/raw-log-dir",
]


def _digest(table: pa.Table) -> str:
    digest = hashlib.sha256()
    columns = (
        table["offset"],
        table["timestamp"].cast(pa.int64()),
        table["key"],
        table["value"],
    )
    for offset, stamp, key, value in zip(
        *(column.to_pylist() for column in columns), strict=True
    ):
        digest.update(f"{offset}:{stamp}:".encode())
        digest.update((key or b"") + b"\0" + (value or b""))
    return digest.hexdigest()


@pytest.fixture(params=FOLDERS)
def folder(request: pytest.FixtureRequest, data: Path) -> Path:
    return data / "kafka" / str(request.param)


@pytest.fixture
def topic(folder: Path) -> tieredfs.Topic:
    tier = tieredfs.open_tier(str(folder))
    return tier.topic(tier.topics()[0])


@pytest.mark.parametrize("isolation", get_args(Isolation))
def test_records_are_those_the_consumer_got(
    isolation: Isolation, topic: tieredfs.Topic, folder: Path
) -> None:
    consumed = json.loads((folder.parent / "consumer.json").read_text())
    for number, expected in consumed[isolation].items():
        partition = int(number)
        table = topic.scan([partition], isolation=isolation).to_table()
        assert topic.beginning_offsets()[partition] == expected["beginningOffset"]
        assert topic.end_offsets()[partition] == expected["endOffset"]
        assert table.num_rows == expected["count"]
        assert _digest(table) == expected["digest"]


def test_times_are_found_where_the_broker_found_them(
    topic: tieredfs.Topic, folder: Path
) -> None:
    answers = json.loads((folder.parent / "offsets_for_times.json").read_text())
    for answer in answers["offsetsForTimes"]:
        number = answer["partition"]
        found = topic.offsets_for_times({number: answer["timestamp"]})[number]
        if answer.get("offset") is None:
            assert found is None
        else:
            assert found == tieredfs.OffsetAndTimestamp(
                answer["offset"], answer["recordTimestamp"], answer["leaderEpoch"]
            )


def test_a_scan_is_the_same_again_pickled_and_split(topic: tieredfs.Topic) -> None:
    scan = topic.scan()
    table = scan.to_table()
    assert scan.to_table().equals(table)
    assert pickle.loads(pickle.dumps(scan)).to_table().equals(table)  # noqa: S301 - ours
    parts = [part.to_table() for part in scan.split(1)]
    assert pa.concat_tables(parts).equals(table)
    assert scan.to_reader().read_all().equals(table)


@pytest.mark.parametrize("isolation", get_args(Isolation))
@pytest.mark.parametrize(
    "stored",
    sorted(
        path.relative_to(KAFKA).as_posix()
        for kind in (LOCAL, REMOTE)
        for path in KAFKA.glob(f"*/{kind}")
    ),
)
def test_columns_without_payloads_are_those_of_all_columns(
    stored: str, isolation: Isolation
) -> None:
    narrow = ["topic", "partition", "offset", "timestampType"]
    tier = tieredfs.open_tier(str(KAFKA / stored))
    for topic in map(tier.topic, tier.topics()):
        for number in topic.partitions:
            scan = partial(topic.scan, [number], isolation=isolation)
            table = scan().to_table()
            assert scan(columns=narrow).to_table().equals(table.select(narrow))
            assert scan(columns=[]).to_table().num_rows == table.num_rows
            offsets = table["offset"].to_pylist()
            for start in offsets[:: max(1, len(offsets) // 5)]:  # inside batches
                part = scan(start, start + 9, columns=narrow).to_table()
                kept = [offset for offset in offsets if start <= offset < start + 9]
                assert part["offset"].to_pylist() == kept


def test_a_scan_begins_and_ends_where_it_is_told(topic: tieredfs.Topic) -> None:
    number = topic.partitions[0]
    everything = topic.scan([number]).to_table()["offset"].to_pylist()
    first = topic.beginning_offsets()[number]
    middle = (first + topic.end_offsets()[number]) // 2
    found = topic.scan([number], middle, middle + 7).to_table()["offset"].to_pylist()
    assert found == [o for o in everything if middle <= o < middle + 7]
    with pytest.raises(tieredfs.OffsetOutOfRangeError):
        topic.scan([number], topic.end_offsets()[number] + 1)


def test_s3_gives_what_the_disk_gives(
    data: Path, s3_bucket: tuple[str, dict[str, object]]
) -> None:
    url, options = s3_bucket
    root = data / "kafka/two-partitions/kafka-tiered-storage"
    store = tieredfs.ObjectStore(f"{url}/tier", options)
    memory = tieredfs.ObjectStore("memory://golden-two-partitions")
    for file in root.rglob("*"):
        if file.is_file():
            key = file.relative_to(root).as_posix()
            store.put(key, file.read_bytes(), overwrite=True)
            memory.put(key, file.read_bytes(), overwrite=True)
    tables = [
        tieredfs.open_tier(place, storage_options=opts)
        .topic("two-partitions")
        .scan()
        .to_table()
        for place, opts in (
            (str(root), None),
            (f"{url}/tier", options),
            ("memory://golden-two-partitions", None),
        )
    ]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])
