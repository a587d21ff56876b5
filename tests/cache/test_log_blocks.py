"""A block is fetched once for all who ask, and held as long as there is room."""

from concurrent.futures import Future
from functools import partial

import pytest

from fetch.logs import log_segment
from tieredfs.cache.log_blocks import BlockKey, LogBlocks

SEGMENT = log_segment(0, 100)


def _key(start: int) -> BlockKey:
    return BlockKey.of(SEGMENT, start)


def _same(loading: Future[memoryview]) -> Future[memoryview]:
    return loading


def _never() -> Future[memoryview]:
    pytest.fail("it is fetched again")


def test_all_who_ask_while_a_block_is_fetched_wait_for_the_same() -> None:
    blocks, loading = LogBlocks(), Future[memoryview]()
    first = blocks.get(_key(0), lambda: loading)
    assert blocks.get(_key(0), _never) is first
    loading.set_result(blocks.hold(_key(0), memoryview(b"abc")))
    assert blocks.get(_key(0), _never).result() == b"abc"


def test_a_block_that_came_after_all_gave_up_serves_the_next_one() -> None:
    blocks, loading = LogBlocks(), Future[memoryview]()
    blocks.get(_key(0), lambda: loading)
    loading.set_exception(TimeoutError("too late"))
    blocks.hold(_key(0), memoryview(b"abc"))
    assert blocks.get(_key(0), _never).result() == b"abc"


def test_a_block_that_failed_is_fetched_again() -> None:
    blocks = LogBlocks()
    for _ in range(2):
        loading = Future[memoryview]()
        assert blocks.get(_key(0), partial(_same, loading)) is loading
        loading.set_exception(OSError("no"))


def test_a_fetch_that_cannot_begin_leaves_nothing_behind() -> None:
    blocks = LogBlocks()

    def refuse() -> Future[memoryview]:
        raise OSError("full")

    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            blocks.get(_key(0), refuse)


def test_those_least_recently_asked_for_go_first() -> None:
    blocks = LogBlocks(max_bytes=6)
    blocks.hold(_key(0), memoryview(b"aaa"))
    blocks.hold(_key(3), memoryview(b"bbb"))
    blocks.get(_key(0), _never)
    blocks.hold(_key(6), memoryview(b"c"))
    assert blocks.held_bytes == 4
    blocks.get(_key(0), _never)
    blocks.get(_key(6), _never)
    assert blocks.get(_key(3), Future).done() is False


def test_a_block_larger_than_the_cache_drops_none() -> None:
    blocks = LogBlocks(max_bytes=6)
    blocks.hold(_key(0), memoryview(b"aaa"))
    assert blocks.hold(_key(3), memoryview(bytes(7))) == bytes(7)
    assert blocks.held_bytes == 3


def test_the_blocks_of_a_damaged_log_are_forgotten_and_no_others() -> None:
    blocks, other = LogBlocks(), BlockKey.of(log_segment(1, 100), 0)
    for key in (_key(0), _key(3), other):
        blocks.hold(key, memoryview(b"aaa"))
    blocks.forget(SEGMENT)
    assert blocks.held_bytes == 3
    blocks.get(other, _never)


def test_no_holder_can_change_a_block() -> None:
    blocks = LogBlocks()
    blocks.hold(_key(0), memoryview(bytearray(b"abc")))
    assert blocks.get(_key(0), _never).result().readonly


def test_a_log_of_another_size_has_blocks_of_its_own() -> None:
    assert BlockKey.of(log_segment(0, 100), 0) != BlockKey.of(log_segment(0, 101), 0)


def test_a_fetch_that_nothing_takes_note_of_is_made_again_once_it_is_done() -> None:
    blocks, lost = LogBlocks(), Future[memoryview]()

    class Interrupted(Future[memoryview]):
        """A future that Ctrl-C keeps from being waited for."""

        def add_done_callback(self, fn: object) -> None:
            """Be interrupted."""
            raise KeyboardInterrupt(fn)

    interrupted = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        blocks.get(_key(0), lambda: interrupted)
    interrupted.set_exception(OSError("gone"))
    assert blocks.get(_key(0), partial(_same, lost)) is lost


def test_blocks_that_are_not_asked_for_yet_have_half_of_the_bytes() -> None:
    blocks = LogBlocks(40)
    begun: list[int] = []

    def ahead(start: int) -> None:
        def load() -> Future[memoryview]:
            begun.append(start)
            return Future()

        blocks.get_ahead(_key(start), 10, load)

    for start in (0, 10, 20):
        ahead(start)
    assert begun == [0, 10]
    assert not blocks.get(_key(0), _never).done()
    ahead(30)
    assert begun == [0, 10, 30]
