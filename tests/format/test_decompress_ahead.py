"""Opening ahead: the same pieces in the same order, sooner."""

import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256

import hypothesis.strategies as st
import pytest
from hypothesis import given

from support.child_process import child_environment
from support.golden import header_of, log_batches
from support.wire import CODECS, WireRecord, encode_batch
from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch.reader import scan_log
from tieredfs.format.compression import decompress_ahead as read_ahead
from tieredfs.format.compression.decompress_ahead import decompress_ahead
from tieredfs.format.records.decode import RecordDecoder

_WORK = 300 << 10  # enough for a group of its own


@dataclass(frozen=True)
class Batch:
    """A batch with the result of opening it."""

    number: int
    work: int = _WORK
    size: int = 1
    is_bad: bool = False


@dataclass(frozen=True)
class Piece:
    """An opened batch, and who opened it."""

    number: int
    size: int
    thread: str


class BadBatchError(Exception):
    """What opening a bad batch raises."""


def _open(batch: Batch) -> Piece:
    if batch.is_bad:
        raise BadBatchError(batch.number)
    return Piece(batch.number, batch.size, threading.current_thread().name)


def _work(batch: Batch) -> int:
    return batch.work


def _helpers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("tieredfs-open")]


@pytest.fixture(autouse=True, scope="module")
def _two_cores() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_ahead, "_cores", lambda: 2)
        yield


def _ahead(
    batches: Iterator[Batch], open_one: Callable[[Batch], Piece] = _open
) -> Iterator[Piece]:
    return decompress_ahead(batches, open_one, _work)


_BATCHES = st.lists(
    st.builds(
        Batch,
        st.integers(0, 9),
        st.sampled_from([0, 100, 30 << 10, 200 << 10, _WORK]),
        st.sampled_from([1, 3 << 20, 5 << 20]),
        st.sampled_from([False] * 9 + [True]),
    ),
    max_size=30,
)


@given(_BATCHES, st.none() | st.integers(0, 30))
def test_what_comes_out_and_what_is_raised_is_that_of_a_plain_loop(
    batches: list[Batch], broken: int | None
) -> None:
    def source() -> Iterator[Batch]:
        for index, batch in enumerate(batches):
            if index == broken:
                raise OSError(index)
            yield batch

    def one_by_one(pieces: Iterator[Piece]) -> list[object]:
        found: list[object] = []
        while True:
            try:
                piece = next(pieces)
            except StopIteration:
                return found
            except (BadBatchError, OSError) as error:
                return [*found, (type(error), error.args)]
            found.append((piece.number, piece.size))

    expected = one_by_one(map(_open, source()))
    assert one_by_one(_ahead(source())) == expected
    assert not _helpers()


def test_another_thread_opens_what_is_worth_it() -> None:
    main = threading.current_thread().name
    opened = threading.Event()

    def open_one(batch: Batch) -> Piece:
        piece = _open(batch)
        if piece.thread != main:
            opened.set()
        return piece

    pieces = _ahead(map(Batch, range(9)), open_one)
    assert [next(pieces).number, next(pieces).number] == [0, 1]
    assert opened.wait(60)
    assert [piece.number for piece in pieces] == list(range(2, 9))


@pytest.mark.parametrize("work", [0, 19 << 10])
def test_what_is_not_worth_it_is_opened_in_its_turn(work: int) -> None:
    main = threading.current_thread().name
    taken = 0

    def source() -> Iterator[Batch]:
        nonlocal taken
        for number in range(99):
            taken += 1
            yield Batch(number, work)

    for piece in _ahead(source()):
        assert (piece.thread, piece.number) == (main, taken - 1)
    assert taken == 99


def test_with_one_core_every_batch_is_opened_in_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(read_ahead, "_cores", lambda: 1)
    main = threading.current_thread().name
    taken: list[int] = []
    for piece in _ahead(map(_noted(taken), map(Batch, range(9)))):
        assert (piece.thread, piece.number) == (main, taken[-1])


def _noted(taken: list[int]) -> Callable[[Batch], Batch]:
    def note(batch: Batch) -> Batch:
        taken.append(batch.number)
        return batch

    return note


def test_the_first_batch_comes_out_before_another_is_taken() -> None:
    taken: list[int] = []
    pieces = _ahead(map(_noted(taken), map(Batch, range(9))))
    assert next(pieces).number == 0
    assert taken == [0]


def test_no_more_than_two_groups_are_taken_ahead() -> None:
    taken: list[int] = []
    for piece in _ahead(map(_noted(taken), map(Batch, range(20)))):
        assert len(taken) <= piece.number + 1 + 2


def test_no_more_is_opened_ahead_than_a_few_mebibytes() -> None:
    opened: list[int] = []

    def open_one(batch: Batch) -> Piece:
        opened.append(batch.number)
        return _open(batch)

    small = (Batch(number, 30 << 10, 3 << 20) for number in range(99))  # nine a group
    for piece in _ahead(small, open_one):
        # Two batches of each of two groups, and the one that came out.
        assert len(opened) <= piece.number + 1 + 2 * 2
    assert sorted(opened) == list(range(99))


