"""Whatever happens to tier and brokers, a follower reads each record once, in order."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from confluent_kafka import KafkaError
from hypothesis import given

from support.fake_brokers import RecordedLog, asked_instead
from support.followed_world import World, world
from support.transactions import Step
from tieredfs import Follow
from tieredfs.log.read.scan import Isolation

_KINDS = ("data", "data", "plain", "commit", "abort", "roll", "roll")
_BEGUN: tuple[Step, ...] = (("plain", 0, 1), ("roll", 0, 0), ("plain", 0, 1))
_END: tuple[Step, ...] = (("roll", 0, 0), ("plain", 0, 1))

Deed = tuple[str, int]
"""What happens, and to which partition."""


@dataclass
class History:
    """What happens while a topic of two partitions is followed.

    Attributes:
        world: The topic.
        steps: What is still to be written to each partition.
        happening: What happens, one after the other.
    """

    world: World
    steps: list[list[Step]]
    happening: Iterator[Deed]
    _written: list[list[Step]] = field(default_factory=lambda: [list(_BEGUN)] * 2)
    _tiered: list[int] = field(default_factory=lambda: [0, 0])
    _expired: list[int] = field(default_factory=lambda: [0, 0])
    _is_over: bool = False

    def go_on(self, follow: Follow) -> bool:
        """Let the next thing happen; return False if there is none."""
        what, number = next(self.happening, ("nothing", 0))
        match what:
            case "produce":
                some = [self.steps[number].pop(0) for _ in self.steps[number][:3]]
                self._produce(number, some)
            case "tier":
                self._tier(number)
            case "delete":
                log = self.world.brokers.logs[number]
                start = log.segments[self._tiered[number]].start
                self.world.brokers.starts[number] = start
            case "expire":
                self._expire(number, follow.positions.get(number, 0))
            case "fail":
                error = KafkaError(KafkaError._TRANSPORT)
                self.world.brokers.errors.append(error)
            case _:
                return False
        return True

    def idle(self, follow: Follow) -> None:
        """Go on; at the end write and tier all that is left, and then close."""
        if self.go_on(follow):
            return
        if self._is_over:
            follow.close()
            return
        self._is_over = True
        for number in range(2):
            self._produce(number, [*self.steps[number], *_END])
            self._tier(number)

    def _produce(self, number: int, steps: list[Step]) -> None:
        self._written[number] = [*self._written[number], *steps]
        self.world.brokers.logs[number] = RecordedLog(self._written[number])

    def _tier(self, number: int) -> None:
        """Copy what is closed."""
        closed = len(self.world.brokers.logs[number].segments) - 1
        self.world.tier(number, *range(self._tiered[number], closed))
        self._tiered[number] = closed

    def _expire(self, number: int, position: int) -> None:
        """Delete from the tier what was read, but for the last segment."""
        segments = self.world.brokers.logs[number].segments
        for index in range(self._expired[number], self._tiered[number] - 1):
            if segments[index + 1].start > position:
                return
            self.world.expire(number, index)
            self._expired[number] = index + 1


_steps = st.tuples(st.sampled_from(_KINDS), st.integers(0, 2), st.integers(1, 3))
_deeds = st.tuples(
    st.sampled_from(("produce", "tier", "delete", "fail", "expire")), st.integers(0, 1)
)


@given(
    st.lists(st.lists(_steps, max_size=30), min_size=2, max_size=2),
    st.lists(_deeds, max_size=30),
    st.sampled_from((1, 2, 500)),
    st.sampled_from(("read_uncommitted", "read_committed")),
)
def test_each_record_comes_once_and_in_order(
    steps: list[list[Step]],
    happening: list[Deed],
    taken: int,
    isolation: Isolation,
) -> None:
    made = world(_BEGUN, _BEGUN)
    made.tier(0, 0)
    brokers = made.brokers
    brokers.taken = taken
    history = History(made, steps, iter([("tier", 0), *happening]))
    found: dict[int, list[int]] = {0: [], 1: []}
    with pytest.MonkeyPatch.context() as patch, asked_instead(brokers):
        patch.setattr("tieredfs.log.follow.reading._WAITING_SECONDS", 0)
        with made.follow(isolation=isolation) as follow:
            brokers.idle = lambda: history.idle(follow)
            for batch in follow:
                (number,) = set(batch["partition"].to_pylist())
                found[number] += batch["offset"].to_pylist()
                history.go_on(follow)
    committed = isolation == "read_committed"
    assert found == {n: brokers.visible(n, 0, committed=committed) for n in found}
