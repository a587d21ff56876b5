"""What Spark's own Kafka source answered, and rows in the form in which it is kept."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - its usual name

__all__ = ["TIER", "Answer", "Case", "collect", "oracle_cases"]

_DATA = Path(__file__).parent.parent / "data" / "spark-kafka"
_BY_PARTITION = frozenset(
    {
        "startingoffsets",
        "endingoffsets",
        "startingoffsetsbytimestamp",
        "endingoffsetsbytimestamp",
    }
)

TIER = _DATA / "tier"
"""The topics that the cases are about."""


@dataclass(frozen=True, slots=True)
class Case:
    """One query, and what came of it.

    Attributes:
        name: Its name.
        mode: ``batch``, ``stream`` or ``sink``.
        options: What was given to Spark, without the partition that left no trace.
        expect: What came of it; of a stream, of each of its steps.
        schema: The user's schema; empty for none.
        condition: A filter; empty for none.
        steps: The runs of a stream, with what is special of each.
        gone: The partition that left no trace in the tier; empty for none.
    """

    name: str
    mode: str
    options: Mapping[str, str]
    expect: Any
    schema: str
    condition: str
    steps: tuple[Mapping[str, Any], ...]
    gone: str

    def __str__(self) -> str:
        """Name it in the list of tests."""
        return self.name

    @property
    def error(self) -> Mapping[str, Any] | None:
        """How it was refused; None when it was not."""
        found: Mapping[str, Any] | None = (
            self.expect.get("error") if isinstance(self.expect, Mapping) else None
        )
        return found

    @property
    def root(self) -> str:
        """The words of what failed in a task; empty for another failure."""
        error = self.error or {}
        cause = error.get("root") if "Job aborted" in error.get("message", "") else None
        return cause["message"] if cause else ""

    @property
    def names(self) -> frozenset[str]:
        """The names of its options, in lower case."""
        return frozenset(name.lower() for name in self.options)

    def refused_at(self, stage: str) -> bool:
        """Return whether it was refused at a stage, such as ``load``."""
        return self.error is not None and self.error["stage"] == stage


def oracle_cases() -> list[Case]:
    """Read all cases."""
    document = json.loads((_DATA / "oracle.json").read_text())
    return [
        Case(
            case["name"],
            case["mode"],
            _without(case.get("empty_partition"), case["options"]),
            case["expect"],
            case.get("schema", ""),
            case.get("filter", ""),
            tuple(case.get("steps", ())),
            case.get("empty_partition", ""),
        )
        for case in document["cases"]
    ]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query returned.

    Attributes:
        rows: How many rows.
        partitions: Smallest and largest offset, and the count, by partition.
        sha256: Of the rows in the oracle's form.
    """

    rows: int
    partitions: Mapping[str, list[int]]
    sha256: str

    @classmethod
    def of(cls, frame: DataFrame) -> Self:
        """Run a query."""
        return cls.of_rows(collect(frame))

    @classmethod
    def of_rows(cls, collected: Iterable[Row]) -> Self:
        """Return the answer that some rows are, as ``collect`` returned them."""
        rows = sorted(
            collected, key=lambda row: (row["topic"], row["partition"], row["offset"])
        )
        partitions: dict[str, list[int]] = {}
        for row in rows:
            name, offset = f"{row['topic']}-{row['partition']}", row["offset"]
            found = partitions.setdefault(name, [offset, offset, 0])
            found[1:] = [offset, found[2] + 1]
        return cls(len(rows), partitions, _sha256(rows))

    @classmethod
    def expected(cls, case: Case) -> Self:
        """Return what Kafka's source returned."""
        return cls.recorded(case.expect)

    @classmethod
    def recorded(cls, expect: Mapping[str, Any]) -> Self:
        """Return the answer of a query, or of one run of a stream."""
        return cls(expect["rows"], expect["partitions"], expect["sha256"])


def collect(frame: DataFrame) -> list[Row]:
    """Run a query; PySpark's own datetimes depend on the time zone of the machine."""
    return frame.withColumn("timestamp", F.unix_micros("timestamp")).collect()


def _without(gone: str | None, options: Mapping[str, str]) -> dict[str, str]:
    """Take a partition out of the offsets that name it."""
    if gone is None:
        return dict(options)
    topic, _, partition = gone.rpartition("-")
    kept = dict(options)
    for name, value in options.items():
        if name.lower() in _BY_PARTITION and value.startswith("{"):
            offsets = json.loads(value)
            del offsets[topic][partition]
            kept[name] = json.dumps(offsets)
    return kept


def _sha256(rows: Iterable[Row]) -> str:
    sha = hashlib.sha256()
    for row in rows:
        fields = [
            *(row[name] for name in ("topic", "partition", "offset", "timestamp")),
            row["timestampType"],
            _hex(row["key"]),
            _hex(row["value"]),
        ]
        if "headers" in row:
            headers = row["headers"]
            fields.append(
                None
                if headers is None
                else [[h["key"], _hex(h["value"])] for h in headers]
            )
        text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
        sha.update(f"{text}\n".encode())
    return sha.hexdigest()


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()
