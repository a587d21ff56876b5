"""A followed topic gives each record once: from the tier, then from its brokers."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

import pytest
from confluent_kafka import KafkaError

from support.fake_brokers import (
    FakeBrokers,
    FakeMessage,
    RecordedLog,
    asked_instead,
)
from support.followed_world import World, world
from support.transactions import Step
from tieredfs import (
    CorruptBatchError,
    Follow,
    InvalidArgumentError,
    NotFoundError,
    OffsetOutOfRangeError,
    PermissionDeniedError,
    PluginNotInstalledError,
    StorageUnavailableError,
    UnsupportedFormatError,
)
from tieredfs.log.read.last_records import LastRecords
from tieredfs.log.read.scan import Isolation

PLAIN: Sequence[Step] = (
    ("plain", 0, 3),
    ("roll", 0, 0),
    ("plain", 0, 3),
    ("roll", 0, 0),
    ("plain", 0, 3),
    ("roll", 0, 0),
    ("plain", 0, 3),
)
"""Segments [0, 3), [3, 6), [6, 9) and [9, 12), of which the last is being written."""


def closing_when_idle(
    brokers: FakeBrokers, follow: Follow, *steps: Callable[[], object]
) -> None:
    """Take a step whenever nothing comes any more, and close after the last one."""
    left = list(steps)
    brokers.idle = lambda: left.pop(0)() if left else follow.close()


def offsets(follow: Follow) -> dict[int, list[int]]:
    """Return the offsets that are read until it is closed, by partition."""
    found: dict[int, list[int]] = {}
    collect(follow, found)
    return found


def collect(follow: Follow, found: dict[int, list[int]]) -> None:
    """Add the offsets that are read until it is closed, by partition."""
    for batch in follow:
        (number,) = set(batch["partition"].to_pylist())
        found.setdefault(number, []).extend(batch["offset"].to_pylist())


def followed(
    made: World, *steps: Callable[[], object], **options: object
) -> dict[int, list[int]]:
    """Return the offsets that are read while steps are taken."""
    with asked_instead(made.brokers), made.follow(**options) as follow:
        closing_when_idle(made.brokers, follow, *steps)
        return offsets(follow)


def test_records_come_from_the_tier_and_then_from_the_broker() -> None:
    made = world(PLAIN)
    made.tier(0, 0, 1)
    assert followed(made) == {0: list(range(12))}
    assert made.brokers.assigned == [(0, 6)]


def test_records_that_are_produced_meanwhile_come_as_well() -> None:
    made = world(PLAIN)
    made.tier(0, 0, 1)

    def produce() -> None:
        made.brokers.logs[0] = RecordedLog([*PLAIN, ("plain", 0, 2)])

    assert followed(made, produce) == {0: list(range(14))}
    assert made.brokers.assigned == [(0, 6)]


def test_the_tier_is_asked_again_where_the_broker_has_deleted_what_follows() -> None:
    made = world(PLAIN)
    made.tier(0, 0)
    with asked_instead(made.brokers), made.follow() as follow:
        first = next(follow)
        made.tier(0, 1, 2)  # the tier grows, and the broker deletes what it has
        made.brokers.starts[0] = 9
        closing_when_idle(made.brokers, follow)
        rest = offsets(follow)
    assert first["offset"].to_pylist() == [0, 1, 2]
    assert rest == {0: list(range(3, 12))}
    assert made.brokers.assigned == [(0, 3), (0, 9)]


def test_a_hole_between_the_tier_and_the_broker_is_an_error_that_names_it() -> None:
    made = world(PLAIN)
    made.tier(0, 0)
    made.brokers.starts[0] = 9
    said = r"t-0: offset 3 .*the tier does not hold \[3, 9\).*broker's log begins at 9"
    with pytest.raises(OffsetOutOfRangeError, match=said):
        followed(made)


def test_a_hole_ends_where_the_tier_goes_on() -> None:
    made = world(PLAIN)
    made.tier(0, 0, 2)
    made.brokers.starts[0] = 9
    with pytest.raises(OffsetOutOfRangeError, match=r"not hold \[3, 6\)"):
        followed(made)


def test_a_hole_in_the_tier_is_filled_by_the_broker() -> None:
    made = world(PLAIN)
    made.tier(0, 0, 2)
    assert followed(made) == {0: list(range(12))}


def test_a_broker_whose_log_ends_before_the_tier_is_refused() -> None:
    made = world(PLAIN)
    made.tier(0, 0, 1, 2)
    made.brokers.logs[0] = RecordedLog([("plain", 0, 4)])
    said = r"offset 9 is out of range; the broker's log holds \[0, 4\)"
    with pytest.raises(OffsetOutOfRangeError, match=said):
        followed(made)


def test_after_an_error_the_positions_are_where_another_call_goes_on() -> None:
    made = world(PLAIN, PLAIN)
    made.tier(0, 0)
    made.tier(1, 0, 1)
    made.brokers.starts |= {0: 9, 1: 6}
    found: dict[int, list[int]] = {0: [], 1: []}
    with asked_instead(made.brokers), made.follow() as follow:
        closing_when_idle(made.brokers, follow)
        with pytest.raises(OffsetOutOfRangeError):
            collect(follow, found)
    made.tier(0, 1, 2)
    rest = followed(made, start=follow.positions)
    assert {n: found[n] + rest.get(n, []) for n in found} == {
        0: list(range(12)),
        1: list(range(12)),
    }


def test_a_segment_that_is_deleted_meanwhile_is_read_from_the_broker() -> None:
    made = world(PLAIN)
    made.tier(0, 0, 1, 2)
    with asked_instead(made.brokers), made.follow() as follow:
        first = next(follow)["offset"].to_pylist()
        made.expire(0, 1)
        closing_when_idle(made.brokers, follow)
        rest = offsets(follow)[0]
    assert first + rest == list(range(12))


def test_partitions_are_read_in_turn_and_those_that_only_the_broker_has_as_well() -> (
    None
):
    made = world(PLAIN, PLAIN, PLAIN)
    made.tier(0, 0, 1, 2)
    made.tier(1, 0)
    made.brokers.starts[2] = 6
    every = list(range(12))
    assert followed(made) == {0: every, 1: every, 2: every[6:]}


def test_chosen_partitions_begin_where_they_are_asked_to() -> None:
    made = world(PLAIN, PLAIN, PLAIN)
    made.tier(0, 0)
    found = followed(made, partitions=[0, 2], start={0: 1, 2: 10})
    assert found == {0: list(range(1, 12)), 2: [10, 11]}


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("1970-01-01T00:00:01.004Z", 4),  # in the tier
        ("1970-01-01T00:00:01.010Z", 10),  # after it
        ("1970-01-02", 12),  # after all records
        (7, 7),
        (LastRecords(0), 12),
        (None, 0),
    ],
)
def test_it_begins_at_an_offset_or_a_time_of_either_place(
    start: str | int | LastRecords | None, first: int
) -> None:
    made = world(PLAIN)
    made.tier(0, 0, 1)

    def produce() -> None:
        made.brokers.logs[0] = RecordedLog([*PLAIN, ("plain", 0, 1)])

    found = followed(made, produce, start=start)
    assert found == {0: list(range(first, 13))}


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 20])
def test_it_begins_with_the_last_records_of_what_both_places_hold(
    count: int, isolation: Isolation
) -> None:
    made = world(TRANSACTIONS, PLAIN)
    for number in made.brokers.logs:
        made.tier(number, 0, 1)
        made.brokers.starts[number] = made.brokers.logs[number].segments[1].start
    found = followed(made, start=LastRecords(count), isolation=isolation)
    committed = isolation == "read_committed"
    assert found == {
        number: made.brokers.visible(number, 0, committed=committed)[-count:]
        for number in made.brokers.logs
    }


TRANSACTIONS: Sequence[Step] = (
    ("plain", 0, 1),
    ("data", 0, 2),
    ("roll", 0, 0),
    ("data", 1, 2),
    ("abort", 0, 0),
    ("roll", 0, 0),
    ("commit", 1, 0),
    ("plain", 0, 1),
)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("tiered", [(), (0,), (0, 1)])
def test_transactions_that_lie_in_both_places_are_read_as_by_a_consumer(
    isolation: Isolation, tiered: Sequence[int]
) -> None:
    made = world(TRANSACTIONS)
    made.tier(0, 0, *tiered)
    found = followed(made, isolation=isolation)
    committed = isolation == "read_committed"
    assert found == {0: made.brokers.visible(0, 0, committed=committed)}


def test_a_transaction_whose_end_only_the_broker_has_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tieredfs.log.follow.reading._WAITING_SECONDS", 0)
    made = world(TRANSACTIONS)
    made.tier(0, 0)
    made.brokers.starts[0] = 3  # in the midst of the transaction that begins at 1
    found = followed(made, lambda: made.tier(0, 1), isolation="read_committed")
    assert found == {0: made.brokers.visible(0, 0, committed=True)}


def test_the_columns_are_those_that_are_asked_for() -> None:
    made = world(PLAIN)
    made.tier(0, 0)
    with (
        asked_instead(made.brokers),
        made.follow(columns=["value", "timestamp"]) as follow,
    ):
        tiered, live = islice(follow, 2)
    assert tiered.schema == live.schema == follow.schema
    assert follow.schema.names == ["value", "timestamp"]
    assert live["value"].to_pylist()[0] == b"3"


def test_every_column_of_a_live_record_is_as_a_scan_gives_it() -> None:
    made = world(PLAIN)
    made.tier(0, 0, 1, 2)
    scanned = made.topic().scan(start=3).to_table().to_pylist()
    made.expire(0, 1)
    made.expire(0, 2)
    with asked_instead(made.brokers), made.follow(start=3) as follow:
        assert next(follow).to_pylist()[:6] == scanned


def test_a_header_that_the_client_cannot_read_is_an_error_that_says_where(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def headers(_: FakeMessage) -> None:
        raise SystemError("returned a result with an exception set")

    monkeypatch.setattr(FakeMessage, "headers", headers)
    made = world(PLAIN)
    made.tier(0, 0)
    with pytest.raises(UnsupportedFormatError, match=r"t-0, offset 3: .* not UTF-8"):
        followed(made)
    found = followed(made, columns=["partition", "offset"])
    assert found == {0: list(range(12))}


def test_a_topic_that_was_created_again_is_refused() -> None:
    made = world(PLAIN)
    made.tier(0, 0)
    made.brokers.topic_id = "B" * 21 + "w"
    with pytest.raises(NotFoundError, match="deleted and created again"):
        followed(made)
    assert made.brokers.is_closed


def test_a_topic_that_is_created_again_meanwhile_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tieredfs.log.follow.topic_watch._CHECK_SECONDS", 0)
    made = world(PLAIN)
    made.tier(0, 0)

    def create_again() -> None:
        made.brokers.topic_id = "B" * 21 + "w"

    with pytest.raises(NotFoundError, match="deleted and created again"):
        followed(made, create_again)


def test_an_offset_that_another_topic_of_the_name_refuses_is_not_called_lost() -> None:
    made = world(PLAIN)
    made.tier(0, 0)

    def create_again() -> None:
        made.brokers.topic_id = "B" * 21 + "w"
        made.brokers.logs[0] = RecordedLog([("plain", 0, 1)])

    with pytest.raises(NotFoundError, match="deleted and created again"):
        followed(made, create_again)


def test_an_id_that_is_not_known_is_not_compared() -> None:
    made = world(PLAIN)
    made.tier(0, 0)
    made.brokers.topic_id = "A" * 22
    assert followed(made) == {0: list(range(12))}


def test_a_broker_that_does_not_answer_is_unavailable_and_named() -> None:
    made = replace(world(PLAIN), deadline=0.2)
    made.tier(0, 0)
    made.brokers.answers = False
    with pytest.raises(StorageUnavailableError, match=r"broker:9092: t: no answer"):
        followed(made)
    assert made.brokers.is_closed


def test_brokers_that_fall_silent_are_unavailable_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tieredfs.log.follow.topic_watch._CHECK_SECONDS", 0)
    made = replace(world(PLAIN), deadline=0.2)
    made.tier(0, 0)

    def fall_silent() -> None:
        made.brokers.answers = False

    with asked_instead(made.brokers), made.follow() as follow:
        made.brokers.idle = fall_silent
        with pytest.raises(StorageUnavailableError, match="broker:9092"):
            offsets(follow)
    assert follow.positions == {0: 12}


def test_an_error_that_passes_interrupts_nothing() -> None:
    made = world(PLAIN)
    made.tier(0, 0)
    made.brokers.errors = [KafkaError(KafkaError._TRANSPORT)]
    assert followed(made) == {0: list(range(12))}


def test_a_client_that_gives_nothing_of_what_there_is_is_asked_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tieredfs.log.follow.reading._QUIET_SECONDS", 0)
    made = world(PLAIN)
    made.tier(0, 0)
    made.brokers.stalls = 2
    assert followed(made, lambda: None, lambda: None) == {0: list(range(12))}
    assert made.brokers.assigned == [(0, 3)] * 3


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, PermissionDeniedError),
        (KafkaError._BAD_MSG, CorruptBatchError),
    ],
)
def test_an_error_that_stays_has_our_type(code: int, kind: type[Exception]) -> None:
    made = world(PLAIN)
    made.tier(0, 0)
    made.brokers.errors = [KafkaError(code)]
    with pytest.raises(kind, match="broker:9092: t"):
        followed(made)


def test_a_partition_that_the_brokers_do_not_have_is_an_error() -> None:
    made = world(PLAIN, PLAIN)
    made.tier(0, 0)
    made.tier(1, 0)
    del made.brokers.logs[1]
    with pytest.raises(
        NotFoundError, match=r"^not found: partition 1 of 't' at .+ have 0"
    ):
        followed(made)


def test_nothing_is_asked_before_the_first_record_is() -> None:
    made = world(PLAIN)
    made.tier(0, 0)
    with asked_instead(made.brokers) as consumers:
        made.follow().close()
    assert consumers == []


def test_another_thread_can_close_it() -> None:
    made = world(PLAIN)
    made.tier(0, 0)
    is_waiting, found = threading.Event(), []
    made.brokers.idle = is_waiting.set
    with asked_instead(made.brokers):
        follow = made.follow()
        thread = threading.Thread(target=lambda: found.append(offsets(follow)))
        thread.start()
        assert is_waiting.wait(60)
        follow.close()
        thread.join(60)
    assert found == [{0: list(range(12))}]
    assert made.brokers.is_closed


def test_leaving_the_block_ends_it() -> None:
    made = world(PLAIN)
    made.tier(0, 0)
    with asked_instead(made.brokers), made.follow() as follow:
        next(follow)
    assert made.brokers.is_closed
    assert list(follow) == []
    assert follow.positions == {0: 3}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bootstrap": " "}, "bootstrap is empty"),
        ({"config": {"isolation.level": "read_committed"}}, "isolation.level"),
        ({"config": {"enable.auto.commit": True}}, "enable.auto.commit"),
        ({"config": ["x"]}, "config must be a dict"),
        ({"isolation": "committed"}, "isolation must be"),
        ({"columns": ["keys"]}, "unknown or repeated columns keys"),
        ({"start": {1: 0}, "partitions": [0]}, "partition 1 has an offset"),
        ({"start": "yesterday"}, "not a time"),
    ],
)
def test_an_invalid_argument_is_refused_before_anything_is_asked(
    options: dict[str, object], said: str
) -> None:
    made = world(PLAIN)
    made.tier(0, 0)
    with asked_instead(made.brokers) as consumers:
        with pytest.raises(InvalidArgumentError, match=said):
            made.follow(**options)
        assert consumers == []


def test_no_secret_is_in_the_repr_or_in_an_error_of_a_setting() -> None:
    made = world(PLAIN)
    made.tier(0, 0)
    secret = {"sasl.password": "hunter22", "security.protocol": "hunter22"}
    follow = made.follow(config=secret)
    assert repr(follow) == "Follow('t', bootstrap='broker:9092')"
    with pytest.raises(InvalidArgumentError) as caught:
        next(follow)
    assert "security.protocol" in str(caught.value)
    assert "hunter22" not in f"{caught.value} {caught.value.__cause__}"


def test_without_the_client_the_error_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tieredfs.log.follow.connect.find_spec", lambda _: None)
    made = world(PLAIN)
    made.tier(0, 0)
    with pytest.raises(PluginNotInstalledError, match=r"pip install 'tieredfs\[live\]"):
        made.follow()
