"""Records near 2 GiB, the most that a column of an Arrow batch takes, in miniature."""

import pytest

from support.wire import WireRecord, encode_batch
from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch.reader import scan_log
from tieredfs.format.kernel.select import Kernel
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.integers import MAX_INT32
from tieredfs.options import Options, option_ranges

_MIB = 1 << 20
_SPARE = 16  # bytes that the kernel needs behind the last payload
_SMALL = Options(output_batch_bytes=1 << 16)


@pytest.fixture
def room(each_kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a buffer of the compiled kernel have 1 MiB at most, and note their sizes."""
    if each_kernel is not Kernel.COMPILED:
        pytest.skip("the decoder in Python has no such buffers")
    # It may be missing.
    from tieredfs.format.records import decode_compiled  # noqa: PLC0415

    counts: list[int] = []
    size_of = decode_compiled._size

    def noted(kind: int, count: int) -> int:
        counts.append(count)
        return size_of(kind, count)

    monkeypatch.setattr(decode_compiled, "_size", noted)
    monkeypatch.setattr(decode_compiled, "_MAX_ROOM", _MIB)
    return counts


def test_the_largest_batch_that_an_option_allows_fits_a_column() -> None:
    largest = option_ranges()["max_decompressed_bytes"].maximum
    assert MAX_INT32 - (1 << 17) < largest <= MAX_INT32 - _SPARE


@pytest.mark.parametrize("column", ["key", "value", "headers"])
def test_a_record_too_large_for_a_column_is_corrupt(
    room: list[int], column: str
) -> None:
    def record(offset: int, size: int) -> WireRecord:
        payload = bytes(size)
        if column == "headers":  # its name and the two lengths count
            return WireRecord(offset, 0, headers=((b"n", payload[5:]),))
        if column == "key":
            return WireRecord(offset, 0, payload)
        return WireRecord(offset, 0, None, payload)

    most = _MIB - _SPARE
    sizes = [1, 700 << 10, most, 5]
    whole = [encode_batch([record(at, size)]) for at, size in enumerate(sizes)]
    more = encode_batch([record(4, most + 1)])
    decoder = RecordDecoder("t", 0, ("offset", column), _SMALL)
    found: list[int] = []
    position = sum(map(len, whole))
    told = f"^log: batch at position {position}: a record has more than {most} bytes"
    with pytest.raises(CorruptBatchError, match=told):
        found.extend(
            offset
            for piece in decoder.decode(scan_log(b"".join([*whole, more])))
            for offset in piece["offset"].to_pylist()
        )
    assert found == [0, 1, 2, 3]
    assert max(room) == _MIB
