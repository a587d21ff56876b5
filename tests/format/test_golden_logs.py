"""Batches and records of real logs, against what Kafka's own classes read there."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.golden import (
    Golden,
    batch_facts,
    decode,
    expected_record_facts,
    goldens,
    header_of,
    headers_of,
    log_batches,
    record_facts,
    rows_of,
)
from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch.control import ControlType, parse_control_record
from tieredfs.format.batch.reader import claimed_size, read_header
from tieredfs.format.batch.table import LogBatches

pytestmark = pytest.mark.usefixtures("each_kernel")

_BATCHES = goldens(".log.batches.jsonl")
_RECORDS = goldens(".log.expected.jsonl")
_TAILS = goldens(".log.tail.json")


_RECORDS_AT = (26, 34, 61)  # in a batch, by version; in a wrapper without a key


def _topic(golden: Golden) -> str:
    return golden.source.parent.name


def _whole(found: list[Golden]) -> list[Golden]:
    return [g for g in found if not _topic(g).startswith("damaged-")]


@pytest.mark.parametrize("golden", _whole(_BATCHES), ids=str)
def test_batches_are_those_that_kafka_reads(golden: Golden) -> None:
    found = [batch_facts(header) for header in headers_of(golden.read())]
    assert found == golden.lines()


@pytest.mark.parametrize("golden", _whole(_BATCHES), ids=str)
def test_batches_fill_the_log(golden: Golden) -> None:
    data = golden.read()
    ends = [header.end for header in headers_of(data)]
    assert ends[-1] == len(data)


@pytest.mark.parametrize("golden", _whole(_RECORDS), ids=str)
def test_records_are_those_that_kafka_reads(golden: Golden) -> None:
    found = [record_facts(row) for row in rows_of(decode(golden.read()))]
    assert found == [expected_record_facts(record) for record in golden.lines()]


@pytest.mark.parametrize("golden", _whole(_RECORDS), ids=str)
def test_each_batch_decoded_alone_gives_the_same_records(golden: Golden) -> None:
    alone: list[dict[str, Any]] = []
    for batch in log_batches(golden.read()):
        alone += rows_of(decode([batch]))
    assert alone == rows_of(decode(golden.read()))


@pytest.mark.parametrize("golden", _whole(_RECORDS), ids=str)
def test_control_records_say_what_kafka_reads_in_them(golden: Golden) -> None:
    found = [
        (control.type.name, control.coordinator_epoch)
        for batch in log_batches(golden.read())
        if header_of(batch).is_control
        for row in rows_of(decode([batch], ("key", "value")))
        for control in [parse_control_record(row["key"], row["value"])]
    ]
    expected = [
        (record["controlType"], record.get("coordinatorEpoch"))
        for record in golden.lines()
        if record.get("control")
    ]
    assert found == expected


@pytest.mark.parametrize("golden", _whole(_RECORDS), ids=str)
def test_a_window_of_offsets_gives_just_the_records_in_it(golden: Golden) -> None:
    everything = rows_of(decode(golden.read(), ("offset", "key")))
    offsets = [row["offset"] for row in everything]
    if not offsets:
        return
    first, end = offsets[len(offsets) // 3], offsets[-(len(offsets) // 3) - 1]

    def windowed() -> Iterator[LogBatches]:
        for batch in log_batches(golden.read()):
            yield batch.within(first, end)

    found = rows_of(decode(windowed(), ("offset", "key")))
    assert found == [row for row in everything if first <= row["offset"] < end]


@pytest.mark.parametrize("golden", _TAILS, ids=str)
def test_a_torn_log_is_read_up_to_its_last_whole_batch(golden: Golden) -> None:
    data, tail = golden.read(), golden.document()
    ends: list[int] = []
    batches = headers_of(data, name="x.log")
    if tail["error"] is None:
        ends.extend(header.end for header in batches)
        size = claimed_size(data, ends[-1])
        assert size is None or size > len(data) - ends[-1]
    else:
        with pytest.raises(CorruptBatchError, match=r"^x\.log: .* 244: "):
            ends.extend(header.end for header in batches)
    assert ends[-1] == tail["validBytes"]


@pytest.mark.parametrize("golden", _TAILS, ids=str)
def test_what_is_left_of_a_torn_batch_is_not_a_batch(golden: Golden) -> None:
    data, end = golden.read(), golden.document()["validBytes"]
    with pytest.raises(CorruptBatchError, match=rf"position {end}: "):
        read_header(data, end)


def test_a_batch_with_a_wrong_checksum_ends_the_log_there() -> None:
    (golden,) = (g for g in _BATCHES if _topic(g) == "damaged-crc")
    expected = golden.lines()
    batches = headers_of(golden.read(), name="x.log")
    assert batch_facts(next(batches)) == expected[0]
    assert not expected[1]["valid"]
    bad = expected[1]["position"]
    with pytest.raises(CorruptBatchError, match=rf"^x\.log: .* {bad}: CRC-32C"):
        next(batches)


def _has(data: bytes, batch: dict[str, Any], codec: str, magic: bytes) -> bool:
    records = batch["position"] + _RECORDS_AT[batch["magic"]]
    return batch["codec"] == codec and data[records:].startswith(magic)


def test_the_sample_data_shows_every_case() -> None:
    seen = set()
    for golden in _whole(_BATCHES):
        data = golden.read()
        for batch in golden.lines():
            xerial = _has(data, batch, "snappy", b"\x82SNAPPY\0")
            seen |= {
                f"codec {batch['codec']}",
                f"xerial {xerial}" if batch["codec"] == "snappy" else "",
                batch["timestampType"],
            }
            if batch["magic"] < 2:
                kind = "wrapper" if batch["codec"] != "none" else "message"
                stamps = batch["timestampType"]
                seen.add(f"{kind} of version {batch['magic']}, {stamps}")
                if batch["records"] <= batch["lastOffset"] - batch["baseOffset"]:
                    seen.add(f"gap in version {batch['magic']}")
                if batch["codec"] == "lz4":
                    frame = data[batch["position"] + _RECORDS_AT[batch["magic"]] :]
                    seen.add(f"lz4 in version {batch['magic']}: {frame[6]:#x}")
                continue
            seen |= {
                "transaction" if batch["isTransactional"] else "",
                "control" if batch["isControl"] else "",
                "empty" if batch["count"] == 0 else "",
                "gap"
                if batch["count"] < batch["lastOffset"] - batch["baseOffset"]
                else "",
                "horizon" if batch["deleteHorizonMs"] is not None else "",
                "wrap" if 0 <= batch["lastSequence"] < batch["baseSequence"] else "",
                "large offset" if batch["baseOffset"] > 1 << 32 else "",
            }
    for golden in _whole(_RECORDS):
        for record in golden.lines():
            seen |= {f"control {record.get('controlType')}"}
            seen |= {
                "many headers" if len(record["headers"]) > 16 else "",
                "negative time" if record["timestamp"] < 0 else "",
                "far time" if record["timestamp"] > 1 << 53 else "",
                "null key" if record.get("key", "") is None else "",
                "null value" if record.get("value", "") is None else "",
            }
    kinds = {f"control {kind.name}" for kind in ControlType if kind >= 0}
    assert seen >= kinds | {
        "codec none",
        "codec gzip",
        "codec snappy",
        "codec lz4",
        "codec zstd",
        "xerial True",
        "xerial False",
        "CreateTime",
        "LogAppendTime",
        "transaction",
        "control",
        "empty",
        "gap",
        "horizon",
        "wrap",
        "large offset",
        "many headers",
        "negative time",
        "far time",
        "null key",
        "null value",
        "message of version 0, NoTimestampType",
        "wrapper of version 0, NoTimestampType",
        "message of version 1, CreateTime",
        "message of version 1, LogAppendTime",
        "wrapper of version 1, CreateTime",
        "wrapper of version 1, LogAppendTime",
        "gap in version 0",
        "gap in version 1",
        "lz4 in version 0: 0x1a",  # as Kafka's clients had it, not as lz4 has it
        "lz4 in version 1: 0x82",
    }
