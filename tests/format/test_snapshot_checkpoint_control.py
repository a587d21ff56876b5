"""The producer snapshot, the leader-epoch checkpoint, and control records."""

import contextlib
import struct
from itertools import starmap

import google_crc32c
import hypothesis.strategies as st
import pytest
from hypothesis import given

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import (
    CorruptBatchError,
    CorruptIndexError,
    UnsupportedFormatError,
)
from tieredfs.format.batch.control import ControlType, parse_control_record
from tieredfs.format.index.leader_epochs import (
    format_leader_epochs,
    parse_leader_epochs,
)
from tieredfs.format.index.producer_snapshot import ProducerSnapshot, ProducerState

_Producer = tuple[int, int, int, int, int, int, int, int]


def _snapshot(
    *producers: _Producer, version: int = 1, count: int | None = None
) -> bytes:
    number = len(producers) if count is None else count
    body = struct.pack(">i", number)
    body += b"".join(struct.pack(">qhiqiqiq", *producer) for producer in producers)
    return struct.pack(">hI", version, google_crc32c.value(body)) + body


def _signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


_PRODUCERS = st.tuples(*[_signed(bits) for bits in (64, 16, 32, 64, 32, 64, 32, 64)])


@given(st.lists(_PRODUCERS, max_size=5))
def test_producers_come_out_as_they_were_written(producers: list[_Producer]) -> None:
    snapshot = ProducerSnapshot.parse(_snapshot(*producers))
    assert list(snapshot.producers) == producers


@given(st.lists(_PRODUCERS, max_size=5))
def test_a_snapshot_is_written_as_the_bytes_of_the_format(
    producers: list[_Producer],
) -> None:
    snapshot = ProducerSnapshot(tuple(starmap(ProducerState, producers)))
    assert snapshot.encode() == _snapshot(*producers)


@pytest.mark.parametrize("size", range(10))
def test_a_snapshot_without_its_header_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptIndexError, match=rf"^x: {size} bytes are too few"):
        ProducerSnapshot.parse(_snapshot()[:size], name="x")


@pytest.mark.parametrize("version", [0, 2, -1])
def test_a_snapshot_of_another_version_is_unsupported(version: int) -> None:
    with pytest.raises(
        UnsupportedFormatError, match=rf"^x: unsupported version {version}$"
    ):
        ProducerSnapshot.parse(_snapshot(version=version), name="x")


@pytest.mark.parametrize("count", [-1, 0, 2, (1 << 31) - 1, -(1 << 31)])
def test_a_snapshot_whose_count_is_wrong_is_corrupt(count: int) -> None:
    data = _snapshot((1, 0, 0, 0, 0, 0, 0, -1), count=count)
    with pytest.raises(CorruptIndexError, match=rf"^x: a count of {count} producers "):
        ProducerSnapshot.parse(data, name="x")


def test_bytes_after_a_snapshot_are_corrupt() -> None:
    with pytest.raises(CorruptIndexError, match="CRC-32C"):
        ProducerSnapshot.parse(_snapshot() + b"\0")