def test_closing_it_ends_the_thread_and_opens_nothing_more() -> None:
    opened: list[int] = []

    def open_one(batch: Batch) -> Piece:
        opened.append(batch.number)
        return _open(batch)

    pieces = _ahead(map(Batch, range(99)), open_one)
    for _ in range(3):
        next(pieces)
    pieces.close()  # type: ignore[attr-defined]  # a generator
    assert not _helpers()
    assert len(opened) <= 5


def test_an_error_ends_the_thread() -> None:
    with pytest.raises(BadBatchError):
        list(_ahead(Batch(number, is_bad=number == 5) for number in range(99)))
    assert not _helpers()


def test_the_helper_and_the_caller_open_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=60)

    def open_one(batch: Batch) -> Piece:
        if batch.number in {1, 2}:
            both.wait()  # one by the helper, the other by the caller that waits for it
        return _open(batch)

    found = list(_ahead(map(Batch, range(4)), open_one))
    assert [piece.number for piece in found] == [0, 1, 2, 3]
    assert found[1].thread != found[2].thread


def _log(codec: str, count: int, bad: int | None = None) -> bytes:
    """Write batches of 64 KiB that do not compress, one of them perhaps cut."""
    noise = b"".join(sha256(b"%d" % at).digest() for at in range(2 << 10))
    batches = []
    for number in range(count):
        record = WireRecord(number, 1000, b"%d" % number, noise)
        batch = encode_batch([record], codec=codec)
        if number == bad:
            batch = encode_batch([record], codec=codec, payload=batch[61:-9])
        batches.append(batch)
    return b"".join(batches)


def _keys(log: bytes) -> list[bytes | str]:
    found: list[bytes | str] = []
    try:
        for piece in RecordDecoder("t", 0, ("key",)).decode(scan_log(log)):
            found += piece.column("key").to_pylist()
    except CorruptBatchError as error:
        found.append(str(error).partition(": invalid")[0])
    return found


@pytest.mark.parametrize("codec", sorted(set(CODECS) - {"none"}))
@pytest.mark.parametrize("bad", [None, 0, 1, 30])
def test_records_come_out_up_to_a_batch_that_is_corrupt(
    codec: str, bad: int | None
) -> None:
    count = 40
    log = _log(codec, count, bad)
    expected: list[bytes | str] = []
    expected += [b"%d" % number for number in range(count)][:bad]
    if bad is not None:
        position = [header_of(b).position for b in log_batches(log)][bad]
        expected.append(f"log: batch at position {position}")
    assert _keys(log) == expected
    assert not _helpers()


def test_a_reference_to_an_error_keeps_no_thread() -> None:
    payload = CODECS["zstd"].compress(bytes(9))
    bad = encode_batch([WireRecord(0, 0)], codec="zstd", payload=payload)
    log = bad + _log("zstd", 40)[len(_log("zstd", 1)) :]
    with pytest.raises(CorruptBatchError, match="varint") as kept:
        list(RecordDecoder("t", 0).decode(scan_log(log)))
    assert not _helpers(), kept.value


def test_a_forked_process_has_a_helper_of_its_own() -> None:
    code = """
        import multiprocessing
        from format.test_decompress_ahead import _keys, _log
        from tieredfs.format.compression import decompress_ahead as read_ahead

        read_ahead._cores = lambda: 2
        log = _log("zstd", 40)

        def count(queue):
            queue.put(len(_keys(log)))

        found = [len(_keys(log))]
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=count, args=(queue,))
        child.start()
        found.append(queue.get(timeout=60))
        child.join()
        print(*found, child.exitcode)
    """
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        env=child_environment(),
    )
    assert done.stdout.split() == ["40", "40", "0"], done.stderr


_FORK = """
    import os, signal, threading
    from format.test_decompress_ahead import Batch, read_ahead, _ahead, _open

    read_ahead._cores = lambda: 2
    held, release = threading.Event(), threading.Event()
    child = None

    def open_one(batch):
        if threading.current_thread() is not threading.main_thread():
            held.set()
            release.wait()
        return _open(batch)

    def source():
        global child
        yield from map(Batch, range(2))
        held.wait()  # the helper opens the second batch
        child = os.fork()
        if child:
            release.set()
        else:
            signal.alarm(20)
        yield from map(Batch, range(2, 9))

    pieces = _ahead(source(), open_one)
    found = [next(pieces).number, next(pieces).number]
    if {is_closed} and not child:
        pieces.close()
        os._exit(3)
    found += [piece.number for piece in pieces]
    assert found == list(range(9)), found
    if not child:
        os._exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("is_closed", [False, True], ids=["read on", "closed"])
def test_a_process_forked_half_way_does_not_wait_for_the_thread(
    is_closed: bool,
) -> None:
    code = textwrap.dedent(_FORK).format(is_closed=is_closed)
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=child_environment(),
        timeout=120,
    )
    assert done.stdout.split() == ["3"], done.stderr
