"""How many offsets a batch has, as in Spark's Kafka source."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieredfs.spark.admission import Admission, TriggerDelay, prorate

A, B, C = ("t", 0), ("t", 1), ("t", 2)
LAGS = st.lists(
    st.tuples(st.integers(0, 1 << 40), st.integers(-5, 1 << 30)), min_size=1, max_size=6
)


@pytest.mark.parametrize(
    ("limit", "starts", "ends", "expected"),
    [
        (700, [0, 0, 0], [3000, 500, 0], [600, 100, 0]),
        (1, [2996, 498, 0], [3000, 500, 0], [2997, 499, 0]),
        (0, [0, 0, 5], [90, 105, 5], [0, 0, 5]),
        (10, [5000, 0, 0], [300, 20, 0], [300, 10, 0]),
        (100_000, [0, 0, 0], [90, 105, 7], [90, 105, 7]),
        (3, [1, 2, 3], [1, 2, 3], [1, 2, 3]),
        ((1 << 63) - 1, [0, 0, 0], [9, 9, 9], [9, 9, 9]),
    ],
)
def test_a_limit_is_shared_by_lag(
    limit: int, starts: list[int], ends: list[int], expected: list[int]
) -> None:
    names = (A, B, C)
    found = prorate(
        limit,
        dict(zip(names, starts, strict=True)),
        dict(zip(names, ends, strict=True)),
    )
    assert [found[name] for name in names] == expected


@given(limit=st.integers(1, 1 << 40), lags=LAGS)
def test_no_partition_starves_none_is_overtaken_and_the_limit_is_nearly_kept(
    limit: int, lags: list[tuple[int, int]]
) -> None:
    starts = {("t", number): start for number, (start, _) in enumerate(lags)}
    ends = {("t", number): start + lag for number, (start, lag) in enumerate(lags)}
    found = prorate(limit, starts, ends)
    assert found.keys() == ends.keys()
    read = 0
    for name, end in ends.items():
        if end > starts[name]:
            assert starts[name] < found[name] <= end
            read += found[name] - starts[name]
        else:
            assert found[name] == end
    assert read <= limit + len(lags)


def test_repeated_batches_come_to_the_end() -> None:
    starts, ends = {A: 0, B: 3, C: 9}, {A: 100, B: 4, C: 9}
    batches = 0
    while starts != ends:
        starts, batches = dict(prorate(7, starts, ends)), batches + 1
        assert batches < 50


def test_the_first_batch_never_waits_and_a_later_one_does_until_enough_is_new() -> None:
    clock = [100.0]
    delay = TriggerDelay(Admission(min_offsets=50), lambda: clock[0])
    assert not delay.waits({A: 0}, {A: 1})
    assert delay.waits({A: 1}, {A: 50})
    assert not delay.waits({A: 1}, {A: 51})
    assert delay.waits({A: 51}, {A: 60, B: 40})
    assert not delay.waits({A: 51}, {A: 60, B: 41})


def test_a_batch_waits_no_longer_than_the_delay_since_the_last_one() -> None:
    clock = [100.0]
    delay = TriggerDelay(Admission(50, None, 1000), lambda: clock[0])
    assert not delay.waits({A: 0}, {A: 60})
    clock[0] += 0.999
    assert delay.waits({A: 60}, {A: 61})
    clock[0] += 0.001
    assert not delay.waits({A: 60}, {A: 61})
    assert delay.waits({A: 61}, {A: 62})


def test_without_a_smallest_number_nothing_waits() -> None:
    delay = TriggerDelay(Admission(), lambda: 0.0)
    assert not delay.waits({A: 5}, {A: 5})
    assert not delay.waits({A: 5}, {A: 6})
