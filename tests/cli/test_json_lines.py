"""A line of JSON has what a record has, whatever that is, and steers no terminal."""

import io
import json
from typing import Any
from unicodedata import category

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tieredfs.cli.output.records import FORMATS, TextEncoder
from tieredfs.format.records.schema import project

_TYPES = {-1: None, 0: "CreateTime", 1: "LogAppendTime"}
_SCHEMA = project(None)

TEXTS = st.text(max_size=8) | st.text('a%"\\\n\x7f\x85\u202e\u200d', max_size=4)
PAYLOADS = st.none() | st.binary(max_size=6) | TEXTS.map(str.encode)
HEADERS = st.none() | st.lists(
    st.fixed_dictionaries({"key": TEXTS, "value": PAYLOADS}), max_size=3
)
# All values alike, too: what they have in common is written in another way.
ROWS = st.one_of(
    st.lists(st.tuples(PAYLOADS, PAYLOADS, HEADERS), max_size=5),
    st.tuples(st.tuples(PAYLOADS, PAYLOADS, HEADERS), st.integers(1, 3)).map(
        lambda drawn: [drawn[0]] * drawn[1]
    ),
)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


@given(
    rows=ROWS,
    stamps=st.integers(-1, 1 << 60),
    kind=st.sampled_from(sorted(_TYPES)),
    names=st.permutations(_SCHEMA.names).flatmap(
        lambda names: st.integers(0, len(names)).map(lambda count: names[:count])
    ),
    skipped=st.integers(0, 2),
)
def test_every_line_is_read_back_as_the_record(
    rows: list[tuple[Any, ...]], stamps: int, kind: int, names: list[str], skipped: int
) -> None:
    columns = {
        "key": [key for key, _, _ in rows],
        "value": [value for _, value, _ in rows],
        "topic": ["a%d"] * len(rows),
        "partition": [3] * len(rows),
        "offset": list(range(len(rows))),
        "timestamp": [stamps] * len(rows),
        "timestampType": [kind] * len(rows),
        "headers": [headers for _, _, headers in rows],
    }
    stored = [
        pa.array(columns[name], pa.int64()).cast(_SCHEMA.field(name).type)
        if name == "timestamp"
        else pa.array(columns[name], _SCHEMA.field(name).type)
        for name in _SCHEMA.names
    ]
    batch = pa.RecordBatch.from_arrays(stored, schema=_SCHEMA)
    batch = batch.slice(skipped).select(names)
    out = io.BytesIO()
    FORMATS["jsonl"](out, batch.schema, TextEncoder("utf8")).write(batch)
    shown = {
        **columns,
        "key": [_text(key) for key in columns["key"]],
        "value": [_text(value) for value in columns["value"]],
        "timestampType": [_TYPES[kind]] * len(rows),
        "headers": [
            [{"key": one["key"], "value": _text(one["value"])} for one in headers or ()]
            for headers in columns["headers"]
        ],
    }
    lines = out.getvalue().decode().split("\n")
    assert lines.pop() == ""
    steering = {category(c) for c in "".join(lines) if c not in "\u200c\u200d"}
    assert not steering & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert [list(json.loads(line).items()) for line in lines] == [
        [
            ({"timestampType": "timestamp_type"}.get(name, name), shown[name][row])
            for name in names
        ]
        for row in range(skipped, len(rows))
    ]
