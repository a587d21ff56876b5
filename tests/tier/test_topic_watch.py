"""A topic that is another one, and brokers that fall silent, are noticed in time."""

from concurrent.futures import Future
from dataclasses import dataclass, field

import pytest
from confluent_kafka import KafkaError, KafkaException

from tieredfs import NotFoundError, PermissionDeniedError, StorageUnavailableError
from tieredfs.log.follow.topic_watch import Clock, Described, TopicWatch

ONE, OTHER, UNKNOWN = "B" * 21 + "w", "C" * 21 + "w", "A" * 22
DEADLINE = 20.0


@dataclass
class Asked:
    """What a broker is asked, and a clock that only a test moves."""

    topic_id: str = ONE
    seconds: float = 0.0
    questions: list["Future[Described]"] = field(default_factory=list)

    def watch(self) -> TopicWatch:
        """Return a watch of the topic."""
        return TopicWatch(
            self._ask,
            where="broker:9092: t",
            topic_id=self.topic_id,
            deadline=DEADLINE,
            clock=Clock(lambda: self.seconds, self.move),
        )

    def _ask(self) -> "Future[Described]":
        self.questions.append(Future())
        return self.questions[-1]

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds

    def answer(self, topic_id: str = ONE) -> None:
        """Answer the last question."""
        self.questions[-1].set_result(Described(topic_id, (0, 1)))

    def fail(self, code: int) -> None:
        """Let the last question fail."""
        self.questions[-1].set_exception(KafkaException(KafkaError(code)))

    def check_for(self, watch: TopicWatch, seconds: float) -> None:
        """Check a few times a second for so long."""
        for _ in range(int(seconds * 4)):
            self.move(0.25)
            watch.check()


def found(asked: Asked) -> TopicWatch:
    """Return a watch that has had its first answer."""
    watch = asked.watch()
    watch.check()
    asked.answer()
    watch.check()
    assert watch.found == Described(ONE, (0, 1))
    return watch


def test_it_asks_at_first_and_then_every_few_seconds() -> None:
    asked = Asked()
    watch = found(asked)
    asked.check_for(watch, 4)
    assert len(asked.questions) == 1
    asked.check_for(watch, 1)
    assert len(asked.questions) == 2


def test_another_id_is_refused() -> None:
    asked = Asked()
    watch = found(asked)
    asked.check_for(watch, 5)
    asked.answer(OTHER)
    with pytest.raises(NotFoundError, match=f"the id {OTHER} there, not {ONE}"):
        watch.check()


def test_an_id_that_is_learned_is_held_to() -> None:
    asked = Asked(UNKNOWN)
    watch = found(asked)
    asked.check_for(watch, 5)
    asked.answer(OTHER)
    with pytest.raises(NotFoundError):
        watch.check()


def test_a_topic_that_is_not_there_at_first_is_not_waited_for() -> None:
    asked = Asked()
    watch = asked.watch()
    watch.check()
    asked.fail(KafkaError.UNKNOWN_TOPIC_OR_PART)
    with pytest.raises(NotFoundError, match="broker:9092: t"):
        watch.check()


def test_a_topic_that_was_there_may_be_missing_for_a_while() -> None:
    asked = Asked()
    watch = found(asked)
    asked.check_for(watch, 5)
    asked.fail(KafkaError.UNKNOWN_TOPIC_OR_PART)
    asked.check_for(watch, 1)
    asked.answer()
    asked.check_for(watch, DEADLINE / 2)
    assert watch.found is not None


def test_a_topic_that_stays_missing_is_not_found() -> None:
    asked = Asked()
    watch = found(asked)
    asked.check_for(watch, 5)
    asked.fail(KafkaError.UNKNOWN_TOPIC_OR_PART)
    with pytest.raises(NotFoundError):
        asked.check_for(watch, DEADLINE + 1)


def test_silence_until_the_deadline_is_unavailable_and_says_why() -> None:
    asked = Asked()
    watch = found(asked)
    asked.check_for(watch, 5)
    watch.note(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
    watch.note(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    with pytest.raises(StorageUnavailableError, match=r"20 s: Connection refused"):
        asked.check_for(watch, DEADLINE + 1)
    assert asked.seconds < 5 + DEADLINE + 1


def test_a_caller_that_is_busy_is_no_silence() -> None:
    asked = Asked()
    watch = found(asked)
    asked.check_for(watch, 5)
    asked.move(10 * DEADLINE)
    asked.fail(KafkaError._TIMED_OUT)
    watch.check()
    asked.check_for(watch, 1)
    asked.answer()
    watch.check()
    assert watch.found is not None


def test_refused_credentials_are_not_waited_for() -> None:
    asked = Asked()
    watch = asked.watch()
    watch.check()
    watch.note(KafkaError(KafkaError._AUTHENTICATION, "no such user"))
    with pytest.raises(PermissionDeniedError, match="no such user"):
        watch.check()


def test_an_answer_from_before_is_not_taken_for_the_one_that_is_asked_for() -> None:
    asked = Asked()
    watch = found(asked)
    asked.check_for(watch, 5)
    before = asked.questions[-1]
    watch.forget()
    before.set_result(Described(ONE, (0,)))
    watch.check()
    assert watch.found is None
    asked.answer(OTHER)
    with pytest.raises(NotFoundError):
        watch.check()
