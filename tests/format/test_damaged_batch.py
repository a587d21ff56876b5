"""A batch that claims too much is told from one that is cut off."""

import hypothesis.strategies as st
from hypothesis import given

from support.segments import records
from support.wire import encode_batch
from tieredfs.format.batch.damaged import holds_batch

BATCHES = [encode_batch(records(at, 3, value="v" * 20)) for at in (7, 10, 13)]
LOG = b"".join(BATCHES)


@given(cut=st.integers(0, len(BATCHES[0]) - 1))
def test_a_batch_that_is_cut_off_holds_none(cut: int) -> None:
    assert not holds_batch(BATCHES[0][:cut], 0, 99)


@given(size=st.integers(0, 2**31 - 1), count=st.integers(1, 3))
def test_a_batch_of_which_only_the_length_is_wrong_is_found(
    size: int, count: int
) -> None:
    log = b"".join(BATCHES[:count])
    assert holds_batch(log[:8] + size.to_bytes(4) + log[12:], 7, 15)


@given(junk=st.binary(max_size=300), at=st.integers(0, 2))
def test_a_batch_behind_any_bytes_is_found(junk: bytes, at: int) -> None:
    assert holds_batch(junk + BATCHES[at], 7, 15)


@given(flip=st.integers(61, len(BATCHES[1]) - 1))
def test_a_batch_whose_checksum_is_wrong_is_none(flip: int) -> None:
    damaged = bytearray(BATCHES[1])
    damaged[flip] ^= 1
    assert not holds_batch(b"before" + damaged, 0, 99)


def test_a_batch_of_other_offsets_is_none() -> None:
    assert not holds_batch(b"before" + LOG, 14, 99)
    assert not holds_batch(b"before" + LOG, 0, 6)
