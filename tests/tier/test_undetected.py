"""Copies of a compacted log that no rule can put right: nothing in an archive shows it.

Each of these is a limit that the page on integrity names.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from support.log_directories import push_all, source_of, topic_of, write_log
from support.wire import WireRecord, encode_batch
from tieredfs import ObjectStore
from tieredfs.log.push.push import PushOutcome
from tieredfs.log.verify.verify import Depth, PartitionReport, verify
from tieredfs.storage.layouts.single_object.layout import SingleObject

COPIED, PRESENT, CHANGED, FAILED = PushOutcome
LIVES = {10: (b"K", b"ALIVE"), 150: (b"K", None)}
"""A key that is written, and deleted later."""


@pytest.fixture
def target(memory: ObjectStore) -> SingleObject:
    """The native layout, with nothing in it."""
    return SingleObject(memory)


def log_without(
    start: int,
    end: int,
    gone: Collection[int] = (),
    *,
    keyed: Mapping[int, tuple[bytes, bytes | None]] = LIVES,
    epoch: int = 0,
) -> bytes:
    """Encode a log in batches of ten offsets, without the records that are gone."""
    out = b""
    for first in range(start, end, 10):
        kept = [
            WireRecord(at, 1_700_000_000_000 + at, *content)
            for at in range(first, first + 10)
            if at not in gone
            for content in [keyed.get(at, (b"k%d" % at, b"v%d" % at))]
        ]
        if kept:
            out += encode_batch(
                kept, base_offset=first, last_offset=first + 9, leader_epoch=epoch
            )
    return out


def replica(
    root: Path, logs: Mapping[int, bytes], *, epochs: tuple[tuple[int, int], ...]
) -> Path:
    """Write a log directory that the cleaner has been in."""
    write_log(root, logs, epochs=epochs)
    (root / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 300\n")
    return root


FIRST = ((0, 0),)


def report_of(storage: SingleObject) -> PartitionReport:
    (report,) = verify(storage, storage.list_partitions(), Depth.EVERYTHING)
    return report


def served(storage: SingleObject) -> dict[int, bytes | None]:
    table = topic_of(storage).scan().to_table()
    pairs = zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True)
    return dict(pairs)


@pytest.mark.parametrize("start", [120, 100])
def test_nothing_shows_that_a_tombstone_is_gone_where_no_later_copy_is_of_its_records(
    start: int, target: SingleObject, tmp_path: Path
) -> None:
    """One replica's later segment failed; the other's log begins later, cleaned."""
    first = replica(tmp_path / "a", {0: log_without(0, 120), 120: b""}, epochs=FIRST)
    later = log_without(start, 200, {10, 150})
    second = replica(tmp_path / "b", {start: later, 200: b""}, epochs=FIRST)
    for root in (first, second):
        push_all(source_of(root), target)
    assert served(target)[10] == b"ALIVE"
    assert 150 not in served(target)
    assert report_of(target).problems == ()


def test_nothing_shows_that_what_a_cleaner_relied_on_was_lost_in_an_election(
    target: SingleObject, tmp_path: Path
) -> None:
    """A newer value of the key was at 150: the new leader never had it."""
    logs = {0: log_without(0, 100, {10}), 100: log_without(100, 200), 200: b""}
    cleaned = replica(tmp_path / "a", logs, epochs=FIRST)
    true = log_without(100, 150) + log_without(150, 200, keyed={}, epoch=1)
    epochs = ((0, 0), (1, 150))
    new_logs = {0: log_without(0, 100), 100: true, 200: b""}
    leader = replica(tmp_path / "b", new_logs, epochs=epochs)
    for root in (cleaned, leader):
        push_all(source_of(root), target)
    kept = topic_of(source_of(leader)).scan().to_table()["offset"].to_pylist()
    assert 10 in kept
    assert 10 not in served(target)
    assert report_of(target).problems == ()


def test_nothing_shows_the_later_state_where_neither_copy_is_part_of_the_other(
    target: SingleObject, tmp_path: Path
) -> None:
    """Each has removed a tombstone that the other has, with what it deletes."""
    keyed = {**LIVES, 11: (b"L", b"ALIVE"), 160: (b"L", None)}
    for name, early, late in (
        ("a", {10, 12}, {150}),
        ("b", {11}, {160, 162}),
    ):
        logs = {
            0: log_without(0, 100, early, keyed=keyed),
            100: log_without(100, 200, late, keyed=keyed),
            200: b"",
        }
        push_all(source_of(replica(tmp_path / name, logs, epochs=FIRST)), target)
    found = served(target)
    assert found[11] == b"ALIVE"
    assert 160 not in found
    assert report_of(target).problems == ()


def test_nothing_shows_which_end_is_later_where_a_merge_left_a_log_as_it_was(
    target: SingleObject, tmp_path: Path
) -> None:
    """All of the second segment was removed; the other replica still has it."""
    head, tail = log_without(0, 100), log_without(200, 300)
    logs = {0: head, 200: tail, 300: b""}
    merged = replica(tmp_path / "a", logs, epochs=FIRST)
    lagging_logs = {**logs, 100: log_without(100, 200)}
    lagging = replica(tmp_path / "b", lagging_logs, epochs=FIRST)
    push_all(source_of(merged), target)
    assert 150 not in served(target)
    push_all(source_of(lagging), target)
    assert 150 in served(target)
    assert report_of(target).problems == ()
    push_all(source_of(merged), target)
    assert 150 not in served(target)
    assert report_of(target).problems == ()
