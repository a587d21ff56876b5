"""A broker's log directory that changes while it is pushed: a sample of histories."""

from tier.broker_machine import Act, BrokerMachine, Happening
from tier.histories import run_histories


def test_what_is_served_is_what_a_broker_would_have_served_or_an_error() -> None:
    run_histories(BrokerMachine, 40, steps=12)


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


def test_records_that_a_later_copy_has_no_more_dispute_no_longer_end() -> None:
    machine = BrokerMachine()
    keep, drop = (b"a", True), (b"a", False)
    try:
        machine.make(
            compacted=True,
            has_id=False,
            limits=(2, 1, 2),
            records=[
                [keep],
                [keep],
                [(b"e", False), keep],
                [drop],
                [drop, drop, drop],
                [drop],
                [drop, keep],
                [keep, keep, keep],
            ],
        )
        machine.wait()
        tidied = Happening((Act("tidy", 0, 3),), "new")
        machine.push(active=False, fault=None, happenings={0: tidied}, replica=1)
        machine.clean_all(merged=1, replica=0)
        machine.replicate()
        machine.fail_over(
            is_archived=False,
            lost=[[keep]],
            records=[[drop], [keep], [drop], [drop], [drop, drop, keep]],
            replica=2,
        )
        unnamed = Happening((Act("unname", 0, 3),), "new")
        machine.push(active=False, fault=(3, True), happenings={0: unnamed}, replica=0)
        machine.replicate()
        machine.heal()
    finally:
        machine.teardown()


def test_no_older_segment_of_a_new_topic_is_put_before_those_of_the_old_one() -> None:
    machine = BrokerMachine()
    lone = [(b"a", False)]
    try:
        machine.make(
            compacted=False, records=[lone] * 5, has_id=False, limits=(1, 3, 2)
        )
        machine.brokers([Act("tidy", 0, 1), Act("roll", 0, 1)])
        machine.heal()
        machine.make_again(
            [[(b"b", False)] * 2, [(b"d", True), (b"a", False), (b"d", True)], lone]
        )
        machine.heal()
    finally:
        machine.teardown()
