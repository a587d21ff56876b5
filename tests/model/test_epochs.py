"""Leader-epoch lineage, against brute force over every offset."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tieredfs.epochs import NO_EPOCH, LeaderEpochs
from tieredfs.errors import InvalidArgumentError

_MAX = 24
_Pairs = list[tuple[int, int]]


@st.composite
def lineages(draw: st.DrawFn) -> _Pairs:
    """Draw a few epochs with gaps, over a few offsets."""
    numbers = st.lists(st.integers(0, 9), unique=True, max_size=5)
    offsets = st.lists(st.integers(0, _MAX), unique=True, max_size=5)
    return list(zip(sorted(draw(numbers)), sorted(draw(offsets)), strict=False))


def _epoch(pairs: _Pairs, offset: int) -> int:
    """Look an epoch up the slow way."""
    held = NO_EPOCH
    for epoch, start in pairs:
        if start <= offset:
            held = epoch
    return held


@given(lineages(), st.integers(-1, _MAX + 2))
def test_an_epoch_holds_from_its_first_offset_to_the_next(
    pairs: _Pairs, offset: int
) -> None:
    assert LeaderEpochs.of(pairs).epoch_at(offset) == _epoch(pairs, offset)


@given(lineages(), st.integers(-1, 10), st.integers(0, _MAX + 2))
def test_a_batch_is_accepted_under_the_epoch_that_holds_or_when_none_is_known(
    pairs: _Pairs, epoch: int, offset: int
) -> None:
    held = _epoch(pairs, offset)
    unknown = NO_EPOCH in {epoch, held}
    assert LeaderEpochs.of(pairs).accepts(epoch, offset) == (unknown or epoch == held)


@given(lineages(), lineages(), st.integers(0, _MAX), st.integers(0, _MAX))
def test_histories_agree_up_to_the_first_offset_where_they_differ(
    mine: _Pairs, theirs: _Pairs, start: int, width: int
) -> None:
    end = start + width
    agreed = end
    for offset in range(start, end):
        pair = (_epoch(mine, offset), _epoch(theirs, offset))
        if NO_EPOCH not in pair and pair[0] != pair[1]:
            agreed = offset
            break
    found = LeaderEpochs.of(mine).agreement_end(LeaderEpochs.of(theirs), start, end)
    assert found == agreed


@given(lineages())
def test_a_history_agrees_with_itself(pairs: _Pairs) -> None:
    epochs = LeaderEpochs.of(pairs)
    assert epochs.agreement_end(epochs, 0, _MAX) == _MAX


@pytest.mark.parametrize(
    "pairs",
    [
        [(-1, 0)],
        [(0, -1)],
        [(1, 0), (1, 5)],
        [(2, 0), (1, 5)],
        [(0, 5), (1, 5)],
        [(0, 5), (1, 4)],
    ],
)
def test_epochs_that_do_not_increase_are_refused(pairs: _Pairs) -> None:
    with pytest.raises(InvalidArgumentError, match="start offsets must increase"):
        LeaderEpochs.of(pairs)


def test_epochs_with_gaps_are_accepted() -> None:
    epochs = LeaderEpochs.of([(0, 0), (2, 100), (14, 500)])
    assert [epochs.epoch_at(at) for at in (0, 99, 100, 499, 500)] == [0, 0, 2, 2, 14]


def test_no_epochs_know_nothing_and_accept_everything() -> None:
    epochs = LeaderEpochs()
    assert epochs.epoch_at(5) == NO_EPOCH
    assert epochs.accepts(7, 5)


def test_a_lineage_is_a_value() -> None:
    one, other = LeaderEpochs.of([(0, 0), (1, 5)]), LeaderEpochs.of([(0, 0), (1, 5)])
    assert one == other
    assert hash(one) == hash(other)
    with pytest.raises(AttributeError):
        one.entries = ()  # type: ignore[misc]
