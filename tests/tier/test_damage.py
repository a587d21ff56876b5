"""A wrong byte or a cut in any file of a log is an error, or changes no answer."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.damaged_log import DamagedLog, make_log
from support.kafka_data import LOCAL, REMOTE


@pytest.fixture(scope="module")
def tiered() -> DamagedLog:
    """Two segments that a broker tiered, 20 KB."""
    starts = ("/00000000000000000541", "/00000000000000000577")
    return make_log(
        "plain", REMOTE, "kafka-local", lambda key: any(s in key for s in starts)
    )


@pytest.fixture(scope="module")
def on_disk() -> DamagedLog:
    """A closed and an active segment of a broker's log directory, 60 KB."""
    starts = ("/00000000000000000400", "/00000000000000000500", "/leader", "/partition")
    return make_log(
        "epochs", LOCAL, "kafka-log", lambda key: any(s in key for s in starts)
    )


@st.composite
def _damages(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Draw a cut, or another value for one byte, anywhere in a file."""
    share = draw(st.floats(0, 1, exclude_max=True))
    # The header of the first batch, and an index's first entry, are where it matters.
    near = draw(st.none() | st.integers(0, 70))
    other = draw(st.none() | st.integers(1, 255))

    def damage(content: bytes) -> bytes:
        if not content:
            return b"\0"
        at = int(share * len(content)) if near is None else min(near, len(content) - 1)
        if other is None:
            return content[:at]
        return content[:at] + bytes([content[at] ^ other]) + content[at + 1 :]

    return damage


@given(data=st.data(), damage=_damages())
def test_any_byte_of_what_a_broker_tiered(
    tiered: DamagedLog, data: st.DataObject, damage: Callable[[bytes], bytes]
) -> None:
    key = data.draw(st.sampled_from(sorted(tiered.files)))
    tiered.check(key, damage(tiered.files[key]))


@given(data=st.data(), damage=_damages())
def test_any_byte_of_a_closed_segment_on_disk(
    on_disk: DamagedLog, data: st.DataObject, damage: Callable[[bytes], bytes]
) -> None:
    closed = [key for key in on_disk.files if "00400" in key]
    key = data.draw(st.sampled_from(sorted(closed)))
    on_disk.check(key, damage(on_disk.files[key]))
