"""Objects that are sent at a rate; no test waits for real."""

import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers import Bucket, ProxiedBucket
from tieredfs.errors import InvalidArgumentError
from tieredfs.objects import ObjectStore, RateLimit, RequestEvent, RequestPolicy
from tieredfs.objects.policy import Deadline

MIB = 1 << 20


class Clock:
    """A clock that only sleeping and idling move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def limit(self, rate: float) -> RateLimit:
        return RateLimit(rate, clock=self, sleep=self.sleep)


class Parts:
    """The sizes of the parts that were uploaded, and of the objects put whole."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def on_request(self, event: RequestEvent) -> None:
        if event.verb in {"put", "put_part"}:
            self.sizes.append(event.size)


@given(
    st.floats(0.5, 1e9),
    st.lists(st.tuples(st.integers(0, 1 << 40), st.floats(0, 1e6)), max_size=12),
)
def test_no_more_is_sent_than_the_rate_allows_nor_less_than_it_could(
    rate: float, sent: list[tuple[int, float]]
) -> None:
    """Whatever is sent after whatever idle time: there is never a burst."""
    clock = Clock()
    limit = clock.limit(rate)
    times = []
    for size, idle in sent:
        clock.now += idle
        asked = clock.now
        limit.take(size)
        times.append((clock.now, asked))
    for ((before, _), (now, asked)), (size, _) in zip(
        pairwise(times), sent, strict=False
    ):
        assert now == pytest.approx(max(asked, before + size / rate))


def test_threads_share_one_rate() -> None:
    slept: list[float] = []
    limit = RateLimit(10, clock=lambda: 0.0, sleep=slept.append)
    threads = [threading.Thread(target=limit.take, args=(20,)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(slept) == [2, 4, 6, 8]


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_a_rate_that_moves_nothing_is_refused(rate: float) -> None:
    with pytest.raises(InvalidArgumentError, match=f"rate is {rate}: give more"):
        RateLimit(rate)


def test_puts_of_several_stores_take_turns_and_reads_wait_for_nothing(
    tmp_path: Path,
) -> None:
    clock = Clock()
    limit = clock.limit(50)
    one, other = (
        ObjectStore(str(tmp_path / name), rate_limit=limit) for name in ("one", "other")
    )
    one.put("a", bytes(100), overwrite=True)
    other.with_policy(RequestPolicy()).put("a", bytes(25), overwrite=False)
    one.put("b", b"x", overwrite=True)
    assert clock.slept == [2, 0.5]
    assert [bytes(one.get("a")), other.head("a").size] == [bytes(100), 25]
    one.delete(["a", "b"])
    assert clock.slept == [2, 0.5]


def test_a_large_file_is_written_to_a_disk_piece_by_piece(tmp_path: Path) -> None:
    clock = Clock()
    store = ObjectStore(str(tmp_path / "store"), rate_limit=clock.limit(8 * MIB))
    (tmp_path / "large").write_bytes(bytes(20 * MIB))
    store.put_file("large", tmp_path / "large", overwrite=False)
    assert clock.slept == [1, 1]
    assert store.head("large").size == 20 * MIB


def test_the_waits_of_a_large_objects_parts_do_not_count_towards_a_deadline(
    s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, parts = Clock(), Parts()
    # Of all deadlines: what sleeps here takes its time there.
    monkeypatch.setattr(Deadline.__init__, "__defaults__", (clock,))
    url, options = s3_bucket
    policy = RequestPolicy(deadline=60)
    limit = clock.limit(8 * MIB / 100)
    store = ObjectStore(url, options, policy=policy, observer=parts, rate_limit=limit)
    store.put("small", bytes(MIB), overwrite=True)
    store.put("large", bytes(20 * MIB), overwrite=True)
    store.put("last", bytes(MIB), overwrite=True)
    assert clock.slept == [12.5, 100, 100, 50]
    assert parts.sizes == [MIB, 8 * MIB, 8 * MIB, 4 * MIB, MIB]
    assert store.head("large").size == 20 * MIB


@pytest.mark.parametrize("size", [100, 9 * MIB])
def test_what_is_sent_again_delays_what_comes_behind(
    size: int, s3_proxied: ProxiedBucket
) -> None:
    clock = Clock()
    policy = RequestPolicy(backoff=0)
    options = s3_proxied.storage_options
    store = ObjectStore(
        s3_proxied.url, options, policy=policy, rate_limit=clock.limit(1)
    )
    s3_proxied.proxy.add("PUT", r"/a(\?|$)", status=503, times=2)
    store.put("a", bytes(size), overwrite=True)
    store.put("b", b"x", overwrite=True)
    assert sum(clock.slept) == size + 2 * min(size, 8 * MIB)
