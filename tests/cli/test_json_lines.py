"""A line of JSON has what a record has, whatever that is, and steers no terminal."""

import importlib.util
import io
import json
from typing import Any
from unicodedata import category

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieredfs.cli.output import json_lines_python
from tieredfs.cli.output.records import FORMATS
from tieredfs.cli.output.text_encoder import ENCODINGS, TextEncoder
from tieredfs.format.records.schema import project

_TYPES = {-1: None, 0: "CreateTime", 1: "LogAppendTime"}
_SCHEMA = project(None)
compiled = pytest.mark.skipif(
    importlib.util.find_spec("tieredfs.format.kernel._kernel") is None,
    reason="the kernel is not compiled: install a C compiler",
)

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


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Draw records, and of these perhaps not all."""
    rows = draw(ROWS)
    kinds = draw(st.lists(st.sampled_from(sorted(_TYPES)), min_size=2, max_size=2))
    columns = {
        "key": [key for key, _, _ in rows],
        "value": [value for _, value, _ in rows],
        "topic": [draw(TEXTS)] * len(rows),
        "partition": [draw(st.integers(0, (1 << 31) - 1))] * len(rows),
        "offset": [draw(st.integers(0, (1 << 63) - 1)) for _ in rows],
        "timestamp": [draw(st.integers(-1 << 63, (1 << 63) - 1)) for _ in rows],
        "timestampType": [kinds[row % 2] for row in range(len(rows))],
        "headers": [headers for _, _, headers in rows],
    }
    stored = [
        pa.array(columns[field.name], pa.int64()).cast(field.type)
        if field.name == "timestamp"
        else pa.array(columns[field.name], field.type)
        for field in _SCHEMA
    ]
    names = draw(st.permutations(_SCHEMA.names))[: draw(st.integers(0, len(_SCHEMA)))]
    batch = pa.RecordBatch.from_arrays(stored, schema=_SCHEMA).select(names)
    return batch.slice(draw(st.integers(0, 2)), draw(st.integers(0, 5)))


def _compiled(batch: pa.RecordBatch, encode: TextEncoder) -> bytes:
    from tieredfs.cli.output import json_lines_compiled  # noqa: PLC0415 - or not there

    return b"".join(map(bytes, json_lines_compiled.lines_of(batch, encode)))


@compiled
@given(batches(), st.sampled_from(sorted(ENCODINGS)))
def test_both_kernels_write_the_same_bytes(batch: pa.RecordBatch, name: str) -> None:
    encode, other = TextEncoder(name), TextEncoder(name)
    assert _compiled(batch, encode) == json_lines_python.lines_of(batch, other)
    assert encode.lossy == other.lossy


@compiled
def test_both_kernels_escape_the_same_characters() -> None:
    points = [*range(0xD800), *range(0xE000, 0x110000)]
    parts = [points[at : at + 4096] for at in range(0, len(points), 4096)]
    texts = ["".join(map(chr, part)).encode() for part in parts]
    batch = pa.RecordBatch.from_pydict({"key": texts, "value": texts[::-1]})
    encode = TextEncoder("utf8")
    assert _compiled(batch, encode) == json_lines_python.lines_of(batch, encode)


@compiled
@pytest.mark.parametrize("most", [1 << 26, 1 << 20])
def test_a_line_of_any_length_is_written(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tieredfs.cli.output import json_lines_compiled  # noqa: PLC0415 - or not there

    monkeypatch.setattr(json_lines_compiled, "_MAX_ROOM", most)
    values = [b"a", bytes(1 << 18), b"b", "\x80\u202e\U000e0001".encode() * 9, None]
    batch = pa.RecordBatch.from_pydict({"value": pa.array(values * 3, pa.binary())})
    encode = TextEncoder("utf8")
    assert _compiled(batch, encode) == json_lines_python.lines_of(batch, encode)


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
