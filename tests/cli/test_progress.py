"""What a progress bar says of bytes, and where there is none."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.commands import run_with_terminal, start_with_terminal, wait_until
from servers import Bucket, ProxiedBucket
from support.log_directories import native, push_all, small, source_of, write_log
from tieredfs.cli.output.progress import Transfer
from tieredfs.objects import RequestEvent

STDOUT, STDERR = frozenset({"stdout"}), frozenset({"stderr"})
CLOSED = 656
"""Bytes of the logs of the three closed segments of ``small``."""


def moved(transfer: Transfer, size: int) -> None:
    transfer.on_request(RequestEvent("get_range", "a.log", size, 1, 0.0, None))


class TestTransfer:
    def test_one_large_segment_moves_by_bytes(self) -> None:
        transfer = Transfer()
        transfer.expect(1000)
        seen = []
        for _ in range(4):
            moved(transfer, 250)
            seen.append(transfer.completed)
        assert seen == [250, 500, 750, 1000]

    def test_what_is_read_and_written_counts_when_it_has_been_both(self) -> None:
        transfer = Transfer(passes=2)
        transfer.expect(1000)
        moved(transfer, 1000)
        assert transfer.completed == 500
        moved(transfer, 1000)
        assert transfer.completed == 1000

    def test_what_is_read_where_it_is_written_does_not_count(self) -> None:
        transfer = Transfer(passes=2)
        transfer.expect(1000)
        transfer.on_piece(memoryview(bytes(1000)))
        for verb in ("get_range", "list", "head", "get"):
            transfer.writes.on_request(RequestEvent(verb, "a", 400, 1, 0.0, None))
        assert transfer.completed == 500
        for verb in ("put", "put_file", "put_part"):
            transfer.writes.on_request(RequestEvent(verb, "a", 200, 1, 0.0, None))
        assert transfer.completed == 800

    def test_what_compression_saves_is_made_up_when_a_segment_is_finished(self) -> None:
        transfer = Transfer()
        transfer.expect(2000)
        moved(transfer, 100)
        transfer.finish(1000)
        assert transfer.completed == 1000
        moved(transfer, 100)
        assert transfer.completed == 1100

    def test_what_was_there_already_is_not_part_of_the_total(self) -> None:
        transfer = Transfer(passes=2)
        transfer.expect(3000)
        moved(transfer, 1000)
        transfer.leave_out(1000)
        assert (transfer.completed, transfer.total) == (0, 2000)

    @given(
        st.lists(
            st.tuples(
                st.integers(1, 1 << 40), st.floats(0, 3, width=16), st.booleans()
            ),
            max_size=8,
        ),
        st.integers(1, 2),
    )
    def test_the_sum_is_never_past_the_total_and_reaches_it(
        self, segments: list[tuple[int, float, bool]], passes: int
    ) -> None:
        """Whatever is moved of each segment before it is finished, or left out."""
        transfer = Transfer(passes=passes)
        transfer.expect(sum(size for size, _, _ in segments))
        for size, share, is_left_out in segments:
            moved(transfer, int(size * share))
            assert 0 <= transfer.completed <= (transfer.total or 0)
            if is_left_out:
                transfer.leave_out(size)
            else:
                transfer.finish(size)
        assert transfer.completed == transfer.total


@pytest.fixture
def logdir(tmp_path: Path) -> str:
    """A log directory with one partition: three closed segments and the active one."""
    small(tmp_path / "broker")
    return str(tmp_path / "broker")


def test_a_push_moves_while_its_first_segment_is_under_way(
    logdir: str, s3_proxied: ProxiedBucket
) -> None:
    """The total is that of the closed segments: the active one is not pushed."""
    rule = s3_proxied.proxy.add("PUT", r"\.segment", hang=120)
    options = json.dumps(s3_proxied.storage_options)
    arguments = ("push", logdir, s3_proxied.url, "--storage-options", options)
    with start_with_terminal(*arguments, on=STDERR) as (process, seen):
        bar = re.compile(rb"([1-9]\d*)/(\d+) bytes")
        wait_until(lambda: rule.hits and bar.search(seen), process)
        found = [tuple(map(int, match)) for match in bar.findall(seen)]
    assert {total for _, total in found} == {CLOSED}
    assert all(0 < done < CLOSED / 3 for done, _ in found)


@pytest.mark.parametrize("verb", ["cat", "ls", "push", "pull", "verify", "demo"])
@pytest.mark.parametrize("option", ["-q", "--quiet"])
def test_there_is_no_bar_where_none_is_wanted(
    verb: str, option: str, logdir: str, tmp_path: Path
) -> None:
    url = str(tmp_path / "tier")
    push_all(source_of(Path(logdir)), native(Bucket(url, {})))
    words = {
        "cat": ("cat", url, "t"),
        "ls": ("ls", url, "t"),
        "push": ("push", logdir, url),
        "pull": ("pull", url, str(tmp_path / "back")),
        "verify": ("verify", url, "--deep"),
        "demo": ("demo", "--url", "memory://quiet"),
    }[verb]
    done, seen = run_with_terminal(*words, option, on=STDERR)
    assert (done.code, seen) == (0, "")
    assert done.out


@pytest.mark.parametrize("deep", [[], ["--shallow"], ["--deep"]], ids=str)
def test_the_bar_is_gone_before_the_table_is_on_its_terminal(
    deep: list[str], logdir: str, tmp_path: Path
) -> None:
    url = str(tmp_path / "tier")
    push_all(source_of(Path(logdir)), native(Bucket(url, {})))
    done, seen = run_with_terminal("verify", url, *deep, on=STDOUT | STDERR)
    assert done.code == 0
    bar, erased, table = seen.rpartition("\x1b[2K")
    assert erased
    assert "verify" in bar
    head, row = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", table).splitlines()
    assert (head.split()[0], row.split()[0]) == ("PARTITION", "t-0")


def test_no_bar_is_shown_of_nothing(tmp_path: Path) -> None:
    tier = str(tmp_path / "tier")
    write_log(tmp_path / "empty", {0: b""}, partition="empty-0")
    done, seen = run_with_terminal("push", str(tmp_path / "empty"), tier, on=STDERR)
    assert (done.code, "0/0" in seen) == (0, False)