@st.composite
def lineages(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Draw leader epochs as a checkpoint may contain them."""
    epochs = draw(st.lists(st.integers(0, (1 << 31) - 1), unique=True, max_size=6))
    starts = draw(st.lists(st.integers(0, (1 << 63) - 1), unique=True, max_size=6))
    return list(zip(sorted(epochs), sorted(starts), strict=False))


@given(lineages())
def test_a_checkpoint_is_read_back(pairs: list[tuple[int, int]]) -> None:
    text = "".join(f"{epoch} {start}\n" for epoch, start in pairs)
    data = f"0\n{len(pairs)}\n{text}".encode()
    assert format_leader_epochs(LeaderEpochs.of(pairs)) == data
    assert parse_leader_epochs(data).entries == tuple(pairs)


def test_an_empty_checkpoint_has_no_entries() -> None:
    assert parse_leader_epochs(b"").entries == ()
    assert parse_leader_epochs(b"0\n0\n").entries == ()


def test_space_around_the_numbers_is_valid() -> None:
    assert parse_leader_epochs(b" 0 \r\n1\r\n3   44 ").entries == ((3, 44),)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\n", id="no version"),
        pytest.param(b"zero\n0\n", id="a version that is not a number"),
        pytest.param(b"-1\n0\n", id="a negative version"),
        pytest.param(b"0", id="no count"),
        pytest.param(b"0\n-1\n", id="a negative count"),
        pytest.param(b"0\nx\n", id="a count that is not a number"),
        pytest.param(b"0\n2\n0 0\n", id="fewer lines than the count"),
        pytest.param(b"0\n0\n0 0\n", id="more lines than the count"),
        pytest.param(b"0\n9999999999\n0 0\n", id="a huge count"),
        pytest.param(b"0\n1\n0\n", id="an epoch without offset"),
        pytest.param(b"0\n1\n0 0 0\n", id="three numbers"),
        pytest.param(b"0\n1\n-1 0\n", id="a negative epoch"),
        pytest.param(b"0\n1\n0 -1\n", id="a negative offset"),
        pytest.param(b"0\n2\n1 0\n1 5\n", id="an epoch twice"),
        pytest.param(b"0\n2\n2 0\n1 5\n", id="an epoch that falls"),
        pytest.param(b"0\n2\n0 5\n1 5\n", id="an offset twice"),
        pytest.param(b"0\n2\n0 5\n1 4\n", id="an offset that falls"),
        pytest.param(b"0\n1\n0 9223372036854775808\n", id="an offset of 65 bits"),
        pytest.param(b"0\n1\n2147483648 0\n", id="an epoch of 33 bits"),
        pytest.param(b"0\n1\n0 0\xff\n", id="no text"),
        pytest.param("0\n1\n\u0663 \u0663\n".encode(), id="other digits"),
        pytest.param(bytes(40), id="zeros"),
        pytest.param(b"0\x1e1\n0 0\n", id="a line that only Unicode ends"),
    ],
)
def test_bytes_that_are_not_a_checkpoint_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptIndexError, match=r"^x: "):
        parse_leader_epochs(data, name="x")


@pytest.mark.parametrize("version", [1, 7, 99])
def test_a_checkpoint_of_another_version_is_unsupported(version: int) -> None:
    with pytest.raises(
        UnsupportedFormatError, match=rf"^x: unsupported version {version}$"
    ):
        parse_leader_epochs(f"{version}\n0\n".encode(), name="x")


@pytest.mark.parametrize("kind", [kind for kind in ControlType if kind >= 0])
def test_a_control_record_has_its_type(kind: ControlType) -> None:
    key = struct.pack(">hh", 0, kind)
    found = parse_control_record(key, struct.pack(">hi", 0, 9))
    is_marker = kind in {ControlType.ABORT, ControlType.COMMIT}
    assert found.type is kind
    assert found.coordinator_epoch == (9 if is_marker else None)


@pytest.mark.parametrize("number", [-1, -2, 7, 32767])
def test_a_control_record_of_a_newer_type_is_unknown(number: int) -> None:
    found = parse_control_record(struct.pack(">hh", 0, number), None)
    assert (found.type, found.coordinator_epoch) == (ControlType.UNKNOWN, None)


def test_a_newer_key_and_marker_may_have_more_fields() -> None:
    found = parse_control_record(b"\0\1\0\0more", b"\0\1\0\0\0\7more")
    assert (found.type, found.coordinator_epoch) == (ControlType.ABORT, 7)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\0\0\0", b"\0\0\0\0\0\0"),
        (b"\xff\xff\0\0", b"\0\0\0\0\0\0"),
        (b"\0\0\0\0", None),
        (b"\0\0\0\1", b"\0\0\0\0\0"),
    ],
)
def test_a_control_record_that_is_too_short_is_corrupt(
    key: bytes, value: bytes | None
) -> None:
    with pytest.raises(CorruptBatchError, match=r"^x: "):
        parse_control_record(key, value, name="x")


@given(st.binary(max_size=12), st.none() | st.binary(max_size=12))
def test_arbitrary_control_records_are_read_or_corrupt(
    key: bytes, value: bytes | None
) -> None:
    with contextlib.suppress(CorruptBatchError):
        parse_control_record(key, value)
