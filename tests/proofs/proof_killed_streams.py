"""Streams to Parquet, killed fifty times: each record is there exactly once."""

from pathlib import Path
from random import Random

import pytest

from proofs.extent import extent
from spark.killed_stream import FIRST_MS, KilledStream
from support.prerequisites import java_needed

DRIVER_KILLS, EXECUTOR_KILLS = extent(46, 2), extent(4, 1)
RECORDS = 200
"""Of each partition, when the stream begins, and added after each kill of a driver."""

START = 70
MAX_OFFSETS = 150


@pytest.fixture
def stream(tmp_path: Path) -> KilledStream:
    java_needed()
    options = {
        "startingTimestamp": str(FIRST_MS + START),
        "maxOffsetsPerTrigger": str(MAX_OFFSETS),
    }
    made = KilledStream(tmp_path, options)
    made.append(RECORDS)
    return made


def each_once(stream: KilledStream) -> list[tuple[int, int]]:
    return [
        (number, offset)
        for number, end in enumerate(stream.ends)
        for offset in range(START, end)
    ]


def test_when_drivers_are_killed_each_record_is_written_exactly_once(
    stream: KilledStream,
) -> None:
    random = Random(20)  # noqa: S311 - no secret
    batch = 0
    for kill in range(DRIVER_KILLS):
        log = random.choice(["offsets", "commits"]) if kill else "offsets"
        stream.run_until(
            f"{log}/{batch}", random.choice([0, 0.05, 0.2, 0.5]) if kill else 0
        )
        stream.append(RECORDS)
        batch += random.randrange(1, 4)
    assert stream.run() == each_once(stream)


def test_when_executors_are_killed_each_record_is_written_exactly_once(
    stream: KilledStream,
) -> None:
    for kill in range(EXECUTOR_KILLS):
        # Three batches of what is there first, and four of what is added each time.
        rows = stream.run("local-cluster[2,1,1024]", f"offsets/{4 * kill + 1}")
        assert rows == each_once(stream)
        stream.append(RECORDS)
