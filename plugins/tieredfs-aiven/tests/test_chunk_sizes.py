import base64
from collections.abc import Sequence

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from support.written_segments import encode_sizes, pack_sizes
from tieredfs_aiven.chunk_sizes import MalformedSizesError, decode_sizes, parse_sizes

MAX = (1 << 31) - 1
sizes = st.one_of(
    *(st.lists(st.integers(0, (1 << bits) - 1)) for bits in (3, 8, 9, 16, 17, 24, 31))
)


def compressed(data: bytes) -> str:
    return base64.b64encode(zstandard.ZstdCompressor().compress(data)).decode()


def test_the_published_list_is_read() -> None:
    text = "KLUv/SAPeQAAAAAAAwAAAAoBAAoAAAAe"
    assert decode_sizes(text, 3).tolist() == [10, 20, 30]


@given(sizes)
def test_what_is_written_is_read(written: list[int]) -> None:
    assert parse_sizes(memoryview(encode_sizes(written))).tolist() == written
    assert decode_sizes(pack_sizes(written), len(written)).tolist() == written


@pytest.mark.parametrize(
    "written",
    [[], [0], [MAX], [MAX, 0], [0, MAX], [5, 5, 5], [0, 255, 9], [0, 256, 9]],
)
def test_the_widths_meet_at_their_borders(written: Sequence[int]) -> None:
    assert decode_sizes(pack_sizes(written), len(written)).tolist() == written


@given(st.binary(max_size=40))
def test_hostile_bytes_are_sizes_or_an_error(data: bytes) -> None:
    try:
        found = parse_sizes(memoryview(data))
    except MalformedSizesError:
        return
    assert len(data) >= 4
    assert ((found >= 0) & (found <= MAX)).all()


@given(sizes, st.data())
def test_a_list_that_was_cut_or_grew_is_an_error(
    written: list[int], data: st.DataObject
) -> None:
    whole = encode_sizes(written)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    for wrong in (cut, whole + b"\0"):
        with pytest.raises(MalformedSizesError):
            parse_sizes(memoryview(wrong))


@given(sizes, st.integers(0, 50))
def test_another_count_than_that_of_the_chunks_is_an_error(
    written: list[int], count: int
) -> None:
    if count != len(written):
        with pytest.raises(MalformedSizesError):
            decode_sizes(pack_sizes(written), count)


@pytest.mark.parametrize(
    "text",
    ["", "=", "no base64!", "AAAA", "KLUv/SAPeQAAAAAAAwAAAAoBAAoAAAA", "é"],
)
def test_what_is_no_compressed_text_is_an_error(text: str) -> None:
    with pytest.raises(MalformedSizesError):
        decode_sizes(text, 3)


def test_a_size_beyond_31_bits_is_an_error() -> None:
    wrong = (3).to_bytes(4, "big") + b"\x7f\xff\xff\xff" + b"\1" + b"\1\0" + bytes(4)
    with pytest.raises(MalformedSizesError, match="2147483648"):
        decode_sizes(compressed(wrong), 3)
    with pytest.raises(MalformedSizesError):
        decode_sizes(compressed(b"\0\0\0\1\x80\0\0\0"), 1)


@pytest.mark.parametrize("width", [0, 5, 255])
def test_a_width_that_no_size_has_is_an_error(width: int) -> None:
    wrong = (2).to_bytes(4, "big") + bytes(4) + bytes([width]) + bytes(width) + bytes(4)
    with pytest.raises(MalformedSizesError, match=f"{width} bytes a size"):
        parse_sizes(memoryview(wrong))
    with pytest.raises(MalformedSizesError):
        decode_sizes(compressed(wrong), 2)


def test_a_bomb_of_sizes_is_not_unpacked() -> None:
    bomb = compressed(bytes(64 << 20))
    with pytest.raises(MalformedSizesError, match="more than 1209 bytes"):
        decode_sizes(bomb, 300)
    with pytest.raises(MalformedSizesError, match=f"more than {10 << 20} bytes"):
        decode_sizes(bomb, 1 << 30)
