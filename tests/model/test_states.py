"""The states of segments and of deleted partitions: one table, as in KIP-405."""

from itertools import product

import pytest

from release.draw_states import PICTURE, draw
from tieredfs import InvalidTransitionError
from tieredfs.states import TRANSITIONS, PartitionDeleteState, SegmentState, advance

KIP_405 = {
    (None, SegmentState.COPY_SEGMENT_STARTED),
    (SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED),
    (SegmentState.COPY_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_STARTED),
    (SegmentState.COPY_SEGMENT_FINISHED, SegmentState.DELETE_SEGMENT_STARTED),
    (SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED),
    (None, PartitionDeleteState.DELETE_PARTITION_MARKED),
    (
        PartitionDeleteState.DELETE_PARTITION_MARKED,
        PartitionDeleteState.DELETE_PARTITION_STARTED,
    ),
    (
        PartitionDeleteState.DELETE_PARTITION_STARTED,
        PartitionDeleteState.DELETE_PARTITION_FINISHED,
    ),
}
"""The transitions of the javadoc of RemoteLogSegmentState and of
RemotePartitionDeleteState."""


@pytest.mark.parametrize(
    ("current", "following"), [*product([None, *SegmentState], SegmentState)]
)
def test_a_segment_changes_its_state_as_in_kip_405(
    current: SegmentState | None, following: SegmentState
) -> None:
    if current is following or (current, following) in KIP_405:
        assert advance(current, following, name="a segment") is following
    else:
        with pytest.raises(InvalidTransitionError, match="cannot follow"):
            advance(current, following, name="a segment")


@pytest.mark.parametrize(
    ("current", "following"),
    [*product([None, *PartitionDeleteState], PartitionDeleteState)],
)
def test_the_deletion_of_a_partition_proceeds_as_in_kip_405(
    current: PartitionDeleteState | None, following: PartitionDeleteState
) -> None:
    if current is following or (current, following) in KIP_405:
        assert advance(current, following, name="t-0") is following
    else:
        with pytest.raises(InvalidTransitionError, match="t-0 is "):
            advance(current, following, name="t-0")


def test_an_error_names_what_has_the_state_and_both_states() -> None:
    with pytest.raises(InvalidTransitionError) as caught:
        advance(
            SegmentState.DELETE_SEGMENT_FINISHED,
            SegmentState.COPY_SEGMENT_STARTED,
            name="t-0/00000000000000000000",
        )
    assert str(caught.value) == (
        "t-0/00000000000000000000 is DELETE_SEGMENT_FINISHED: "
        "COPY_SEGMENT_STARTED cannot follow"
    )


def test_the_diagram_is_that_of_the_table() -> None:
    shown = PICTURE.read_text() == draw()
    assert shown, "draw it again: python tests/release/draw_states.py"


def test_the_diagram_has_every_state_and_every_transition() -> None:
    picture = draw()
    for state in [*SegmentState, *PartitionDeleteState]:
        assert f">{state.name}<" in picture
    assert picture.count('class="next"') == sum(map(len, TRANSITIONS.values()))
