"""Records near 2 GiB, the most that a column of an Arrow batch takes, in miniature."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from support.wire import WireRecord, encode_batch
from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch.reader import scan_log
from tieredfs.format.kernel.select import Kernel
from tieredfs.format.records import header_keys
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.format.records.header_keys import replaced_size
from tieredfs.integers import MAX_INT32
from tieredfs.options import Options, option_ranges

_MIB = 1 << 20
_SPARE = 16  # bytes that the kernel needs behind the last payload
_SMALL = Options(output_batch_bytes=1 << 16)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let a buffer of the compiled kernel have 1 MiB at most, and note their sizes."""
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


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize("each_kernel", [Kernel.COMPILED], indirect=True)
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


_KEYS = st.lists(
    st.binary(max_size=3)
    | st.text(max_size=3).map(str.encode)
    | st.sampled_from([b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xe2\x82", b"\xf4\x90"]),
    max_size=8,
).map(b"".join)


@given(_KEYS, st.integers(1, 9))
def test_the_size_of_text_with_replacements_is_known_without_it(
    data: bytes, piece_bytes: int
) -> None:
    text = data.decode("utf-8", "replace").encode()
    assert replaced_size(data, piece_bytes) == len(text)


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.filterwarnings("ignore::tieredfs.TieredFSWarning")
@pytest.mark.parametrize("keys", [(_MIB // 3 + 1,), (200_000, 150_000)])
def test_header_keys_too_large_with_replacements_are_corrupt(
    monkeypatch: pytest.MonkeyPatch, each_kernel: Kernel, keys: tuple[int, ...]
) -> None:
    monkeypatch.setattr(header_keys, "_MAX_TEXT_BYTES", _MIB)
    monkeypatch.setattr(header_keys, "MAX_REPLACED_BYTES", _MIB // 3)
    if each_kernel is Kernel.COMPILED:
        # It may be missing.
        from tieredfs.format.records import decode_compiled  # noqa: PLC0415

        monkeypatch.setattr(decode_compiled, "MAX_REPLACED_BYTES", _MIB // 3)

    def batch(offset: int, *names: bytes) -> bytes:
        headers = tuple((name, None) for name in names)
        return encode_batch([WireRecord(offset, 0, headers=headers)])

    whole = [
        batch(0),
        batch(1, b"n" * 600_000),
        batch(2, b"\xff" * (_MIB // 3)),
        batch(3, "€".encode() * 200_000, b"\xff"),  # whole but for its last byte
        # Leaves room for the next one in all buffers.
        encode_batch(
            [WireRecord(4, 0, headers=((b"n" * 25_000, bytes(25_000)),) * 20)]
        ),
    ]
    wrong = batch(5, *(b"\xff" * size for size in keys))
    log = b"".join([*whole, wrong, batch(6)])
    decoder = RecordDecoder("t", 0, ("offset", "headers"), _SMALL)
    found: list[int] = []
    told = f"^log: batch at position {sum(map(len, whole))}: header keys that are not"
    with pytest.raises(CorruptBatchError, match=told) as caught:
        found.extend(
            offset
            for piece in decoder.decode(scan_log(log))
            for offset in piece["offset"].to_pylist()
        )
    assert found == [0, 1, 2, 3, 4]
    assert caught.value.__context__ is caught.value.__cause__
