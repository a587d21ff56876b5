"""A log in requests of any size has the same batches."""

import pytest

from support.wire import WireRecord, encode_batch
from tieredfs.storage.segment_log.stream import LogFetch, split_log

_BATCHES = [
    encode_batch([WireRecord(first, 0, b"k", b"v"), WireRecord(first + 9, 0)])
    for first in range(0, 50, 10)
]
_LOG = b"".join(_BATCHES)
_SIZE = len(_BATCHES[0])


def _bases(log: bytes, fetch_size: int) -> list[int]:
    view = memoryview(log)
    pieces = LogFetch(
        lambda start, end: view[start:end], len(log), fetch_size=fetch_size
    )
    found = split_log(pieces, name="log", torn_tail=True)
    return [base for batches in found for base in batches["base_offset"].tolist()]


# The first ends a request with a batch; the next, in the zeros that an offset begins
# with; the last two, inside the field of the size.
@pytest.mark.parametrize("size", [_SIZE, _SIZE + 3, 2 * _SIZE + 7, 5, 11])
@pytest.mark.parametrize("tail", [b"", bytes(5), bytes(40), _BATCHES[0][:30]])
def test_an_active_log_does_not_end_where_a_request_ends(
    size: int, tail: bytes
) -> None:
    assert _bases(_LOG + tail, size) == [0, 10, 20, 30, 40]
