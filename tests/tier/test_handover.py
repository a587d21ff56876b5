"""The next record comes from the tier, or from the broker, and from there once."""

from dataclasses import dataclass, replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tieredfs import Bounds, OffsetOutOfRangeError, StorageUnavailableError
from tieredfs.log.follow.handover import Handover, Source

BEGUN = Handover("t-0", 5)
AT_BROKER = replace(BEGUN, source=Source.BROKER)


def test_the_tier_is_asked_first() -> None:
    assert BEGUN.source is Source.TIER


def test_at_its_end_the_broker_is_asked() -> None:
    ended = BEGUN.read_to(7).tier_ended(9)
    assert (ended.position, ended.source) == (9, Source.BROKER)


def test_what_the_tier_lacks_the_broker_is_asked_for() -> None:
    assert BEGUN.tier_lacks(None) == AT_BROKER
    assert BEGUN.tier_lacks(8) == AT_BROKER


def test_what_the_broker_has_deleted_the_tier_is_asked_for() -> None:
    again = AT_BROKER.refused(Bounds(8, 20))
    assert (again.position, again.source) == (5, Source.TIER)


@pytest.mark.parametrize(("next_held", "end"), [(None, 8), (7, 7), (9, 8)])
def test_what_neither_holds_is_a_hole_up_to_the_first_that_one_holds(
    next_held: int | None, end: int
) -> None:
    again = AT_BROKER.refused(Bounds(8, 20))
    with pytest.raises(OffsetOutOfRangeError, match=rf"not hold \[5, {end}\).* at 8"):
        again.tier_lacks(next_held)


def test_after_the_tier_was_read_on_the_broker_may_refuse_again() -> None:
    again = AT_BROKER.refused(Bounds(8, 20)).read_to(6)
    assert again.tier_lacks(None).source is Source.BROKER


def test_a_log_that_ends_before_the_next_offset_is_an_error() -> None:
    assert AT_BROKER.refused(Bounds(0, 5)).source is Source.BROKER
    with pytest.raises(OffsetOutOfRangeError, match=r"log holds \[0, 4\)"):
        AT_BROKER.refused(Bounds(0, 4))


def test_a_broker_that_refuses_what_it_holds_is_asked_again_but_not_for_ever() -> None:
    held, refused = Bounds(0, 20), AT_BROKER
    for _ in range(5):
        refused = refused.refused(held)
    assert refused.source is Source.BROKER
    with pytest.raises(StorageUnavailableError, match="refuses offset 5"):
        refused.refused(held)
    assert refused.read_to(6).refused(held).source is Source.BROKER


def test_the_position_never_goes_back() -> None:
    assert AT_BROKER.read_to(3) == AT_BROKER


def test_a_transaction_that_has_no_end_in_the_tier_is_asked_of_the_broker_first() -> (
    None
):
    assert BEGUN.tier_waits() == AT_BROKER
    refused = AT_BROKER.refused(Bounds(8, 20))
    assert refused.tier_waits() == refused


@dataclass
class Log:
    """A log as two places hold it; some of its offsets have no record."""

    end: int = 1
    tier_end: int = 0
    broker_start: int = 0

    def change(self, what: str, count: int) -> None:
        """Let one thing happen."""
        match what:
            case "produce":
                self.end += count
            case "tier":
                self.tier_end = min(self.tier_end + count, self.end)
            case "delete":
                self.broker_start = min(self.broker_start + count, self.tier_end)

    def bounds(self) -> Bounds:
        """Return what the broker holds."""
        return Bounds(self.broker_start, self.end)


_changes = st.tuples(st.sampled_from(("produce", "tier", "delete")), st.integers(1, 9))


@given(st.lists(_changes, max_size=50), st.sets(st.integers(0, 200)), st.integers(1, 5))
def test_whatever_is_deleted_after_it_was_tiered_each_record_comes_once(
    changes: list[tuple[str, int]], holes: set[int], at_a_time: int
) -> None:
    log, read, one = Log(), [], Handover("t-0", 0)
    for change in [*changes, *[("produce", 0)] * 100]:
        log.change(*change)
        if one.source is Source.TIER:
            if one.position >= log.tier_end:
                one = one.tier_lacks(None)
                continue
            end = min(one.position + at_a_time, log.tier_end)
        elif one.position < log.broker_start:
            one = one.refused(log.bounds())
            continue
        else:
            end = min(one.position + at_a_time, log.end)
        read += [n for n in range(one.position, end) if n not in holes]
        is_all = one.source is Source.TIER and end == log.tier_end
        one = one.tier_ended(end) if is_all else one.read_to(end)
    assert read == [n for n in range(one.position) if n not in holes]
    assert one.position >= min(log.end, 100)
