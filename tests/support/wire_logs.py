"""Logs that Hypothesis draws, and the rows that are to come out of them."""

from typing import Any

import hypothesis.strategies as st

from support.wire import CODECS, LOG_APPEND_TIME, WireRecord, encode_batch

__all__ = ["logs", "row_of", "wire_records"]

_INT64S = st.integers(-(1 << 63), (1 << 63) - 1)
_PAYLOADS = st.none() | st.binary(max_size=8) | st.binary(min_size=60, max_size=300)
_HEADERS = st.lists(
    st.tuples(st.text(max_size=6).map(str.encode), st.none() | st.binary(max_size=6)),
    max_size=20,
)


@st.composite
def wire_records(draw: st.DrawFn, first_offset: int = 0) -> list[WireRecord]:
    """Draw the records of a batch; offsets rise with gaps."""
    gaps = draw(st.lists(st.integers(1, 3) | st.integers(1, 9999), max_size=24))
    offset = first_offset + draw(st.integers(0, 3))
    records = []
    for gap in gaps:
        headers = draw(st.just([]) | _HEADERS)
        stamp, key, value = draw(_INT64S), draw(_PAYLOADS), draw(_PAYLOADS)
        records.append(WireRecord(offset, stamp, key, value, tuple(headers)))
        offset += gap
    return records


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, list[dict[str, Any]]]:
    """Draw a log, and the rows that are to come out of it."""
    log, rows = b"", []
    offset = draw(st.integers(0, 1 << 60))
    for _ in range(draw(st.integers(1, 4))):
        base = offset
        records = draw(wire_records(base))
        last = (records[-1].offset if records else base) + draw(st.integers(0, 3))
        by_broker, newest = draw(st.booleans()), draw(_INT64S)
        log += encode_batch(
            records,
            codec=draw(st.sampled_from(sorted(CODECS))),
            attributes=LOG_APPEND_TIME if by_broker else 0,
            base_offset=base,
            last_offset=last,
            base_timestamp=draw(_INT64S),
            max_timestamp=newest,
        )
        for record in records:
            stamp = newest if by_broker else record.timestamp
            rows.append(row_of(record, stamp, by_broker=by_broker))
        offset = last + draw(st.integers(1, 1 << 40))
    return log, rows


def row_of(record: WireRecord, stamp: int, *, by_broker: bool) -> dict[str, Any]:
    """Return the row that is to come out of a record."""
    return {
        "key": record.key,
        "value": record.value,
        "topic": "t",
        "partition": 0,
        "offset": record.offset,
        "timestamp": stamp,
        "timestampType": int(by_broker),
        "headers": [
            {"key": key.decode(), "value": value} for key, value in record.headers
        ]
        or None,
    }
