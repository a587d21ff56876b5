"""``cat --follow``: what is in the tier, and then what the brokers get."""

import json
import signal
from collections.abc import Sequence

import pytest

from cli.commands import Run, run_process, start_process
from servers.stalling import Stalling
from support.fake_brokers import RecordedLog, asked_instead
from support.followed_world import World, world
from support.transactions import Step

PLAIN: Sequence[Step] = (
    ("plain", 0, 3),
    ("roll", 0, 0),
    ("plain", 0, 3),
)
ABORTED: Sequence[Step] = (
    ("plain", 0, 1),
    ("roll", 0, 0),
    ("data", 0, 2),
    ("abort", 0, 0),
    ("plain", 0, 1),
)
LIVE = ("--follow", "--bootstrap", "broker:9092")


def tiered(*logs: Sequence[Step]) -> World:
    """Return brokers with these logs, and a tier with the first segment of each."""
    made = world(*logs)
    for number in range(len(logs)):
        made.tier(number, 0)
    return made


def offsets(run: Run, made: World, *options: str) -> list[int]:
    """Return the offsets that are printed."""
    with asked_instead(made.brokers):
        done = run("cat", made.store.url, "t", "--json", *LIVE, *options)
    assert (done.code, done.err) == (0, [])
    assert made.brokers.is_closed
    return [json.loads(line)["offset"] for line in done.out.splitlines()]


def test_it_prints_what_the_tier_has_and_then_what_the_broker_has(run: Run) -> None:
    made = tiered(PLAIN)
    assert offsets(run, made, "--limit", "5") == [0, 1, 2, 3, 4]
    assert made.brokers.assigned == [(0, 3)]


def test_what_is_produced_meanwhile_is_printed(run: Run) -> None:
    made = tiered(PLAIN)

    def produce() -> None:
        made.brokers.logs[0] = RecordedLog([*PLAIN, ("plain", 0, 2)])

    made.brokers.idle = produce
    assert offsets(run, made, "--limit", "8") == list(range(8))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--from", "2", "--limit", "2"], [2, 3]),
        (["--from", "-2", "--limit", "2"], [4, 5]),
        (["--from", "@1005", "--limit", "1"], [5]),
        (["--columns", "offset,value", "--limit", "1"], [0]),
    ],
)
def test_it_takes_the_options_that_choose_records(
    options: list[str], expected: list[int], run: Run
) -> None:
    assert offsets(run, tiered(PLAIN), *options) == expected


def test_it_prints_only_the_partitions_that_are_asked_for(run: Run) -> None:
    made = tiered(PLAIN, PLAIN)
    assert offsets(run, made, "--partition", "1", "--limit", "5") == [0, 1, 2, 3, 4]
    assert made.brokers.assigned == [(1, 3)]


def test_committed_leaves_out_what_was_aborted(run: Run) -> None:
    assert offsets(run, tiered(ABORTED), "--committed", "--limit", "2") == [0, 4]


def test_settings_of_the_client_are_passed_on(run: Run) -> None:
    made = tiered(PLAIN)
    given = ("--consumer-property", "security.protocol=SSL")
    also = ("--consumer-property", "ssl.key.password=a=b")
    with asked_instead(made.brokers) as consumers:
        run("cat", made.store.url, "t", *LIVE, *given, *also, "--limit", "1")
    assert consumers == [{"security.protocol": "SSL", "ssl.key.password": "a=b"}]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--follow"], "--follow needs --bootstrap HOST:PORT"),
        (["--bootstrap", "a:1"], "--bootstrap is only for --follow"),
        (["--consumer-property", "a=b"], "--consumer-property is only for --follow"),
        ([*LIVE, "--to", "5"], "--to is not for --follow"),
        ([*LIVE, "--to", "latest"], "--to is not for --follow"),
        ([*LIVE, "--on-gap", "skip"], "--on-gap is not for --follow"),
        ([*LIVE, "--format", "parquet"], "--format parquet is not for --follow"),
        ([*LIVE, "--consumer-property", "hunter22"], "not KEY=VALUE"),
        ([*LIVE, "--consumer-property", "isolation.level=x"], "isolation.level"),
        ([*LIVE, "--consumer-property", "no.such=x"], '"no.such"'),
        (["--follow", "--bootstrap", ""], "bootstrap is empty"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(
    options: list[str], said: str, run: Run, three: str
) -> None:
    done = run("cat", three, "two-partitions", *options)
    assert (done.code, done.out) == (2, b"")
    (line,) = done.err
    assert line.startswith("tieredfs: invalid argument: ")
    assert said in line
    assert "hunter22" not in line


def test_an_offset_that_looks_like_a_time_gets_the_hint(run: Run) -> None:
    made = tiered(PLAIN)
    with asked_instead(made.brokers):
        done = run("cat", made.store.url, "t", *LIVE, "--from", "1793491200000")
    assert done.code == 3
    assert "give @1793491200000" in done.err[0]


def test_a_broker_that_is_not_there_is_one_line_and_an_exit_code(three: str) -> None:
    options = ("--follow", "--bootstrap", "127.0.0.1:1", "--deadline", "3")
    done = run_process("cat", three, "two-partitions", *options)
    assert (done.code, done.out) == (5, b"")
    (line,) = done.err
    assert line.startswith("tieredfs: storage unavailable: 127.0.0.1:1: two-partitions")
    assert "Connection refused" in line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_a_signal_ends_it_while_the_broker_never_answers(
    number: signal.Signals, three: str
) -> None:
    with Stalling() as server:
        bootstrap = f"127.0.0.1:{server.port}"
        options = ("--follow", "--bootstrap", bootstrap, "--deadline", "900")
        with start_process("cat", three, "two-partitions", *options) as process:
            try:
                assert server.asked.acquire(timeout=60)
                process.send_signal(number)
                out, err = process.communicate(timeout=30)
            finally:
                process.kill()
    by = "" if number == signal.SIGINT else f" by {number.name}"
    said = f"tieredfs: interrupted{by}\n".encode()
    code = 130 if number == signal.SIGINT else -number
    assert (process.returncode, out, err) == (code, b"", said)
