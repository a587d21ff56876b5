"""A broker's log directory that changes while it is pushed: a sample of histories."""

from tier.broker_machine import BrokerMachine
from tier.histories import run_histories


def test_what_is_served_is_what_a_broker_would_have_served_or_an_error() -> None:
    run_histories(BrokerMachine, 100, steps=12)


def test_an_empty_start_of_a_segment_disputes_no_longer_end_of_the_one_before() -> None:
    machine = BrokerMachine()
    tombstones = [[(key, False)] for key in (b"a", b"a", b"a", b"b", b"a", b"a", b"a")]
    try:
        machine.make(compacted=True, limits=(2, 3, 1), has_id=False, records=tombstones)
        machine.heal()
        machine.push(replica=1, happenings={}, active=False, fault=(0, True))
        machine.heal()
    finally:
        machine.teardown()
